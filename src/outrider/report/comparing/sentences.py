"""Writes sentences on the differences between two runs: the metrics with significant differences, and the number of
problems that cause the difference."""

from __future__ import annotations

import math

from outrider.measure import Interval
from outrider.report.comparing.paired import GREEDY, PairedRuns, PartDifference
from outrider.report.digits import percent, points


def joined(words: list[str]) -> str:
    """Join words into a list for use in a sentence.

    >>> joined(["a", "b", "c"]), joined(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def sentences(found: PairedRuns) -> str:
    """Return up to three paragraphs on two runs: the difference over all problems; differences by test set and
    difficulty level; problems with different results, and other metrics."""
    paragraphs = [better(found), by_part(found), f"{_counts(found)} {decided(found)} {_others(found)}"]
    return "\n\n".join(" ".join(text.split()) for text in paragraphs if text.strip())


def better(found: PairedRuns) -> str:
    """Return the sentence on the differences over all problems.

    Metrics whose interval excludes 0 are named first.
    """
    if not found.overall:
        return f"`{found.other}` and `{found.first}` have no metric in common, so they are not compared."
    parts: list[str] = []
    ordered = dict(sorted(found.overall.items(), key=lambda item: not item[1].excludes_zero))
    for what, change in ordered.items():
        turned = parts and change.value * next(iter(ordered.values())).value < 0
        who = f"`{found.other}` " if not parts else "but it " if turned else "it "
        than = "" if any("than" in part for part in parts) else f" than `{found.first}`"
        if change.excludes_zero:
            parts.append(f"{who}is {_size(change)}{than} {_at(what)} ({_magnitude(change)})")
        elif parts and "no significant" not in parts[0]:
            parts.append(f"{_at(what)} there is no significant difference ({_signed(change)})")
        elif parts:
            parts.append(f"nor {_at(what)} ({_signed(change)})")
        else:
            between = f"between `{found.other}` and `{found.first}`"
            parts.append(f"there is no significant difference {between} {_at(what)} ({_signed(change)})")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def by_part(found: PairedRuns) -> str:
    """Return a sentence on the test sets and difficulty levels where ``found.other`` is significantly better or worse
    than ``found.first``; "" if results are not split by test set or level."""
    if not found.parts:
        return ""
    kinds = list(dict.fromkeys(part.kind for part in found.parts))
    words = []
    for side, sign in (("better", 1), ("worse", -1)):
        there = [part for part in found.parts if part.significant and part.change.value * sign > 0]
        words += [f"{side} on {joined([_named(part) for part in there])}"] if there else []
    clear = sum(part.significant for part in found.parts)
    tests = f"{len(found.parts)} tests, p-values adjusted by Holm"
    if not clear:
        part = " or ".join("difficulty level" if kind == "level" else kind for kind in kinds)
        return f"No {part} has a significant difference ({tests}){_before_adjusting(found)}."
    others = len(found.parts) - clear
    rest = f"; the other {others} differences are not significant" if others > 1 else ""
    return f"By {joined(kinds)}, `{found.other}` is {'; '.join(words)}{rest} ({tests})."


def _before_adjusting(found: PairedRuns) -> str:
    """Return a clause that says how many intervals exclude 0 before p-values are adjusted. The clause is used if no
    adjusted p-value is below 0.05."""
    alone = sum(part.change.excludes_zero for part in found.parts)
    if not alone:
        return ""
    return f", although {alone} of the unadjusted 95 % intervals {'excludes' if alone == 1 else 'exclude'} 0"


def _named(part: PartDifference) -> str:
    name = f"level {part.name}" if part.kind == "level" and part.name[:1].isdecimal() else part.name
    return f"`{name}` {_at(part.what)} ({points(part.change.value)})"


def _at(what: str) -> str:
    return f"with {what}" if what == GREEDY else f"at {what}"


def _counts(found: PairedRuns) -> str:
    """Return sentences with numbers of problems: how often ``found.other`` has a higher, lower or equal pass rate than
    ``found.first``, and how often the difference is significant. Problems that only one run has are counted
    separately."""
    decision = found.decision
    known = decision.won + decision.lost + decision.tied
    if not known:
        return ""
    once = all(tally.scorable < 2 for pair in found.pairs for tally in pair)
    text = f"Of the {known:,} problems that `{found.other}` and `{found.first}` have in common, `{found.other}` " + (
        f"alone solves {decision.won:,} and `{found.first}` alone {decision.lost:,}; on {decision.tied:,} they agree."
        if once
        else f"has the higher pass rate on {decision.won:,} and the lower on {decision.lost:,}; {decision.tied:,} are "
        "tied."
    )
    if found.comparison.unpaired:
        text += f" {found.comparison.unpaired:,} problems that only one of the two has are excluded."
    clear = decision.clearly_won + decision.clearly_lost
    if once:
        return text
    if not clear:
        return f"{text} On none of these problems do the pass rates differ significantly."
    return (
        f"{text} The pass rate of `{found.other}` is significantly higher on {decision.clearly_won:,} of these "
        f"problems and significantly lower on {decision.clearly_lost:,}."
    )


def decided(found: PairedRuns) -> str:
    """If the difference is significant, return a sentence on how few problems the significance depends on. Otherwise,
    return a sentence on how much data would be needed to detect the difference."""
    decision, what = found.decision, found.leading
    if math.isnan(decision.difference.value):
        return ""
    if decision.decisive is not None:
        favoured = found.other if decision.difference.value > 0 else found.first
        carried = "problem that favours" if decision.decisive == 1 else f"{decision.decisive:,} problems that favour"
        return f"Without the {carried} `{favoured}` most, the interval of the difference in {what} would include 0."
    if decision.needed_problems is None:
        return f"Both runs have equal {what} on average." if not decision.difference.value else ""
    size = percent(abs(decision.difference.value)).removesuffix(" %")
    text = (
        f"{what[0].upper() + what[1:] if not found.sampled else what} does not differ significantly: a true "
        f"difference of the observed {size} points would be detected with about {decision.needed_problems:,} similar "
        "problems (power 80 %)"
    )
    if not found.sampled:
        return f"{text}."
    if decision.needed_samples is None:
        return f"{text}; more samples of these problems alone would not be enough."
    return f"{text}, or about {decision.needed_samples:,} samples of each of these problems."


def _others(found: PairedRuns) -> str:
    """Return sentences that say whether greedy decoding, majority vote and entropy differ significantly."""
    change = found.comparison.overall
    known = [("greedy", change.greedy)] if found.sampled else []
    known += [("majority", change.majority), ("entropy", change.entropy)]
    there = [(what, interval) for what, interval in known if not math.isnan(interval.value)]
    differ = [f"{what} ({_unit(what, i)})" for what, i in there if i.excludes_zero]
    same = [what for what, i in there if not i.excludes_zero]
    parts = [f"Also significantly different: {joined(differ)}."] * bool(differ)
    parts += [f"Not significantly different: {joined(same)}."] * bool(same)
    return " ".join(parts)


def _unit(what: str, change: Interval) -> str:
    if what == "entropy":
        return f"{change.value:+.3f} nats, 95 % CI {change.low:+.3f} to {change.high:+.3f}"
    return _signed(change)


def _size(change: Interval) -> str:
    """Return a difference in words, such as "3.1 percentage points better"."""
    size = percent(abs(change.value)).removesuffix(" %")
    return f"{size} percentage points {'better' if change.value > 0 else 'worse'}"


def _magnitude(change: Interval) -> str:
    """Return a difference's interval in words, as magnitudes without signs."""
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"95 % CI {100 * low:.1f} to {100 * high:.1f}"


def _signed(change: Interval) -> str:
    if math.isnan(change.low):
        return points(change.value)
    return f"{points(change.value)}, 95 % CI {100 * change.low:+.1f} to {100 * change.high:+.1f}"
