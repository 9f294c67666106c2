"""A run whose verifier does not verify says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from outrider.commands.train_command import train_command
from outrider.config import load_recipe
from outrider.record import Group, Outcome, Problem, Rollout, StopReason, Verdict
from outrider.screen.verdict_warnings import VerdictWatch

NONE = np.zeros(0, np.int32)


def groups(stop: StopReason = StopReason.STOP, **counts: int) -> list[Group]:
    """One group with so many rollouts of each outcome, each with its outcome as the reason."""
    outcomes = [Outcome(name) for name, count in counts.items() for _ in range(count)]
    rollouts = [
        Rollout("p", "g", i, NONE, NONE, NONE.astype(np.float32), NONE, stop=stop).verified(
            Verdict(outcome, 0.0, detail=f"{outcome.value} {i}"), 0.0
        )
        for i, outcome in enumerate(outcomes)
    ]
    return [Group(Problem("p", "?"), "g", tuple(rollouts))]


def test_each_share_has_its_threshold_which_has_to_be_passed():
    assert VerdictWatch().warnings(groups(correct=95, timeout=5)) == []
    (told,) = VerdictWatch().warnings(groups(correct=94, timeout=6))
    assert told.startswith("timeout: 6 of 100 responses (timeout 94); ")
    (told,) = VerdictWatch().warnings(groups(incorrect=9, error=1))
    assert told.startswith("error: 1 of 10 responses (error 9); ")
    assert VerdictWatch().warnings(groups(incorrect=5, unparseable=5)) == []
    (told,) = VerdictWatch().warnings(groups(incorrect=4, unparseable=6))
    assert told.startswith("unparseable: 6 of 10 responses that ended (unparseable 4); ")


def test_a_response_that_was_truncated_has_no_answer_to_be_read():
    assert VerdictWatch().warnings(groups(StopReason.LENGTH, unparseable=10)) == []
    cut, ended = groups(StopReason.LENGTH, unparseable=90), groups(incorrect=1, unparseable=9)
    (told,) = VerdictWatch().warnings(cut + ended)
    assert told.startswith("unparseable: 9 of 10")


def test_a_run_that_stays_bad_is_told_again_only_where_it_has_doubled():
    watch = VerdictWatch()
    shares = [0, 10, 12, 20, 21, 40, 100]
    assert [len(watch.warnings(groups(correct=100 - n, error=n))) for n in shares] == [0, 1, 0, 0, 1, 0, 1]


def scored(*scores: float, correct: int = 0) -> list[Group]:
    verdicts = [Verdict(Outcome.INCORRECT, score) for score in scores] + [Verdict(Outcome.CORRECT, 1.0)] * correct
    rollouts = [
        Rollout("p", "g", i, NONE, NONE, NONE.astype(np.float32), NONE, stop=StopReason.STOP).verified(v, v.score)
        for i, v in enumerate(verdicts)
    ]
    return [Group(Problem("p", "?"), "g", tuple(rollouts))]


def test_a_score_that_never_reaches_success_is_told_at_once_and_once():
    watch = VerdictWatch()
    shaped = [i / 20 for i in range(16)]
    (told,) = watch.warnings(scored(*shaped))
    assert told.startswith("no success in 16 responses, whose scores range from 0 to 0.75; ")
    assert "success_at" in told
    assert watch.warnings(scored(*shaped)) == []
    assert VerdictWatch().warnings(scored(*[0.0] * 50)) == []  # no points for trying: the task is hard, or broken
    assert VerdictWatch().warnings(scored(*shaped, correct=1)) == []
    begun = VerdictWatch()
    assert begun.warnings(scored(*shaped, correct=1)) + begun.warnings(scored(*shaped)) == []  # it can be reached


def test_nothing_verified_is_nothing_to_say():
    assert VerdictWatch().warnings([]) == VerdictWatch().warnings(groups()) == []


def test_it_is_on_the_screen_and_in_the_folder(tmp_path: Path, capsys):
    # not before the run, where it is tried with the prompt: it would be refused
    lines = "    if completion == problem.prompt:\n        return 0.0\n    raise KeyError('the grader is broken')\n"
    (tmp_path / "broken.py").write_text(f"def score(problem, completion):\n{lines}")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"problem": f"{i}+1"}) + "\n" for i in range(4)))
    verifier = {"function": {"function": f"{tmp_path}/broken.py:score"}}
    table = {
        "train_data": f"{tmp_path}/rows.jsonl",
        "heldout_data": f"{tmp_path}/held.jsonl",
        "verifier": verifier,
        "prompt": ":{problem}=",
    }
    (tmp_path / "held.jsonl").write_text('{"problem": "9+9"}\n')
    small = ["model=base:countdown", "train.steps=2", "train.problems=2", "explore=[{uniform: {n: 8}}]"]
    limits = [
        "sample.max_tokens=4",
        "evaluate={problems: 1, n: 1, before: false, after: false}",
        "train.ranks=1",
        "train.trackers=[]",
    ]
    recipe = load_recipe(
        "grpo",
        [*small, *limits, "engine={sampler: local, learner: local}", f"task={json.dumps({'table': table})}"],
        setting="paper",
    )
    assert train_command(recipe, tmp_path / "run") == 0
    expected = "warning: step 1: error: 16 of 16 responses (KeyError: 'the grader is broken'); the verifier fails"
    assert capsys.readouterr().err.count(expected) == 1
    assert (tmp_path / "run" / "notices.txt").read_text().count(expected) == 1
    assert "step 2: error" not in (tmp_path / "run" / "notices.txt").read_text()
