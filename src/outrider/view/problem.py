"""Computes the history of one problem in a run: pass rate and cost at each step, and the first and last success."""

from __future__ import annotations

from typing import NamedTuple

from outrider.errors import UserError
from outrider.measure import Interval
from outrider.report.data import SAMPLED
from outrider.report.digits import percent
from outrider.report.findings.base import wilson
from outrider.view.listing import texts_of
from outrider.view.opened_run import OpenedRun, Row

_Z = 1.96  # half-width of a 95 % interval in standard errors


class ProblemStep(NamedTuple):
    """The rollouts of a problem in one step.

    Attributes:
        tokens: total tokens; None if the rollouts have no token counts.
        low, high: bounds of the pass rate's 95 % Wilson interval; both None if there are no verdicts.
        predicted: the problem's pass rate, as predicted before the step from earlier rollouts; None if there is no
            prediction.
    """

    split: str
    step: int
    group: str
    rollouts: int
    verified: int
    correct: int
    tokens: int | None
    low: float | None
    high: float | None
    predicted: float | None = None

    @property
    def rate(self) -> float | None:
        return self.correct / self.verified if self.verified else None

    def with_(self, other: ProblemStep | None) -> ProblemStep:
        """Return the combined counts of this group and another group of the same step."""
        if other is None:
            return self
        verified, correct = self.verified + other.verified, self.correct + other.correct
        tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        low, high = interval(correct, verified)
        rollouts = self.rollouts + other.rollouts
        return self._replace(rollouts=rollouts, verified=verified, correct=correct, tokens=tokens, low=low, high=high)

    @property
    def pass_rate(self) -> Interval | None:
        """The pass rate of the verified rollouts, with its 95 % interval; None if there are no verdicts."""
        if self.rate is None or self.low is None or self.high is None:
            return None
        return Interval(self.rate, self.low, self.high, self.verified)

    @property
    def shown(self) -> str:
        """The pass rate as a text for the page."""
        return f"{self.correct} of {self.verified} times ({percent(self.correct / self.verified)})"


class ProblemHistory(NamedTuple):
    """The history of a problem in a run.

    Attributes:
        steps: the problem's groups, sorted by split and then by step.
        first_success, last_success: first and last successful rollout, with texts; None if there is no success. These
            rollouts are from training if the problem was trained on, otherwise from evaluations.
        last_failure: last failed rollout with its text, from the same source as the successes; None if there is no
            failure.
    """

    id: str
    level: str | None
    steps: list[ProblemStep]
    first_success: Row | None
    last_success: Row | None
    last_failure: Row | None

    @property
    def story(self) -> str:
        """One sentence about the first and last success in training, and one sentence about evaluations."""
        return " ".join(filter(None, (self._trained(), self._evaluated())))

    def of_split(self, split: str) -> list[ProblemStep]:
        """Return one entry for each step of a split that has verified rollouts, in order. Groups of the same step are
        combined."""
        found: dict[int, ProblemStep] = {}
        for one in self.steps:
            if one.split == split and one.verified:
                found[one.step] = one.with_(found.get(one.step))
        return list(found.values())

    def _trained(self) -> str:
        tried = self.of_split("train")
        solved = [step for step in tried if step.correct]
        drawn = [step for step in self.steps if step.split == "train"]
        if drawn and not tried:
            rollouts = sum(step.rollouts for step in drawn)
            steps = len({step.step for step in drawn})
            return (
                f"Training sampled {_times(rollouts, 'rollout')} of it in {_times(steps, 'step')}; none has a verdict."
            )
        if not drawn:
            return "Training did not sample it."
        if not solved:
            return f"Training sampled it in {_times(len(tried), 'step')} and never solved it."
        since = [step for step in tried if step.step > solved[-1].step]
        lost = f"; {_times(len(since), 'later step')} had no success" if since else ""
        if len(tried) == 1:
            return f"Training sampled it once, in step {tried[0].step}, and solved it {tried[0].shown}."
        return (
            f"Training solved it first in step {solved[0].step}, last in step {solved[-1].step}, in {len(solved)} of "
            f"{_times(len(tried), 'step')} with rollouts of it{lost}."
        )

    def _evaluated(self) -> str:
        steps = self.of_split("evaluate")
        if not steps:
            return ""
        first, last = steps[0], steps[-1]
        if first is last:
            return f"The evaluation of step {first.step} solved it {first.shown}."
        solved = [step for step in steps if step.correct]
        lost = f"; the last success is at step {solved[-1].step}" if solved and solved[-1].step < last.step else ""
        words = f"Evaluations solved it {first.shown} at step {first.step} and {last.shown} at step {last.step}"
        return f"{words}{lost}."


def problem_history(run: OpenedRun, problem: str) -> ProblemHistory:
    """Return the history of a problem in a run.

    Raises:
        UserError: the run has no rollout of the problem.
    """
    rows = run.rows(
        "SELECT split, step, group_id, any_value(level) AS level, count(*) AS rollouts, count(outcome) AS verified, "
        "count(*) FILTER (outcome = 'correct') AS correct, sum(tokens) AS tokens, "
        f"any_value(predicted) AS predicted FROM seen WHERE problem_id = ? AND {SAMPLED} "
        "GROUP BY ALL ORDER BY split, step, group_id",
        [problem],
    )
    if not rows:
        raise UserError(f"{run.name} has no rollout of problem {problem!r}")
    steps = [
        ProblemStep(
            row["split"],
            row["step"],
            row["group_id"],
            row["rollouts"],
            row["verified"],
            row["correct"],
            row["tokens"],
            *interval(row["correct"], row["verified"]),
            row["predicted"],
        )
        for row in rows
    ]
    split = next((name for name in ("train", "evaluate") if any(row["split"] == name for row in rows)), "")
    first, last = (_one(run, problem, split, "outcome = 'correct'", order) for order in ("ASC", "DESC"))
    failed = _one(run, problem, split, "outcome <> 'correct'", "DESC")
    return ProblemHistory(problem, rows[0]["level"], steps, first, last, failed)


def elsewhere(run: OpenedRun, problem: str) -> ProblemHistory | None:
    """Return the history of a problem in ``run``; None if the run has no rollout of the problem."""
    met = run.rows("SELECT count(*) AS n FROM seen WHERE problem_id = ?", [problem])[0]["n"]
    return problem_history(run, problem) if met else None


def interval(successes: int, samples: int) -> tuple[float | None, float | None]:
    """Return the 95 % Wilson interval of a pass rate; (None, None) if there are no samples.

    >>> [round(end, 3) for end in interval(0, 8)], interval(0, 0)
    ([0.0, 0.324], (None, None))
    """
    return wilson(successes / samples, samples, _Z) if samples else (None, None)


def _one(run: OpenedRun, problem: str, split: str, which: str, order: str) -> Row | None:
    rows = run.rows(
        f"SELECT * FROM seen WHERE problem_id = ? AND split = ? AND {which} ORDER BY step {order}, member LIMIT 1",
        [problem, split],
    )
    if not rows:
        return None
    return rows[0] | texts_of(run, rows, ["text"]).get((rows[0]["file"], rows[0]["row"]), {})


def _times(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
