"""Schema of the rollout table, with one row per rollout. Importers convert all formats to this table, from which
reports are made."""

from __future__ import annotations

import pyarrow as pa

PLAIN = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),       # "train", "evaluate" or "greedy"
        pa.field("step", pa.int64(), nullable=False),         # training step; 0 if there is only one step
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("group_id", pa.string(), nullable=False),    # the rollouts of one problem in one step
        pa.field("member", pa.int32(), nullable=False),
        pa.field("level", pa.string()),
        pa.field("test_set", pa.string()),                    # task or environment, if the files have several
        pa.field("model", pa.string()),                       # if files have several models; ids begin with "model/"
        pa.field("stream", pa.string(), nullable=False),      # "main" unless a method has several streams
        pa.field("stage", pa.string(), nullable=False),       # "" if unknown
        pa.field("context", pa.string(), nullable=False),     # "plain" or "seeded"
        pa.field("parent", pa.string()),                      # "group_id/member" of the rollout that a branch continues
        pa.field("branch_at", pa.int32(), nullable=False),
        pa.field("prompt", pa.string()),
        pa.field("text", pa.string()),                        # response without prefix; null: not in the files
        pa.field("tokens", pa.int32()),                       # sampled tokens in `text`; null: unknown
        pa.field("turns", pa.int32()),                        # turns in `text`; null: unknown
        pa.field("observed", pa.int32()),                     # environment tokens in `text`
        pa.field("turn_errors", pa.int32()),                  # turns with an invalid request to an environment
        pa.field("entropy", pa.float64()),                    # mean full-distribution entropy, nats per sampled token
        pa.field("logprob", pa.float64()),                    # mean log-probability per sampled token, at sampling
        pa.field("outcome", pa.string()),                     # a verdict's outcome; null: never verified
        pa.field("reward", pa.float64()),                     # null: no reward; NaN: the verifier failed
        pa.field("advantage", pa.float64()),
        pa.field("predicted", pa.float64()),                  # the problem's pass rate as predicted by a planner
        pa.field("answer", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("seconds", pa.float64()),                    # run time of the verifier
        pa.field("stop", pa.string()),                        # a StopReason; null: unknown
        pa.field("policy_version", pa.int64()),
        pa.field("unused", pa.string(), nullable=False),      # why the rollout was not trained on; "" if trained on
    ]
)  # fmt: skip
