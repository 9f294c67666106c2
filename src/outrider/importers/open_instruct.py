"""Reads open-instruct's GRPO traces: ``<rollouts_save_path>/<run>_rollouts_<shard>.jsonl`` from ``--save_traces``.

The format is that of commit e6c3044a (August 2026): ``step``, ``sample_idx``, ``prompt_idx``, ``prompt_tokens``,
``response_tokens``, ``reward``, ``advantage``, ``finish_reason``, ``dataset``, ``ground_truth``, ``request_info``,
``logprobs``. The files contain no texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.importers.apart import OneRun
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.lines import in_form, json_lines
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow

STOPS = {"stop": "stop", "length": "length"}


def recognises(head: Head) -> bool:
    """Whether a file is JSON lines with the tokens of a prompt and of a response."""
    return head.kind == "json" and {"prompt_tokens", "response_tokens", "reward"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield open-instruct's rollouts. A group consists of all responses to one prompt in one step's batch.

    The text of a rollout is replaced by the list of its token ids, written as decimal numbers. Equal texts have equal
    lists, so duplicate responses are found, and rollouts with equal prompts belong to the same problem.
    """
    run = OneRun()
    for path in paths:
        for data, where in json_lines(path, notes):
            with in_form(where, "open-instruct"):
                values = _values(data)
                run.check("train", values["step"], f"{path.parent}/{path.stem.rpartition('_rollouts_')[0]}", path)
                called = (data.get("request_info") or {}).get("tool_calleds")
            notes.say("Texts are token ids, because open-instruct saves no texts.")
            if called:
                notes.count(
                    "rollout called tools, and its tokens include what they returned",
                    "rollouts called tools, and their tokens include what those returned",
                )
            yield ImportedRow(values, data, where)


def _values(data: Mapping[str, Any]) -> dict[str, Any]:
    prompt, response = data["prompt_tokens"], data["response_tokens"]
    logprobs = data.get("logprobs")
    return {
        "split": "train",
        "step": data.get("step"),
        "group": data.get("prompt_idx"),
        "prompt": " ".join(map(str, prompt)),
        "text": " ".join(map(str, response)),
        "tokens": len(response),
        "logprob": sum(logprobs) / len(logprobs) if logprobs else None,
        "reward": data.get("reward"),
        "advantage": data.get("advantage"),
        "stop": STOPS.get(str(data.get("finish_reason"))),
    }
