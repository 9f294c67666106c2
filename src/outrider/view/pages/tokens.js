// The tokens of a response: coloured by a number, in turns where an environment answered, with the places where others
// of the group branch; each token tells its numbers when it is chosen.
"use strict";

const box = document.getElementById("tokens");
const told = document.getElementById("token");
const data = JSON.parse(document.getElementById("token-data").textContent);
const tokens = data.tokens.map(([text, id, sampled, logprob, entropy, advantage, other, training]) => {
  const numbers = { logprob, entropy, advantage, ratio: other?.[2], trained: training?.[0], clipped: training?.[1] };
  return { text, id, sampled: Boolean(sampled), other, ...numbers };
});
const finite = (value) => value !== null && value !== undefined;
const widest = Math.max(...tokens.map((token) => Math.abs(token.advantage ?? 0)), 0);
const spans = [];
let chosen = -1;

// From -1 to 1: 0 is no colour, 1 the strongest, of vermilion; negative ones are blue. Entropy and surprise of up to 4
// nats; advantages as a share of the largest here.
const ofRatio = (ratio) => (finite(ratio) && ratio > 0 ? Math.max(-1, Math.min(1, -Math.log2(ratio))) : 0);
const strengths = {
  entropy: (token) => (finite(token.entropy) ? Math.min(token.entropy / 4, 1) : 0),
  logprob: (token) => (finite(token.logprob) ? Math.min(-token.logprob / 4, 1) : 0),
  advantage: (token) => (finite(token.advantage) && widest ? -token.advantage / widest : 0),
  ratio: (token) => ofRatio(token.ratio),
  trained: (token) => ofRatio(token.trained),
  clipped: (token) => (token.clipped ? 1 : 0),
  none: () => 0,
};
const scales = {
  entropy: "0 to 4 nats",
  logprob: "log-probability 0 to -4",
  advantage: widest ? `blue +${Number(widest.toPrecision(3))}, red -${Number(widest.toPrecision(3))}` : "all are 0",
  ratio: "blue 2 or more, red a half or less",
  trained: "blue 2 or more, red a half or less",
  clipped: `${tokens.filter((token) => token.clipped).length} of ${tokens.length} without a gradient`,
  none: "",
};

// What stands between tokens, by the number of tokens before it: links to the rollouts that branch there.
function branchesAt(at) {
  return data.branches.filter(([place]) => place === at).map(([, member, outcome], i) => {
    const link = document.createElement("a");
    const address = new URLSearchParams(location.search);
    address.set("id", address.get("id").replace(/[^/]*$/, member));
    link.href = `${location.pathname}?${address}`;
    link.className = "branch";
    link.textContent = i ? member : `branch ${member}`;
    link.title = `rollout ${member} leaves here: ${outcome}`;
    return link;
  });
}

function written(from, to) {
  const parts = [];
  for (let i = from; i < to; i++) {
    parts.push(...branchesAt(i));
    const span = document.createElement("span");
    span.textContent = tokens[i].text;
    span.dataset.at = i;
    if (!tokens[i].sampled) span.className = "observed";
    spans[i] = span;
    parts.push(span);
  }
  return parts;
}

// What an environment said can be folded away.
function observed(at, length, failed) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = `environment, ${length} tokens${failed ? ": error, invalid request" : ""}`;
  details.open = true;
  details.classList.toggle("failed", failed);
  details.append(summary, ...written(at, at + length));
  return details;
}

function write() {
  const parts = [];
  let at = 0;
  for (const [begin, length, failed] of data.observed) {
    parts.push(...written(at, begin));
    if (length || failed) parts.push(observed(begin, length, failed));
    at = begin + length;
  }
  parts.push(...written(at, tokens.length), ...branchesAt(tokens.length));
  box.replaceChildren(...parts);
}

function colour(name) {
  tokens.forEach((token, i) => {
    const strength = token.sampled ? strengths[name](token) : 0;
    const hue = strength > 0 ? "--vermilion" : "--blue";
    spans[i].style.backgroundColor = Math.abs(strength) > 0.01
      ? `color-mix(in srgb, var(${hue}) ${Math.round(70 * Math.abs(strength))}%, transparent)` : "";
  });
  const scale = document.querySelector(".scale");
  scale.hidden = !scales[name];
  scale.textContent = scales[name];
}

function choose(at) {
  if (at < 0 || at >= tokens.length) return;
  spans[chosen]?.classList.remove("chosen");
  chosen = at;
  const { text, id, sampled, logprob, entropy, advantage, ratio, other, trained, clipped } = tokens[at];
  spans[at].classList.add("chosen");
  const folded = spans[at].closest("details");
  if (folded) folded.open = true;
  spans[at].scrollIntoView({ block: "nearest" });
  const parts = [`token ${at + 1} of ${tokens.length}`, JSON.stringify(text), `id ${id}`];
  if (!sampled) parts.push("observed: text of the environment");
  if (finite(logprob)) parts.push(`log-probability ${logprob} (probability ${Number(Math.exp(logprob).toPrecision(3))})`);
  if (finite(entropy)) parts.push(`entropy ${entropy} nats`);
  if (finite(advantage)) parts.push(`advantage ${advantage}`);
  if (finite(trained)) parts.push(`ratio in training ${trained}${clipped ? ", clipped" : ""}`);
  if (finite(ratio)) parts.push(`ratio ${ratio}`);
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
