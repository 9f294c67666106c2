"""Sends the data of a run to its trackers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from outrider.config.tracking import TrackingOptions
from outrider.measure import Evaluation
from outrider.record import Group
from outrider.screen.tracked_rollouts import rollouts_table
from outrider.screen.tracker import TrackedTable, Tracker

ROLLOUTS, FINDINGS = "tables/rollouts", "tables/findings"  # "rollouts" alone is a metric


class RunTrackers:
    """All trackers of a run. If a tracker fails, a warning is printed, and the run continues without this tracker.

    Any exception from a tracker counts as a failure, since a service may raise any network error. Ctrl-C and SIGTERM
    still end the run.

    Args:
        opened: trackers by name.
        options: the recipe's ``train.tracking``.
        say: function that prints the warning about a failed tracker.
    """

    def __init__(self, opened: Mapping[str, Tracker], options: TrackingOptions, say: Callable[[str], None]) -> None:
        self._open, self._options, self._say = dict(opened), options, say

    def stepped(self, step: int, groups: Sequence[Group], metrics: Mapping[str, float]) -> None:
        """Send the metrics of a step. Also send some rollouts at the first step, and again every ``rollouts_every``
        steps."""
        self._each(lambda tracker: tracker.log(step, metrics))
        if self._open and (step - 1) % self._options.rollouts_every == 0:
            table = rollouts_table(step, groups, self._options.rollouts)
            if table.rows:
                self._each(lambda tracker: tracker.table(step, ROLLOUTS, table))

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """Send the metrics of an evaluation after ``step``."""
        self._each(lambda tracker: tracker.log(step, evaluation_metrics(evaluation)))

    def ended(self, step: int, examine: Callable[[], TrackedTable]) -> None:
        """Send the table of findings (problems found in the run) after the run's last step, ``step``. If there are no
        trackers, ``examine`` is not called."""
        if not self._open:
            return
        try:
            found = examine()
        except Exception as error:  # noqa: BLE001 - the run itself succeeded, and `outrider report` shows the error
            self._say(f"warning: trackers get no findings, because the run cannot be checked: {_reason(error)}")
            return
        self._each(lambda tracker: tracker.table(step, FINDINGS, found))

    def close(self) -> None:
        """Flush and close all trackers. A second call has no effect."""
        self._each(lambda tracker: tracker.close())
        self._open = {}

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._open.items()):
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001 - no error of a tracker may end the run
                del self._open[name]
                self._say(
                    f"warning: tracker {name!r} failed and is stopped ({_reason(error)}); the run continues, and its "
                    "folder has all data"
                )


def evaluation_metrics(evaluation: Evaluation) -> dict[str, float]:
    """Return an evaluation's metrics: pass@k for each measured k, the accuracy of greedy decoding and of majority vote,
    the entropy, and the share of truncated responses. Names begin with ``evaluate/``. Undefined values are excluded.

    >>> from outrider.measure.evaluation import of_tallies
    >>> evaluation_metrics(of_tallies([], resamples=0))
    {}
    """
    overall = evaluation.overall
    named = {f"pass@{k}": interval.value for k, interval in overall.pass_at.items()}
    named |= {"greedy": overall.greedy.value, "majority": overall.majority.value}
    named |= {"entropy": overall.entropy, "truncated": overall.truncated}
    return {f"evaluate/{name}": float(value) for name, value in named.items() if value == value}


def _reason(error: Exception) -> str:
    """Return the type and the first line of an error."""
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
