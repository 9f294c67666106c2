// A live page (`outrider report RUN --watch`) polls its server and replaces its content with a newer version. The
// scroll position, the open folds and the zoom of every plot are kept.

const EVERY = 1000; // milliseconds
let version = document.documentElement.dataset.version; // set only by the server; undefined in a report file

function say(text, trouble = false) {
  const status = document.getElementById("live");
  Object.assign(status, { textContent: text, hidden: false });
  status.classList.toggle("trouble", trouble);
}

const folds = () => [...document.querySelectorAll("details[data-key]")];

// Return the first visible part of the page and its position, which an update must not change.
function inSight() {
  const parts = [...document.querySelectorAll("main [id]")].filter((one) => one.getBoundingClientRect().bottom > 0);
  const part = parts.find((one) => one.getBoundingClientRect().top >= 0) ?? parts.at(-1);
  return part && { id: part.id, top: part.getBoundingClientRect().top };
}

function takeOver(latest) {
  const was = new Map(folds().map((one) => [one.dataset.key, one.open]));
  const seen = scrollY > 0 ? inSight() : null;
  plots = JSON.parse(latest.getElementById("plots").textContent);
  for (const old of drawn()) {
    const place = latest.querySelector(`.plot[data-figure="${CSS.escape(old.dataset.figure)}"]`);
    if (place) place.replaceWith(old);
  }
  for (const part of ["header.top h1", ".facts", "#contents", "#main"]) {
    const next = latest.querySelector(part);
    if (next) document.querySelector(part)?.replaceWith(next);
  }
  document.title = latest.title;
  folds().forEach((one) => (one.open = was.get(one.dataset.key) ?? one.open));
  preparePlots();
  prepareReading();
  const now = seen && document.getElementById(seen.id);
  if (now) scrollBy({ top: now.getBoundingClientRect().top - seen.top, behavior: "instant" });
}

// Return the server's response; null if the server no longer responds.
const asked = (what) => fetch(what, { cache: "no-store" }).catch(() => null);

async function ask() {
  const answer = document.hidden ? undefined : await asked("version");
  if (answer) {
    const news = await answer.json();
    if (String(news.version) !== version) {
      const latest = new DOMParser().parseFromString(await (await asked(".")).text(), "text/html");
      version = latest.documentElement.dataset.version;
      takeOver(latest);
    }
    say(news.error ? `Not up to date: ${news.error}` : "Live", Boolean(news.error));
  } else if (answer === null) say("No longer updated", true);
  setTimeout(ask, EVERY);
}

if (version !== undefined) ask();
