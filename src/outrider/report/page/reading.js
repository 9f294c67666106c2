// Reading aids: mark the current chapter in the contents, navigate trees by keyboard, sort tables, copy commands.

const here = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) target.dataset.seen = isIntersecting ? "1" : "";
    const chapters = [...document.querySelectorAll(".chapter")];
    const atTop = scrollY < innerHeight / 2 ? chapters[0] : undefined;
    const current = chapters.find((chapter) => chapter.dataset.seen) ?? atTop;
    if (!current) return;
    document.querySelectorAll("#contents a").forEach((link) => {
      if (link.hash === `#${current.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  },
  { rootMargin: "-20% 0px -70% 0px" },
);

// In a tree, the up and down keys move between rollouts, and the right and left keys open and close a rollout. The
// browser already handles Enter.
function steer(event) {
  const summary = event.target.closest?.(".tree summary");
  if (!summary) return;
  const all = [...summary.closest(".tree").querySelectorAll("summary")];
  const to = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (to) all[all.indexOf(summary) + to]?.focus();
  else if (event.key === "ArrowRight") summary.parentElement.open = true;
  else if (event.key === "ArrowLeft") summary.parentElement.open = false;
  else return;
  event.preventDefault();
}

function unfold(button) {
  const nodes = [...button.closest(".group").querySelectorAll(".node")];
  const open = nodes.some((node) => !node.open);
  nodes.forEach((node) => (node.open = open));
  button.textContent = open ? "Fold all" : "Open all";
}

// Sort a table by a column of numbers or text. Missing values stay last. A second click reverses the order.
function sort(button) {
  const head = button.closest("th");
  const down = head.getAttribute("aria-sort") === "ascending";
  const number = head.classList.contains("number");
  const key = (row) => {
    const cell = row.cells[head.cellIndex];
    return number ? parseFloat(cell.dataset.value) : cell.textContent;
  };
  const missing = (value) => value === "" || Number.isNaN(value);
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return (down ? -1 : 1) * (number ? a - b : collator.compare(a, b));
  };
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows].map((row) => [key(row), row]).sort(([a], [b]) => compare(a, b));
  body.append(...rows.map(([, row]) => row));
  head.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

function prepareReading() {
  prepareIds();
  document.querySelectorAll(".chapter").forEach((chapter) => here.observe(chapter));
  document.querySelectorAll(".unfold").forEach((button) => (button.hidden = false));
  document.querySelectorAll(".scroll table").forEach((table) => {
    if (table.tBodies[0].rows.length < 3 || table.querySelector(".sort")) return;
    table.querySelectorAll("thead th").forEach((head) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
    });
  });
}

// If the rollouts of an id are not on this page, turn the id into a button that copies the command to show them.
function prepareIds() {
  document.querySelectorAll("span.id[data-command]").forEach((id) => {
    if (id.querySelector("button")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.append(...id.childNodes);
    id.append(button);
  });
}

// Copy the command and show it. If the browser denies access to the clipboard, the reader can select the text.
async function copy(button) {
  const { command } = button.closest("[data-command]").dataset;
  const copied = await navigator.clipboard?.writeText(command).then(() => true, () => false);
  const code = document.createElement("code");
  code.textContent = command;
  const said = document.getElementById("said");
  said.replaceChildren(copied ? "Copied: " : "Shows its rollouts: ", code);
  said.hidden = false;
}

prepareReading();
document.addEventListener("keydown", steer);
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("button");
  if (button?.classList.contains("sort")) sort(button);
  if (button?.classList.contains("unfold")) unfold(button);
  if (button?.classList.contains("copy")) copy(button);
  else if (!target.closest?.("#said")) document.getElementById("said").hidden = true;
});
