"""Can a failed chain be saved, and does it depend on how far it has gone?

Claim (arXiv 2602.14169, appendix C.2; 636 failed chains, 6,346 prefixes, 8 continuations each): depth against mean
recoverability has Spearman -0.79; a logistic fit of "any of 8 is correct" the coefficient -2.60 (z = -23.97), AUC 0.68.

Ours: one response of the shipped base to each held-out Countdown problem; failed ones are cut behind every ``;`` and
``,`` as in the recipe ``deep-grpo``, and continued 8 times from every cut. The fit is the one that the ``utility``
selector uses. Prefixes of one chain are no independent pairs, so intervals and z come from resampling chains.

Shows (2026-11-21): Spearman of tenths -0.98, coefficient -3.58, AUC 0.74; for problems of 3 numbers AUC 0.40.
Command: ``python benchmarks/studies/recoverability.py`` (1 minute of a core). Seed 0; see ``README.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from _prefixes import LEAST, Prefixes, by_depth, relation, resampled
from _study import BLUE, GREEN, GREY, ORANGE, PINK, RED, arguments, keep, panels
from matplotlib.axes import Axes
from numpy.typing import NDArray

from outrider.credit.reward import RewardOptions
from outrider.explore.branch import branch_request
from outrider.explore.segment import Delimiter
from outrider.explore.select import Pivot
from outrider.model.load import load_policy
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.tasks.countdown import Countdown
from outrider.train.collect import Collector

PROBLEMS, BRANCHES, RESAMPLES = 800, 8, 200


class Cuts(NamedTuple):
    """Columns over prefixes: failed chain, numbers in its problem, t / T, successes of 8, whether no step is wrong."""

    chain: NDArray[np.int64]
    size: NDArray[np.int64]
    depth: NDArray[np.float64]
    successes: NDArray[np.int64]
    sound: NDArray[np.bool_]

    def of(self, rows: NDArray[Any]) -> Cuts:
        return Cuts(*(column[rows] for column in self))

    @property
    def prefixes(self) -> Prefixes:
        return Prefixes(self.chain, self.depth, np.full(len(self.chain), BRANCHES), self.successes)


def sample(problems: int) -> Cuts:
    """One response per problem, then all cuts of the failed ones."""
    policy, task, segmenter = load_policy("base:countdown"), Countdown(), Delimiter(marks=[";", ","])
    sampler = LocalSampler(ready(policy)[0], SampleOptions(max_tokens=96, rows=512))
    collect = Collector(sampler, task, RewardOptions(), Ranks(), Clock())
    asked = [SampleRequest(p, prompt_ids=policy.encode(p), group_id=f"study:{p.id}") for p in task.heldout(problems)]
    failed = [(r.problem, chain) for r, chain in zip(asked, collect(asked), strict=True) if not chain.success]
    requests, rows = [], []
    for number, (problem, chain) in enumerate(failed):
        for at in segmenter.chain(chain, {chain.id: chain}, policy).candidates:
            request = branch_request(problem, Pivot(chain, at), BRANCHES, "branch")
            requests.append(replace(request, group_id=chain.group_id, first_member=1 + BRANCHES * len(requests)))
            rows.append([number, int(problem.level), at / len(chain.token_ids)])
    drawn = collect(requests)
    for i, (row, request) in enumerate(zip(rows, requests, strict=True)):
        branches = drawn[BRANCHES * i : BRANCHES * (i + 1)]
        verdict = task.verify(request.problem, branches[0].prefix_text.rstrip(";,"), finished=False)
        row += [sum(r.success for r in branches), verdict.detail == "truncated"]  # else it names the wrong step
    chain, size, depth, successes, sound = np.array(rows).T
    return Cuts(chain.astype(int), size.astype(int), depth, successes.astype(int), sound.astype(bool))


def binned(cuts: Cuts) -> NDArray[np.float64]:
    """In each tenth of depth: mean depth, share recoverable, and its standard error with chains as units."""
    rows = [(row.depth, row.share, row.error) for row in by_depth(cuts.prefixes) if row.prefixes >= LEAST]
    return np.array(rows).reshape(-1, 3).T


def statistics(cuts: Cuts) -> dict[str, float]:
    """What the paper reports; its Spearman is of bins."""
    return relation(cuts.prefixes)._asdict()


def with_intervals(cuts: Cuts) -> dict[str, Any]:
    """Each statistic with its 95 % interval by resampling chains; z of the coefficient from the same draws."""
    found = resampled(cuts.prefixes, RESAMPLES)
    told = {name: {"value": v.value, "low": v.low, "high": v.high} for name, v in found.numbers.items()}
    return told | {"z_of_w": found.z_of_w}


def curve(axes: Axes, cuts: Cuts, colour: str, label: str) -> None:
    depth, share, error = binned(cuts)
    axes.errorbar(depth, share, 1.96 * error, fmt="o-", color=colour, markersize=4, capsize=2, label=label)


def main() -> None:
    torch.set_num_threads(1)
    out, cuts = arguments(__doc__).parse_args().out, sample(PROBLEMS)
    told, recovered = with_intervals(cuts), cuts.successes > 0
    titles = ["recoverable prefixes of failed chains", "by size of the problem", "by what is written already"]
    figure, (every, sizes, steps) = panels(titles, (13, 4))
    curve(every, cuts, BLUE, "any of 8 correct")
    line, (w, b) = np.linspace(0, 1, 100), (told[name]["value"] for name in "wb")
    every.plot(line, 1 / (1 + np.exp(-w * line - b)), color=RED, label="logistic fit")
    for size, colour in zip((3, 4, 5, 6), (BLUE, ORANGE, GREEN, PINK), strict=True):
        curve(sizes, cuts.of(cuts.size == size), colour, f"{size} numbers")
    curve(steps, cuts.of(cuts.sound), GREEN, "no wrong step so far")
    curve(steps, cuts.of(~cuts.sound), RED, "a wrong step")
    without = binned(cuts._replace(successes=cuts.sound * 1))
    steps.plot(without[0], without[1], ":", color=GREY, label="share without a wrong step")
    for axes in (every, sizes, steps):
        axes.set(xlabel="relative depth t / T", xlim=(0, 1), ylim=(0, 1.02 if axes is steps else 0.5))
        axes.legend(frameon=False, fontsize=8)
    counts = {"failed_chains": len({*cuts.chain}), "prefixes": len(cuts.depth), "recoverable": recovered.mean()}
    numbers = counts | {
        "all": told,
        "without_a_wrong_step": {"prefixes": int(cuts.sound.sum()), **with_intervals(cuts.of(cuts.sound))},
        "recovered_after_a_wrong_step": int(recovered[~cuts.sound].sum()),
        "auc_by_size": {size: statistics(cuts.of(cuts.size == size))["auc"] for size in (3, 4, 5, 6)},
        "paper": {"spearman_of_bins": -0.79, "w": -2.60, "z": -23.97, "auc": 0.68, "chains": 636, "prefixes": 6346},
    }
    keep("recoverability", numbers, figure, out, seeds=[0])


if __name__ == "__main__":
    main()
