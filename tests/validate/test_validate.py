"""Checking a task: rejected gold answers, repetitions against brute force, lengths, and what the command says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.cli import main
from outrider.config import Validate
from outrider.environments.environment import Environment, Reply
from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict, correct
from outrider.tasks.turn_task import TurnTask
from outrider.validate import near as near_module
from outrider.validate.check import check, repeats, texts_of
from outrider.validate.environments import compare_environments
from outrider.validate.near import NearPair, grams, jaccard, near, same
from outrider.validate.page import as_data, as_markdown
from outrider.validate.sides import SideEntry

SETS = st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=9), max_size=12)
LEAST = st.fractions(Fraction(1, 20), 1, max_denominator=20)


def pairs(found: Iterable[NearPair]) -> list[tuple[int, int]]:
    return [(pair.first, pair.second) for pair in found]


# near and equal texts


@settings(max_examples=60)
@given(SETS, SETS, LEAST)
def test_near_pairs_are_all_pairs_by_brute_force(one, other, least):
    def alike(a: frozenset[int], b: frozenset[int]) -> bool:
        return Fraction(len(a & b), len(a | b)) >= least  # exact: floating point must lose no pair at the threshold

    within = [(i, j) for i, j in combinations(range(len(one)), 2) if alike(one[i], one[j])]
    across = [(i, j) for i, j in product(range(len(one)), range(len(other))) if alike(one[i], other[j])]
    assert pairs(near(one, None, float(least))) == within
    assert pairs(near(one, other, float(least))) == across


def test_the_threshold_itself_is_near_even_where_it_rounds_up():
    """The ceiling of 0.07 * 100 is 8 in floating point; so few shared members would pass the pair over."""
    assert 0.07 * 100 > 7
    assert [p.similarity for p in near([frozenset(range(100))], [frozenset(range(93, 100))], 0.07)] == [0.07]


def test_few_pairs_are_compared(monkeypatch):
    """A thousand texts that share a beginning, two of them nearly all: brute force compares half a million pairs."""
    texts = [frozenset([*range(6), *range(100 * i, 100 * i + 14)]) for i in range(1, 1000)]
    texts.append(texts[500] | {-1})
    compared = []
    monkeypatch.setattr(near_module, "jaccard", lambda a, b: compared.append(1) or jaccard(a, b))
    assert pairs(near(texts, None, 0.8)) == [(500, 999)]
    assert len(compared) < 1000


@given(st.lists(st.text("aB \n\uff22", max_size=4), max_size=8))
def test_equal_texts_are_found_with_the_first_of_them(texts):
    plain = ["".join(t.replace("\uff22", "b").lower().split()) for t in texts]
    repeated = [(plain.index(t), j) for j, t in enumerate(plain) if t in plain[:j]]
    assert pairs(same(texts)) == repeated
    assert pairs(same(texts, texts[::-1])) == [(plain.index(t), j) for j, t in enumerate(plain[::-1])]


def test_grams_are_runs_of_tokens():
    assert len(grams("one two three four", 3)) == 2
    assert grams("One  two\nthree", 3) == grams("one two three", 5)  # all of a text that is shorter
    assert grams("one two", 2) != grams("two one", 2)
    assert grams(r"$\frac{1}{2}$ + x_1", 2) == grams("frac 1 2+X_1", 2)
    assert len(grams("", 5)) == 1
    assert len(grams("求实数值", 2)) == 3


def entries(*texts: str) -> list[SideEntry]:
    return [SideEntry(f"line {i}", Problem(str(i), t, answer=t), t) for i, t in enumerate(texts)]


def test_a_pair_that_is_the_same_is_not_near_as_well():
    long = "find the sum of all numbers n below ten that are odd"
    found = repeats(texts_of(entries(long, long.upper(), long + " please"), 3), None, 0.6)
    assert pairs(found.same) == [(0, 1)]
    assert pairs(found.near) == [(0, 2), (1, 2)]


def test_a_set_made_by_a_pattern_is_cut_and_said(monkeypatch):
    monkeypatch.setattr("outrider.validate.check.MOST_PAIRS", 20)
    texts = (f"what is {i} plus one and two and three" for i in range(10))
    found = repeats(texts_of(entries(*texts), 3), None, 0.3)  # 4 of 10 grams are common to two of them
    assert (len(found.near), found.cut) == (20, True)


# tasks


def write(path: Path, *rows: dict) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validate")
    own = folder / "own.py"
    own.write_text("def f(problem, completion):\n    return completion == problem.answer['answer'] != '666'\n")
    question = "How many integers from one to one hundred can be divided by three and by seven alike?"
    train = [
        {"problem": question, "answer": "4", "level": "b"},
        {"problem": "What is 2 + 2?", "answer": "4", "level": "a"},
        {"problem": "what is 2+2?", "answer": "5", "level": "a"},
        {"problem": "A number of the beast?", "answer": "666", "level": "a"},
        {"problem": "No answer?", "answer": ""},
    ]
    heldout = [
        {"problem": question.replace("hundred", "thousand"), "answer": "47", "level": "b"},
        {"problem": "WHAT IS 2 + 2 ?", "answer": "4", "level": "a"},
        {"problem": "Unlike all others | so it `is`?", "answer": "1", "level": "a"},
    ]
    return {
        "own": str(own),
        "train_data": write(folder / "train.jsonl", *train),
        "heldout_data": write(folder / "test.jsonl", *heldout),
    }


def table(files: dict, verifier: object = "exact", **options) -> dict:
    names = ("train_data", "heldout_data")
    return {"table": {**{name: files[name] for name in names}, "level": "level", "verifier": verifier, **options}}


@pytest.fixture(scope="module")
def report(files):
    verifier = {"function": {"function": f"{files['own']}:f", "gold": "{answer}"}}
    return check(Validate(task=table(files, verifier), near=0.4))


def test_what_is_wrong_with_a_table_is_all_found(report, files):
    train, heldout = report.sides
    assert [r.entry.problem.answer["answer"] for r in train.graded.rejected] == ["666"]
    assert (train.graded.verified, heldout.graded.verified, heldout.graded.accepted) == (5, 3, 1.0)
    assert pairs(train.within.same) == [(1, 2)]
    assert not train.within.one_answer(train.within.same[0])
    assert pairs(report.across.same) == [(1, 1)]
    assert pairs(report.across.near) == [(0, 0)]
    assert train.levels == {"a": 3, "b": 1, "": 1}
    assert not report.passes


def test_a_row_that_cannot_be_used_is_refused_and_the_rest_is_read(files):
    found = check(Validate(task=table(files)))
    hint = "; skip: empty leaves such rows out and counts them"
    assert found.sides[0].side.refused == [f"{files['train_data']}, line 5: the field 'answer' holds no answer{hint}"]
    assert len(found.sides[0].side.entries) == 4
    assert not found.passes


def test_the_page_shows_all_that_was_found(report):
    page = as_markdown(report)
    assert "| train | 5 | 0 | 5 | 80.00 % | 0 | 1 | 0 | — | — | — |" in page
    assert "`666`" in page
    assert "Held-out problems that are also in the training set: 1 of 3 identical, 1 more nearly identical." in page
    assert "(none) | 1" in page
    json.dumps(as_data(report))


def test_a_verifier_that_accepts_anything_is_shown(files, tmp_path):
    (tmp_path / "own.py").write_text("def f(problem, completion):\n    return 1\n")
    verifier = {"function": {"function": f"{tmp_path}/own.py:f", "gold": "{answer}"}}
    found = check(Validate(task=table(files, verifier))).sides[0].graded
    assert found.rejected == []
    # answers 4, 4, 5, 666 and none: each gets the next one's, unless it is written the same; the last the first's
    assert [(r.entry.problem.answer["answer"], r.response) for r in found.foreign] == [
        ("4", "5"), ("5", "666"), ("666", ""), ("", "4")
    ]  # fmt: skip


def test_the_share_that_may_be_rejected_decides(report):
    for share, passes in ((0.19, False), (0.2, True)):
        assert report._replace(options=report.options.model_copy(update={"rejected": share})).passes == passes


def test_a_task_without_gold_answers_says_so(files):
    found = check(Validate(task=table(files, {"function": {"function": f"{files['own']}:f"}})))
    assert found.passes
    assert "**No gold answers to verify.**" in as_markdown(found)


def test_countdown_passes():
    found = check(Validate(task="countdown", problems=30))
    assert [checked.graded.verified for checked in found.sides] == [30, 30]
    assert found.passes


def test_a_table_with_nothing_to_train_on_is_checked_alone(files):
    found = check(Validate(task=table(files, train_data=None)))
    assert [checked.side.name for checked in found.sides] == ["held out"]
    assert found.across is None
    assert as_data(found)["across"] is None
    assert "held out" in as_markdown(found)


def test_prompts_are_measured_by_the_tokenizer_and_the_context(files, tmp_path):
    """The shipped tokenizer has a token per character and one to begin with; its model's context is 256."""
    short = write(tmp_path / "short.jsonl", {"problem": "1+2", "answer": "3"})
    long = write(tmp_path / "long.jsonl", {"problem": "1+" * 125, "answer": "1"}, {"problem": "1+1", "answer": "2"})
    task = {"table": {"train_data": short, "heldout_data": long, "prompt": "{problem}"}}
    for max_tokens, too_long in ((5, 0), (6, 1)):
        found = check(Validate(task=task, model="base:countdown", max_tokens=max_tokens)).sides[1].lengths
        assert (found.tokens, found.context) == ([251, 4], 256)
        assert len(found.too_long) == too_long


def test_prompts_that_the_tokenizer_cannot_write_are_refused_as_a_run_would(tmp_path):
    whole = write(tmp_path / "whole.jsonl", {"problem": "one+2", "answer": "3"}, {"problem": "1+1", "answer": "2"})
    task = {"table": {"heldout_data": whole, "prompt": "{problem}"}}
    found = check(Validate(task=task, model="base:countdown", max_tokens=5))
    [refused] = found.refused
    assert re.search(r"whole.jsonl, line 1: problem .*: the tokenizer has no token for 'e', 'n', 'o'", refused)
    assert not found.passes
    assert check(Validate(task=task)).passes, "without a model no prompt is written"


# the command


def run(capsys, *words: str) -> tuple[int, str]:
    status = main(["validate", *words])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_the_command_keeps_what_it_found_and_fails(files, tmp_path, capsys):
    path = write(tmp_path / "task.yaml", table(files))
    status, said = run(capsys, path, "--out", str(tmp_path / "out"), "near=0.9")
    assert status == 3
    assert "does not pass" in said
    assert "line 5: the field 'answer' holds no answer" in said
    data = json.loads((tmp_path / "out/validate.json").read_text())
    assert data["asked"]["near"] == 0.9
    assert len(data["sides"][0]["refused"]) == 1
    assert (tmp_path / "out/validate.md").read_text().startswith("# Validation")


def test_a_recipe_brings_its_task_model_and_length(capsys):
    status, said = run(capsys, "grpo", "--dry-run", "problems=7", "sample.max_tokens=3")
    assert status == 2
    assert "max_tokens" in said
    status, said = run(capsys, "grpo", "--dry-run", "problems=7")
    assert status == 0
    for line in ("model: base:countdown", "max_tokens: 96", "  chat: false", "problems: 7", "  countdown:"):
        assert line in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cuntdown"], "there is no recipe 'cuntdown'"),
        (["{table: {heldout_data: nowhere.jsonl}}"], "nowhere.jsonl: no such file"),
        (["countdown", "nera=1"], "nera=1: nera is not a key (did you mean 'near'?)"),
        (["countdown", "near=2"], "near is 2, but should be at most 1"),
        (["countdown", "--model", "base:cuntdown"], "model 'base:cuntdown' is not a shipped base"),
        (["countdown", "--model", "./nothing"], "model './nothing': "),
        (["countdown", "--model", "base:countdown", "policy.chat=true"], "has no chat template, which policy.chat"),
        (["countdown", "--out", __file__], "is a file; choose a folder for the report"),
    ],
)
def test_mistakes_are_one_sentence(words, sentence, capsys):
    status, said = run(capsys, *words)
    assert status == 2
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_field_that_no_row_has_is_told_once(files):
    with pytest.raises(UserError, match="line 1: no field 'problm'"):
        check(Validate(task=table(files, prompt="{problm}")))


class Fickle(Environment):
    """Says another number every time; fails at the problem that is told to."""

    said = 0
    step_size = 0

    def begin(self, problem: Problem, seed: int) -> str:
        if problem.answer == "fail":
            raise OSError("gone")
        return ""

    def step(self, text: str) -> Reply:
        Fickle.said += self.step_size
        return Reply(str(Fickle.said), done=text == "2", verdict=correct() if text == "2" else None)


class Steady(Fickle):
    step_size = 0


class Moody(Fickle):
    step_size = 1


class Turning(TurnTask):
    """Problems without demonstrations."""

    trusted: ClassVar[bool] = True
    made: Any = Steady

    @property
    def name(self) -> str:
        return "turning"

    def make_environment(self) -> Environment:
        return self.made()


def test_environments_are_given_the_same_turns_twice() -> None:
    problems = [Problem(f"p{i}", "") for i in range(12)]
    alike = compare_environments(Turning(), problems)
    assert alike == (8, [], [], 8), "the turn that ends a rollout is not answered"
    moody = compare_environments(Turning(made=Moody), problems[:2])
    assert moody == (2, ["p0", "p1"], [], 2)
    assert (
        "2 differed between the two plays, such as p0: branching recipes need environments that repeat their replies"
        in moody.sentence
    )
    failing = compare_environments(Turning(), [Problem("bad", "", "fail"), *problems[:2]])
    assert failing == (3, [], ["bad (OSError: gone)"], 2)
    assert "1 failed, such as bad (OSError: gone)" in failing.sentence


class Wavering(Environment):
    """Differs in one thing of its reply, or of its verdict, from environment to environment."""

    made = 0

    def begin(self, problem: Problem, seed: int) -> str:
        self.other, self.what = bool(Wavering.made % 2), problem.answer
        Wavering.made += 1
        return ""

    def step(self, text: str) -> Reply:
        # an error has no score that could differ
        verdict = Verdict(Outcome.INCORRECT, 0.0) if self.what == "score" else Verdict(Outcome.ERROR, math.nan)
        changed: dict[str, Any] = {"score": 0.5} if self.what == "score" else {}
        changed |= {"seconds": 7.0} if self.what == "seconds" else {}
        changed |= {"detail": "otherwise"} if self.what == "detail" else {}
        reply = Reply("", True, replace(verdict, **changed) if self.other else verdict)
        return reply._replace(**{self.what: True}) if self.other and self.what in ("error", "cut") else reply


@pytest.mark.parametrize(
    ("what", "alike"),
    [("", True), ("seconds", True), ("score", False), ("detail", False), ("error", False), ("cut", False)],
)
def test_environments_are_alike_in_all_but_the_seconds_of_a_verdict(what: str, alike: bool) -> None:
    assert (compare_environments(Turning(made=Wavering), [Problem("p", "", what)]).otherwise == []) is alike


def test_the_questions_of_several_hops_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """One question about two environments is no repetition; every demonstration is played."""
    assert main(["validate", "hops", "problems=40"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"8 problems were played twice, with \d+ turns answered; both plays were identical", told)
    assert "0 of 40 identical" in told
