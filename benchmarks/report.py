"""A million rollouts, reported: wall time and peak memory of ``outrider report`` in a process of its own.

Bound: 60 s and 2 GB on two cores. The run is made up: one Parquet file a step as training leaves them, groups of eight,
60 to 300 tokens a rollout with log-probabilities and entropies, text of about three letters a token.

Usage: ``python benchmarks/report.py [rollouts] [files]``; files default to one for every thousand rollouts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _machine import keep

from outrider.record.store import SCHEMA

GROUP, PROMPT = 8, 40
PROBLEMS = 20_000
_COMMAND = "import sys; from outrider.cli import main; sys.exit(main(sys.argv[1:]))"


def make_run(folder: Path, rollouts: int, files: int, seed: int = 0) -> int:
    """Write a run whose policy learns and whose entropy falls, and return its tokens."""
    rng = np.random.default_rng(seed)
    ability_P = rng.normal(-1.0, 1.5, PROBLEMS)
    pool = np.frombuffer(bytes(rng.choice(list(b"abcdefghij  0123456789=+-*()\n"), 2**22).tolist()), np.uint8)
    tokens, lines = 0, []
    (folder / "rollouts").mkdir(parents=True)
    (folder / "config.yaml").write_text("name: made-up\nseed: 0\nexplore:\n- uniform:\n    n: 8\n")
    for step in range(1, files + 1):
        rows = rollouts * step // files // GROUP * GROUP - rollouts * (step - 1) // files // GROUP * GROUP
        table, success = _step(rng, step, rows, step / files, ability_P, pool)
        tokens += len(table["token_ids"].combine_chunks().values)
        lines.append(json.dumps({"step": step, "tokens": tokens, "reward": success, "success": success}))
        pq.write_table(
            table, folder / "rollouts" / f"train-{step:08d}.parquet",
            compression="zstd", use_dictionary=False, write_statistics=False, write_page_checksum=True,
        )  # fmt: skip
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return tokens


def _step(rng: np.random.Generator, step: int, rows: int, progress: float, ability_P, pool) -> tuple[pa.Table, float]:
    """One step's rollouts: success by ability and progress, and lengths, entropies and answers that go with it."""
    problem_G = rng.integers(PROBLEMS, size=rows // GROUP).repeat(GROUP)
    member_G = np.tile(np.arange(GROUP, dtype=np.int32), rows // GROUP)
    correct_G = rng.random(rows) < 1 / (1 + np.exp(-(ability_P[problem_G] + 2 * progress)))
    length_G = rng.integers(60, 301, rows).astype(np.int32)
    truncated_G = length_G > 297
    correct_G &= ~truncated_G
    mixed_G = (correct_G.reshape(-1, GROUP).mean(1, keepdims=True) % 1 > 0).repeat(GROUP)
    centred = correct_G - correct_G.reshape(-1, GROUP).mean(1).repeat(GROUP)
    total = int(length_G.sum())
    entropy_T = rng.gamma(0.3, (1 - 0.6 * progress), total).astype(np.float32)
    problems = [f"made-up:{p:07d}" for p in problem_G]
    answers = np.where(correct_G, "right", np.char.add("wrong ", rng.integers(9, size=rows).astype(str)))
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.int32()))
    columns: dict[str, object] = {
        "step": np.full(rows, step),
        "level": [f"level {p % 5}" for p in problem_G],
        "problem_id": problems,
        "group_id": [f"train:{step}:{p}:{i // GROUP}" for i, p in enumerate(problems)],
        "member": member_G,
        "prompt_ids": _ragged(rng.integers(32, size=rows * PROMPT, dtype=np.int32), np.full(rows, PROMPT)),
        "prefix_ids": empty,
        "token_ids": _ragged(rng.integers(32_000, size=total, dtype=np.int32), length_G),
        "logprobs": _ragged(-entropy_T * rng.random(total, dtype=np.float32), length_G),
        "entropies": _ragged(entropy_T, length_G),
        "temperature": np.ones(rows),
        "top_p": np.ones(rows),
        "top_k": np.zeros(rows, np.int32),
        "trainable": pa.nulls(rows, SCHEMA.field("trainable").type),
        "parent": pa.nulls(rows, pa.string()),
        "branch_at": np.zeros(rows, np.int32),
        "context_kind": ["plain"] * rows,
        "context_exemplars": pa.array([[]] * rows, SCHEMA.field("context_exemplars").type),
        "context_trained": [""] * rows,
        "stream": ["main"] * rows,
        "stage": ["0-uniform"] * rows,
        "policy_version": np.full(rows, step - 1),
        "seed": rng.integers(2**62, size=rows),
        "stop": np.where(truncated_G, "length", "stop"),
        "text": _texts(rng, pool, 3 * length_G),
        "prefix_text": [""] * rows,
        "outcome": np.where(correct_G, "correct", np.where(rng.random(rows) < 0.02, "unparseable", "incorrect")),
        "score": correct_G.astype(np.float64),
        "seconds": rng.gamma(1.0, 0.01, rows),
        "answer": answers,
        "detail": np.where(correct_G, "", "not the answer"),
        "reward": correct_G.astype(np.float64),
        "advantage": pa.array(centred, mask=~mixed_G),
        "unused": np.where(mixed_G, "", "no advantage"),
    }
    arrays = [pa.array(columns[f.name]).cast(f.type) for f in SCHEMA]
    return pa.table(arrays, schema=SCHEMA), float(correct_G.mean())


def _ragged(flat: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)), pa.array(flat)
    )


def _texts(rng: np.random.Generator, pool: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Slices of the pool from anywhere, without a Python string per rollout."""
    starts = rng.integers(len(pool) - lengths.max(), size=len(lengths))
    data = np.concatenate([pool[s : s + n] for s, n in zip(starts, lengths, strict=True)])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def main() -> None:
    rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    files = int(sys.argv[2]) if len(sys.argv) > 2 else max(1, rollouts // 1000)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        start = time.perf_counter()
        tokens = make_run(run, rollouts, files)
        made = time.perf_counter() - start
        size = sum(path.stat().st_size for path in run.rglob("*.parquet"))
        print(f"{rollouts:,} rollouts, {tokens:,} tokens in {files} files made in {made:.0f} s", flush=True)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _COMMAND, "report", str(run)], check=True)
        seconds = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = used.ru_maxrss * 1024
        page = (run / "report.html").stat().st_size
    keep(
        "report",
        {
            "rollouts": rollouts,
            "tokens": tokens,
            "files": files,
            "gigabytes_of_parquet": round(size / 1e9, 2),
            "seconds": round(seconds, 1),
            "cpu_seconds": round(
                used.ru_utime + used.ru_stime, 1
            ),  # on a busy machine, what it would need of a free one
            "peak_gigabytes": round(peak / 1e9, 2),
            "page_megabytes": round(page / 1e6, 2),
            "within_bounds": seconds < 60 and peak < 2e9,
            "libraries": {name: version(name) for name in ("duckdb", "pyarrow", "plotly")},
        },
    )


if __name__ == "__main__":
    main()
