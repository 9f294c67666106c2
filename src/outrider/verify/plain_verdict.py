"""Converts third-party verdicts to plain data, since verdicts are sent to another process and written to disk."""

from __future__ import annotations

import math

from outrider.record import Outcome, Verdict


def plain_verdict(said: object) -> Verdict:
    """Convert the fields of a third-party verdict to plain data, and check that the score is consistent with the
    outcome.

    A ``TIMEOUT`` or ``ERROR`` verdict has no score, which is represented by NaN. Every other outcome requires a finite
    score. If the score is not finite, the verdict becomes an ``ERROR`` with an explanation.

    Raises:
        TypeError, ValueError: ``said`` is not a verdict, or a field has the wrong type.

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
    """Convert a text to a plain string without lone surrogates, which UTF-8 cannot encode."""
    return str(text).encode("utf-8", "replace").decode("utf-8")
