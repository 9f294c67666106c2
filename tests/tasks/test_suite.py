"""Suites: several test sets as one task; protocols of papers; and one sentence for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.config.protocol import protocol
from outrider.errors import UserError
from outrider.tasks import Suite

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def folder(tmp_path):
    """Two sets, one of them without its own id field and with another verifier."""
    (tmp_path / "one.jsonl").write_text("".join(json.dumps({"q": f"a{i}?", "answer": str(i)}) + "\n" for i in range(3)))
    (tmp_path / "two.jsonl").write_text("".join(json.dumps({"q": f"b{i}?", "gold": "x+1"}) + "\n" for i in range(5)))
    (tmp_path / "suite.yaml").write_text(
        "table: {prompt: '{q} =', answer: answer, verifier: number}\n"
        "sets:\n"
        "  one: {data: one.jsonl, hub: 'hf:some/where:test', hub_fields: {q: question}}\n"
        "  two: {data: two.jsonl, table: {answer: gold, verifier: exact}}\n"
    )
    return tmp_path


def suite(folder, **options) -> Suite:
    return Suite(**{"suite": str(folder / "suite.yaml"), "data": str(folder), **options})


def test_each_set_is_named_and_comes_in_turn(folder):
    task = suite(folder)
    assert task.counts == {"one": 3, "two": 5}
    assert [p.test_set for p in task.heldout(99)] == ["one", "two"] * 3 + ["two", "two"]
    assert {p.prompt for p in task.heldout(99)} == {f"a{i}? =" for i in range(3)} | {f"b{i}? =" for i in range(5)}


def test_levels_of_a_set_stay_and_sets_come_in_turn_whatever_they_are(folder):
    rows = [{"q": f"a{i}?", "answer": str(i), "hard": "34"[i % 2]} for i in range(4)]
    (folder / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("one.jsonl,", "one.jsonl, table: {level: hard},"))
    problems = suite(folder).heldout(4)
    assert [p.test_set for p in problems] == ["one", "two"] * 2
    assert {p.level for p in suite(folder).heldout(99) if p.test_set == "one"} == {"3", "4"}
    assert {p.level for p in problems if p.test_set == "two"} == {""}


def test_a_response_is_verified_by_the_verifier_of_its_own_set(folder):
    task = suite(folder)
    problems = {p.prompt: p for p in task.heldout(99)}
    number, text = problems["a2? ="], problems["b0? ="]
    items = [(number, "2.0", True), (text, r"\boxed{x+1}", True), (number, "3", True), (text, r"\boxed{1+x}", True)]
    assert [v.success for v in task.verify_all(items)] == [True, True, False, False]
    assert [v.answer for v in task.verify_all(items)] == ["2.0", "x+1", "3", "1+x"]
    assert all(task.verify(p, task.right(p), True).success for p in task.heldout(99))


def test_some_sets_alone_and_options_over_all_tables(folder):
    task = suite(folder, sets=["two"], table={"prompt": "{q}?!"})
    assert task.counts == {"two": 5}
    assert task.heldout(1)[0].prompt.endswith("??!")
    assert task.fingerprint != suite(folder, sets=["two"]).fingerprint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sets": ["tow"]}, r"has no set 'tow' \(did you mean 'two'"),
        ({"suite": "maths"}, r"there is no suite 'maths' \(did you mean 'math'"),
        ({"suite": "nowhere.yaml"}, "suite nowhere.yaml: cannot be read"),
        ({"data": "/nowhere"}, r"/nowhere/one.jsonl: no such file"),
        ({"data": None, "sets": ["two"]}, "set 'two' is not on the hub"),
        ({"table": {"promt": "x"}}, r"set 'one': promt: unknown key \(did you mean 'prompt'\?\)"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(folder, options, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        suite(folder, **options).heldout(1)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_of_a_suites_file_is_named_with_the_nearest(folder):
    file = folder / "suite.yaml"
    file.write_text(file.read_text().replace("hub_fields", "hub_field"))
    with pytest.raises(UserError, match=r"sets.one.hub_field: unknown key \(did you mean 'hub_fields'\?\)"):
        suite(folder).heldout(1)


def test_the_same_problem_twice_in_a_set_is_refused(folder):
    with (folder / "one.jsonl").open("a") as file:
        file.write(json.dumps({"q": "a0?", "answer": "9"}) + "\n")
    with pytest.raises(UserError, match=r"one.jsonl, line 4: the same problem stands before it"):
        suite(folder).heldout(1)


def test_an_evaluation_takes_all_problems_of_the_sets_it_names_and_reads_no_other(folder, capsys):
    from outrider.cli import main

    (folder / "two.jsonl").unlink()
    ask = ["evaluate", "base:countdown", "--suite", str(folder / "suite.yaml"), "--data", str(folder), "--dry-run"]
    for more, problems in (
        ([], 3),
        (["evaluate.problems=2"], 2),
        (["evaluate={problems: 2}"], 2),
        (["--problems", "1"], 1),
    ):
        assert main([*ask, "task.suite.sets=[one]", *more]) == 2, "the base has no letters, as the evaluation would say"
        said = capsys.readouterr()
        assert f"\n  problems: {problems}\n" in said.out
        assert "one.jsonl, line" in said.err


def test_there_is_nothing_to_train_on(folder):
    with pytest.raises(UserError, match="for evaluation"):
        suite(folder).train(0)


@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not here")
def test_the_shipped_suite_reads_every_set_it_names():
    """Sizes as their papers have them: 30 + 30 AIME, 40 AMC, 500, 272, 675, 1319, 100 + 100, 30."""
    sizes = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "olympiadbench": 675}
    sizes |= {"gsm8k": 1319, "olymmath_easy": 100, "olymmath_hard": 100, "hmmt_feb25": 30}
    assert Suite(data=str(DATA)).counts == sizes


def test_protocols_are_what_their_papers_state():
    """Dr. GRPO: greedy. DARS, appendix E: 128 at temperature 1. XRPO, section 4.1: 32, 1.0, 0.95. STILL: 0.6, 0.95."""
    stated = {"dr-grpo": (1, 0, 1.0), "dars": (128, 1.0, 1.0), "xrpo": (32, 1.0, 0.95), "still": (128, 0.6, 0.95)}
    for name, (n, temperature, top_p) in stated.items():
        sections = protocol(name)
        assert sections["evaluate"]["n"] == n
        assert (sections["sample"]["temperature"], sections["sample"]["top_p"]) == (temperature, top_p)
    with pytest.raises(UserError, match=r"there is no protocol 'dar' .*'dars'"):
        protocol("dar")
