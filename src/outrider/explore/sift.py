"""Response filter for rejection fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from outrider.explore.bounds import Bounds
from outrider.explore.stage import Stage
from outrider.explore.view import View
from outrider.record import Group, Outcome, Rollout, SampleRequest
from outrider.texts import first_box_end, redundancy


class Sift(Stage):
    """Drops responses that are unfit for imitation, whether correct or not. The recorded reason is the first that
    applies:

    * ``unscorable``: the verifier failed or timed out;
    * ``no answer``: the verifier found no answer;
    * ``no digit``: the response contains no digit (``digit``);
    * ``repetitive``: the share of the response's word 3-grams that repeat an earlier one is above ``redundancy``. This
      rule does not apply to responses with fewer than 50 3-grams.

    The last two rules ignore text after the end of the first ``\\boxed{…}``: the credit component ``until_box``
    excludes this text from training.

    The stage does not sample rollouts. Dropped responses are still saved in the run folder and count in baselines, and
    their tokens count as generated.

    Source: the filters of rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1. The report does not
    define redundancy; :func:`outrider.texts.redundancy` is our choice. The report's fourth rule, not to imitate text
    after the first answer, is implemented by ``until_box`` (in ``credit``).
    """

    digit: bool = Field(True, description="whether to drop responses that contain no digit")
    redundancy: float | None = Field(
        0.31,
        ge=0,
        le=1,
        description=(
            "fraction of repeated word 3-grams above which a response is dropped as repetitive; null: drop no "
            "repetitive responses"
        ),
    )

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before

    def plan(self, view: View) -> list[SampleRequest]:
        return []

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        reasons = {r.id: self._reason(r) for group in groups for r in group.rollouts if not r.unused}
        return {id: reason for id, reason in reasons.items() if reason}

    def _reason(self, rollout: Rollout) -> str:
        whole = rollout.prefix_text + rollout.text
        text = whole[: first_box_end(whole)]
        if rollout.verdict is None or rollout.verdict.outcome in (Outcome.TIMEOUT, Outcome.ERROR):
            return "sift: unscorable"
        if rollout.verdict.outcome is Outcome.UNPARSEABLE:
            return "sift: no answer"
        if self.digit and not any(character.isdigit() for character in text):
            return "sift: no digit"
        repeated = None if self.redundancy is None else redundancy(text)
        return "sift: repetitive" if repeated is not None and repeated > (self.redundancy or 0.0) else ""
