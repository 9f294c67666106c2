"""Converts the rows of a step to the format of verl's TransferQueue. Experimental.

Each row has the key ``{uid of a prompt}_{session}_0``, where ``session`` numbers the rows with the same ``uid``. The
problems of the rows come from the recipe's task. In training, a row may therefore belong to a different problem from
verl's prompt with this ``uid``. If a rollout continues a prefix of another rollout, the prefix is part of the row's
prompt in the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from outrider.integrations.verl_advantages import reward_of
from outrider.record.row import WeightedRow


class QueuedRow(NamedTuple):
    """A row in the queue, with its key, its fields and its tag."""

    key: str
    fields: dict[str, Any]
    tag: dict[str, Any]


def session_keys(uids: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return a key ``{uid}_{session}_0`` for each row. Groups get the uids in round-robin order, and the rows of one
    uid are numbered.

    >>> session_keys(["u", "v"], ["a", "a", "b", "c", "b"])
    ['u_0_0', 'u_1_0', 'v_0_0', 'u_2_0', 'v_1_0']
    """
    prompt_of = {group: uids[i % len(uids)] for i, group in enumerate(dict.fromkeys(groups))}
    sessions: Counter[str] = Counter()
    keys = []
    for group in groups:
        uid = prompt_of[group]
        keys.append(f"{uid}_{sessions[uid]}_0")
        sessions[uid] += 1
    return keys


def queued(row: WeightedRow, key: str, uid: str, step: int, version: int, also: Mapping[str, Any]) -> QueuedRow:
    """Return a row in the format that verl's own workers produce.

    Args:
        key: the row's key in the queue.
        uid: the row's id, with which Outrider's estimator looks up the stored advantages.
        version: the version of the weights that sampled the row.
        also: the row's values for verl's ``reward_extra_info``.
    """
    from verl.experimental.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

    output = AgentLoopOutput(
        prompt_ids=row.context_ids.tolist(),
        response_ids=row.token_ids.tolist(),
        response_mask=row.trainable_N.astype(int).tolist(),
        response_logprobs=row.old_logprobs_N.tolist(),
        reward_score=reward_of(row),
        num_turns=2,
        metrics=AgentLoopMetrics(),
        extra_fields={"min_global_steps": version, "max_global_steps": version, "reward_extra_info": dict(also)},
    )
    fields = output.as_dict()
    ids = torch.cat([fields["prompts"], fields["responses"]])
    fields |= {
        "uid": uid,
        "session_id": int(key.split("_")[1]),
        "loss_mask": fields["response_mask"],
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "multi_modal_inputs": {},
        "data_source": "outrider",
        "reward_model": {"style": "rule", "ground_truth": ""},
    }
    tag = {
        "status": "success",
        "prompt_len": len(row.context_ids),
        "response_len": len(row.token_ids),
        "seq_len": row.length,
        "global_steps": step,
        "min_global_steps": version,
        "max_global_steps": version,
    }
    return QueuedRow(key, fields, tag)


def put_rows(rows: Sequence[QueuedRow], uids: Sequence[str], partition: str) -> None:
    """Write the rows, and then mark their prompts as finished, so that no reader sees an incomplete step."""
    import transfer_queue as tq
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    tq.kv_batch_put(
        keys=[row.key for row in rows],
        fields=list_of_dict_to_tensordict([row.fields for row in rows]),
        tags=[row.tag for row in rows],
        partition_id=partition,
    )
    tq.kv_batch_put(keys=list(uids), tags=[{"status": "finished"} for _ in uids], partition_id=partition)
