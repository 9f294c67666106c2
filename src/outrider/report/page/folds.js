// Folds: a link opens what it leads to, a button opens all, and what a fold holds is drawn when it opens.

const chapterFolds = () => [...document.querySelectorAll("details.fold")];

// Open the fold of the target, all folds around it, and that of a chapter's own address.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  const own = target.querySelector(":scope > details");
  if (own) own.open = true;
  target.scrollIntoView();
}

function nameExpand() {
  const button = document.getElementById("expand");
  button.hidden = !chapterFolds().length;
  button.textContent = chapterFolds().some((fold) => !fold.open) ? "Expand all" : "Fold all";
}

function expand() {
  const open = chapterFolds().some((fold) => !fold.open);
  chapterFolds().forEach((fold) => (fold.open = open));
}

// A plot that was drawn before its fold closed may have another width now.
function opened({ target }) {
  if (target.classList?.contains("fold")) nameExpand();
  if (!target.open) return;
  drawOpen(target);
  target.querySelectorAll(".plot.drawn").forEach((plot) => {
    if (!inFold(plot)) Plotly.Plots.resize(plot);
  });
}

nameExpand();
openTarget();
addEventListener("hashchange", openTarget);
document.addEventListener("toggle", opened, true); // it does not bubble
document.getElementById("expand").addEventListener("click", expand);

// The same link a second time is no change of the hash, though its fold may have been closed.
document.addEventListener("click", ({ target }) => {
  const link = target.closest?.("a[href^='#']");
  if (link && link.hash === location.hash) openTarget();
});
