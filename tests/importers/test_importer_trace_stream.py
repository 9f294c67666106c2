"""prime-rl's trace stream: sealed and live chunks are read whole, updates are folded in, and a gap is said first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

import dumps
from outrider.errors import UserError
from outrider.importers import read
from outrider.report.opened import open_any

QUESTION = {"role": "user", "content": "2 + 2?"}
NODES = [dumps.node(QUESTION, None), dumps.node({"role": "assistant", "content": "4"}, 0, [-1.0, -3.0])]


def an_episode(name: str, reward: float = 1.0, kind: str = "train", step: int = 3) -> dict[str, Any]:
    """One rollout, which was dispatched in a step."""
    trace = dumps.trace(name, NODES, {"r": reward})
    return dumps.episode([trace], {"type": kind, "step": step}, id=f"e-{name}")


def sealed(path: Path, records: Sequence[Any], frame: int = 700) -> None:
    """Frames of a few bytes and a table of where they are, as the seekable form has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    frames = [zstandard.ZstdCompressor().compress(data[at : at + frame]) for at in range(0, len(data), frame)]
    skippable = b"\x5e\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"123456789"
    path.write_bytes(b"".join(frames) + skippable)


def shipped(name: str, step: int, advantage: float | None = None) -> dict[str, Any]:
    """What the orchestrator says of a rollout that goes into a batch."""
    info: dict[str, Any] = {"effective": True, "ship": {"step": step, "time": 1.0}}
    info |= {} if advantage is None else {"advantage": advantage}
    return {"version": 1, "trace_id": name, "info": info, "branches": []}


def recomputed(name: str, entropies: list[float | None]) -> dict[str, Any]:
    return {"version": 1, "trace_id": name, "info": {}, "branches": [{"index": 0, "entropies": entropies}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Five rollouts of training in two chunks and one of an evaluation; three were trained on."""
    traces = tmp_path / "run/monitors/file/traces"
    sealed(traces / "stream/00000.jsonl.zst", [an_episode("a"), an_episode("b", 0.0), an_episode("c")])
    live = [an_episode("d", 0.0, step=4), an_episode("e", step=4), an_episode("f", kind="eval", step=4)]
    dumps.lines(traces / "stream/00001.jsonl", live)
    index = [{"id": f"e-{n}", "line": i, "chunk": int(i > 2), "offset": 0} for i, n in enumerate("abcdef")]
    dumps.lines(traces / "stream.index.jsonl", index)
    orchestrator = [shipped("a", 4, 0.5), shipped("b", 4, -0.5), shipped("e", 5), shipped("e", 6, 0.25)]
    dumps.lines(traces / "annotations/orch/00000.jsonl", orchestrator)
    dumps.lines(traces / "annotations/orch.index.jsonl", [{"trace_id": "a", "chunk": 0, "offset": 0, "info": {}}])
    sealed(traces / "annotations/trainer/00000.jsonl.zst", [recomputed("a", [None, None, 0.2, 0.4, None])])
    dumps.lines(tmp_path / "run/monitors/file/metrics.jsonl", [{"step": 1, "producer": "trainer", "loss": 0.5}])
    return tmp_path / "run"


def column(found: Any, *names: str) -> list[Any]:
    rows = found.rollouts.to_pylist()
    return [tuple(row[name] for name in names) for row in rows]


def test_every_rollout_of_both_kinds_of_chunks_is_read_once(run: Path) -> None:
    found = read(run)
    assert found.format == "verifiers"
    assert column(found, "split", "reward") == [
        *(("train", 1.0), ("train", 0.0), ("train", 1.0), ("train", 0.0), ("train", 1.0)),
        ("evaluate", 1.0),
    ]
    assert not any(note.startswith("Read in part") for note in found.notes)


def test_annotations_say_what_was_trained_on_when_and_with_which_advantage(run: Path) -> None:
    found = read(run)
    unused = "not in an effective batch"
    assert column(found, "step", "advantage", "unused") == [
        (4, 0.5, ""),
        (4, -0.5, ""),
        (3, None, unused),
        (4, None, unused),
        (6, 0.25, ""),  # the newest update wins
        (4, None, ""),  # an evaluation trains nothing, which is not excluded for that
    ]
    entropies = [row[0] for row in column(found, "entropy")]
    assert entropies[0] == pytest.approx(0.3), "the mean of the known ones"
    assert entropies[1:] == [None] * 5


def test_a_chunk_that_is_being_sealed_is_no_second_copy(run: Path) -> None:
    stream = run / "monitors/file/traces/stream"
    sealed(stream / "00001.jsonl.zst", [json.loads(line) for line in (stream / "00001.jsonl").read_text().splitlines()])
    (stream / "00002.jsonl.zst.tmp").write_bytes(b"half")
    found = read(run)
    assert found.rollouts.num_rows == 6
    assert "3 traces were skipped, because they were read before." in found.notes


def test_a_chunk_that_is_missing_is_said_first(run: Path) -> None:
    (run / "monitors/file/traces/stream/00000.jsonl.zst").unlink()
    found = read(run)
    assert found.rollouts.num_rows == 3
    assert found.notes[0].startswith("Read in part: chunks 00000")
    assert found.notes[1] == "Read in part: the index of the trace stream lists 6 episodes, but 3 were read."
    assert found.warnings == found.notes[:2]
    first, second, third, *_ = open_any(run).notices
    assert [first, second] == found.notes[:2]
    assert "was read as rollouts of the format 'verifiers'" in third


def test_a_stream_without_its_annotations_says_first_what_is_not_known(run: Path) -> None:
    found = read(run / "monitors/file/traces/stream")
    assert found.notes[0].startswith("Read in part: no annotations were found")
    assert {row[0] for row in column(found, "unused")} == {""}


def test_a_sealed_chunk_that_is_truncated_is_one_sentence(run: Path) -> None:
    chunk = run / "monitors/file/traces/stream/00000.jsonl.zst"
    chunk.write_bytes(chunk.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"00000.jsonl.zst cannot be read completely"):
        read(run)


def test_two_runs_that_share_steps_are_refused(run: Path) -> None:
    other = run.with_name("other") / "monitors/file/traces"
    dumps.lines(other / "stream/00000.jsonl", [an_episode("x", step=4)])
    dumps.lines(other / "annotations/orch/00000.jsonl", [shipped("x", 4)])
    with pytest.raises(UserError, match="these are two runs"):
        read(run.parent)
