"""The map's page: which recipe to use in which setting, from the results of the benches."""

from __future__ import annotations

from collections.abc import Mapping

from _map_claims import claims
from _map_figure import FEWEST, compared
from _map_read import Results, Setting, comparisons, final_change, final_levels, largest, seeds_kept
from _map_rule import recommended
from _map_tables import classes, confirmations, cost, final, star

from outrider.bench.tables import NONE, markdown

NAMED = 3
"""So many recipes are named in a cell of the first table."""


def page(settings: Mapping[str, Setting]) -> str:
    """Markdown: the recommended recipes, every recipe's changes, and the papers' claims."""
    found = comparisons(settings)
    parts = [_OPENING, _short(settings), _SHORT, _commands(settings)]
    if found:
        parts += ["![changes of pass@1 and pass@k, and of pass@1 by difficulty](map.png)", _PICTURE]
        parts += ["## Comparison, on the final test set", _seeds(found), final(found)]
    parts += ["## Confirmation", _CONFIRMATION, confirmations(settings)]
    parts += ["## What equal tokens cost", _COST, cost(settings)]
    if found:
        parts += ["## By the pass rate of the base", _CLASSES, *(classes(*each) for each in found.items())]
        parts += ["## What the papers report", _CLAIMS, claims(found), _MISSING]
    parts += ["## Limitations", _LIMITATIONS]
    links = ", ".join(f"[{name}]({name}/page.md)" for name in settings)
    parts += ["## Details", f"Every bench, its curves and the smallest differences that it shows: {links}."]
    return "\n\n".join(part for part in parts if part) + "\n"


_OPENING = (
    "# Which method when\n\nThis page says which recipe to use in which setting, and what every compared recipe "
    "changes against GRPO at equal generated tokens. ± is half of a 95 % confidence interval; a change is bold where "
    "the interval excludes 0. The [rule](../../map.py) says how recipes were screened, chosen, compared and confirmed. "
    "`python benchmarks/map.py draw` makes the page from the benches beside it, and `python benchmarks/map.py check` "
    "computes their numbers again from per-problem tallies."
)
_SHORT = (
    "*base → GRPO*: levels on the final test set of the comparison, or where there is none of the last confirmation. "
    "*Recommended*: the recipe that the last "
    "confirmation of the setting shows significantly higher than GRPO in pass@1 or in the largest pass@k and "
    "significantly lower in neither, with its changes there; GRPO has the same learning rate and updates a step. "
    f"*Significantly higher*: the {NAMED} largest changes of the comparison; a dash where there is none. A star marks "
    "recipes whose learning rate or updates a step are not GRPO's, which alone may be the reason. What the names mean: "
    "[recipes](../../../docs/recipes.md), and [those that are not shipped](../../studies/recipes); `choose-…` and "
    "`prefix-replay` are ours."
)
_PICTURE = (
    "Changes from GRPO with 95 % confidence intervals. Left: on the final test set; up and to the right is better. "
    "Right: on the problems of the curve, by how often the base solved them. Hollow: with a star above."
)
_CONFIRMATION = (
    "A recipe and GRPO at the same learning rate and updates a step, with new seeds, on problems that the bench kept "
    "for its end. The last confirmation of a setting decides. *At equal pass@1* is measured on the problems of the "
    "curve, where both have the same pass@1. The last columns are GRPO's levels on the final test set."
)
_COST = (
    "Equal tokens are not equal time. *Seconds*: those of training as a multiple of GRPO's in the same bench (wall "
    "time on one core, means over seeds; in benches that shared their machine they are off by up to a third). *With a "
    "gradient*: tokens with a gradient per generated token, in brackets GRPO's; a dash where the bench did not count "
    "them. A recipe that has trained less far has a higher pass@k for that alone, so the last two columns have pass@k "
    "at the end and at equal pass@1, on the problems of the curve. `prefix-replay` trains on old responses with a "
    "clipped importance ratio, which biases its gradient (in an audit's example the cosine to the true gradient is "
    "0.52)."
)
_CLASSES = (
    "Changes of pass@1 from GRPO's at the end of the comparison, on the problems of the curve that none of the base's "
    "samples solved (never), up to an eighth of them (seldom), up to a half (often), or more (mostly). The number of "
    f"problems is in brackets; a class of fewer than {FEWEST} has a dash."
)
_CLAIMS = (
    "The claims of DARS, [XRPO](https://arxiv.org/abs/2510.06672) and "
    "[DEEP-GRPO](https://arxiv.org/abs/2602.14169) are changes from the papers' baselines. Beside them are the changes "
    "from GRPO here, on the final test set; the rows about steps are of the curve, and *times* have no interval. The "
    "papers compare at equal steps or at the best checkpoint. This page compares at equal tokens where it does not say "
    "otherwise, with learning rate and updates a step tuned for each recipe."
)
_MISSING = (
    "Why a claim does not show, as far as it was studied. DARS has a higher pass@1 at equal steps where most problems "
    "are unsolved; each of its steps takes three to four times GRPO's tokens and four updates where GRPO has one. "
    "XRPO gains by examples in the prompt, by which no base here gains ([examples](../../studies/README.md)), and its "
    "planner takes rollouts from the hardest problems. Half of DEEP-GRPO's rollouts, a quarter to a third of its "
    "tokens, are branches; at equal tokens branches newly solve a tenth to four tenths of what plain rollouts do. Two "
    "more claims have studies of their own. DARS reports 25 to 60 % fewer rollouts than naive depth; here they are 25 "
    "% (HW) and 37 % (ET), and 19 and 31 % fewer tokens (*rollouts per problem*). That rejection fine-tuning keeps "
    "more pass@k than RL does not show (*rejection fine-tuning*)."
)
_LIMITATIONS = """\
- All models have 0.4 to 1.5 million parameters and were trained here, on generated problems.
- Intervals are those of single comparisons: of twenty true zeros one is bold. They are not corrected for their number.
- `countdown` has no comparison of all recipes. [The one of 0.2](../map-0.2/countdown/recovered/page.md) used held-out \
problems in the order of their draws, in which common and easy problems come first, so that the problems of its curve \
and its final test set are two populations. Of 45 runs on shuffled problems 3 are done.
- Of the problems of the confirmation of `countdown` other benches had measured on nearly all with three numbers, of \
which hardly any others exist, and on few of the rest.
- Most screens have one run for each pair of learning rate and updates a step, so the hyperparameters of the \
comparison are uncertain. The screen of `prose` has one learning rate (1e-4), two seeds and other problems.
- Most recipes to confirm were chosen on the final test set of the comparison, so the comparison favours them. The \
confirmation does not."""


def _seeds(comparisons: Mapping[str, Results]) -> str:
    """How many seeds are kept, and why they are not five."""
    counts = "; ".join(f"{name} {seeds_kept(found)}" for name, found in comparisons.items())
    return (
        "The last policies, measured once. A recipe has its own learning rate and updates a step; a star as above. "
        f"Each comparison had five seeds. Runs whose evaluations were not kept are excluded; seeds kept: {counts}. "
        "`dars-hw-breadth` has no run left on `frontier`. [The reports of all runs](../map-0.2/README.md) have no "
        "tallies."
    )


def _short(settings: Mapping[str, Setting]) -> str:
    rows = []
    for name, setting in settings.items():
        found = setting.comparison or setting.confirmations[-1]
        ends = ("pass@1", largest(found))
        levels = [" → ".join(final_levels(found, quantity)) for quantity in ends]
        higher = [_higher(setting.comparison, quantity) for quantity in ends]
        rows.append([name, *levels, _recommended(setting), *higher])
    headings = ["setting", "pass@1: base → GRPO", "largest pass@k: base → GRPO", "recommended"]
    return markdown([*headings, "significantly higher pass@1", "significantly higher pass@k"], rows)


def _recommended(setting: Setting) -> str:
    if not (name := recommended(setting)):
        return "none"
    last = setting.confirmations[-1]
    changes = (f"{q} {final_change(name, last, q).value:+.3f}" for q in ("pass@1", largest(last)))
    return f"`{name}`: {', '.join(changes)}"


def _higher(found: Results | None, quantity: str) -> str:
    if not found:
        return NONE
    changes = {name: final_change(name, found, quantity) for name in compared(found)}
    best = sorted((name for name, each in changes.items() if each.low > 0), key=lambda name: -changes[name].value)
    return ", ".join(f"`{name}` {changes[name].value:+.3f}{star(name, found)}" for name in best[:NAMED]) or "none"


def _commands(settings: Mapping[str, Setting]) -> str:
    """The commands that train the recommended recipes as they were confirmed."""
    told = [_command(recommended(each), each.confirmations[-1]) for each in settings.values() if recommended(each)]
    return "\n".join(["Train the recommended recipes as they were confirmed:\n\n```", *told, "```"]) if told else ""


def _command(recipe: str, found: Results) -> str:
    learn = found["learn"][recipe]
    tuned = [f"learn.{key}={learn[key]}" for key in ("lr", "minibatches")]
    # the order of held-out problems is no part of the training
    overrides = [word for word in found["environment"]["command"] if "=" in word and "heldout_order" not in word]
    values = [*overrides, *tuned, f"train.tokens={found['bench']['tokens']}"]
    return " ".join(["outrider train", recipe, "--setting", found["setting"], *values])
