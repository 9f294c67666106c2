"""Reports written by hand: what a page has to show, without a run."""

from __future__ import annotations

import math

from outrider.measure import Interval
from outrider.report.content import (
    Example,
    ExampleNode,
    Figure,
    Finding,
    Report,
    RolloutsOf,
    Section,
    Series,
    TableBlock,
)

RUNS = ("explore-grpo", "explore-deep-grpo")
STEPS = list(range(1, 106))
TOKENS = [13_400 * step for step in STEPS]


def wave(start: float, end: float, size: float = 0.02, pace: float = 0.05) -> list[float]:
    """A curve from ``start`` to ``end`` with a wobble that is the same every time."""
    return [start + (end - start) * (1 - math.exp(-pace * s)) + size * math.sin(s * 1.7) * math.cos(s) for s in STEPS]


def line(name: str, y: list[float], width: float = 0.0) -> Series:
    ends = ([v - width for v in y], [v + width for v in y]) if width else ([], [])
    return Series(name, TOKENS, y, *ends)


def frontier(name: str, values: list[float]) -> Series:
    ks = [1, 2, 4, 8, 16, 32][: len(values)]
    return Series(name, ks, values, [v - 0.03 for v in values], [v + 0.03 for v in values])


def opening() -> Section:
    """A first screen: the sentence, a table with intervals, one without rows, a curve."""
    rows = [
        ["pass@1", Interval(0.112, 0.09, 0.13, 300), Interval(0.37, 0.34, 0.4, 300), Interval(0.258, 0.21, 0.3, 300)],
        ["pass@32", Interval(0.69, 0.65, 0.73, 300), Interval(0.7, 0.66, 0.74, 300), Interval(0.01, -0.03, 0.05, 300)],
    ]
    units = {"before": "percent", "after": "percent", "change": "points"}
    table = TableBlock("opening-pass-at-k", "pass@k", ["", "before", "after", "change"], rows, "300 problems.", units)
    figure = Figure(
        "opening-reward", "Mean reward in training", "line", "step", "reward", [Series("r", [1, 2], [0, 1])]
    )
    sentence = "Exploration is failing: 2 findings, the most severe is dead prompts."
    return Section("opening", "Exploration", sentence, [figure], [table, TableBlock("none", "Budget", ["a"], [])])


def places() -> TableBlock:
    """Ids: of a problem and of a rollout that the page shows, and of others."""
    rows = [
        [RolloutsOf("countdown:2,6,8,9,10>15", "", "train", 12), 0.25],
        [RolloutsOf("countdown:2,6,8,9,10>15", "g/9", "train", 12), 0.5],
        [RolloutsOf("countdown:2,6,8,9,10>15", "g/9", "train", 13), 0.00004],
        [RolloutsOf("it's", "e/1", "evaluate", 105), None],
    ]
    return TableBlock("places", "Hardest", ["problem", "pass rate"], rows, units={"pass rate": "percent"})


def budget() -> Section:
    mixed, solved = wave(0.40, 0.52), wave(0.02, 0.33)
    shares = {"solved": solved, "mixed": mixed, "unsolved": [1 - a - b for a, b in zip(solved, mixed, strict=True)]}
    rows = [
        ["0-uniform", 26_880, 1_082_114.0, 0.413, 2.16],
        ["1-branch", 6_912, 325_530.0, 0.1177, 0.97],
        ["2-refill", 0, 0.0, math.nan, None],
    ]
    return Section(
        "budget",
        "Where the budget went",
        "Every generated token, by the stage that asked for it and by what it returned. A group that is solved or "
        "unsolved by all of its rollouts teaches nothing.\n\nSteps are shown at their generated tokens.",
        [
            Figure(
                "groups",
                "Groups: solved, mixed, unsolved",
                "stack",
                "generated tokens",
                "share of groups",
                [line(name, y) for name, y in shares.items()],
                y_range=(0, 1),
                note="`mixed` groups are those that train.",
            ),
            Figure(
                "stages",
                "Tokens by stage and use",
                "bars",
                "stage",
                "tokens",
                [
                    Series("used", ["0-uniform", "1-branch", "2-refill"], [812_000.0, 240_000.0, 0.0]),
                    Series("unused", ["0-uniform", "1-branch", "2-refill"], [270_114.0, 85_530.0, 0.0]),
                ],
            ),
        ],
        [
            TableBlock(
                "stages",
                "What each stage returned",
                ["stage", "rollouts", "tokens", "success", "first solutions per 1,000 tokens"],
                rows,
                "Success of a stage is over its own rollouts.",
            )
        ],
    )


def frontiers() -> Section:
    problems = [
        [f"countdown:{n},3,4,4,5>{n * 3}", n, 0.25 + n / 40, 0.5 if n % 3 else None, -0.125 * n] for n in range(1, 25)
    ]
    return Section(
        "frontier",
        "Coverage: pass@1 to pass@k",
        "What the policy can solve at all, on held-out problems. Bands are 95 % bootstrap intervals over problems.",
        [
            Figure(
                "frontier",
                "pass@k before and after",
                "line",
                "k",
                "pass@k",
                [
                    frontier("before", [0.11, 0.19, 0.31, 0.45, 0.58, 0.69]),
                    frontier("after", [0.37, 0.45, 0.53, 0.60, 0.66, 0.70]),
                ],
                x_log=True,
            )
        ],
        [
            TableBlock(
                "problems",
                "Problems whose pass rate moved most",
                ["problem", "level", "before", "after", "change"],
                problems,
            )
        ],
    )


def entropy(runs: tuple[str, ...] = RUNS) -> Section:
    lines = [line(run, wave(0.19, 0.04 + 0.05 * i, 0.004), 0.01) for i, run in enumerate(runs)]
    lines[-1].y[40:50] = [math.nan] * 10
    exchange = [
        Series(
            run,
            wave(0.2, 0.05 + 0.04 * i, 0.004)[::6],
            wave(0.11, 0.41 - 0.08 * i)[::6],
            [v - 0.02 for v in wave(0.11, 0.41 - 0.08 * i)[::6]],
            [v + 0.03 for v in wave(0.11, 0.41 - 0.08 * i)[::6]],
            [f"step {s}" for s in STEPS[::6]],
        )
        for i, run in enumerate(runs)
    ]
    return Section(
        "entropy",
        "Entropy and its exchange",
        "Exact entropy of the policy, in nats per own token, and what was bought with it.",
        [
            Figure("entropy", "Entropy of the policy", "line", "generated tokens", "nats per token", lines),
            Figure("exchange", "Reward against entropy", "points", "nats per token", "reward", exchange),
            Figure(
                "categories",
                "Entropy by category of token",
                "bars",
                "category",
                "nats per token",
                [
                    Series(
                        "step 1",
                        ["formal reasoning", "logical structuring", "metacognitive", "semantic support"],
                        [0.11, 0.34, 0.52, 0.27],
                        [0.10, 0.32, 0.45, 0.25],
                        [0.12, 0.36, 0.61, 0.30],
                    ),
                    Series(
                        "step 105",
                        ["formal reasoning", "logical structuring", "metacognitive", "semantic support"],
                        [0.05, 0.14, 0.49, 0.13],
                        [0.04, 0.12, 0.39, 0.11],
                        [0.06, 0.16, 0.60, 0.15],
                    ),
                ],
            ),
            Figure(
                "missing",
                "Entropy by position",
                "line",
                "position",
                "nats per token",
                [Series("entropy", [1, 2], [math.nan, math.nan])],
            ),
        ],
    )


def tree() -> Example:
    first = "2+10=12,8 6 9 12;6+9=15,8 12 15;12+15=27,8 27;27-8=19"
    roots = [
        ExampleNode(
            f"g/{m}",
            None,
            f"{50 + m} tokens, reward {float(m == 3):.0f}",
            "correct" if m == 3 else "incorrect",
            first if m else "9+10=19,8 6 2 19;19-6=13,8 2 13;13-8=5,2 5;2*5=10",
        )
        for m in range(5)
    ]
    branches = [
        ExampleNode("g/8", "g/1", "1-branch, 13 tokens, reward 0", "incorrect", "8 27;27-8=19", 41, 41),
        ExampleNode("g/9", "g/1", "1-branch, 15 tokens, reward 1", "correct", "8 27;8+27=35,35;35-20=15", 41, 41),
        ExampleNode("g/10", "g/1", "1-branch, 64 tokens, reward 0", "unparseable", "so so so " * 30, 17, 17),
        ExampleNode("g/11", "g/9", "2-branch, 4 tokens", "", "35;", 11),
        ExampleNode("g/12", "g/4", "1-branch, 9 tokens", "timeout", "", 0),
    ]
    prompt = "Use each of 2, 6, 8, 9 and 10 once to make 15.\nShow every step."
    title, problem = "Failed first, solved from a pivot: countdown:2,6,8,9,10>15", "countdown:2,6,8,9,10>15"
    return Example(title, prompt, [*roots, *branches], problem, 12)


def examples() -> Section:
    flat = [
        ExampleNode(f"h/{m}", None, f"{60 + m} tokens", "correct" if m % 2 else "incorrect", "x = 3\n\n" * (m + 1))
        for m in range(8)
    ]
    title, text = "Rollouts value reading", "Groups with their prompt; a branch stands below what it continues."
    return Section(
        "examples", title, text, [], [places()], [tree(), Example("A mixed group of step 12", "Solve 2x = 6.", flat)]
    )


def findings() -> list[Finding]:
    return [
        Finding(
            "dead prompts",
            "act",
            "62 % of the groups of the last 20 steps had no correct rollout at all: their 0.8M tokens taught nothing.",
            {"share of groups without success": 0.6171875, "tokens spent on them": 812_331.0, "steps": 20},
            "more than half of the groups of the last fifth of the run without success",
            [
                "Give hard problems more rollouts: `rebalance` after `uniform`.",
                "Skip problems that were never solved: `skip`.",
            ],
            RUNS[0],
        ),
        Finding(
            "entropy collapse",
            "watch",
            "Entropy fell to 21 % of its start within 400k tokens and reward has not risen since.",
            {"entropy at the start": 0.1950, "entropy now": 0.0412, "slope of reward": -1.25e-6},
            "entropy below 25 % of its first value while the slope of reward is not above 0",
            ["Raise the upper clip limit: `objective.clip: [0.2, 0.28]`.", "Add a KL term."],
            RUNS[1],
        ),
    ]


def sample() -> Report:
    """A report of two runs with every kind of part in it."""
    facts = {
        "recipes": "grpo, deep-grpo",
        "problems": "countdown",
        "steps": 105,
        "rollouts": 33_792,
        "generated tokens": 1_407_644.0,
        "Outrider": "0.1.0",
    }
    checked = [
        "entropy collapse",
        "saturation",
        "dead prompts",
        "truncation",
        "verifier suspicion",
        "length drift",
        "duplicates",
    ]
    skipped = {
        "coverage narrowing": "an evaluation with `n >= 8` before and after",
        "stale sampler": "the metric `learn/kl_old`",
    }
    return Report(
        "explore-grpo and explore-deep-grpo",
        facts,
        findings(),
        checked,
        skipped,
        [budget(), frontiers(), entropy(), examples()],
        opening(),
        {"": "outrider show runs/a"},
    )


def healthy() -> Report:
    """One run in which nothing fired, and a name for every series that a palette does not have."""
    many = [line(f"level {n}", wave(0.1, n / 10)) for n in range(9)]
    section = Section(
        "levels", "By level", "", [Figure("levels", "Success by level", "line", "generated tokens", "success", many)]
    )
    return Report("demo-1", {"steps": 105}, [], ["entropy collapse", "truncation"], {}, [section])


def long(plots: int = 30) -> Report:
    """A page of many plots."""
    figures = [
        Figure(f"f{n}", f"Figure {n}", "line", "generated tokens", "y", [line("y", wave(0, n + 1))])
        for n in range(plots)
    ]
    return Report("long", {}, [], [], {}, [Section("plots", "Plots", "", figures)])
