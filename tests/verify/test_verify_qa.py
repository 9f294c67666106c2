"""Answers to questions: normalisation, exact match and F1 against a plain reference, and where an answer is taken."""

from __future__ import annotations

import json
import re
import string
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.record import Outcome, Problem
from outrider.tasks import Table
from outrider.verify.question_answering import QuestionAnswering, extract, f1, normalise

DATA = Path(__file__).parents[3] / "shared" / "data"
WORDS = st.lists(st.sampled_from(["the", "a", "An", "Paris", "paris,", "U.S.", "1996-97", "!", "x", "yes", "no"]))


def verdict(text: str, *answers: str, finished: bool = True, **options):
    return QuestionAnswering(**options).verify(Problem("q", "?", list(answers)), text, finished)


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("The Beatles", "beatles"),
        ("U.S.", "us"),
        ("  an   apple\ta day ", "apple day"),
        ("theatre, Anna", "theatre anna"),  # an article is a word, not a part of one
        ("1996-97", "199697"),
        ("e\u0301te\u0301", "été"),
        ("Rock 'n' Roll", "rock n roll"),
    ],
)
def test_what_does_not_change_an_answer(given, right):
    assert normalise(given) == normalise(right)
    assert verdict(f"<answer>{given}</answer>", right).success


@pytest.mark.parametrize(("one", "other"), [("A", "The"), ("A", "B"), ("!!!", "???"), ("!!!", "a"), ("The The", "The")])
def test_answers_that_normalising_would_empty_stay_different(one, other):
    """Removing articles and punctuation altogether would make all of these the empty string."""
    assert normalise(one) != normalise(other)
    assert not verdict(f"<answer>{one}</answer>", other).success
    assert verdict(f"<answer>{one}</answer>", one).success


def plain_f1(answer: str, right: str) -> float:
    """Precision and recall by crossing out words one by one."""

    def words(text: str) -> list[str]:
        without = "".join(c for c in text.lower() if c not in string.punctuation)
        kept = re.sub(r"\b(a|an|the)\b", " ", without).split()
        return kept or without.split() or text.lower().split()

    given, wanted = words(answer), words(right)
    if given != wanted and {" ".join(given), " ".join(wanted)} & {"yes", "no", "noanswer"}:
        return 0.0
    left, common = list(wanted), 0
    for word in given:
        if word in left:
            left.remove(word)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


@given(WORDS.map(" ".join), WORDS.map(" ".join))
@example("Paris Paris", "Paris")
@example("yes Paris", "yes")
def test_f1_is_the_harmonic_mean_of_precision_and_recall(answer, right):
    assert f1(answer, right) == pytest.approx(plain_f1(answer, right))
    assert f1(answer, right) == f1(right, answer)


@given(WORDS.map(" ".join))
def test_an_exact_match_has_the_largest_f1(answer):
    if answer:
        assert f1(answer, answer) == 1


def test_by_default_words_in_another_order_are_wrong_and_score_nothing():
    swapped = "<answer>Paris, Texas</answer>"
    assert verdict(swapped, "Texas Paris").score == 0
    assert verdict(swapped, "Texas Paris", f1=1.0).success


def test_the_best_of_the_aliases_counts():
    found = verdict("<answer>G. Stanley</answer>", "Granville Stanley Hall", "Stanley Hall", f1=0.5)
    assert (found.outcome, found.score) == (Outcome.CORRECT, 0.5)  # 1 of 2 words, of 2
    assert verdict("<answer>G. Stanley</answer>", "Granville Stanley Hall", f1=0.5).score == pytest.approx(0.4)
    assert verdict("<answer>Stanley Hall</answer>", "G. Stanley Hall", "Stanley Hall").success


@pytest.mark.parametrize(
    ("text", "take", "finished", "answer"),
    [
        ("<answer>a</answer> no, <answer>b</answer>", "tag", True, "b"),
        ("<answer>a</answer> and then", "tag", False, "a"),
        ("<answer>a</answer> <answer>b", "tag", True, "a"),
        ("<answer>b", "tag", True, ""),
        ("<answer><answer>a</answer></answer>", "tag", True, "a"),
        ("<answer>a</answer></answer>", "tag", True, "a"),
        ("<answer>a <answer>b</answer>", "tag", True, "b"),
        ("<answer>a</answer><answer></answer>", "tag", True, ""),
        ("b</answer>", "tag", True, ""),
        ("Paris", "tag", True, ""),
        ("so\nParis \n\n", "last_line", True, "Paris"),
        ("so\nPar", "last_line", False, ""),
        (" Paris\nTexas ", "whole", True, "Paris\nTexas"),
        ("Paris", "whole", False, ""),
        ("", "whole", True, ""),
    ],
)
def test_where_the_answer_is_taken_from(text, take, finished, answer):
    assert extract(text, take, finished) == answer
    found = verdict(text, "b", take=take, finished=finished)
    assert (found.outcome is Outcome.UNPARSEABLE) == (not answer)


def test_hostile_answers_are_quick_and_kept_short():
    start = time.process_time()
    for text in ("<answer>" * 100_000, "<answer>" + "a " * 500_000 + "</answer>", "<answer>\ud800\0</answer>"):
        found = verdict(text, "a", f1=0.5)
        assert not found.success
        found.answer.encode()
        assert len(found.answer) <= 200
    assert time.process_time() - start < 3


# rows


def table(folder: Path, *rows: dict, **options) -> Table:
    path = folder / "qa.jsonl"
    path.write_text("".join(json.dumps({"question": f"q{i}?", **row}) + "\n" for i, row in enumerate(rows)))
    return Table(train_data=str(path), heldout_data=str(path), prompt="{question}", verifier={"qa": options})


def test_gold_answers_come_from_a_text_a_list_and_the_aliases():
    rows = [{"answer": ["a b", "c\n d"], "more": ["a b", "e", ""]}, {"answer": 7, "more": None}]
    verifier = QuestionAnswering(aliases="more")
    assert [verifier.reference(row, "answer") for row in rows] == [["a b", "c d", "e"], ["7"]]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"answer": ""}, "qa.jsonl, line 1: the field 'answer' holds no answer"),
        ({"answer": []}, "qa.jsonl, line 1: the field 'answer' holds no answer"),
        ({"answer": [None]}, "qa.jsonl, line 1: the field 'answer' holds null, not a text or number"),
        ({"answer": "x", "alias": []}, "qa.jsonl, line 1: no field 'aliases' (did you mean 'alias'?)"),
    ],
)
def test_a_row_that_nothing_could_be_verified_by_is_named(tmp_path, row, sentence):
    options = {"aliases": "aliases"} if "alias" in row else {}
    with pytest.raises(UserError) as caught:
        table(tmp_path, row, **options).heldout(1)
    assert sentence in str(caught.value)


SETS = [
    ("hotpotqa/dev_qa1000.jsonl", None),
    ("2wikimultihopqa/dev150.jsonl", "aliases"),
    ("musique/train100.jsonl", "answer_aliases"),
    ("bamboogle/test.jsonl", None),
]


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")
@pytest.mark.parametrize("take", ["tag", "last_line", "whole"])
@pytest.mark.parametrize(("name", "aliases"), SETS)
def test_every_gold_answer_and_alias_of_the_public_sets_is_accepted(name, aliases, take):
    verifier = QuestionAnswering(aliases=aliases, take=take)
    for line in (DATA / name).read_text().splitlines():
        row = json.loads(line)
        problem = Problem("q", row["question"], verifier.reference(row, "answer"))
        assert verifier.verify(problem, verifier.right(problem), finished=True).success, row["id"]
        for answer in problem.answer:
            text = f"It is\n<answer>{answer}</answer>" if take == "tag" else answer
            assert verifier.verify(problem, text, finished=True).success, (row["id"], answer)
