"""Where entropy goes while a policy learns, and what it buys.

Claims (arXiv 2508.07534, sections 3.1, 3.2.2 and 3.2.4; Figures 3 and 6a): performance follows R = -a exp(H) + b;
incorrect responses have the higher entropy, lose it faster, and hold the tokens that lose it fastest; learning has a
rising stage and a plateau; faulty responses become rare; entropy over position is a U, and at the end of incorrect
responses it is higher than at the end of correct ones.

Ours: the recorded rollouts of GRPO on Countdown, with exact entropies, three seeds; for the law pass@k training too.
The first ten steps are compared with the last ten. The law is fitted to the first half of the steps and asked for the
second. What a token is for (an operand, an operator, …) follows from its place in the response.

Shows (2026-11-21): 73 % of the drop lies in incorrect responses, which hold 76 % of the tokens; of what there was both
lose alike (28 and 29 %). No U: entropy falls along the response. The law of the first half promises 0.06 too much in
two of three seeds.
Command: ``python benchmarks/studies/entropy_of_learning.py [--setting prose | smollm2] [--runs DIR]`` (half a minute
where DIR holds the runs, 12 minutes of a core where it does not, with ``smollm2`` hours). Seeds 0 to 2, ``smollm2``
seed 2; see ``README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _entropy_drop import Drop, Side, entropy_drop
from _models import SETTINGS, arguments_with_setting, suffix, trained
from _roles import ROLES, Roles, vocabulary
from _study import BLACK, BLUE, GREEN, GREY, ORANGE, RED, keep, panels
from _vocabulary import entropy_drops, where_they_occur
from matplotlib.axes import Axes
from numpy.typing import NDArray

from outrider.measure.bend import find_bend
from outrider.measure.blocks import bounds, noise
from outrider.measure.entropy import by_relative_position
from outrider.measure.exchange import Exchange, fit_exchange
from outrider.measure.groups import Profile, means_by_group
from outrider.measure.ragged import owners
from outrider.runs.folder import RunFolder

WINDOW, BINS, RESAMPLES = 10, 10, 300
SIZES = {"countdown": "numbers", "prose": "steps", "smollm2": "steps"}  # what a problem's level counts
SIGNS = {"incorrect": RED, "correct": BLUE}
PARTS = ("incorrect", "correct", "overall", "from_incorrect", "from_correct", "from_mix")


class Responses(NamedTuple):
    """Training responses in their order: columns over responses, and entropies and ids over their tokens."""

    step: NDArray[np.int64]
    size: NDArray[np.int64]
    success: NDArray[np.float64]
    readable: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    entropies: NDArray[np.float64]
    tokens: NDArray[np.int64]
    roles: NDArray[np.int64]

    def of(self, rows: NDArray[np.bool_]) -> Responses:
        kept = np.repeat(rows, self.lengths)
        return Responses(*(column[rows] for column in self[:5]), *(column[kept] for column in self[5:]))

    @property
    def first(self) -> Responses:
        return self.of(self.step <= WINDOW)

    @property
    def last(self) -> Responses:
        return self.of(self.step > max(self.step.max() - WINDOW, WINDOW))

    @property
    def side(self) -> Side:
        return Side(self.entropies, self.lengths, self.success)


def responses(run: Path, roles: Roles) -> Responses:
    """All training rollouts of a run."""
    columns = ["step", "level", "outcome", "token_ids", "entropies"]
    table = RunFolder(run).rollouts.table(columns).combine_chunks()
    tokens, entropies = (table[name].combine_chunks() for name in ("token_ids", "entropies"))
    outcome = np.array(table["outcome"].to_pylist())
    texts = vocabulary(run)
    kinds = [roles.of([texts[token] for token in each]) for each in tokens.to_pylist()]
    return Responses(
        step=table["step"].to_numpy(),
        size=np.array(table["level"].to_pylist()).astype(np.int64),
        success=(outcome == "correct").astype(np.float64),
        readable=outcome != "unparseable",
        lengths=tokens.value_lengths().to_numpy().astype(np.int64),
        entropies=entropies.flatten().to_numpy().astype(np.float64),
        tokens=tokens.flatten().to_numpy().astype(np.int64),
        roles=np.array([kind for each in kinds for kind in each]),
    )


def joined(parts: Sequence[Responses]) -> Responses:
    """The responses of several runs, one after the other."""
    return Responses(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def by_role(found: Responses, roles: Roles) -> Profile:
    """Mean entropy of the tokens of each role; more than one token may write a number."""
    return means_by_group(found.entropies, found.roles, owners(found.lengths), roles.names).over_responses(RESAMPLES)


def drop(found: Responses) -> Drop:
    return entropy_drop(found.first.side, found.last.side, RESAMPLES)


def told(drop: Drop, first: Profile) -> dict[str, Any]:
    """The drop, and how large it is of what there was."""
    parts = {name: getattr(drop, name)._asdict() for name in PARTS}
    return parts | {f"share_of_{sign}": getattr(drop, sign).value / first[sign].value for sign in SIGNS}


def parts_of(found: Responses, what: str) -> dict[str, Any]:
    """The drop, over all problems and by their size, which counts ``what``."""
    sizes = {f"{k} {what}": found.of(found.size == k) for k in sorted({*found.size.tolist()})}
    return {name: told(drop(part), outcomes(part.first)) for name, part in {"all": found, **sizes}.items()}


def outcomes(found: Responses) -> Profile:
    kinds = np.repeat(found.success, found.lengths)
    return means_by_group(found.entropies, kinds, owners(found.lengths), [*SIGNS]).over_responses(RESAMPLES)


def curves(found: Responses) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Success, entropy of all tokens, and entropy by sign ``[2, steps]``, step by step."""
    steps, at = int(found.step.max()), found.step - 1
    success = np.bincount(at, found.success, steps) / np.bincount(at, minlength=steps)
    cell = np.repeat(at + steps * found.success.astype(np.int64), found.lengths)
    sums, counts = (np.bincount(cell, w, 2 * steps).reshape(2, steps) for w in (found.entropies, None))
    return success, sums.sum(0) / counts.sum(0), sums / counts


def beyond(law: Exchange, entropy: NDArray[np.float64], reward: NDArray[np.float64]) -> dict[str, float]:
    """Mean of reward less what a law says of its entropy, with the doubt of the law and the noise of the steps."""
    scaled = np.exp(entropy)
    missed = reward - (law.b.value - law.a.value * scaled)
    draws = law.draws_B2[:, 1, None] - law.draws_B2[:, :1] * scaled[None]
    means = reward.mean() - draws.mean(axis=1) + noise(missed, 1, len(draws), seed=1).mean(axis=1)
    return bounds(float(missed.mean()), means)._asdict()


def exchange(found: Responses, other: Responses | None) -> tuple[dict[str, Any], Exchange, Exchange]:
    """The law of a run: of all steps, of the first half asked for the second, and asked for another method's run, if
    there is one."""
    reward, entropy, _ = curves(found)
    half = len(reward) // 2
    law, early = fit_exchange(entropy, reward), fit_exchange(entropy[:half], reward[:half])
    ends = {name: getattr(law, name)._asdict() for name in ("a", "b", "ceiling")}
    numbers = ends | {
        "explained": law.explained,
        "entropies": [law.highest, law.lowest],
        "a_of_first_half": early.a._asdict(),
        "ceiling_of_first_half": early.ceiling._asdict(),
        "second_half_less_law_of_first": beyond(early, entropy[half:], reward[half:]),
        "straight_line_explains": float(np.corrcoef(entropy, reward)[0, 1] ** 2),
    }
    if other is not None:
        other_reward, other_entropy, _ = curves(other)
        seen = other_entropy > law.lowest
        numbers["passk_training_less_law_of_grpo"] = beyond(law, other_entropy[seen], other_reward[seen])
    return numbers, law, early


def stages(found: Responses) -> dict[str, Any]:
    """Whether success and entropy level off."""
    success, entropy, _ = curves(found)
    steps = np.arange(1, len(success) + 1)
    named = {"success": find_bend(steps, success), "entropy": find_bend(steps, entropy)}
    return {
        name: {"shape": s.shape, "p_value": s.p_value} | {e: getattr(s, e)._asdict() for e in ("bend", "early", "late")}
        for name, s in named.items()
    }


def shape(found: Responses, roles: Roles) -> dict[str, Any]:
    """Entropy over relative position, and the two differences that a U and confusion at the end would need."""
    profile, fifths = (
        by_relative_position(found.entropies, found.lengths, bins=bins).over_responses(RESAMPLES) for bins in (BINS, 5)
    )
    late = np.repeat(found.success, found.lengths)
    place = np.concatenate([np.arange(n) * 5 // n for n in found.lengths.tolist()])
    kinds = np.where(place == 4, late, -1)
    signs = means_by_group(found.entropies, kinds, owners(found.lengths), [*SIGNS]).over_responses(RESAMPLES)
    return {
        "by_tenth": [mean._asdict() for mean in profile.means],
        "last_fifth_less_middle": fifths.difference(0.5, 0.9)._asdict(),
        "first_fifth_less_middle": fifths.difference(0.5, 0.1)._asdict(),
        "last_fifth_incorrect_less_correct": signs.difference("correct", "incorrect")._asdict(),
        "by_role": {role: mean._asdict() for role, mean in zip(roles.names, by_role(found, roles).means, strict=True)},
    }


def fastest(found: Responses) -> dict[str, Any]:
    """The fifth of the vocabulary whose entropy falls fastest, and where it occurs in the first steps."""
    first, last = found.first, found.last
    ranking = entropy_drops(first.tokens, first.entropies, last.tokens, last.entropies).tokens
    chosen = [token.token for token in ranking[: max(1, len(ranking) // 5)]]
    where = where_they_occur(chosen, first.tokens, np.repeat(first.success, first.lengths))
    return {"entries": len(ranking), "fastest": len(chosen), "occur_in": where}


def draw_signs(axes: Axes, every: Sequence[Responses]) -> None:
    for seed, found in enumerate(every):
        for sign, line in zip(SIGNS, curves(found)[2], strict=True):
            smooth = np.convolve(line, np.ones(5) / 5, "valid")
            label = None if seed else sign
            axes.plot(np.arange(len(smooth)) + 3, smooth, color=SIGNS[sign], linewidth=1, label=label)
    axes.set(xlabel="step", ylabel="nats per token", ylim=(0, None))
    axes.legend(frameon=False)


def draw_drops(axes: Axes, parts: Mapping[str, Any]) -> None:
    """Of every size, how far the entropy of either sign fell."""
    for i, sign in enumerate(SIGNS):
        means = [part[sign] for part in parts.values()]
        error = [[m["value"] - m["low"] for m in means], [m["high"] - m["value"] for m in means]]
        at = np.arange(len(means)) + 0.4 * i - 0.2
        axes.bar(at, [m["value"] for m in means], 0.36, yerr=error, color=SIGNS[sign], capsize=2, label=sign)
        shares = [f"{part[f'share_of_{sign}']:.0%}" for part in parts.values()]
        for x, m, share in zip(at, means, shares, strict=True):
            axes.annotate(share, (x, m["high"]), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(parts)), [name.replace(" ", "\n") for name in parts])
    axes.set_ylabel("nats per token")
    axes.margins(y=0.25)  # room for the names of the two
    axes.legend(frameon=False, loc="upper left", ncols=2)


def draw_shape(axes: Axes, shapes: Mapping[str, Any], colours: Sequence[str]) -> None:
    middles = (np.arange(BINS) + 0.5) / BINS
    for (name, found), colour in zip(shapes.items(), colours, strict=True):
        low, high = (np.array([mean[end] for mean in found["by_tenth"]]) for end in ("low", "high"))
        axes.fill_between(middles, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(middles, [m["value"] for m in found["by_tenth"]], "o-", color=colour, markersize=3, label=name)
    axes.set(xlabel="relative position", ylabel="nats per token", xlim=(0, 1), ylim=(0, None))
    axes.legend(frameon=False)


def draw_roles(axes: Axes, shapes: Mapping[str, Any], roles: Roles, colours: Sequence[str]) -> None:
    for i, ((name, found), colour) in enumerate(zip(shapes.items(), colours, strict=True)):
        heights = [found["by_role"][role]["value"] for role in roles.names]
        axes.bar(np.arange(len(heights)) + 0.4 * i - 0.2, heights, 0.36, color=colour, label=name)
    axes.set_xticks(range(len(roles.names)), [role.replace(" ", "\n") for role in roles.names])
    axes.set_ylabel("nats per token")
    axes.legend(frameon=False)


def draw_law(axes: Axes, found: Responses, law: Exchange, early: Exchange) -> None:
    reward, entropy, _ = curves(found)
    half, line = len(reward) // 2, np.linspace(0, entropy.max(), 100)
    for fit, colour, label in ((early, ORANGE, "law of the first half"), (law, BLACK, "law of all steps")):
        at = [fit.at(x) for x in line]
        axes.fill_between(line, [b.low for b in at], [b.high for b in at], color=colour, alpha=0.15, linewidth=0)
        axes.plot(line, [b.value for b in at], color=colour, linewidth=1.5, label=label)
    axes.plot(entropy[:half], reward[:half], ".", color=ORANGE, label="first half of the steps")
    axes.plot(entropy[half:], reward[half:], ".", color=GREEN, label="second half")
    axes.set(xlabel="entropy, nats per token", ylabel="success", xlim=(0, None), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)


def draw_beyond(axes: Axes, laws: Sequence[Mapping[str, Any]]) -> None:
    """What the laws get wrong, one line per seed."""
    asked = {
        "second_half_less_law_of_first": "second half,\nby the first",
        "passk_training_less_law_of_grpo": "pass@k training,\nby GRPO",
    }
    for i, key in enumerate(asked):
        for seed, numbers in enumerate(laws if key in laws[0] else ()):
            missed, x = numbers[key], i + 0.2 * (seed - 1)
            axes.vlines(x, missed["low"], missed["high"], color=(GREEN, BLUE)[i], linewidth=1.5)
            axes.plot(x, missed["value"], "o", color=(GREEN, BLUE)[i])
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks((0, 1), asked.values())
    axes.set(ylabel="success less law", xlim=(-0.5, 1.5))


def main() -> None:
    asked = arguments_with_setting(__doc__).parse_args()
    roles, seeds = ROLES[asked.setting], SETTINGS[asked.setting].seeds

    def of(name: str, recipe: str) -> list[Responses]:
        return [responses(trained(asked.runs, name, recipe, seed, setting=asked.setting), roles) for seed in seeds]

    every = of("grpo", "grpo")
    others = of("passk", "passk-training") if SETTINGS[asked.setting].passk else [None for _ in seeds]
    laws = [exchange(found, other) for found, other in zip(every, others, strict=True)]
    pooled = joined([part for found in every for part in (found.first, found.last)])
    pooled = pooled._replace(step=np.minimum(pooled.step, WINDOW + 1))  # seeds may end at different steps
    parts = parts_of(pooled, SIZES[asked.setting])
    shapes = {f"first {WINDOW} steps": shape(pooled.first, roles), f"last {WINDOW}": shape(pooled.last, roles)}

    titles = ["entropy by outcome", "how far it fell", "entropy over position"]
    titles += [
        "entropy by what a token writes",
        f"entropy for success, seed {seeds[0]}",
        "what a law gets wrong, by seed",
    ]
    figure, (signs, drops, places, kinds, law, wrong) = panels(titles, (14, 8), rows=2)
    draw_signs(signs, every)
    draw_drops(drops, parts)
    draw_shape(places, shapes, (GREY, RED))
    draw_roles(kinds, shapes, roles, (GREY, RED))
    draw_law(law, every[0], *laws[0][1:])
    draw_beyond(wrong, [numbers for numbers, _, _ in laws])
    numbers = {
        "entropy_by_outcome": {
            name: {sign: outcomes(part)[sign]._asdict() for sign in SIGNS}
            for name, part in (("first", pooled.first), ("last", pooled.last))
        },
        "drop": parts,
        "drop_by_seed": [told(drop(found), outcomes(found.first)) for found in every],
        "fastest_tokens": fastest(pooled),
        "stages": [stages(found) for found in every],
        "unreadable": {n: 1 - p.readable.mean() for n, p in (("first", pooled.first), ("last", pooled.last))},
        "position": shapes,
        "law": [numbers for numbers, _, _ in laws],
    }
    keep(f"entropy_of_learning{suffix(asked.setting)}", numbers, figure, asked.out, seeds=list(seeds))


if __name__ == "__main__":
    main()
