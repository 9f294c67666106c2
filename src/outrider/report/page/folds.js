// Collapsible sections (<details>): a link opens its target, a button opens all, and plots are drawn when shown.

const chapterFolds = () => [...document.querySelectorAll("details.fold")];

// Open all folds around the link's target; if the target is a chapter, also open the chapter's fold.
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

// If the window was resized while a fold was closed, the plots in the fold have the wrong width.
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
document.addEventListener("toggle", opened, true); // capture, since the event does not bubble
document.getElementById("expand").addEventListener("click", expand);

// A second click on the same link does not change the hash, but the fold may have been closed since the first click.
document.addEventListener("click", ({ target }) => {
  const link = target.closest?.("a[href^='#']");
  if (link && link.hash === location.hash) openTarget();
});
