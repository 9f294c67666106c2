"""What tests of verifiers share: the verdict on one boxed answer, and that time does not grow as a square."""

from __future__ import annotations

import time
from collections.abc import Callable

from outrider.record import Outcome, Problem
from outrider.verify.maths import Maths


def check_boxed(gold: str, answer: str, right: bool, question: str = "", **options: object) -> None:
    """The verdict of ``math`` is the right one, and none without knowledge."""
    verifier = Maths.model_validate(options)
    problem = Problem("new", question, verifier.reference({"answer": gold}, "answer"))
    verdict = verifier.verify(problem, answer if "boxed" in answer else f"So \\boxed{{{answer}}}.", True)
    assert verdict.outcome not in (Outcome.TIMEOUT, Outcome.ERROR), verdict
    assert verdict.success is right, verdict


def check_time_grows_with_length(work: Callable[[str], object], part: str, length: int, least: float = 1e-3) -> None:
    """Ten times the text may take 40 times as long on a noisy machine, but not 100 times."""

    def seconds(length: int) -> float:
        text = part * (length // len(part))
        times = []
        for _ in range(3):
            start = time.process_time()
            work(text)
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(10 * length) < 40 * max(seconds(length), least)
