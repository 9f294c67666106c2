"""The viewer on a run of a million rollouts: seconds until it answers, of each kind of page, and its memory.

A made-up run of 1,000 steps with 1,000 rollouts each, 150 tokens a response on average, is written once into a
temporary folder (2 GB; a few minutes); then one process opens it as `outrider view` does and asks for pages as a
browser would. ``seconds``: median and largest of three; a text that is searched for in all files is answered by what
was found in 0.3 s, and ``searched_seconds`` is the time until such a search has ended. ``memory_gib``: peak memory of
that process before the first request for findings, and ``memory_with_findings_gib`` with them; as in the viewer,
PyTorch is not loaded. ``findings_seconds``: time until all checks have run.

Usage: ``python benchmarks/view.py [rollouts] [folder that keeps the run]``.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.testclient import TestClient

from outrider.model.places import local_tokenizer
from outrider.record.store import SCHEMA
from outrider.view.application import Application
from outrider.view.opened_run import OpenedRun

A_STEP, PROBLEMS, TOKENS = 1000, 20_000, 150
WORDS = ["Ben", "has", "12", "+", "5", "=", "17", "cards", "so", "the", "answer", "is", "and", "then", "we", "get"]


def step_table(step: int, rng: np.random.Generator) -> pa.Table:
    """The rollouts of a step, of groups of eight."""
    lengths = rng.integers(20, 2 * TOKENS - 20, A_STEP)
    total = int(lengths.sum())
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    problems = np.repeat(rng.choice(PROBLEMS, A_STEP // 8), 8)
    members = np.tile(np.arange(8), A_STEP // 8)
    words = np.array(WORDS)[rng.integers(0, len(WORDS), total)]
    correct = rng.random(A_STEP) < 0.3
    ragged = {
        "token_ids": rng.integers(3, 32, total, dtype=np.int32),
        "logprobs": -rng.exponential(0.5, total).astype(np.float32),
        "entropies": rng.exponential(0.5, total).astype(np.float32),
        "prompt_ids": rng.integers(3, 32, 40 * A_STEP, dtype=np.int32),
    }
    columns: dict[str, Any] = {
        "step": np.full(A_STEP, step),
        "level": [str(p % 5) for p in problems],
        "problem_id": [f"made-up:{p:08x}" for p in problems],
        "group_id": [f"train:{step}:made-up:{p:08x}" for p in problems],
        "member": members,
        "text": [" ".join(words[a:b]) for a, b in pairwise(offsets)],
        "outcome": np.where(correct, "correct", "incorrect"),
        "reward": correct.astype(float),
        "advantage": rng.normal(size=A_STEP),
        "stop": ["stop"] * A_STEP,
        "stream": ["main"] * A_STEP,
        "stage": ["0-uniform"] * A_STEP,
        "context_kind": ["plain"] * A_STEP,
        "seed": np.arange(A_STEP),
    }
    arrays = []
    for field in SCHEMA:
        if field.name in ragged:
            ends = np.arange(A_STEP + 1, dtype=np.int32) * 40 if field.name == "prompt_ids" else offsets
            arrays.append(pa.ListArray.from_arrays(pa.array(ends), pa.array(ragged[field.name]), type=field.type))
        elif field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            empty: Any = [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
            arrays.append(pa.array([None if field.nullable else empty] * A_STEP, field.type))
    return pa.table(arrays, schema=SCHEMA)


def write_run(folder: Path, rollouts: int) -> None:
    rng = np.random.default_rng(0)
    (folder / "rollouts").mkdir(parents=True)
    (folder / "config.yaml").write_text("name: made-up\nmodel: base:countdown\nexplore: []\n")
    for step in range(1, rollouts // A_STEP + 1):
        place = folder / "rollouts" / f"train-{step:08d}.parquet"
        pq.write_table(step_table(step, rng), place, compression="zstd", use_dictionary=False, write_statistics=False)


PAGES = {
    "rollouts, first page": "/run/0/rollouts",
    "rollouts by entropy": "/run/0/rollouts?sort=-entropy",
    "correct ones of 100 steps by length": "/run/0/rollouts?verdict=correct&step=200..300&sort=-tokens",
    "one problem's rollouts": "/run/0/rollouts?problem=PROBLEM",
    "page 1,000": "/run/0/rollouts?sort=advantage&page=1000",
    "text in one step": "/run/0/rollouts?text=cards+so+the&step=7",
    "text in all": "/run/0/rollouts?text=cards+so+the+answer",
    "text that is nowhere": "/run/0/rollouts?text=nothing+has+this",
    "a rollout": "",
    "problems": "/run/0/problems",
    "a problem": "/run/0/problem?id=PROBLEM",
    "overview": "/run/0/",
}


def measure(folder: Path, rollouts: int) -> dict[str, Any]:
    begun = time.perf_counter()
    run = OpenedRun(folder)
    opened = time.perf_counter() - begun
    application = Application([run], local_tokenizer)
    begun = time.perf_counter()
    application.prepare()  # the server does it in a thread, while the browser starts
    prepared = time.perf_counter() - begun
    client = TestClient(application.app(), base_url="http://localhost")
    one = run.rows("SELECT group_id, problem_id, step FROM seen WHERE member = 0 ORDER BY step DESC LIMIT 1")[0]
    pages = {name: address.replace("PROBLEM", one["problem_id"]) for name, address in PAGES.items()}
    pages["a rollout"] = f"/run/0/rollout?split=train&step={one['step']}&id={one['group_id']}/0"
    seconds = {}
    for name, address in pages.items():
        taken = []
        for _ in range(3):
            begun = time.perf_counter()
            answer = client.get(address)
            taken.append(time.perf_counter() - begun)
            assert answer.status_code == 200, (address, answer.text[-500:])
        seconds[name] = {"median": round(statistics.median(taken), 3), "max": round(max(taken), 3)}
        print(name, seconds[name], flush=True)
    begun = time.perf_counter()
    run.search(
        "a text of its own", sorted({row["file"] for row in run.rows("SELECT DISTINCT file FROM seen")})
    ).searched(None)
    searched = time.perf_counter() - begun
    memory = peak_gib()
    begun = time.perf_counter()
    findings = application.findings[0]
    while (found := findings.now()).version != run.version:
        time.sleep(0.1)
    assert found.report is not None, found.problem
    examined = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in (folder / "rollouts").iterdir())
    return {
        "rollouts": run.count(),
        "gigabytes": round(size / 1e9, 2),
        "opened_seconds": round(opened, 1),
        "prepared_seconds": round(prepared, 1),
        "searched_seconds": round(searched, 1),
        "findings_seconds": round(examined, 1),
        "seconds": seconds,
        "memory_gib": round(memory, 2),
        "memory_with_findings_gib": round(peak_gib(), 2),
    }


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)  # ru_maxrss is in KiB


def main() -> None:
    rollouts = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2]) if sys.argv[2:] else Path(temporary) / "run"
        if not folder.exists():
            write_run(folder, rollouts)
        measured = measure(folder, rollouts)
        from _machine import keep  # loads PyTorch, whose memory the viewer does not take

        keep("view", measured)


if __name__ == "__main__":
    main()
