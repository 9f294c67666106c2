"""The decision tree of DEEP-GRPO's motivating example, as an exact calculation.

Claim (arXiv 2602.14169, appendix A, Figure 6): rollouts from the root pile up on the leaves F, G, J, L, N; a deep
correct leaf such as O has 0.032 from the root, 0.08 from C; two samples at each of many pivots hardly find it, while
four at each of E and K do, and give siblings that differ.

The text does not hold the figure's tree. Ours has its 15 letters, its five correct leaves and all the probabilities
that the text states (F 0.24, G 0.2, M and O 0.4 x 0.4 x 0.2, O from C 0.08); how C and D divide the rest is ours.

- ``figure``: 12 rollouts spent as in the figure, pivots given.
- ``algorithm``: pivots come from the rollouts. GRPO; a tree method, ``b`` more rollouts at every inner node of every
  root rollout; DEEP-GRPO, one pivot in each failed rollout by (t/T)^gamma, R = 1. Root rollouts are independent, so
  P(x not found) = (sum over leaves l of P(l) [l is not x] P(branches miss x | l))^G is exact. The cost is what is
  sampled, in expected edges.

Shows (2026-11-21): deep leaves are found sooner, all five together only from 30 edges on; see ``README.md``.
Command: ``python benchmarks/studies/decision_tree.py``. No seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _study import BLUE, GREEN, GREY, ORANGE, RED, arguments, keep, panels
from matplotlib.axes import Axes

TREE = {
    "A": {"B": 0.4, "C": 0.4, "D": 0.2},
    "B": {"E": 0.4, "F": 0.6},
    "C": {"G": 0.5, "H": 0.1, "K": 0.4},
    "D": {"I": 0.2, "J": 0.8},
    "E": {"L": 0.8, "M": 0.2},
    "K": {"N": 0.8, "O": 0.2},
}
CORRECT = "FGJMO"
ACROSS = (4.5, 1.2, 4.7, 8, 0.5, 2.2, 3.7, 4.7, 7.5, 8.5, 5.9, 0, 1, 5.4, 6.4)  # where A to O stand
COLOURS = {"GRPO": GREY, "tree": ORANGE, "DEEP-GRPO": BLUE}
BRANCHES = {"GRPO": 0, "tree": 2, "DEEP-GRPO": 8}
Path = tuple[str, ...]


def leaves(node: str) -> dict[Path, float]:
    """Paths from ``node`` to each leaf below it, ``node`` itself excluded, with their probabilities."""
    if node not in TREE:
        return {(): 1.0}
    return {(child, *rest): p * q for child, p in TREE[node].items() for rest, q in leaves(child).items()}


def ends(node: str) -> dict[str, float]:
    return {path[-1]: p for path, p in leaves(node).items()}


def edges(node: str) -> float:
    """Expected edges of one rollout from ``node``: what it costs."""
    return sum(p * len(path) for path, p in leaves(node).items())


def pivots(method: str, path: Path, gamma: float = 2.0) -> list[tuple[float, list[str]]]:
    """The ways to choose pivots on a root rollout, each with its probability."""
    inner = list(path[:-1])
    if method == "GRPO" or (method == "DEEP-GRPO" and path[-1] in CORRECT):
        return [(1.0, [])]
    if method == "tree":
        return [(1.0, inner)]
    weights = np.array([(t + 1) / len(path) for t in range(len(inner))]) ** gamma
    return [(float(w), [node]) for w, node in zip(weights / weights.sum(), inner, strict=True)]


def algorithm(method: str, rollouts: float, branches: int) -> dict[str, Any]:
    """What ``rollouts`` from the root with their branches find and cost; a fraction of a rollout is interpolated."""
    chances = {(path, tuple(chosen)): p * q for path, p in leaves("A").items() for q, chosen in pivots(method, path)}
    cost = sum(p * (len(path) + branches * sum(map(edges, nodes))) for (path, nodes), p in chances.items())
    found = {}
    for leaf in CORRECT:
        missed = sum(
            p * float(np.prod([(1 - ends(node).get(leaf, 0.0)) ** branches for node in nodes]))
            for (path, nodes), p in chances.items()
            if path[-1] != leaf
        )
        found[leaf] = 1 - missed**rollouts
    return {"root_rollouts": rollouts, "edges": rollouts * cost, "found": found, "leaves": sum(found.values())}


def figure_budgets() -> dict[str, dict[str, Any]]:
    """The panels of Figure 6, 12 rollouts each: chance of each correct leaf, of N and O as siblings, and edges."""
    spent = [{"A": 12}, {"A": 4, "B": 2, "C": 2, "E": 2, "K": 2}, {"A": 4, "E": 4, "K": 4}]
    shown = {}
    for method, budget in zip(COLOURS, spent, strict=True):
        found = {x: 1 - float(np.prod([(1 - ends(v).get(x, 0.0)) ** n for v, n in budget.items()])) for x in CORRECT}
        neither = 1.0  # of the places that sample at least twice, none has both N and O
        for node, n in budget.items():
            at_n, at_o = (ends(node).get(leaf, 0.0) for leaf in "NO")
            neither *= (1 - at_n) ** n + (1 - at_o) ** n - (1 - at_n - at_o) ** n
        cost = sum(n * edges(node) for node, n in budget.items())
        shown[method] = {"rollouts": budget, "found": found, "leaves": sum(found.values()), "edges": cost}
        shown[method]["N_and_O_from_one_place"] = 1 - neither
    return shown


def draw_tree(axes: Axes) -> None:
    down = {"A": 3, **dict.fromkeys("BCD", 2), **dict.fromkeys("LMNO", 0)}
    places = {node: (x, down.get(node, 1)) for node, x in zip("ABCDEFGHIJKLMNO", ACROSS, strict=True)}
    for parent, children in TREE.items():
        for child, p in children.items():
            (x, y), (u, v) = places[parent], places[child]
            axes.plot([x, u], [y, v], color=GREY, linewidth=0.6 + 5 * p, zorder=1, solid_capstyle="round")
            label = {"ha": "center", "va": "center", "fontsize": 7, "color": "#444444"}
            axes.text((x + u) / 2, (y + v) / 2, f"{p:g}", **label, bbox={"fc": "white", "ec": "none", "pad": 0.8})
    for node, (x, y) in places.items():
        colour = GREEN if node in CORRECT else RED if node not in TREE else "#DDDDDD"
        axes.plot(x, y, "o", color=colour, markersize=15, zorder=2)
        axes.text(x, y - 0.01, node, ha="center", va="center", fontsize=9, zorder=3)
        if node not in TREE:
            axes.text(x, y - 0.24, f"{ends('A')[node]:.3g}", ha="center", va="top", fontsize=7)
    axes.set_axis_off()
    axes.set_ylim(-0.6, 3.3)


def main() -> None:
    out = arguments(__doc__).parse_args().out
    titles = ["correct leaves green, with P from A", "found with 12 rollouts as in Figure 6"]
    figure, (picture, bars, curves) = panels([*titles, "found, pivots from the rollouts themselves"], (14, 4.2))
    draw_tree(picture)
    for i, (method, row) in enumerate((shown := figure_budgets()).items()):
        values = [*row["found"].values(), row["N_and_O_from_one_place"]]
        bars.bar(np.arange(6) + 0.27 * (i - 1), values, 0.25, color=COLOURS[method], label=method)
    bars.set_xticks(range(6), [*CORRECT, "N and O\nof one place"])
    bars.set_ylim(0, 1.18)
    bars.legend(frameon=False, ncols=3, loc="upper right", columnspacing=1)
    costs = np.geomspace(6, 200, 200)
    lines, unit = {}, {}
    for method, branches in BRANCHES.items():
        unit[method] = algorithm(method, 1.0, branches)["edges"]
        lines[method] = [algorithm(method, cost / unit[method], branches) for cost in costs]
        deep, mean = [row["found"]["O"] for row in lines[method]], [row["leaves"] / 5 for row in lines[method]]
        curves.plot(costs, deep, color=COLOURS[method], linewidth=1.8, label=f"{method}: O")
        curves.plot(costs, mean, ":", color=COLOURS[method], linewidth=1.2, label=f"{method}: mean of all five")
    curves.set(xscale="log", ylim=(0, 1.02), xlabel="edges sampled (expected)")
    curves.set_xticks([10, 20, 50, 100, 200], ["10", "20", "50", "100", "200"])
    curves.legend(frameon=False, fontsize=8)
    gap = [deep["leaves"] - grpo["leaves"] for deep, grpo in zip(lines["DEEP-GRPO"], lines["GRPO"], strict=True)]
    at = {method: algorithm(method, 50 / unit[method], branches) for method, branches in BRANCHES.items()}
    more = float(costs[np.argmax(np.array(gap) > 0)])
    numbers = {"figure": shown, "algorithm_at_50_edges": at, "more_leaves_than_grpo_from_edges": more}
    keep("decision_tree", numbers, figure, out)


if __name__ == "__main__":
    main()
