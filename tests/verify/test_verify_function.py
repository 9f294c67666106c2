"""A verifier of one's own: each style is called as its library calls it, and what goes wrong is never a score of 0."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from outrider.errors import UserError
from outrider.record import Outcome, Problem
from outrider.tasks import Table
from outrider.verify.function import Function
from outrider.verify.pool import VerifierPool
from outrider.verify.verifier import Prepared

SOURCE = """
import asyncio, math, time
from dataclasses import dataclass
import numpy as np
from outrider.record import Outcome, Verdict, correct

@dataclass
class Kept:  # looks for its module
    calls: int = 0

def plain(problem, completion):
    return completion == problem.answer["answer"]

def numpy_number(problem, completion):
    return np.float32(len(completion) / 4)

async def slow(problem, completion):
    await asyncio.sleep(0)
    return 1.0

def says(problem, completion):
    if completion == "hang":
        time.sleep(60)
    if completion == "raise":
        raise KeyError("no such thing")
    if completion == "exit":
        raise SystemExit(0)
    return {"None": None, "nan": math.nan, "inf": math.inf, "text": "1", "list": [1.0], "one": 1, "minus": -1,
            "verdict": correct("x", "why"), "bad": Verdict(Outcome.CORRECT, math.nan)}[completion]

def trl(completions, ground_truth, **kwargs):
    assert set(kwargs) == {"prompts", "answer", "id"}, kwargs
    return [1.0 if c == g else 0.0 for c, g in zip(completions, ground_truth)]

def trl_messages(prompts, completions, **kwargs):
    assert prompts[0][-1] == {"role": "user", "content": "2+2?"}
    return [2.0 * (completion[0]["content"] == "4") for completion in completions]

async def trl_async(completions, **kwargs):
    return [None for _ in completions]

def trl_pair(completions, **kwargs):
    return [1.0, 1.0]

def trl_ids(completions, completion_ids, **kwargs):
    return [0.0]

async def rubric_part(completion, answer) -> float:
    return 1.0 if answer in completion[-1]["content"] else 0.0

def asks(prompt, completion, answer, info, state, ground_truth, other=5, **kwargs):
    return prompt == "2+2?" and answer == "4" and info == {} and state["completion"] == completion and other == 5

class Rubric:
    def __init__(self):
        self.funcs = [self.right, self.short, self.never]
        self.weights = [1.0, 0.5, 0.0]
        self.class_objects = {"parser": str.strip}

    def right(self, completion, answer, parser):
        return float(parser(completion) == answer)

    async def short(self, completion, **kwargs):
        return float(len(completion) < 3)

    def never(self, completions):
        raise AssertionError

rubric = Rubric()
number = 3
"""

PROBLEM_FIELDS = {"id": 1, "problem": "2+2?", "answer": "4", "ground_truth": "4"}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("own") / "rewards.py"
    path.write_text(SOURCE)
    return str(path)


def asked(file: str, name: str, text: str, **options):
    """The verdict on a response, and the row's problem, as a table makes it."""
    verifier = Function(function=f"{file}:{name}", **options)
    fields = {"id": 1, "answer": "4", "ground_truth": "4"}
    return verifier.verify(Problem("p", "2+2?", verifier.reference(fields, "answer")), text, finished=True)


@pytest.mark.parametrize(
    ("name", "options", "text", "outcome", "score"),
    [
        ("plain", {}, "4", Outcome.CORRECT, 1.0),
        ("plain", {}, "5", Outcome.INCORRECT, 0.0),
        ("numpy_number", {}, "xxxx", Outcome.CORRECT, 1.0),
        ("numpy_number", {}, "xx", Outcome.INCORRECT, 0.5),
        ("numpy_number", {"success_at": 0.5}, "xx", Outcome.CORRECT, 0.5),
        ("slow", {}, "", Outcome.CORRECT, 1.0),
        ("says", {}, "minus", Outcome.INCORRECT, -1.0),
        ("says", {"success_at": -1.0}, "minus", Outcome.CORRECT, -1.0),
        ("trl", {"style": "trl"}, "4", Outcome.CORRECT, 1.0),
        ("trl", {"style": "trl"}, "5", Outcome.INCORRECT, 0.0),
        ("trl_messages", {"style": "trl", "messages": True}, "4", Outcome.CORRECT, 2.0),
        ("rubric_part", {"style": "verifiers", "messages": True}, "it is 4", Outcome.CORRECT, 1.0),
        ("asks", {"style": "verifiers"}, "x", Outcome.CORRECT, 1.0),
        ("rubric", {"style": "verifiers", "success_at": 1.5}, " 4", Outcome.CORRECT, 1.5),
        ("rubric", {"style": "verifiers"}, "   4", Outcome.CORRECT, 1.0),
        ("rubric", {"style": "verifiers"}, "5", Outcome.INCORRECT, 0.5),
    ],
)
def test_each_style_is_called_by_its_own_rules(file, name, options, text, outcome, score):
    found = asked(file, name, text, **options)
    assert (found.outcome, found.score) == (outcome, score)


def test_a_verdict_is_taken_as_it_is(file):
    found = asked(file, "says", "verdict")
    assert (found.outcome, found.answer, found.detail) == (Outcome.CORRECT, "x", "why")


@pytest.fixture(scope="module")
def pool(file):
    """As a table makes it: the function is loaded anew in processes of its own."""
    verifier = Function(function=f"{file}:says")
    verifier.prepare()  # what is loaded already must not travel
    with VerifierPool(Prepared(verifier), workers=1, seconds=0.5) as pool:
        yield pool


WRONG = {
    "None": "NoRewardError: {says} returned None, not a number",
    "nan": "ValueError: {says} returned nan, not a finite number",
    "inf": "ValueError: {says} returned inf, not a finite number",
    "text": "TypeError: {says} returned '1' of type str, not a number",
    "list": "TypeError: {says} returned [1.0] of type list, not a number",
    "bad": "ValueError: {says} returned nan, not a finite number",
    "raise": "KeyError: 'no such thing'",
    "exit": "SystemExit: 0",
}


def test_what_goes_wrong_is_an_error_with_its_reason_and_the_next_is_verified(pool, file):
    problem = Problem("p", "2+2?", {"answer": "4", "fields": {}})
    verdicts = pool.verify([(problem, text, True) for text in [*WRONG, "hang", "one"]])
    for verdict, reason in zip(verdicts, WRONG.values(), strict=False):
        assert verdict.outcome is Outcome.ERROR
        assert math.isnan(verdict.score)
        assert verdict.detail == reason.format(says=f"{file}:says")
    assert [v.outcome for v in verdicts[-2:]] == [Outcome.TIMEOUT, Outcome.CORRECT]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("trl_async", "returned None, not a number"),
        ("trl_pair", "returned [1.0, 1.0] of type list, not a list with the score of one completion"),
    ],
)
def test_a_list_that_is_not_one_number_is_no_score(file, name, complaint):
    with pytest.raises(TypeError) as caught:
        asked(file, name, "x", style="trl")
    assert str(caught.value) == f"{file}:{name} {complaint}"


# mistakes, before anything is sampled


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("{file}:plian", {}, "function '{file}:plian': {file} has no 'plian' (did you mean 'plain'?)"),
        ("{file}:number", {}, "function '{file}:number': is 3 of type int, which cannot be called"),
        ("{file}x.py:f", {}, "function '{file}x.py:f': no such file (looked in {folder})"),
        ("nowhere:f", {}, "function 'nowhere:f': no module 'nowhere' is installed; a file is named by its path"),
        ("math:hypot3", {}, "function 'math:hypot3': math has no 'hypot3' (did you mean 'hypot'?)"),
        ("{file}:trl", {}, "takes (completions, ground_truth, **kwargs), not (problem, completion); style: trl calls"),
        ("{file}:rubric_part", {}, "not (problem, completion); style: verifiers calls by such names"),
        ("math:factorial", {}, "takes (n, /), not (problem, completion)"),
        ("{file}:trl_ids", {"style": "trl"}, "line 1: no field 'completion_ids' (did you mean 'completions'?), which"),
    ],
)
def test_what_cannot_be_called_is_told_before_anything_is_sampled(file, tmp_path, name, options, sentence):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(PROBLEM_FIELDS))
    verifier = {"function": {"function": name.format(file=file), **options}}
    task = Table(train_data=str(path), heldout_data=str(path), verifier=verifier)
    with pytest.raises(UserError) as caught:
        task.heldout(1)
    assert sentence.format(file=file, folder=Path(file).parent) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("{}['x']", "KeyError: 'x'"),
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told(tmp_path, source, reason):
    (tmp_path / "own.py").write_text(source)
    with pytest.raises(UserError, match="own.py cannot be imported: " + reason):
        Function(function=f"{tmp_path}/own.py:f").reference({}, "answer")


@pytest.mark.parametrize(
    "options",
    [
        {"function": "rewards.py"},
        {"function": ":f"},
        {"function": "a:b c"},
        {"function": "a:b", "messages": True},
        {"function": "a:b", "gold": r"\boxed{{answer}"},
        {"function": "a:b", "gold": "{0}"},
        {"function": "a:b", "success_at": math.nan},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options):
    with pytest.raises(ValidationError):
        Function(**options)


def test_a_right_response_is_made_from_the_row_where_it_is_said_how(file):
    fields = {"answer": 4, "why": "two and two"}
    with_gold = Function(function=f"{file}:plain", gold=r"{why} \boxed{{{answer}}}")
    problem = Problem("p", "2+2?", with_gold.reference(fields, "answer"))
    assert with_gold.right(problem) == r"two and two \boxed{4}"
    assert Function(function=f"{file}:plain").right(problem) is None
    with pytest.raises(ValueError, match="no field 'why'"):
        with_gold.reference({"answer": 4}, "answer")


def test_a_row_that_is_no_plain_data_is_refused(file):
    with pytest.raises(ValueError, match="a field is no plain data: Object of type bytes"):
        Function(function=f"{file}:plain").reference({"image": b"x"}, "answer")
