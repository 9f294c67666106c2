// Every page: news of a run that goes on, findings as they come, and clicks on curves.
"use strict";

const news = document.getElementById("news");

async function askForNews() {
  if (!news || document.hidden) return;
  try {
    const answer = await fetch(`/run/${news.dataset.run}/version`);
    const { version } = await answer.json();
    news.hidden = version === news.dataset.version;
  } catch {
    // The viewer has ended.
  }
}

if (news) {
  news.addEventListener("click", () => location.reload());
  setInterval(askForNews, 3000);
}

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

// plots.js tells when it has drawn one; a point of a curve over steps leads to the rollouts of its step.
document.addEventListener("drawn", (event) => {
  const run = event.target.closest(".figures")?.dataset.run;
  if (run === undefined || event.target.dataset.led) return;
  event.target.dataset.led = "yes";
  event.target.on("plotly_click", ({ points }) => {
    const split = event.target.dataset.figure === "pass-at-k" ? "evaluate" : "train";
    location.href = `/run/${run}/rollouts?split=${split}&step=${Math.round(points[0].x)}`;
  });
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
