"""Plain rollouts row by row, for tests of reports: what a row does not say is what most rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from outrider.importers.plain import PLAIN
from outrider.report.data import RunData

USUAL: dict[str, Any] = {
    "split": "train",
    "step": 1,
    "problem_id": "p",
    "member": 0,
    "level": None,
    "test_set": None,
    "model": None,
    "stream": "main",
    "stage": "0-uniform",
    "context": "plain",
    "parent": None,
    "branch_at": 0,
    "prompt": "what?",
    "text": "that",
    "tokens": 10,
    "entropy": 0.5,
    "logprob": -0.5,
    "outcome": "incorrect",
    "turns": None,
    "observed": None,
    "turn_errors": None,
    "reward": None,
    "advantage": None,
    "predicted": None,
    "answer": None,
    "detail": None,
    "seconds": None,
    "stop": "stop",
    "policy_version": None,
    "unused": "",
}


def row(**values: Any) -> dict[str, Any]:
    unknown = set(values) - set(PLAIN.names)
    assert not unknown, unknown
    made = {**USUAL, **values}
    return {"group_id": f"{made['split']}:{made['step']}:{made['problem_id']}", **made}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({field.name: pa.array([r[field.name] for r in rows], field.type) for field in PLAIN}, schema=PLAIN)


def run_of_rows(rows: list[dict[str, Any]], **rest: Any) -> RunData:
    return RunData.of("made-up", table(rows), **rest)


def random_rows(seed: int, steps: int = 7, groups: int = 5, problems: int = 8) -> list[dict[str, Any]]:
    """A run with everything in it: uneven groups, two stages, branches, seeds, verifier failures, nulls, NaN."""
    rng = np.random.default_rng(seed)
    rows = []
    for step in range(1, steps + 1):
        for problem in rng.choice(problems, groups, replace=False).tolist():
            size = int(rng.integers(1, 7))
            for member in range(size):
                rows.append(_random_row(rng, step, f"p{problem}", member, f"level {problem % 3}", steps))
    return rows


def _random_row(
    rng: np.random.Generator, step: int, problem: str, member: int, level: str, steps: int
) -> dict[str, Any]:
    easy = (int(problem[1:]) + step / steps) / 9
    outcome = str(rng.choice(["incorrect", "unparseable", "timeout", "error"], p=[0.8, 0.1, 0.05, 0.05]))
    outcome = "correct" if rng.random() < easy else outcome
    branch = member > 2 and bool(rng.random() < 0.5)
    unscorable = outcome in ("timeout", "error")
    return row(
        step=step,
        problem_id=problem,
        member=member,
        level=level,
        stage="1-branch" if branch else "0-uniform",
        stream="branch" if branch else "main",
        parent=f"train:{step}:{problem}/{int(rng.integers(0, 3))}" if branch else None,
        branch_at=4 if branch else 0,
        context="seeded" if not branch and rng.random() < 0.1 else "plain",
        tokens=int(rng.integers(1, 40)),
        entropy=None if rng.random() < 0.1 else float(rng.gamma(1.0)),
        logprob=-float(rng.gamma(1.0)),
        text=str(rng.choice(["a", "b", "c", "d"])) * int(rng.integers(1, 3)),
        outcome=None if rng.random() < 0.05 else outcome,
        reward=float("nan") if unscorable else float(outcome == "correct"),
        advantage=None if unscorable else float(rng.normal()),
        answer="" if outcome == "unparseable" else str(rng.integers(3)),
        detail=f"step {member} of {step} failed" if outcome == "error" else "",
        seconds=float(rng.random()),
        stop=str(rng.choice(["stop", "stop", "length"])),
        policy_version=step - 1 - int(rng.integers(0, 2)),
        unused="no advantage" if unscorable else str(rng.choice(["", "", "cut"])),
    )
