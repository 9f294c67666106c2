"""Lines of numbers: exact round trip, and what a kill, a full disk and a spoilt file do to them."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.runs.folder import RunFolder
from outrider.runs.lines import JsonLines
from runs import run_of, small_files


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(st.text(max_size=8).filter(lambda k: k != "step"), st.floats() | st.integers(-(2**60), 2**60)),
        max_size=6,
    )
)
def test_metrics_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    lines = JsonLines(tmp_path_factory.mktemp("lines") / "metrics.jsonl")
    for step, row in enumerate(rows):
        lines.append(step, row)
    read = lines.rows()
    assert [row.pop("step") for row in read] == list(range(len(rows)))
    # repr tells apart what == does not: NaN from NaN, 0 from -0, 1 from 1.0
    assert [{k: repr(v) for k, v in row.items()} for row in read] == [
        {k: repr(v) for k, v in row.items()} for row in rows
    ]


def test_numbers_that_are_not_finite_are_valid_json(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.append(1, {"a": math.nan, "b": math.inf, "c": np.float32(-np.inf), "d": np.int64(3), "e": 0.1})

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse) == {
        "step": 1,
        "a": None,
        "b": "Infinity",
        "c": "-Infinity",
        "d": 3,
        "e": 0.1,
    }
    assert repr(lines.rows()) == "[{'step': 1, 'a': nan, 'b': inf, 'c': -inf, 'd': 3, 'e': 0.1}]"


def test_a_step_cannot_come_twice_and_a_value_must_be_a_number(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", 3)
    with pytest.raises(ValueError, match=r"step 3 .* cannot follow step 3"):
        run.append_metrics(3, {"reward": 1.0})
    with pytest.raises(TypeError, match="'reward' is '1'"):
        run.append_metrics(4, {"reward": "1"})  # type: ignore[dict-item]
    run.close()
    with RunFolder.open(tmp_path / "run") as again, pytest.raises(ValueError, match="cannot follow step 3"):
        again.append_metrics(2, {})
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2, 3]


@pytest.mark.parametrize("cut", [1, 7, -1])
def test_a_torn_last_line_is_dropped_and_told(tmp_path: Path, cut: int) -> None:
    """A kill in mid-append leaves any part of the line, even all of it but its end (``cut`` -1)."""
    run_of(tmp_path / "run", 3).close()
    file = tmp_path / "run" / "metrics.jsonl"
    whole = file.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    file.write_bytes(whole[: -len(last)] + last[:cut])
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2], "a reader sees whole lines only"
    with RunFolder.open(tmp_path / "run") as run:
        assert run.notices == [f"dropped {len(last[:cut])} bytes of an incomplete last line from metrics.jsonl."]
        run.append_metrics(3, {"reward": 3 / 8})
    assert file.read_bytes() == whole


def test_a_spoilt_line_is_named(tmp_path: Path) -> None:
    run_of(tmp_path / "run", 3).close()
    file = tmp_path / "run" / "metrics.jsonl"
    for spoilt in (b"oops", b"[1, 2]", b'{"reward": 1}', b'{"step": 2, "reward": []}', b"\x00\x00"):
        first, _, third = file.read_bytes().splitlines()
        file.write_bytes(b"\n".join([first, spoilt, third, b""]))
        with pytest.raises(UserError, match=r"metrics\.jsonl, line 2, is no JSON object"):
            RunFolder.open(tmp_path / "run")


def test_a_full_disk_leaves_the_lines_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path / "run", 2)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sentence = rf"cannot write metrics.jsonl in {run.path}: File too large"
    with small_files(len(before) + 5), pytest.raises(UserError, match=sentence):  # room for the first half of a line
        run.append_metrics(3, {"reward": 1.0})
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left"):
            run.sync()
        with pytest.raises(UserError, match="No space left"):
            run.write_evaluation(3, {})
        with pytest.raises(UserError, match="No space left"):
            run.rewind(0)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    run.append_metrics(3, {"reward": 1.0})
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
