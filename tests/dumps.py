"""Writers of rollout dumps in the formats of other frameworks, key by key as those write them.

Where a framework is installed, ``test_importer_formats`` has the framework's own code write such a file.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from outrider.importers import read
from outrider.importers.plain import PLAIN

Message = dict[str, Any]

CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}]
TURNS = [
    {"role": "assistant", "content": "I ask.", "tool_calls": [{"function": {"name": "add", "arguments": '{"a": 2}'}}]},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": "Vier: 四\u2028."},
]
TURNS_TEXT = '[assistant]\nI ask.\n[call add({"a": 2})]\n\n[tool]\n4\n\n[assistant]\nVier: 四\u2028.'


def rows(*args: Any, **options: Any) -> list[dict[str, Any]]:
    """What was read, row by row; the schema holds for every test."""
    found = read(*args, **options)
    assert found.rollouts.schema == PLAIN
    found.rollouts.validate(full=True)
    assert not any(found.rollouts[f.name].null_count for f in PLAIN if not f.nullable)
    return found.rollouts.to_pylist()


def column(found: list[dict[str, Any]], *names: str) -> list[Any]:
    return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in found]


def said(found: Any, *words: str) -> bool:
    return any(all(word in note for word in words) for note in found.notes)


def lines(path: Path, records: Iterable[Any], end: str = "\n") -> Path:
    """JSON lines, unescaped as most frameworks write them; a str is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    path.write_text("\n".join(texts) + (end if texts else ""), encoding="utf-8", newline="")
    return path


def trl(folder: Path, step: int, rewards: Mapping[str, Sequence[float | None]], **columns: Any) -> Path:
    """``prompt`` and ``completion`` are texts or messages; ``advantage`` and extra columns are optional."""
    prompt, completion = columns.pop("prompt"), columns.pop("completion")
    advantage = columns.pop("advantage", None)
    table = {"step": pa.array([step] * len(prompt), pa.int64()), "prompt": pa.array(prompt)}
    table |= {"completion": pa.array(completion)}
    table |= {name: pa.array(values, pa.float64()) for name, values in rewards.items()}
    table |= {name: pa.array(values) for name, values in columns.items()}
    if advantage is not None:
        table["advantage"] = pa.array(advantage, pa.float64())
    path = folder / "completions" / f"completions_{step:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), path)
    return path


def verl(step: int, prompt: str, output: str, score: float, **extra: Any) -> dict[str, Any]:
    return {"input": prompt, "output": output, "gts": "4", "score": score, "step": step, **extra}


def vf_result(example: int, reward: float, prompt: Any = None, completion: Any = None, **extra: Any) -> dict[str, Any]:
    return {
        "example_id": example,
        "prompt": prompt or [{"role": "user", "content": f"What is {example}?"}],
        "completion": completion or [{"role": "assistant", "content": f"It is {example}."}],
        "reward": reward,
        "error": None,
        "timing": {"start_time": 0.0, "generation_ms": 12.0, "scoring_ms": 1.0, "total_ms": 13.0},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "metrics": {"exact": reward},
        "tool_defs": None,
        "token_usage": {"input_tokens": 9.0, "output_tokens": 5.0},
        "exact": reward,
        **extra,
    }


def node(message: Message, parent: int | None, logprobs: Sequence[float] = (), **extra: Any) -> dict[str, Any]:
    """A message of a trace; one with log-probabilities was sampled, after two tokens of the template."""
    sampled = {"sampled": True, "mask": [False, False] + [True] * len(logprobs), "logprobs": list(logprobs)}
    given = {"sampled": False, "mask": [False] * 3, "logprobs": []}
    found = {"semantic_parents": [], "message": message, "timestamp": 1.0, "is_content": []}
    found |= {"parent": parent} if parent is not None else {}
    found |= sampled if logprobs else given
    return found | {"token_ids": list(range(len(found["mask"]))), **extra}


def trace(name: str, nodes: Sequence[dict[str, Any]], rewards: Mapping[str, float], **extra: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "id": name,
        "verifiers": {"version": "0.4.0"},
        "task": {"type": "Task", "data": {"idx": 0, "prompt": "2 + 2?"}, "key": "h1", "hash": "h1"},
        "agent": {"config": {}, "name": "agent", "trainable": True},
        "tools": [],
        "nodes": list(nodes),
        "calls": [{"node": len(nodes) - 1, "finish_reason": "stop", "time": {"start": 0.0, "end": 1.0}}],
        "rewards": {name: {"score": score, "weight": 1.0} for name, score in rewards.items()},
        "metrics": {},
        "info": {},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "is_timeout": False,
        "errors": [],
        "num_input_tokens": 3,
        "num_output_tokens": 3,
        "num_total_tokens": 6,
        **extra,
    }


def episode(traces: Sequence[dict[str, Any]], work: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    run = {"type": "train", "id": "r", "work": work} if work else {"type": "eval", "id": "r"}
    return {
        "id": "e",
        "env": {"id": "gsm8k"},
        "task": {"type": "Task", "data": {"idx": 0, "prompt": "2 + 2?"}, "key": "h1", "hash": "h1"},
        "run": run,
        "ok": True,
        "is_timeout": False,
        "errors": [],
        "traces": list(traces),
        **extra,
    }


def open_instruct(step: int, prompt_idx: int, prompt: Sequence[int], response: Sequence[int], **extra: Any) -> Any:
    return {
        "step": step,
        "sample_idx": 0,
        "prompt_idx": prompt_idx,
        "prompt_tokens": list(prompt),
        "response_tokens": list(response),
        "reward": 10.0,
        "advantage": 0.5,
        "finish_reason": "stop",
        "dataset": "gsm8k",
        "ground_truth": [52],
        "request_info": None,
        "logprobs": [-0.5] * len(response),
        **extra,
    }


def lm_eval(doc: int, responses: Sequence[str], metrics: Mapping[str, Any], **extra: Any) -> dict[str, Any]:
    settings = {"until": ["\n\n"], "do_sample": False, "temperature": 0.0}
    return {
        "doc_id": doc,
        "doc": {"question": f"What is {doc}?", "level": "Level 2"},
        "target": str(doc),
        "arguments": {"gen_args_0": {"arg_0": f"Q: What is {doc}?\nA:", "arg_1": settings}},
        "resps": [list(responses)],
        "filtered_resps": [str(doc)],
        "filter": "strict-match",
        "metrics": list(metrics),
        "doc_hash": f"{doc:064x}",
        "prompt_hash": f"{doc + 1:064x}",
        "target_hash": f"{doc + 2:064x}",
        **metrics,
        **extra,
    }


def lm_eval_choices(doc: int) -> dict[str, Any]:
    """A question with given answers: likelihoods, and nothing that was sampled."""
    record = lm_eval(doc, [], {"acc": 1.0})
    requests = {f"gen_args_{i}": {"arg_0": "Q:", "arg_1": f" {i}"} for i in range(2)}
    return record | {"arguments": requests, "resps": [[["-1.0", "True"]], [["-2.0", "False"]]]}


def inspect_sample(name: int | str, epoch: int, scores: Mapping[str, Any], **extra: Any) -> dict[str, Any]:
    question = {"id": "m0", "content": "2 + 2?", "source": "input", "role": "user"}
    answer = {"id": "m1", "content": "It is 4.", "source": "generate", "role": "assistant", "model": "m/one"}
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    return {
        "id": name,
        "epoch": epoch,
        "input": "2 + 2?",
        "target": "4",
        "messages": [question, answer],
        "output": {
            "model": "m/one",
            "choices": [{"message": answer, "stop_reason": "stop"}],
            "completion": "It is 4.",
            "usage": usage,
        },
        "scores": {name: {"value": value, "answer": "4", "history": []} for name, value in scores.items()},
        "metadata": {},
        "store": {},
        "events": [],
        "model_usage": {"m/one": usage},
        "uuid": f"{name}-{epoch}",
        "attachments": {},
        **extra,
    }


def inspect_header(task: str = "sums", model: str = "m/one") -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": task, "model": model, "created": "2026-11-21"}}


def inspect_json(path: Path, samples: Sequence[dict[str, Any]], **header: str) -> Path:
    path.write_text(json.dumps(inspect_header(**header) | {"samples": list(samples), "reductions": None}, indent=2))
    return path


def inspect_eval(path: Path, samples: Sequence[dict[str, Any]], zstd: bool = True, **header: str) -> Path:
    """As Inspect writes it: a journal, the samples, summaries and the header at the end."""
    found = inspect_header(**header)
    files = [("_journal/start.json", {"version": 2, "eval": found["eval"], "plan": {}})]
    files += [(f"samples/{s['id']}_epoch_{s['epoch']}.json", s) for s in samples]
    files += [("summaries.json", []), ("header.json", found)]
    data = [(name, json.dumps(content).encode()) for name, content in files]
    if zstd:
        path.write_bytes(_zstd_zip(data))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in data:
            archive.writestr(name, content)
    return path


def _zstd_zip(files: Sequence[tuple[str, bytes]]) -> bytes:
    """A ZIP of method 93, written byte by byte, as Python's module does not know the method before 3.14."""
    body, directory = b"", b""
    for name, content in files:
        packed = pa.Codec("zstd").compress(content, asbytes=True)
        told = name.encode()
        sizes = struct.pack("<III", zlib.crc32(content), len(packed), len(content))
        fields = struct.pack("<HHHHH", 63, 0, 93, 0, 33) + sizes
        extra = b"\0\0\0\0" if name == "header.json" else b""  # the local header may be longer than the directory's
        at = struct.pack("<HHHHII", 0, 0, 0, 0, 0, len(body))
        directory += b"PK\1\2" + struct.pack("<H", 63) + fields + struct.pack("<H", len(told)) + at + told
        body += b"PK\3\4" + fields + struct.pack("<HH", len(told), len(extra)) + told + extra + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + end


def one_of_each(folder: Path) -> dict[str, Path]:
    """A small dump of every format, and a second shape where a format has one."""
    nodes = [node(CHAT[1], None), node(TURNS[2], 0, [-0.5])]
    traces = [trace("t", nodes, {"r": 1.0})]
    samples = [inspect_sample(1, 1, {"match": "C"})]
    return {
        "trl": trl(folder / "trl", 1, {"acc": [1.0]}, prompt=["p"], completion=["c"], advantage=[0.0]),
        "verl": lines(folder / "verl", [verl(1, "p", "o", 1.0)]),
        "verifiers": lines(folder / "vf", [vf_result(1, 1.0)]),
        "verifiers/episodes": lines(folder / "episodes", [episode(traces)]),
        "verifiers/traces": lines(folder / "traces", traces),
        "open-instruct": lines(folder / "oi", [open_instruct(1, 0, [1], [2])]),
        "lm-eval": lines(folder / "lm", [lm_eval(1, ["o"], {"acc": 1.0})]),
        "inspect": inspect_eval(folder / "log", samples),
        "inspect/deflate": inspect_eval(folder / "old", samples, zstd=False),
        "inspect/json": inspect_json(folder / "json", samples),
    }
