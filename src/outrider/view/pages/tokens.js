// The tokens of a response: coloured by a number, and each tells its own when it is chosen.
"use strict";

const box = document.getElementById("tokens");
const told = document.getElementById("token");
const tokens = JSON.parse(document.getElementById("token-data").textContent)
  .map(([text, id, sampled, logprob, entropy, other]) => ({ text, id, sampled: Boolean(sampled), logprob, entropy, other }));
const finite = (value) => value !== null && value !== undefined;
let chosen = -1;

// 0 is no colour, 1 the strongest: entropy and surprise of up to 4 nats.
const strengths = {
  entropy: (token) => (finite(token.entropy) ? Math.min(token.entropy / 4, 1) : 0),
  logprob: (token) => (finite(token.logprob) ? Math.min(-token.logprob / 4, 1) : 0),
  none: () => 0,
};

function write() {
  box.replaceChildren(...tokens.map((token, i) => {
    const span = document.createElement("span");
    span.textContent = token.text;
    span.dataset.at = i;
    if (!token.sampled) span.className = "observed";
    return span;
  }));
}

function colour(name) {
  box.childNodes.forEach((span, i) => {
    const strength = tokens[i].sampled ? strengths[name](tokens[i]) : 0;
    span.style.backgroundColor = strength > 0.01
      ? `color-mix(in srgb, var(--vermilion) ${Math.round(70 * strength)}%, transparent)` : "";
  });
  const scale = document.querySelector(".scale");
  scale.hidden = name === "none";
  scale.textContent = name === "entropy" ? "0 to 4 nats" : "log-probability 0 to -4";
}

function choose(at) {
  if (at < 0 || at >= tokens.length) return;
  box.childNodes[chosen]?.classList.remove("chosen");
  chosen = at;
  const { text, id, sampled, logprob, entropy, other } = tokens[at];
  box.childNodes[at].classList.add("chosen");
  box.childNodes[at].scrollIntoView({ block: "nearest" });
  const parts = [`token ${at + 1} of ${tokens.length}`, JSON.stringify(text), `id ${id}`];
  if (!sampled) parts.push("observed: an environment said it");
  if (finite(logprob)) parts.push(`log-probability ${logprob} (probability ${Number(Math.exp(logprob).toPrecision(3))})`);
  if (finite(entropy)) parts.push(`entropy ${entropy} nats`);
  if (other) parts.push(`most likely other token ${JSON.stringify(other[0])}, ${Number(Math.exp(other[1]).toPrecision(3))}`);
  told.textContent = parts.join(" · ");
}

write();
colour("entropy");
box.addEventListener("click", (event) => event.target.dataset.at && choose(Number(event.target.dataset.at)));
box.addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  choose(chosen + by);
});
document.querySelectorAll("input[name=colour]").forEach((input) => {
  input.addEventListener("change", () => colour(input.value));
});
