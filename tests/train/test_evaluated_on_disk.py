"""What an evaluation leaves on disk: rollouts with their level and test set, and counts that say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from outrider.measure import Evaluation, evaluate
from outrider.record import Outcome, Problem, Rollout, Verdict
from outrider.report.run import open_run
from outrider.runs.folder import RunFolder
from outrider.train.evaluate import Evaluated, write_evaluated

NONE = np.zeros(0, np.int32)


def test_rollouts_and_counts_of_a_suite_name_test_set_and_level(tmp_path: Path) -> None:
    problems = [Problem("one/a", "", level="3", test_set="one"), Problem("two/b", "", test_set="two")]
    verdict = Verdict(Outcome.CORRECT, 1.0)
    rollouts = [Rollout(p.id, p.id, 0, NONE, NONE, np.zeros(0, np.float32), NONE, verdict=verdict) for p in problems]
    folder = RunFolder.create(tmp_path / "out", {}, "cpu")
    write_evaluated(folder, 0, Evaluated(evaluate(problems, rollouts), rollouts, []), problems)
    folder.close()
    run = open_run(tmp_path / "out")
    rows = run.query("SELECT problem_id, level, test_set FROM rollouts ORDER BY problem_id")
    assert rows["level"].tolist() == ["3", ""]
    assert rows["test_set"].tolist() == ["one", "two"]
    found: Evaluation = run.evaluations[0]
    assert [(t.test_set, t.label) for t in found.tallies] == [("one", "one/3"), ("two", "")]
    assert [one.level for one in found.test_sets] == ["one", "two"]
    assert [one.level for one in found.levels] == ["one/3"]
