"""Credit: from the verdicts of one group to one advantage per trained token. NumPy only, pure functions."""

from outrider.credit.chain import Baseline, Shaper, advantages
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members, members_by_stream

BASELINES: dict[str, type[Baseline]] = {"group_mean": GroupMean}
SHAPERS: dict[str, type[Shaper]] = {}

__all__ = ["BASELINES", "SHAPERS", "Baseline", "GroupMean", "Members", "Shaper", "advantages", "members_by_stream"]
