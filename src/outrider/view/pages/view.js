// Every page: news of a run that goes on, findings as they come, clicks on curves and a cursor through all of them.
"use strict";

const news = document.getElementById("news");
const follow = document.getElementById("follow");
const following = () => sessionStorage.getItem("follow") === "yes";

// A page that follows is read again where it stands, unless somebody is choosing or writing in it.
async function askForNews() {
  if (!news || document.hidden) return;
  try {
    const answer = await fetch(`/run/${news.dataset.run}/version`);
    const { version } = await answer.json();
    const there = version !== news.dataset.version;
    news.hidden = !there || following();
    if (there && following() && !document.activeElement?.matches("input, select, #tokens")) location.reload();
  } catch {
    // The viewer has ended.
  }
}

if (news) {
  news.addEventListener("click", () => location.reload());
  follow.checked = following();
  follow.addEventListener("change", () => {
    sessionStorage.setItem("follow", follow.checked ? "yes" : "no");
    follow.blur();
    askForNews();
  });
  setInterval(askForNews, 3000);
}

// A search that goes on: the page is read again until all files were searched.
if (document.querySelector("[data-searching]")) setTimeout(() => location.reload(), 700);

const findings = document.getElementById("findings");

async function askForFindings() {
  try {
    const answer = await fetch(findings.dataset.address);
    if (!answer.ok) return;
    // The server escapes every text in it, and the page's policy runs no inline script.
    findings.innerHTML = await answer.text();
  } catch {
    return;
  }
  if (findings.querySelector("[data-working]") || findings.querySelector(".lead")) setTimeout(askForFindings, 1000);
}

if (findings) askForFindings();

// plots.js tells when it has drawn one; a point of a curve leads to the rollouts of its step, and the cursor of one
// curve stands in all of them.
const places = JSON.parse(document.getElementById("places")?.textContent ?? "[]"); // tokens and step
const stepAt = (x) => places.reduce((best, one) => (Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best))[1];

function lead(plot) {
  const { run, over, problem } = plot.closest(".figures").dataset;
  if (run === undefined) return;
  plot.on("plotly_click", ({ points }) => {
    const [point] = points;
    const evaluated = plot.dataset.figure === "pass-at-k" || point.data?.name === "evaluations";
    const step = over === "tokens" && point.x ? stepAt(point.x) : Math.round(point.x);
    const asked = new URLSearchParams(problem ?? ""); // as a query, since an id may hold any character
    asked.set("split", evaluated ? "evaluate" : "train");
    asked.set("step", step);
    location.href = `/run/${run}/rollouts?${asked}`;
  });
}

function cursor(plot) {
  const others = () => [...plot.closest(".figures").querySelectorAll(".plot.drawn")].filter((other) => other !== plot);
  plot.on("plotly_hover", ({ points, event }) => {
    if (event) others().forEach((other) => Plotly.Fx.hover(other, { xval: points[0].x }));
  });
  plot.on("plotly_unhover", ({ event }) => event && others().forEach((other) => Plotly.Fx.unhover(other)));
}

document.addEventListener("drawn", (event) => {
  const plot = event.target;
  if (!plot.closest(".figures") || plot.dataset.led) return;
  plot.dataset.led = "yes";
  lead(plot);
  cursor(plot);
});

// A prompt as messages, or as the model read it.
document.querySelectorAll("input[name=prompt]").forEach((input) => {
  input.addEventListener("change", () => {
    document.getElementById("prompt-chat").hidden = input.value !== "chat";
    document.getElementById("prompt-plain").hidden = input.value === "chat";
  });
});

// A response as it was written, or as Markdown with formulas.
document.querySelectorAll("input[name=shown]").forEach((input) => {
  input.addEventListener("change", () => {
    document.getElementById("raw").hidden = input.value !== "raw";
    document.getElementById("read").hidden = input.value === "raw";
  });
});
