"""A verdict of other people's code, which goes to another process and to disk: its fields made plain."""

from __future__ import annotations

import math

from outrider.record import Outcome, Verdict


def plain_verdict(said: object) -> Verdict:
    """A verdict of other people's code, its fields made plain, and its score what its outcome allows.

    ``TIMEOUT`` and ``ERROR`` are unscorable, so their score is NaN. Every other outcome has a finite score; where it
    has none the verdict contradicts itself, and is an ``ERROR`` that says so.

    Raises:
        TypeError, ValueError: it is none, or a field is of another kind.

    >>> plain_verdict(Verdict(Outcome.CORRECT, float("nan"))).detail
    'its verdict is correct with the score nan'
    >>> plain_verdict(Verdict(Outcome.TIMEOUT, 0.0, detail="late")).score
    nan
    """
    if not isinstance(said, Verdict):
        raise TypeError(f"its verdict is {type(said).__name__}, not a Verdict")
    answer, detail = writable(said.answer), writable(said.detail)
    outcome, score, seconds = Outcome(said.outcome), float(said.score), float(said.seconds)
    if outcome in (Outcome.TIMEOUT, Outcome.ERROR):
        return Verdict(outcome, math.nan, seconds, answer, detail)
    if not math.isfinite(score):
        reason = f"its verdict is {outcome.value} with the score {score}"
        return Verdict(Outcome.ERROR, math.nan, seconds, answer, f"{reason}: {detail}" if detail else reason)
    return Verdict(outcome, score, seconds, answer, detail)


def writable(text: str) -> str:
    """A plain string without lone surrogates, which UTF-8 cannot hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")
