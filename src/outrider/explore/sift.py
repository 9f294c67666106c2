"""Rules that a response has to pass before it is imitated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from outrider.explore.bounds import Bounds
from outrider.explore.stage import Stage
from outrider.explore.view import View
from outrider.record import Group, Outcome, Rollout, SampleRequest
from outrider.texts import first_box_end, redundancy


class Sift(Stage):
    """Leaves out every response that is not fit to be imitated, right or wrong, with the first reason that holds:

    * ``unscorable``: the verifier failed, or hung;
    * ``no answer``: it found none in it;
    * ``no digit``;
    * ``repetitive``: of its 3-grams of words, a share above ``redundancy`` repeats an earlier one. Fewer than 50 say
      nothing.

    What stands behind the first box is not looked at: it is not imitated (``until_box``).

    It asks for no rollouts. What is excluded stays on record, counts in baselines, and costs what it cost.

    Source: the filters of rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1, which does not define
    its redundancy (:func:`outrider.texts.redundancy`). Its fourth rule, that nothing behind the first answer is
    imitated, is the shaper ``until_box``.
    """

    digit: bool = Field(True, description="only responses that contain a digit")
    redundancy: float | None = Field(0.31, ge=0, le=1, description="maximum share of repeated 3-grams; null: no limit")

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
