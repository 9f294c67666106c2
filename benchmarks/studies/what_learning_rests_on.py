"""Which tokens and which responses does an update move, and which decide the outcome?

Claims (arXiv 2508.07534, sections 3.2.2 to 3.2.4; Figures 4 to 6): over 99 % of tokens change their probability by less
than 0.06; tokens of correct responses rise and those of incorrect ones fall; the largest changes are at tokens of high
entropy, which have the large gradients, and in responses of low perplexity; a token replaced in a response of low
perplexity, or late in one, costs less accuracy than elsewhere. What weighing by perplexity or position does to training
is in ``benchmarks/results/credit``.

Ours: GRPO on Countdown, three seeds. Changes are those of the first five updates and of five at the end, at the tokens
of the responses of these steps that had an advantage. G_t is advantage times the norm of the gradient of the token's
log-probability. The trained policy replaces, in every fifth of a response, the token of the highest entropy by the best
other one and goes on 8 times from both. Intervals draw responses, for replacements problems.

Shows (2026-11-21): changes and gradients lie at tokens of high entropy (90 % of the largest fifth of changes); in five
updates 98.4 % stay within 0.06; not in responses of low perplexity beyond what entropy says; a replaced token costs
0.25 at the end and 0.04 at the beginning, 0.32 in responses of low and 0.08 in those of high perplexity. In prose
(2026-11-26) the first two too, but among correct responses one costs 0.05 in those of low and 0.23 in those of high
perplexity, as claimed, and at the end not visibly more than at the beginning.
Command: ``python benchmarks/studies/what_learning_rests_on.py [--setting prose | smollm2] [--runs DIR]`` (10 minutes of
a core where DIR holds nothing, in prose 30, with ``smollm2`` two hours, half a minute where it holds all). Seeds 0 to
2, ``smollm2`` seed 2; see ``README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _models import SETTINGS, UPDATES, analysed, arguments_with_setting, suffix, trained
from _roles import ROLES, Roles, vocabulary
from _study import BLACK, BLUE, GREEN, GREY, RED, keep, panels
from matplotlib.axes import Axes
from numpy.typing import NDArray

from outrider.measure.groups import Profile, means_by_group
from outrider.measure.intervention import effects, quantile_labels, squared_effects
from outrider.measure.ragged import highest, owners, quantile_groups, relative_bins
from outrider.measure.shift import LARGE, moved, perplexities, perplexity_against_change
from outrider.runs.checkpoint import checkpoints
from outrider.runs.folder import RunFolder

FIFTHS = (0.2, 0.4, 0.6, 0.8)
EDGES = (0.2, 0.8)  # of perplexity, as in the report
RESAMPLES = 300
# the first updates of the same run
START = ("train.tokens=null", f"train.steps={UPDATES}", "evaluate.after=false")


class Window(NamedTuple):
    """Some updates of a run: the policies before and after, and the steps whose responses they learned from."""

    name: str
    run: Path
    before: str
    after: str
    steps: str


class Changes(NamedTuple):
    """Tokens of responses with an advantage: probability change, entropy and log-probability before, G_t, what they
    write; responses: lengths and success."""

    change: NDArray[np.float64]
    entropy: NDArray[np.float64]
    logprob: NDArray[np.float64]
    pull: NDArray[np.float64]
    roles: NDArray[np.int64]
    lengths: NDArray[np.int64]
    success: NDArray[np.float64]


def windows(folder: Path, seed: int, setting: str) -> dict[str, Window]:
    """The first five updates and the last that lie between two multiples of five, where a run is saved."""
    run = trained(folder, "grpo", "grpo", seed, setting=setting)
    start = trained(folder, "start", "grpo", seed, *START, setting=setting)
    before, after = [step for step in checkpoints(RunFolder(run).checkpoints) if step % UPDATES == 0][-2:]
    return {
        "first": Window(start.name, start, "start", "trained", "1-5"),
        "last": Window(run.name, run, f"step-{before}", f"step-{after}", f"{before + 1}-{after}"),
    }


def changes(folder: Path, window: Window, roles: Roles) -> Changes:
    """The table of ``outrider analyse shift``, with outcomes and advantages of its rollouts."""
    asked = ["--before", window.before, "--after", window.after, "--steps", window.steps]
    table = analysed(folder, "shift", window.name, window.run, *asked)
    columns = ["step", "group_id", "member", "outcome", "advantage"]
    rollouts = {tuple(row[:3]): row[3:] for row in _rows(RunFolder(window.run).rollouts.table(columns), columns)}
    starts = table["position"].to_numpy() == 0
    keys = [tuple(row) for row in _rows(table.filter(starts), columns[:3])]
    advantage = np.array([rollouts[key][1] or 0.0 for key in keys])
    lengths = table.filter(starts)["length"].to_numpy().astype(np.int64)
    text_of = vocabulary(window.run)
    texts = [text_of[token] for token in table["token_id"].to_pylist()]
    kinds = [roles.of(texts[end - length : end]) for end, length in zip(lengths.cumsum(), lengths, strict=True)]
    kept, kept_T = advantage != 0, np.repeat(advantage != 0, lengths)

    def column(name: str) -> NDArray[np.float64]:
        return table[name].to_numpy()[kept_T].astype(np.float64)

    return Changes(
        change=column("shift"),
        entropy=column("entropy_before"),
        logprob=column("logprob_before"),
        pull=column("gradient_norm") * np.repeat(np.abs(advantage[kept]), lengths[kept]),
        roles=np.array([kind for each, keep in zip(kinds, kept, strict=True) if keep for kind in each]),
        lengths=lengths[kept],
        success=np.array([rollouts[key][0] == "correct" for key in keys])[kept].astype(np.float64),
    )


def _rows(table: Any, columns: Sequence[str]) -> list[list[Any]]:
    return [list(row) for row in zip(*(table[name].to_pylist() for name in columns), strict=True)]


def about_changes(found: Changes, roles: Sequence[str]) -> dict[str, Any]:
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
    shares = {by: means_by_group(largest, g, every, labels).over_responses(RESAMPLES) for by, g in groups.items()}
    size = np.abs(found.change)
    sizes = {by: means_by_group(size, g, every, labels).over_responses(RESAMPLES) for by, g in groups.items()}
    pulls = {by: means_by_group(found.pull, g, every, labels).over_responses(RESAMPLES) for by, g in groups.items()}
    expected = means_by_group(alone, groups["perplexity"], every, labels)
    outcomes = np.repeat(found.success, found.lengths)
    signs = means_by_group(found.change, outcomes, every, ["incorrect", "correct"]).over_responses(RESAMPLES)
    forks = found.entropy >= np.quantile(found.entropy, 0.8)
    outcome = moved(found.change, found.lengths, found.success)
    return {
        "responses": len(found.lengths),
        "tokens": len(found.change),
        "within_bound": 1 - outcome["all"].beyond,
        "bound": LARGE,
        "risen_and_fallen": {name: [m.risen, m.fallen] for name, m in outcome.items()},
        "mean_change": dict(zip(signs.groups, means(signs), strict=True)),
        "largest_fifth_by": {by: means(profile) for by, profile in shares.items()},
        "largest_fifth_expected_from_entropy_by_perplexity": [m.value for m in expected.means],
        "size_by": {by: means(profile) for by, profile in sizes.items()},
        "gradient_by": {by: means(profile) for by, profile in pulls.items()},
        "by_role": {
            name: dict(
                zip(
                    roles, means(means_by_group(each, found.roles, every, roles).over_responses(RESAMPLES)), strict=True
                )
            )
            for name, each in (("size", size), ("gradient", found.pull), ("largest_fifth", largest))
        },
        "share_of_highest_entropy_fifth": {
            "gradient": float(found.pull[forks].sum() / found.pull.sum()),
            "change": float(np.abs(found.change[forks]).sum() / np.abs(found.change).sum()),
        },
        "rank_correlation_of_perplexity_and_size": perplexity_against_change(
            ppl_R, found.change, found.lengths, RESAMPLES
        )._asdict(),
    }


def means(profile: Profile) -> list[dict[str, float]]:
    return [mean._asdict() for mean in profile.means]


def interventions(folder: Path, window: Window, responses: int) -> dict[str, NDArray[Any]]:
    """The table of ``outrider analyse intervene`` on some responses of each of the window's steps."""
    asked = ["--model", window.after, "--steps", window.steps, "--limit", responses, "--positions", 5, "--k", 8]
    table = analysed(folder, "intervene", window.name, window.run, *asked)
    groups = RunFolder(window.run).rollouts.table(["group_id", "level"])
    level = {group: int(level) for group, level in _rows(groups, ["group_id", "level"])}
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    return columns | {"level": np.array([level[group] for group in columns["group_id"].tolist()])}


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
                profile = means_by_group(values, np.where(rows, groups, -1), problem, labels).over_responses(RESAMPLES)
                gap = profile.difference(labels[0], labels[-1])._asdict()
                told[f"{measure}_by_{name}_{whose}"] = {"groups": means(profile), "last_less_first": gap}
    told["entropy_by_position"] = [float(column("entropy")[place == i].mean()) for i in range(5)]
    told["level_by_perplexity"] = [float(column("level")[perplexity == i].mean()) for i in range(3)]
    return told


def _numbered(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys])


def draw_groups(axes: Axes, rows: Mapping[str, Sequence[Mapping[str, float]]], colours: Sequence[str]) -> None:
    """Lines over groups, with intervals."""
    for (name, found), colour in zip(rows.items(), colours, strict=True):
        value, low, high = (np.array([mean[end] for mean in found]) for end in ("value", "low", "high"))
        x = np.arange(1, len(found) + 1)
        axes.errorbar(
            x, value, [value - low, high - value], fmt="o-", markersize=4, color=colour, capsize=2, label=name
        )
    axes.legend(frameon=False, fontsize=8)


def draw_signs(axes: Axes, moves: Mapping[str, Mapping[str, Any]]) -> None:
    """Mean change of a token's probability, by outcome."""
    for i, (sign, colour) in enumerate((("incorrect", RED), ("correct", BLUE))):
        found = [move["mean_change"][sign] for move in moves.values()]
        error = [[m["value"] - m["low"] for m in found], [m["high"] - m["value"] for m in found]]
        at = np.arange(len(found)) + 0.4 * i - 0.2
        axes.bar(at, [m["value"] for m in found], 0.36, yerr=error, color=colour, capsize=2, label=f"{sign} responses")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(moves)), [f"{when} 5 updates" for when in moves])
    axes.set_ylabel("probability after, less before")
    axes.legend(frameon=False, fontsize=8)


def main() -> None:
    asked = arguments_with_setting(__doc__).parse_args()
    roles, seeds = ROLES[asked.setting], SETTINGS[asked.setting].seeds
    every = [windows(asked.runs, seed, asked.setting) for seed in seeds]
    moves = {}
    for when in ("first", "last"):
        parts = [changes(asked.runs, each[when], roles) for each in every]
        moves[when] = about_changes(Changes(*map(np.concatenate, zip(*parts, strict=True))), roles.names)
    tried = about_interventions(
        [interventions(asked.runs, each["last"], SETTINGS[asked.setting].replaced) for each in every]
    )

    titles = ["the fifth of largest changes", "the same, by perplexity", "pull on the weights, G_t"]
    titles += ["where probability goes", "a token replaced, by position", "a token replaced, by perplexity"]
    figure, (large, by_ppl, pull, signs, place, group) = panels(titles, (14, 8), rows=2)
    last, colours = moves["last"], (RED, GREEN, BLUE, BLACK)
    draw_groups(large, {f"by {by}": rows for by, rows in last["largest_fifth_by"].items()}, colours)
    rows = {f"{when} 5 updates": found["largest_fifth_by"]["perplexity"] for when, found in moves.items()}
    draw_groups(by_ppl, rows, (GREY, BLUE))
    for found, colour in zip(moves.values(), (GREY, BLUE), strict=True):
        by_ppl.plot(range(1, 6), found["largest_fifth_expected_from_entropy_by_perplexity"], ":", color=colour)
    rows = {f"by {by}": last["gradient_by"][by] for by in ("entropy", "perplexity", "position")}
    draw_groups(pull, rows, (RED, BLUE, BLACK))
    for axes, label in ((large, "share of its tokens"), (by_ppl, "share of its tokens"), (pull, "mean")):
        axes.set(xlabel="fifth, lowest or earliest first", ylabel=label, ylim=(0, None), xticks=range(1, 6))
    by_ppl.set(xlabel="fifth of responses by perplexity (dots: entropy alone)", ylim=(0, None))
    draw_signs(signs, moves)
    for axes, by in ((place, "position"), (group, "perplexity")):
        rows = {f"{whose} responses": tried[f"effect_by_{by}_{whose}"]["groups"] for whose in ("correct", "incorrect")}
        draw_groups(axes, rows, (BLUE, RED))
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_ylabel("success with the token, less without")
    place.set(xlabel="fifth of the response", xticks=range(1, 6))
    group.set_xticks((1, 2, 3), quantile_labels(EDGES))
    group.set_xlim(0.6, 3.4)
    numbers = {"changes": moves, "interventions": tried}
    keep(f"what_learning_rests_on{suffix(asked.setting)}", numbers, figure, asked.out, seeds=list(seeds))


if __name__ == "__main__":
    main()
