"""Rollouts on disk: exact round trip, and nothing lost to a kill, a full disk or a damaged file."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.record import Context, Mode, Observation, Outcome, Rollout, StopReason, Verdict, correct
from outrider.record.disk import sweep
from outrider.record.store import SCHEMA, SCHEMA_VERSION, RolloutStore
from runs import small_files


def rollout(member: int = 0, **changes: Any) -> Rollout:
    values: dict[str, Any] = {
        "problem_id": "p",
        "group_id": "train:0:p",
        "member": member,
        "prompt_ids": np.array([1, 2], np.int32),
        "token_ids": np.array([3, 4, 5], np.int32),
        "logprobs_T": np.array([-0.5, -1.5, -2.5], np.float32),
        "prefix_ids": np.zeros(0, np.int32),
    }
    return Rollout(**{**values, **changes})


def identical(a: Any, b: Any) -> bool:
    """Equal in every field, type and dtype; NaN equals NaN, and only NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if dataclasses.is_dataclass(a):
        return all(identical(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return bool(a == b) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


def int32s(size: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    one = st.integers(-(2**31), 2**31 - 1)
    return size.flatmap(lambda n: st.lists(one, min_size=n, max_size=n)).map(lambda v: np.array(v, np.int32))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
doubles = st.floats(allow_nan=True, allow_infinity=True)
verdicts = st.builds(Verdict, st.sampled_from(Outcome), doubles, doubles, texts, texts)
modes = st.builds(Mode, st.floats(0, 5), st.floats(0, 1), st.integers(0, 2**31 - 1))
places = st.integers(0, 2**31 - 1)
observations = st.builds(Observation, places, places, places, places, st.booleans(), st.booleans())
contexts = st.builds(Context, texts, st.lists(texts, max_size=3).map(tuple))


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    n = draw(st.integers(0, 6))
    floats = st.lists(st.floats(width=32), min_size=n, max_size=n).map(lambda v: np.array(v, np.float32))
    flags = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda v: np.array(v, np.bool_))
    return Rollout(
        problem_id=draw(texts),
        group_id=draw(texts),
        member=draw(st.integers(0, 2**31 - 1)),
        prompt_ids=draw(int32s(st.integers(0, 5))),
        token_ids=draw(int32s(st.just(n))),
        logprobs_T=draw(floats),
        prefix_ids=draw(int32s(st.integers(0, 5))),
        entropies_T=draw(st.none() | floats),
        mode=draw(modes),
        trainable_T=draw(st.none() | flags),
        observations=tuple(draw(st.lists(observations, max_size=2))),
        parent=draw(st.none() | texts),
        context=draw(contexts),
        stream=draw(texts),
        stage=draw(texts),
        policy_version=draw(st.integers(0, 2**63 - 1)),
        seed=draw(st.integers(0, 2**63 - 1)),
        stop=draw(st.sampled_from(StopReason)),
        text=draw(texts),
        prefix_text=draw(texts),
        verdict=draw(st.none() | verdicts),
        reward=draw(st.none() | doubles),
        advantage=draw(st.none() | doubles),
        advantages_T=draw(st.none() | floats),
        predicted=draw(st.none() | doubles),
        log_ratios_T=draw(st.none() | floats),
        unused=draw(texts),
    )


@settings(max_examples=60, deadline=None)
@given(written=st.lists(rollouts(), max_size=5), step=st.integers(0, 10**9))
def test_rollouts_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, written: list[Rollout], step: int
) -> None:
    store = RolloutStore(tmp_path_factory.mktemp("store"))
    store.write(step, written)
    read = store.read()
    assert len(read) == len(written)
    for a, b in zip(written, read, strict=True):
        assert identical(a, b), f"{a}\n{b}"
    assert store.steps() == [step]
    assert store.table(["branch_at"])["branch_at"].to_pylist() == [len(r.prefix_ids) for r in written]


def test_every_field_of_a_rollout_has_its_column_in_the_round_trip() -> None:
    """The comparison above covers each field by reflection; this catches a field that is not drawn."""
    drawn = {f.name for f in dataclasses.fields(Rollout)}
    assert drawn == {
        *("problem_id", "group_id", "member", "prompt_ids", "token_ids", "logprobs_T", "prefix_ids", "entropies_T"),
        *(
            "mode",
            "trainable_T",
            "observations",
            "parent",
            "context",
            "stream",
            "stage",
            "policy_version",
            "seed",
            "stop",
            "text",
        ),
        *("prefix_text", "verdict", "reward", "advantage", "advantages_T", "predicted", "log_ratios_T", "unused"),
    }, "a new field of Rollout needs a column, a new SCHEMA_VERSION and a place in the strategy above"


def test_none_nan_and_zero_stay_apart_on_disk_too(tmp_path: Path) -> None:
    rewards = [None, math.nan, 0.0, -0.0]
    store = RolloutStore(tmp_path)
    store.write(0, [rollout(i, reward=r) for i, r in enumerate(rewards)])
    column = pq.read_table(tmp_path / "train-00000000.parquet")["reward"]
    assert column.null_count == 1
    assert [None if v is None else (math.isnan(v), math.copysign(1, v)) for v in column.to_pylist()[::3]] == [
        None,
        (False, -1.0),
    ]
    assert store.read()[0].reward is None
    assert math.isnan(store.read()[1].reward or 0.0)


def test_steps_are_read_in_order_whatever_their_number_of_digits(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    for step in (100_000_000, 99_999_999, 2, 10):
        store.write(step, [rollout(policy_version=step)])
    assert store.steps() == [2, 10, 99_999_999, 100_000_000]
    assert [r.policy_version for r in store.read()] == store.steps()
    assert store.table(["step"])["step"].to_pylist() == store.steps()
    assert [r.policy_version for r in store.read(step=10)] == [10]
    assert store.read(step=3) == []


def test_names_keep_training_and_evaluation_apart(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write(0, [rollout(unused="a")])
    store.write(0, [rollout(unused="b"), rollout(1, unused="b")], name="evaluation-greedy")
    assert store.names() == ["evaluation-greedy", "train"]
    assert [r.unused for r in store.read(name="train")] == ["a"]
    assert store.table(["unused"], name="evaluation-greedy")["unused"].to_pylist() == ["b", "b"]


@pytest.mark.parametrize("name", ["", "../out", "Train", ".hidden", "a/b"])
def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no rollout file"):
        RolloutStore(tmp_path).write(0, [], name=name)


def test_an_empty_or_missing_folder_has_no_rollouts(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "nowhere")
    assert (store.read(), store.steps(), store.names(), sweep(store.folder)) == ([], [], [], [])
    assert store.table().schema.equals(SCHEMA)
    assert store.table(["reward"]).num_rows == 0
    assert not (tmp_path / "nowhere").exists()


def test_the_level_is_kept_where_the_writer_knows_it(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write(0, [rollout(), rollout(problem_id="q")], levels={"p": "3 numbers"})
    assert store.table(["level"])["level"].to_pylist() == ["3 numbers", None]


def test_an_unknown_column_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'reward'"):
        RolloutStore(tmp_path).table(["rewards"])


def test_odd_text_survives_and_lone_surrogates_stay_visible(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    odd = "\x00\r\n\x1b[31m\u2028\U0001f600\ufeff e\u0301"
    broken = "x\ud83dy"
    store.write(0, [rollout(text=odd), rollout(1, text=broken, context=Context("seeded", (broken,)), parent=broken)])
    first, second = store.read()
    assert first.text == odd
    assert second.text == second.parent == "x\\ud83dy"
    assert second.context.exemplars == ("x\\ud83dy",)


def test_arrays_that_were_read_can_be_changed_and_do_not_share_numbers(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write(0, [rollout(), rollout(1)])
    first, second = store.read()
    first.token_ids[:] = 9
    assert second.token_ids.tolist() == [3, 4, 5]


def test_ids_that_do_not_fit_are_refused_not_rounded(tmp_path: Path) -> None:
    """A float where an id belongs would be cut to an integer; a bug in an engine must not reach the disk."""
    with pytest.raises(TypeError):
        RolloutStore(tmp_path).write(0, [rollout(token_ids=np.array([1.5, 2.0, 3.0]))])


def test_rollouts_are_never_overwritten(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(3, [rollout(unused="first")])
    with pytest.raises(UserError, match=r"train-00000003\.parquet exists"):
        store.write(3, [rollout(unused="second")])
    assert store.read()[0].unused == "first"
    assert path.name == "train-00000003.parquet"


def test_later_steps_are_set_aside_and_nothing_is_lost(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "rollouts")
    for step in range(5):
        store.write(step, [rollout(policy_version=step)])
    store.write(4, [rollout(policy_version=40)], name="evaluation")
    moved = store.set_aside(2, tmp_path / "superseded" / "1")
    assert [p.name for p in moved] == [
        "evaluation-00000004.parquet",
        "train-00000003.parquet",
        "train-00000004.parquet",
    ]
    assert (store.steps(), store.steps("evaluation")) == ([0, 1, 2], [])
    assert [r.policy_version for r in RolloutStore(tmp_path / "superseded" / "1").read()] == [3, 4]
    assert store.set_aside(2, tmp_path / "superseded" / "2") == []
    assert not (tmp_path / "superseded" / "2").exists()
    store.write(3, [rollout()])


def test_rollouts_of_version_2_had_no_observations(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(0, [rollout()])
    old = pq.read_table(path).drop_columns(["observations", "advantages", "predicted", "test_set", "log_ratios"])
    pq.write_table(old.replace_schema_metadata({b"outrider.schema_version": b"2"}), path)
    assert [one.observations for one in store.read()] == [()]
    assert store.table(["member", "observations"]).to_pylist() == [{"member": 0, "observations": []}]
    assert store.table(["member"]).to_pylist() == [{"member": 0}]


def test_rollouts_of_version_4_had_one_advantage_and_no_prediction(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(0, [rollout(advantage=0.5, predicted=0.25)])
    old = pq.read_table(path).drop_columns(["advantages", "predicted", "test_set", "log_ratios"])
    pq.write_table(old.replace_schema_metadata({b"outrider.schema_version": b"4"}), path)
    store.write(1, [rollout(advantage=0.5, predicted=0.25)])
    assert [(one.advantage, one.advantages_T, one.predicted) for one in store.read()] == [
        (0.5, None, None),
        (0.5, None, 0.25),
    ]
    assert store.table(["predicted"])["predicted"].to_pylist() == [None, 0.25]


def test_rollouts_of_version_5_named_no_test_set(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(0, [rollout()], levels={"p": "3 numbers"}, test_sets={"p": "one"})
    old = pq.read_table(path).drop_columns(["test_set", "log_ratios"])
    pq.write_table(old.replace_schema_metadata({b"outrider.schema_version": b"5"}), path)
    store.write(1, [rollout(), rollout(problem_id="q")], levels={"p": "3 numbers"}, test_sets={"p": "one"})
    assert store.table(["level", "test_set"]).to_pylist() == [
        {"level": "3 numbers", "test_set": None},
        {"level": "3 numbers", "test_set": "one"},
        {"level": None, "test_set": None},
    ]


def test_an_unknown_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(0, [rollout()])
    newer = {b"outrider.schema_version": str(SCHEMA_VERSION + 1).encode()}
    pq.write_table(pq.read_table(path).replace_schema_metadata(newer), path)
    with pytest.raises(UserError, match=rf"train-00000000\.parquet has rollout schema version {SCHEMA_VERSION + 1},"):
        store.read()
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UserError, match="version none"):
        store.table(["reward"])


def test_a_damaged_file_is_named_and_the_others_stay_readable(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    for step in range(3):
        store.write(step, [rollout(policy_version=step)])
    bad = tmp_path / "train-00000001.parquet"
    bad.write_bytes(bad.read_bytes()[:500])
    for read in (store.read, store.table):
        with pytest.raises(UserError, match=r"train-00000001\.parquet is damaged"):
            read()
    assert [store.read(step)[0].policy_version for step in (0, 2)] == [0, 2]
    bad.rename(tmp_path / "away")
    assert [r.policy_version for r in store.read()] == [0, 2]


def test_no_cut_and_no_flipped_bit_gives_anything_but_rollouts_or_a_sentence(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    path = store.write(0, [rollout(text="some text", verdict=correct("4"))])
    whole = path.read_bytes()
    for size in range(0, len(whole), 61):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="damaged"):
            store.read()
    refused = 0
    for position in range(0, len(whole), 37):
        flipped = bytearray(whole)
        flipped[position] ^= 0x10
        path.write_bytes(flipped)
        try:
            store.read()  # a flip in a statistic or a name nobody reads may pass
        except UserError:
            refused += 1
    assert refused > 50
    text_at = whole.index(b"some text")
    path.write_bytes(whole[:text_at] + b"s0me" + whole[text_at + 4 :])
    with pytest.raises(UserError, match="damaged"):
        store.read()


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RolloutStore(tmp_path)
    store.write(0, [rollout()])

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with small_files(100), pytest.raises(UserError, match=rf"cannot write .* in {tmp_path}: File too large") as raised:
        store.write(1, [rollout()])
    assert "\n" not in str(raised.value)
    assert [p.name for p in tmp_path.iterdir()] == ["train-00000000.parquet"]
    store.write(1, [rollout()])
    assert store.steps() == [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left on device"):
            store.sync()
    store.sync()


def test_a_folder_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "rollouts").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        RolloutStore(tmp_path / "rollouts").write(0, [])


WRITER = """
import os, signal, sys
import numpy as np
from outrider.record import Rollout
from outrider.record.store import RolloutStore

n = 20_000
big = np.arange(n, dtype=np.int32)
store = RolloutStore(sys.argv[1])
if sys.argv[2] == "mid-write":  # die where the file is written but has no name yet
    os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
step = len(store.steps())
while True:
    noise = np.random.default_rng(step).normal(size=n).astype(np.float32)
    r = Rollout("p", f"train:{step}:p", 0, big, big + step, noise, big[:0], policy_version=step)
    store.write(step, [r] * 3)
    step += 1
"""


def killed_writer(folder: Path, how: str, files: int) -> None:
    """A process that writes step after step until it is killed: by us, ``files`` later, or by itself in mid-write."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), how])
    try:
        goal = len(list(folder.glob("*.parquet"))) + files
        deadline = time.monotonic() + 300
        while process.poll() is None and len(list(folder.glob("*.parquet"))) < goal:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, "the writer must die of the kill, not of an error"


def test_kill_9_leaves_every_written_step_readable(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    for files in (3, 4):  # the second writer goes on where the first was killed
        killed_writer(tmp_path, "loop", files)
    killed_writer(tmp_path, "mid-write", 1)
    steps = store.steps()
    assert steps == list(range(len(steps)))
    assert len(steps) >= 7
    for step in steps:
        read = store.read(step)
        assert [r.policy_version for r in read] == [step] * 3
        assert read[2].token_ids.tolist() == list(range(step, step + 20_000))
        noise = np.random.default_rng(step).normal(size=20_000).astype(np.float32)
        assert np.array_equal(read[0].logprobs_T, noise)
    torn = tmp_path / f".train-{len(steps):08d}.parquet.tmp"
    assert torn in list(tmp_path.iterdir()), "the last writer died before its file had a name"
    assert torn in sweep(store.folder)
    assert sweep(store.folder) == []
    assert len(list(tmp_path.iterdir())) == len(steps)
