"""What a report says of turns: numbers against those of the rollouts themselves, and the page's marks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from plain_rows import row, run_of_rows

from outrider.record import Observation, Rollout, StopReason, correct, incorrect
from outrider.record.store import RolloutStore
from outrider.report.build import build
from outrider.report.content import Section
from outrider.report.data import RunData
from outrider.report.run import gather, open_run
from outrider.report.sections import examples, lengths, turns
from runs import run_of


def rollout(step: int, member: int, *parts: str, stop: StopReason = StopReason.DONE, right: bool = True) -> Rollout:
    """Of parts in turn: what was sampled, and what was observed, where ``!`` marks an error; a token each character."""
    text, flags, heard = "", [], []
    for k, part in enumerate(parts):
        if k % 2:
            heard.append(Observation(len(text), len(part), len(text), len(text) + len(part), error="!" in part))
        text += part
        flags += [k % 2 == 0] * len(part)
    ids = np.arange(len(text), dtype=np.int32)
    flags_T = np.array(flags, np.bool_)
    return Rollout(
        "p",
        f"train:{step}:p",
        member,
        ids[:1],
        ids,
        np.where(flags_T, -1.0, np.nan).astype(np.float32),
        ids[:0],
        trainable_T=None if flags_T.all() else flags_T,
        observations=tuple(heard),
        stop=stop,
        text=text,
        stage="0-uniform",
    ).verified(correct("7") if right else incorrect("8"), float(right))


ROLLOUTS = {
    1: [
        rollout(1, 0, "ask;", "no!;", "ask again;", "seen;", "=7;", ""),
        rollout(1, 1, "=8;", "", right=False),
        rollout(1, 2, "ask;", "seen;", "and so", stop=StopReason.LENGTH, right=False),
    ],
    2: [
        rollout(2, 0, "ask;", "", "=7;", ""),
        rollout(2, 1, "a;", "!;", "b;", "!;", "c;", "", stop=StopReason.TURNS, right=False),
        rollout(2, 2, "", "x", stop=StopReason.ENVIRONMENT, right=False),
    ],
}


def opened(path: Path) -> RunData:
    folder = run_of(path, 0)
    for step, rollouts in ROLLOUTS.items():
        folder.rollouts.write(step, rollouts)
    folder.close()
    return open_run(path)


def line(section: Section | None, figure: str, name: str) -> list[float]:
    assert section is not None
    [found] = [series for f in section.figures if f.id == figure for series in f.series if series.name == name]
    return found.y


def test_numbers_are_those_of_the_rollouts(tmp_path: Path) -> None:
    assert [r.turns for rollouts in ROLLOUTS.values() for r in rollouts] == [3, 1, 2, 2, 3, 0]
    run = opened(tmp_path / "run")
    gather(run)
    section = turns.section(run)
    by_step = list(ROLLOUTS.values())
    assert line(section, "turns", "all") == [np.mean([r.turns for r in step]) for step in by_step]
    assert line(section, "turns", "correct") == [3.0, 2.0]
    assert line(section, "turns-tokens", "generated") == [np.mean([r.trainable_tokens for r in s]) for s in by_step]
    observed = [np.mean([sum(one.tokens for one in r.observations) for r in s]) for s in by_step]
    assert line(section, "turns-tokens", "observed") == pytest.approx(observed)
    assert line(section, "turns-errors", "errors") == pytest.approx([1 / 6, 2 / 5])
    assert section is not None
    assert [r[:3] for r in section.tables[0].rows] == [["0", 1, 0.0], ["1", 1, 0.0], ["2", 2, 0.5], ["3", 2, 0.5]]


def test_one_that_its_environment_ended_was_not_truncated(tmp_path: Path) -> None:
    run = opened(tmp_path / "run")
    gather(run)
    assert line(lengths.section(run), "lengths-truncated", "all") == pytest.approx([1 / 3, 1 / 3])


def test_examples_say_what_was_observed(tmp_path: Path) -> None:
    run = opened(tmp_path / "run")
    gather(run)
    section = examples.section(run)
    assert section is not None
    nodes = {node.id: node for example in section.examples for node in example.nodes}
    node = nodes["train:1:p/0"]
    assert [(node.text[one.begin : one.end], one.error) for one in node.observed] == [("no!;", True), ("seen;", False)]
    assert "3 turns" in node.label
    assert "1 error" in node.label
    assert "truncated" in nodes["train:2:p/1"].label
    assert "truncated" not in nodes["train:2:p/0"].label


def test_without_environments_there_is_no_chapter() -> None:
    run = run_of_rows([row(member=k, step=1, problem_id="p", text="x", outcome="correct") for k in range(3)])
    assert turns.section(run) is None
    told = run_of_rows([row(member=k, step=1, problem_id="p", outcome="correct", turns=k + 1) for k in range(3)])
    section = turns.section(told)
    assert section is not None
    assert [figure.id for figure in section.figures] == ["turns"]


def test_a_run_that_went_on_after_an_update_has_files_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "run"
    opened(path)
    file = RolloutStore(path / "rollouts").folder / "train-00000001.parquet"
    old = pq.read_table(file).drop_columns(["observations"])
    pq.write_table(old.replace_schema_metadata({b"outrider.schema_version": b"2"}), file)
    run = open_run(path)
    assert not run.notices
    report = build(run)
    assert "turns" in [section.id for section in report.sections]
    pq.write_table(old.replace_schema_metadata({b"outrider.schema_version": b"3"}), file)
    assert "it has no column observations" in open_run(path).notices[0]
