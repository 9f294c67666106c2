"""The plain table of rollouts, which a report reads from any framework."""

from __future__ import annotations

import pyarrow as pa

PLAIN = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),       # "train", "evaluate" or "greedy"
        pa.field("step", pa.int64(), nullable=False),         # training step; 0 where there is one only
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("group_id", pa.string(), nullable=False),    # the rollouts of one problem in one step
        pa.field("member", pa.int32(), nullable=False),
        pa.field("level", pa.string()),
        pa.field("test_set", pa.string()),                    # task or environment, where the dump tells several apart
        pa.field("model", pa.string()),                       # where it holds several: then ids begin with "model/"
        pa.field("stream", pa.string(), nullable=False),      # "main" unless a method has more
        pa.field("stage", pa.string(), nullable=False),       # "" unless known
        pa.field("context", pa.string(), nullable=False),     # "plain" or "seeded"
        pa.field("parent", pa.string()),                      # "group_id/member" that a branch continues
        pa.field("branch_at", pa.int32(), nullable=False),
        pa.field("prompt", pa.string()),
        pa.field("text", pa.string()),                        # own part of the response; null: not in the dump
        pa.field("tokens", pa.int32()),                       # own tokens, sampled; null where the dump does not say
        pa.field("turns", pa.int32()),                        # own turns; null where the dump does not say
        pa.field("observed", pa.int32()),                     # tokens that an environment said among the own ones
        pa.field("turn_errors", pa.int32()),                  # turns that asked for what cannot be had
        pa.field("entropy", pa.float64()),                    # mean nats of an own token, of the full distribution
        pa.field("logprob", pa.float64()),                    # mean log-probability of an own token, as sampled
        pa.field("outcome", pa.string()),                     # a verdict's outcome; null: never verified
        pa.field("reward", pa.float64()),                     # null: none; NaN: unscorable
        pa.field("advantage", pa.float64()),
        pa.field("predicted", pa.float64()),                  # pass rate that a planner predicted of the problem
        pa.field("answer", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("seconds", pa.float64()),                    # of the verifier
        pa.field("stop", pa.string()),                        # a StopReason; null: unknown
        pa.field("policy_version", pa.int64()),
        pa.field("unused", pa.string(), nullable=False),      # why it was not trained on; "" if it was
    ]
)  # fmt: skip
