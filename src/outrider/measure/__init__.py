"""Metrics of verified rollouts: pass@k, and the accuracy of majority vote and greedy decoding, with confidence
intervals.

This package needs only NumPy. Tables are in :mod:`outrider.measure.table`, which must be imported separately because it
needs rich.
"""

from outrider.measure.bootstrap import Interval, bootstrap_difference, bootstrap_mean
from outrider.measure.compare import Change, Comparison, compare
from outrider.measure.evaluation import Evaluation, Summary, evaluate
from outrider.measure.gpass import g_pass_at_k, mg_pass_at_k
from outrider.measure.majority import majority
from outrider.measure.passk import pass_at_k, pass_power_k, powers_of_two
from outrider.measure.tally import Tally

__all__ = [
    "Change",
    "Comparison",
    "Evaluation",
    "Interval",
    "Summary",
    "Tally",
    "bootstrap_difference",
    "bootstrap_mean",
    "compare",
    "evaluate",
    "g_pass_at_k",
    "majority",
    "mg_pass_at_k",
    "pass_at_k",
    "pass_power_k",
    "powers_of_two",
]
