"""What the report reads from the rollouts of a few steps: entropies by position, and faults of responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_rows import row, run_of_rows

from outrider.measure.quality import RULES
from outrider.record import Rollout, StopReason
from outrider.record.verdict import correct, incorrect
from outrider.report.build import build
from outrider.report.content import Section
from outrider.report.run import gather, open_run
from outrider.report.sections import entropy, faults
from runs import run_of

U_SHAPE = np.array([2.0] * 2 + [0.5] * 16 + [1.0] * 2, np.float32)  # twenty tokens: one in each part
FLAT = np.full(20, 7.0, np.float32)
BOXED = r"so it is \boxed{7}"


def rollout(step: int, member: int = 0, entropies: Any = U_SHAPE, **more: Any) -> Rollout:
    ids = np.arange(len(entropies), dtype=np.int32)
    rest = {"text": BOXED, "stage": "0-uniform", **more}
    return Rollout("p", f"train:{step}:p", member, ids[:2], ids, -entropies, ids[:0], entropies_T=entropies, **rest)


def run_with(path: Path, steps: dict[int, list[Rollout]]) -> Any:
    folder = run_of(path, 0)
    for step, rollouts in steps.items():
        folder.rollouts.write(step, [r.verified(correct("7"), 1.0) for r in rollouts])
    folder.close()
    run = open_run(path)
    gather(run)
    return run


def lines(section: Section | None, figure: str) -> dict[str, list[float]]:
    assert section is not None
    (found,) = [f for f in section.figures if f.id == figure]
    return {series.name: series.y for series in found.series}


def test_the_u_shape_is_drawn_from_the_tokens_of_beginning_and_end(tmp_path):
    run = run_with(tmp_path / "run", {s: [rollout(s, entropies=U_SHAPE * s) for m in range(1)] for s in range(1, 21)})
    found = lines(entropy.section(run), "entropy-position")
    assert found["first steps"] == pytest.approx((U_SHAPE * 2.5).tolist())  # steps 1 to 4
    assert found["last steps"] == pytest.approx((U_SHAPE * 18.5).tolist())  # steps 17 to 20


def test_a_run_of_one_step_has_its_positions_too(tmp_path):
    run = run_with(tmp_path / "run", {3: [rollout(3)]})
    assert lines(entropy.section(run), "entropy-position") == {"all responses": pytest.approx(U_SHAPE.tolist())}


def test_the_greedy_rollouts_of_a_baseline_have_no_positions_and_no_faults(tmp_path):
    greedy = rollout(1, 1, FLAT, stage="1-greedy", text="\ufffd" * 9)
    run = run_with(tmp_path / "run", {1: [rollout(1), greedy]})
    assert lines(entropy.section(run), "entropy-position") == {"all responses": pytest.approx(U_SHAPE.tolist())}
    assert lines(faults.section(run), "faults-shares")["all responses"][5] == 0.0


def test_faults_are_shares_of_the_responses_of_beginning_and_end_with_their_rules():
    late = [BOXED, "\ufffd" * 9, "no idea", r"\boxed{1} or \boxed{2}"]
    rows = [
        row(step=s, member=m, outcome=("incorrect", "correct")[m == 0], text=late[m] if s > 16 else BOXED)
        for s in range(1, 21)
        for m in range(4)
    ]
    rows += [row(step=20, member=9, parent="train:20:p/0", text="\ufffd")]  # a branch's text is a part
    section = faults.section(run_of_rows(rows))
    found = lines(section, "faults-shares")
    names = [rule.name for rule in RULES]
    told = {name: dict(zip(names, shares, strict=True)) for name, shares in found.items()}
    assert told["first steps"] | {"repeated words": 0, "compressible text": 0} == dict.fromkeys(names, 0)
    assert told["last steps"]["no answer"] == 0.5
    assert told["last steps"]["several answers"] == 0.25
    assert told["last steps"]["garbled text"] == 0.25
    (table,) = section.tables
    assert [cells[-2:] for cells in table.rows] == [[rule.definition, rule.threshold] for rule in RULES]
    assert table.columns[3:5] == ["last steps", "decided"]
    assert table.rows[names.index("mixed languages")][4] == 12  # of the sixteen last ones those that have letters
    assert r"`\boxed{`" in table.note


def test_on_disk_and_in_memory_faults_are_the_same(tmp_path):
    texts = ["a b c " * 30, "因此 the answer", "fine"]
    ends = [StopReason.LENGTH, StopReason.TEXT, StopReason.STOP]
    rollouts = [rollout(1, m, text=texts[m], stop=ends[m]) for m in range(3)]
    folder = run_of(tmp_path / "run", 0)
    folder.rollouts.write(1, [r.verified(incorrect(), 0.0) for r in rollouts])
    folder.close()
    rows = [row(member=m, text=texts[m], stop=ends[m].value) for m in range(3)]
    found = build(open_run(tmp_path / "run")).sections
    (section,) = [one for one in found if one.id == "faults"]
    assert section.tables == faults.section(run_of_rows(rows)).tables
    shares = dict(zip([rule.name for rule in RULES], lines(section, "faults-shares")["all responses"], strict=True))
    assert (shares["no end"], shares["mixed languages"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_without_anything_to_verify_there_is_no_section():
    assert faults.section(run_of_rows([])) is None
    assert faults.section(run_of_rows([row(text="", outcome=None, stop=None)])) is None
