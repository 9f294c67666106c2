"""Scoring saved generations: every response finds its problem or is counted, and verdicts are the task's own."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from outrider.errors import UserError
from outrider.measure.passk import pass_at_k
from outrider.record import Problem
from outrider.report.opened import open_any
from outrider.score.match import Matcher
from outrider.score.score import score
from outrider.score.score_command import score_command
from outrider.tasks import Countdown, Hops, Table

COLUMNS = {"prompt": "question", "text": "response"}


@pytest.fixture
def task(tmp_path):
    rows = [{"id": f"p{i}", "problem": f"What is {i} and {i}?", "answer": str(2 * i)} for i in range(4)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Table(heldout_data=str(tmp_path / "test.jsonl"), prompt="Q: {problem}\nA:", id="id")


def dump(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_verdicts_are_the_tasks_own_and_counts_add_up(task, tmp_path):
    """Problem 1 right twice of three, problem 2 never; one stranger; the file itself calls all of them right."""
    rows = [{"question": "What is 1 and 1?", "response": text, "ok": True} for text in ("2", "it is 2.0", "3")]
    rows += [{"question": "WHAT is 2  and 2?", "response": "5", "ok": True}]
    rows += [{"question": "Who?", "response": "2", "ok": True}]
    run = open_any(dump(tmp_path / "gen.jsonl", rows), {**COLUMNS, "success": "ok"})
    found = score(run, task, task.heldout(99))
    tallies = {t.problem: (t.scorable, t.successes) for t in found.evaluation.tallies}
    assert tallies == {"p1": (3, 2), "p2": (1, 0)}
    assert found.evaluation.overall.pass_at[1].value == pytest.approx(pass_at_k([3, 1], [2, 0], 1).mean())
    told = " ".join(found.notes)
    assert "1 of 5 responses belong to no problem of the task" in told
    assert (
        "Of 4 verdicts in the file, 2 agree with the verifier here; 2 are correct only in the file, 0 only here."
        in told
    )
    assert "2 of 4 problems have no response" in told


def test_what_is_kept_can_be_reported_and_has_the_new_verdicts(task, tmp_path):
    rows = [{"question": f"What is {i} and {i}?", "response": "4"} for i in range(4)]
    source, out = dump(tmp_path / "gen.jsonl", rows), tmp_path / "out"
    assert score_command(source, task, 99, COLUMNS, out, Console(stderr=True)) == 0
    table = pq.read_table(out / "scored.parquet")
    assert dict(zip(table["problem_id"].to_pylist(), table["outcome"].to_pylist(), strict=True)) == {
        "p0": "incorrect", "p1": "incorrect", "p2": "correct", "p3": "incorrect",
    }  # fmt: skip
    again = open_any(out)
    assert again.evaluations[0].overall.pass_at[1].value == 0.25
    with pytest.raises(UserError, match="is not empty"):
        score_command(source, task, 99, COLUMNS, out, Console(stderr=True))


def test_a_response_that_is_not_in_the_file_is_no_failure(task, tmp_path):
    """A null was verified as an empty text: pass@1 of 0.5 for two correct answers and two requests that failed."""
    rows = [{"question": "What is 1 and 1?", "response": r} for r in ("2", None, None, "2")]
    found = score(open_any(dump(tmp_path / "gen.jsonl", rows), COLUMNS), task, task.heldout(99))
    [tally] = found.evaluation.tallies
    assert (tally.scorable, tally.successes, tally.errors) == (2, 2, 2)
    assert found.rollouts["outcome"].to_pylist() == ["correct", "error", "error", "correct"]
    assert "2 of 4 responses are null in the file: not verified, and counted as errors." in found.notes
    rows = [{"question": "What is 1 and 1?", "response": r} for r in ("2", "", " ")]  # as CSV writes what is missing
    found = score(open_any(dump(tmp_path / "gen.jsonl", rows), COLUMNS), task, task.heldout(99))
    assert "2 of 3 responses are empty texts and are verified as empty." in found.notes


@pytest.mark.parametrize(
    "rows", [[{"question": "What is 1 and 1?", "response": None}], [{"question": "What is 1 and 1?"}]]
)
def test_a_file_without_any_response_is_refused(task, tmp_path, rows):
    columns = {"prompt": "question"} | ({"text": "response"} if "response" in rows[0] else {})
    run = open_any(dump(tmp_path / "gen.jsonl", rows), columns)
    with pytest.raises(UserError, match=r"none of its 1 responses has a text; .* --column text=response"):
        score(run, task, task.heldout(99))


def test_models_that_a_file_keeps_apart_are_scored_apart(task, tmp_path):
    rows = [
        {"id": f"{m}/1", "question": "What is 1 and 1?", "response": r, "m": m} for m, r in (("a", "2"), ("b", "3"))
    ]
    run = open_any(dump(tmp_path / "gen.jsonl", rows), {**COLUMNS, "problem": "id", "level": "m"})
    found = score(run, task, task.heldout(99))
    assert [(t.problem, t.level, t.samples, t.successes) for t in found.evaluation.tallies] == [
        ("a/p1", "a", 1, 1),
        ("b/p1", "b", 1, 0),
    ]
    assert any("scored separately" in note for note in found.notes)


def test_a_response_that_was_truncated_is_verified_as_unfinished(task, tmp_path):
    whys = ("stop", "text", "length", "context")  # a stop text ends a response as the policy's own end does
    rows = [{"question": "What is 1 and 1?", "response": "so 2", "why": why} for why in whys]
    run = open_any(dump(tmp_path / "gen.jsonl", rows), {**COLUMNS, "stop": "why"})
    found = score(run, task, task.heldout(99))
    assert found.rollouts["outcome"].to_pylist() == ["correct", "correct", "unparseable", "unparseable"]
    assert [t.truncated for t in found.evaluation.tallies] == [2]


def test_of_a_task_without_an_end_as_many_problems_are_taken_as_an_evaluation_has(tmp_path, capsys):
    task = Countdown()
    rows = [{"question": task.heldout(3)[2].prompt, "response": "1+1"}]
    assert score_command(dump(tmp_path / "gen.jsonl", rows), task, None, COLUMNS, None, Console(stderr=True)) == 0
    assert "299 of 300 problems have no response" in capsys.readouterr().err


def test_nothing_that_belongs_is_an_error_that_says_what_to_name(task, tmp_path):
    run = open_any(dump(tmp_path / "gen.jsonl", [{"question": "Who?", "response": "2"}]), COLUMNS)
    with pytest.raises(UserError, match=r"none of its 1 responses .* --column prompt=question"):
        score(run, task, task.heldout(99))


def problems(*questions: str) -> list[Problem]:
    return [Problem(f"id{i}", f"{q} ->", metadata={"question": q}) for i, q in enumerate(questions)]


@pytest.mark.parametrize(
    ("problem_id", "prompt", "index"),
    [
        ("id1", "anything", 1),  # the id decides
        ("x", "one plus one", 0),  # the question
        ("x", "One plus  one->", 0),  # the prompt, written otherwise
        ("x", "<user> one plus one plus two <assistant>", 1),  # within: the longest of questions that hold each other
        ("x", "compare one plus one with three", None),  # two questions, neither within the other
        ("x", "nothing of the kind", None),
        ("x", None, None),
    ],
)
def test_a_problem_is_found_by_id_text_or_as_the_only_question_within(problem_id, prompt, index):
    known = problems("one plus one", "one plus one plus two", "three")
    found = Matcher(known)(problem_id, prompt)
    assert found is (None if index is None else known[index])


def test_a_question_of_two_problems_belongs_to_neither():
    assert Matcher(problems("one", "one"))("x", "one") is None


def test_questions_are_searched_inside_a_prompt_only_where_nothing_else_finds_the_problem(monkeypatch):
    known = problems("one", "two")
    match, searched = Matcher(known), []
    monkeypatch.setattr(match, "_within", searched.append)
    assert [match(known[0].id, "a prompt"), match("x", known[1].prompt)] == known
    assert not searched
    assert match("x", "around one") is None
    assert len(searched) == 1


def test_a_task_with_turns_is_refused(tmp_path):
    """A text alone has no environment to verify it, and would be wrong for all."""
    run = open_any(dump(tmp_path / "gen.jsonl", [{"question": "A.b?", "response": "=C;"}]), COLUMNS)
    with pytest.raises(UserError, match="rollouts of task 'hops' have turns and are verified by their environment"):
        score(run, Hops(), Hops().heldout(3))


def test_a_prompt_that_begins_the_reasoning_is_known_from_the_dump(task, tmp_path):
    begun = "<|user|>What is 2 and 2?<|assistant|><think>\n"
    rows = [{"question": begun, "response": text} for text in ("It may be 4", "5?</think>It is 4", "4</think>It is 5")]
    rows += [{"question": "What is 2 and 2?", "response": "It is 4"}]
    found = score(open_any(dump(tmp_path / "gen.jsonl", rows), COLUMNS), task, task.heldout(99))
    assert found.rollouts["outcome"].to_pylist() == ["unparseable", "correct", "incorrect", "correct"]
