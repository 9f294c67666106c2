"""Core data types: problems, requests, rollouts, verdicts and groups, and their storage on disk."""

from outrider.record.group import Group, group_id
from outrider.record.identity import identity_seed, uniforms
from outrider.record.problem import Problem
from outrider.record.request import Prefix, SampleRequest
from outrider.record.rollout import Observation, Rollout, StopReason
from outrider.record.sampling import PLAIN, RAW, Context, Ids, Mode, SamplingParams
from outrider.record.verdict import Outcome, Verdict, correct, incorrect, unparseable

__all__ = [
    "PLAIN",
    "RAW",
    "Context",
    "Group",
    "Ids",
    "Mode",
    "Observation",
    "Outcome",
    "Prefix",
    "Problem",
    "Rollout",
    "SampleRequest",
    "SamplingParams",
    "StopReason",
    "Verdict",
    "correct",
    "group_id",
    "identity_seed",
    "incorrect",
    "uniforms",
    "unparseable",
]
