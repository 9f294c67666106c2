"""Which tokens and which responses does an update move, which decide the outcome, and does favouring them help?

Claims (arXiv 2508.07534, sections 3.2.2 to 3.2.4; Figures 4 to 6): over 99 % of tokens change their probability by less
than 0.06; tokens of correct responses rise and those of incorrect ones fall; the largest changes are at tokens of high
entropy, which have the large gradients, and in responses of low perplexity; a token replaced in a response of low
perplexity, or late in one, costs less accuracy than elsewhere; a bonus for late tokens teaches more than one for early
tokens.

Ours: GRPO on Countdown, three seeds. Changes are those of the first five updates and of the last five, at the tokens
of the responses of these steps that had an advantage. G_t is advantage times the norm of the gradient of the token's
log-probability. A token is replaced by the best other one and continued 8 times from both: in every fifth of a response
that of the highest entropy. The bonus is the report's with gamma = 1 for 0.6 M tokens; success is that in training on
the last 20 common steps, whose problems the runs of a seed share. Intervals draw responses, or problems where
outcomes count.

Command: ``python benchmarks/studies/what_learning_rests_on.py [--runs DIR]`` (25 minutes of a core where DIR holds
nothing, half a minute where it holds all). Seeds 0 to 2; see ``README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _models import SEEDS, analysed, arguments_with_runs, trained
from _study import BLACK, BLUE, GREEN, GREY, ORANGE, RED, keep, panels
from matplotlib.axes import Axes
from numpy.typing import NDArray

from outrider.analyse.policies import checkpoints
from outrider.measure.bootstrap import Interval, bootstrap_difference
from outrider.measure.groups import Profile, means_by_group
from outrider.measure.intervention import effects, quantile_labels, squared_effects
from outrider.measure.ragged import highest, owners, quantile_groups, relative_bins
from outrider.measure.shift import LARGE, moved, perplexities, perplexity_against_change, size_by_group
from outrider.train.folder import RunFolder

FIFTHS = (0.2, 0.4, 0.6, 0.8)
EDGES = (0.2, 0.8)  # of perplexity, as in the report
RESAMPLES, COMMON = 300, 20
START = ("train.tokens=null", "train.steps=5", "evaluate.after=false")  # the first five updates of the same run
BONUS = {"bonus for late tokens": ("late-bonus", 15), "bonus for early tokens": ("early-bonus", -15)}


class Window(NamedTuple):
    """Some updates of a run: the policies before and after, and the steps whose responses they learned from."""

    name: str
    run: Path
    before: str
    after: str
    steps: str


class Changes(NamedTuple):
    """Tokens of responses with an advantage: probability change, entropy and log-probability before, G_t; responses."""

    change: NDArray[np.float64]
    entropy: NDArray[np.float64]
    logprob: NDArray[np.float64]
    pull: NDArray[np.float64]
    lengths: NDArray[np.int64]
    success: NDArray[np.float64]


def windows(folder: Path, seed: int) -> dict[str, Window]:
    """The first five updates and those between the last two checkpoints, which are five as well."""
    run, start = trained(folder, "grpo", "grpo", seed), trained(folder, "start", "grpo", seed, *START)
    before, after = sorted(checkpoints(run))[-2:]
    return {
        "first": Window(f"start-{seed}", start, "start", "trained", "1-5"),
        "last": Window(f"grpo-{seed}", run, f"step-{before}", "trained", f"{before + 1}-{after}"),
    }


def changes(folder: Path, window: Window) -> Changes:
    """The table of ``outrider analyse shift``, with outcomes and advantages of its rollouts."""
    asked = ["--before", window.before, "--after", window.after, "--steps", window.steps]
    table = analysed(folder, "shift", window.name, window.run, *asked)
    columns = ["step", "group_id", "member", "outcome", "advantage"]
    rollouts = {tuple(row[:3]): row[3:] for row in _rows(RunFolder(window.run).rollouts.table(columns), columns)}
    starts = table["position"].to_numpy() == 0
    keys = [tuple(row) for row in _rows(table.filter(starts), columns[:3])]
    advantage = np.array([rollouts[key][1] or 0.0 for key in keys])
    lengths = table.filter(starts)["length"].to_numpy().astype(np.int64)
    kept, kept_T = advantage != 0, np.repeat(advantage != 0, lengths)

    def column(name: str) -> NDArray[np.float64]:
        return table[name].to_numpy()[kept_T].astype(np.float64)

    return Changes(
        change=column("shift"),
        entropy=column("entropy_before"),
        logprob=column("logprob_before"),
        pull=column("gradient_norm") * np.repeat(np.abs(advantage[kept]), lengths[kept]),
        lengths=lengths[kept],
        success=np.array([rollouts[key][0] == "correct" for key in keys])[kept].astype(np.float64),
    )


def _rows(table: Any, columns: Sequence[str]) -> list[list[Any]]:
    return [list(row) for row in zip(*(table[name].to_pylist() for name in columns), strict=True)]


def about_changes(found: Changes) -> dict[str, Any]:
    """All that is said of the changes of a window."""
    largest = highest(np.abs(found.change), 0.2).astype(np.float64)
    every = owners(found.lengths)
    ppl_R = perplexities(found.logprob, found.lengths)
    groups = {
        "entropy": quantile_groups(found.entropy, FIFTHS),
        "gradient": quantile_groups(found.pull, FIFTHS),
        "perplexity": quantile_groups(ppl_R, FIFTHS)[every],
        "position": relative_bins(found.lengths, 5),
    }
    labels = [f"{i + 1}" for i in range(5)]
    tenth = quantile_groups(found.entropy, tuple(np.arange(1, 20) / 20))
    alone = (np.bincount(tenth, largest) / np.bincount(tenth))[tenth]  # of the largest, by entropy alone
    shares = {by: means_by_group(largest, g, every, labels, resamples=RESAMPLES) for by, g in groups.items()}
    sizes = {by: size_by_group(found.change, found.lengths, g, labels, by, RESAMPLES) for by, g in groups.items()}
    pulls = {by: means_by_group(found.pull, g, every, labels, resamples=RESAMPLES) for by, g in groups.items()}
    expected = means_by_group(alone, groups["perplexity"], every, labels, resamples=0)
    forks = found.entropy >= np.quantile(found.entropy, 0.8)
    outcome = moved(found.change, found.lengths, found.success)
    return {
        "responses": len(found.lengths),
        "tokens": len(found.change),
        "within_bound": 1 - outcome["all"].beyond,
        "bound": LARGE,
        "risen_and_fallen": {name: [m.risen, m.fallen] for name, m in outcome.items()},
        "mean_change": {s: float(found.change[_of(found, i)].mean()) for i, s in enumerate(("incorrect", "correct"))},
        "largest_fifth_by": {by: means(profile) for by, profile in shares.items()},
        "largest_fifth_expected_from_entropy_by_perplexity": [m.value for m in expected.means],
        "size_by": {by: means(profile) for by, profile in sizes.items()},
        "gradient_by": {by: means(profile) for by, profile in pulls.items()},
        "share_of_highest_entropy_fifth": {
            "gradient": float(found.pull[forks].sum() / found.pull.sum()),
            "change": float(np.abs(found.change[forks]).sum() / np.abs(found.change).sum()),
        },
        "rank_correlation_of_perplexity_and_size": perplexity_against_change(
            ppl_R, found.change, found.lengths, RESAMPLES
        )._asdict(),
    }


def _of(found: Changes, outcome: int) -> NDArray[np.bool_]:
    return np.repeat(found.success == outcome, found.lengths)


def means(profile: Profile) -> list[dict[str, float]]:
    return [mean._asdict() for mean in profile.means]


def interventions(folder: Path, window: Window, model: str) -> dict[str, NDArray[Any]]:
    """The table of ``outrider analyse intervene`` on 40 responses of each of the window's steps."""
    asked = ["--model", model, "--steps", window.steps, "--limit", 40, "--positions", 5, "--k", 8]
    table = analysed(folder, "intervene", window.name, window.run, *asked)
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def about_interventions(tables: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
    """Effects by position and by perplexity, with problems as the unit: their responses share what is possible."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([table[name] for table in tables])

    counts = [column(name) for name in ("replaced_successes", "kept_successes", "k")]
    seeds = np.repeat(np.arange(len(tables)), [len(table["k"]) for table in tables])
    response = _numbered([seeds, column("group_id"), column("member")])
    problem = _numbered([seeds, column("group_id")])
    _, first, back = np.unique(response, return_index=True, return_inverse=True)
    perplexity = quantile_groups(column("ppl")[first], EDGES)[back]
    place = np.minimum((column("relative_position") * 5).astype(np.int64), 4)
    correct = column("success").astype(bool)
    by = {"position": (place, list("12345")), "perplexity": (perplexity, quantile_labels(EDGES))}
    told: dict[str, Any] = {"positions": len(place), "responses": len(first), "problems": len({*problem.tolist()})}
    measures = {"effect": effects(*counts), "squared": squared_effects(*counts), "kept": counts[1] / counts[2]}
    for measure, values in measures.items():
        for name, (groups, labels) in by.items():
            for whose, rows in (("all", np.ones(len(place), bool)), ("correct", correct), ("incorrect", ~correct)):
                profile = means_by_group(values, np.where(rows, groups, -1), problem, labels, resamples=RESAMPLES)
                gap = profile.difference(labels[0], labels[-1])._asdict()
                told[f"{measure}_by_{name}_{whose}"] = {"groups": means(profile), "last_less_first": gap}
    told["entropy_by_position"] = [float(column("entropy")[place == i].mean()) for i in range(5)]
    told["numbers_by_perplexity"] = [_numbers(column("group_id")[perplexity == i]) for i in range(3)]
    return told


def _numbered(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys])


def _numbers(groups: NDArray[Any]) -> float:
    """Mean count of numbers of problems, from the ids in the names of their groups."""
    return float(np.mean([group.split(">")[0].count(",") + 1 for group in groups.tolist()]))


class Trained(NamedTuple):
    """What training saw in some steps, rate of success of every problem; entropy per token, and length."""

    success: dict[str, float]
    entropy: float
    length: float


def training(run: Path, steps: Sequence[int]) -> Trained:
    columns = ["step", "group_id", "outcome", "entropies"]
    table = RunFolder(run).rollouts.table(columns)
    table = table.filter(np.isin(table["step"].to_numpy(), steps))
    names, row = np.unique(table["group_id"].to_numpy(zero_copy_only=False), return_inverse=True)
    correct = np.array(table["outcome"].to_pylist()) == "correct"
    rates = np.bincount(row, correct, len(names)) / np.bincount(row)
    entropies = table["entropies"].combine_chunks()
    return Trained(
        success=dict(zip(names.tolist(), rates.tolist(), strict=True)),
        entropy=float(entropies.flatten().to_numpy().mean(dtype=np.float64)),
        length=len(entropies.flatten()) / len(entropies),
    )


def bonuses(folder: Path) -> dict[str, Any]:
    """GRPO with and without a bonus by position, on the last common steps."""
    runs = {"no bonus": [trained(folder, "grpo", "grpo", seed) for seed in SEEDS]}
    for name, (short, slope) in BONUS.items():
        credit = f"credit.main=[group_mean, {{position: {{weight: 1.0, slope: {slope}}}}}]"
        asked = ("train.tokens=600000", "evaluate.after=false", credit)
        runs[name] = [trained(folder, short, "grpo", seed, *asked) for seed in SEEDS]
    last = min(RunFolder(run).rollouts.steps()[-1] for each in runs.values() for run in each)
    steps = range(last - COMMON + 1, last + 1)
    found = {name: [training(run, steps) for run in each] for name, each in runs.items()}
    late, early = BONUS
    pairs = {late: ("no bonus", late), early: ("no bonus", early), "late less early": (early, late)}
    return {
        "steps": [steps[0], steps[-1]],
        "success": {name: [float(np.mean([*t.success.values()])) for t in each] for name, each in found.items()},
        "change": {
            name: [difference(a, b)._asdict() for a, b in zip(found[before], found[after], strict=True)]
            for name, (before, after) in pairs.items()
        },
        "entropy": {name: [t.entropy for t in each] for name, each in found.items()},
        "length": {name: [t.length for t in each] for name, each in found.items()},
    }


def difference(before: Trained, after: Trained) -> Interval:
    """Paired by problem: runs of one seed see the same problems in the same steps, those of two seeds do not."""
    if before.success.keys() != after.success.keys():
        raise ValueError("the two runs were not trained on the same problems")
    return bootstrap_difference(*([each.success[p] for p in before.success] for each in (before, after)))


def draw_groups(axes: Axes, rows: Mapping[str, Sequence[Mapping[str, float]]], colours: Sequence[str]) -> None:
    """Lines over groups, with intervals."""
    for (name, found), colour in zip(rows.items(), colours, strict=True):
        value, low, high = (np.array([mean[end] for mean in found]) for end in ("value", "low", "high"))
        x = np.arange(1, len(found) + 1)
        axes.errorbar(
            x, value, [value - low, high - value], fmt="o-", markersize=4, color=colour, capsize=2, label=name
        )
    axes.legend(frameon=False, fontsize=8)


def draw_bonus(axes: Axes, rows: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Differences, one line per seed."""
    for x, (seeds, colour) in enumerate(zip(rows.values(), (BLUE, ORANGE, BLACK), strict=True)):
        for seed, change in enumerate(seeds):
            at = x + 0.2 * (seed - 1)
            axes.vlines(at, change["low"], change["high"], color=colour, linewidth=1.5)
            axes.plot(at, change["value"], "o", color=colour)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(rows)), [name.replace(" for ", "\nfor ").replace("less", "\nless") for name in rows])
    axes.set(xlim=(-0.5, len(rows) - 0.5), ylabel="difference in success, by seed")


def main() -> None:
    asked = arguments_with_runs(__doc__).parse_args()
    every = [windows(asked.runs, seed) for seed in SEEDS]
    models = {"first": "start", "last": "trained"}
    moves, tried = {}, {}
    for when, model in models.items():
        parts = [changes(asked.runs, each[when]) for each in every]
        moves[when] = about_changes(Changes(*(np.concatenate(column) for column in zip(*parts, strict=True))))
        tried[when] = about_interventions([interventions(asked.runs, each[when], model) for each in every])
    bonus = bonuses(asked.runs)

    titles = ["the fifth of largest changes", "pull on the weights, G_t", "the same, by perplexity"]
    titles += ["a token replaced, by position", "a token replaced, by perplexity", "bonus by position"]
    figure, (large, pull, by_ppl, place, group, won) = panels(titles, (14, 8), rows=2)
    last, colours = moves["last"], (RED, GREEN, BLUE, BLACK)
    draw_groups(large, {f"by {by}": rows for by, rows in last["largest_fifth_by"].items()}, colours)
    large.set(xlabel="fifth, lowest or earliest first", ylabel="share of its tokens", ylim=(0, None))
    rows = {f"by {by}": last["gradient_by"][by] for by in ("entropy", "perplexity", "position")}
    draw_groups(pull, rows, (RED, BLUE, BLACK))
    pull.set(xlabel="fifth, lowest or earliest first", ylabel="mean", ylim=(0, None))
    rows = {f"{when} 5 updates": found["largest_fifth_by"]["perplexity"] for when, found in moves.items()}
    draw_groups(by_ppl, rows, (GREY, BLUE))
    for found, colour in zip(moves.values(), (GREY, BLUE), strict=True):
        by_ppl.plot(range(1, 6), found["largest_fifth_expected_from_entropy_by_perplexity"], ":", color=colour)
    by_ppl.set(
        xlabel="fifth of responses by perplexity (dots: entropy alone)", ylabel="share of its tokens", ylim=(0, None)
    )
    names = {"first": "base", "last": "trained"}
    for axes, by in ((place, "position"), (group, "perplexity")):
        rows = {
            f"{names[when]}, {whose}": found[f"effect_by_{by}_{whose}"]["groups"]
            for when, found in tried.items()
            for whose in ("correct", "incorrect")
        }
        draw_groups(axes, rows, (GREY, "#CCCCCC", BLUE, RED))
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_ylabel("success with the token, less without")
    place.set_xlabel("fifth of the response")
    group.set_xticks((1, 2, 3), quantile_labels(EDGES))
    draw_bonus(won, bonus["change"])
    numbers = {"changes": moves, "interventions": tried, "bonus": bonus}
    keep("what_learning_rests_on", numbers, figure, asked.out, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
