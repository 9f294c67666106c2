"""Comparing final answers: what is extracted, what counts as equal, and that no text costs time or raises."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.record import Outcome
from outrider.verify.answers import extract, last_box, normalise, number, verify_text
from verdicts import check_time_grows_with_length


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {3}", "3"),
        (r"\boxed{4} then an open \boxed{5", "4"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"} } \boxed{6} }", "6"),
        (r"{{ \boxed{7}", "7"),
        (r"\boxed{x + \boxed{8}}", r"x + \boxed{8}"),
        (r"a line break, or a backslash that was escaped twice: \\boxed{9}", "9"),
        (r"a line break \\\boxed{9}", "9"),
        (r"in a frame, \fbox{9}", "9"),
        (r"\boxed 1", None),
        ("", None),
    ],
)
def test_the_last_closed_box_is_taken(text, answer):
    assert last_box(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"#### 1, or rather \boxed{2}", "2"),
        ("#### 1\n#### 2\nand 3", "2"),
        ("####\n 72 eggs \nthat is all", "72 eggs"),
        ("#### \n", None),
        ("it costs 5 and then 1,234.50.", "1,234.50"),
        ("from 12-7", "12-7"),
        ("the low is -7", "-7"),
        ("the low is \u22127", "\u22127"),
        ("the points (3,4)", "(3,4)"),
        ("a half is 1/2", "1/2"),
        ("no thousands: 1,2345", "1,2345"),
        (r"\boxed{} but 8", "8"),
        ("no number at all", None),
        ("", None),
    ],
)
def test_box_then_marker_then_last_number(text, answer):
    assert extract(text) == answer


@pytest.mark.parametrize("text", ["so it is 1", "#### 1", r"\boxed{1"])
def test_a_response_that_was_truncated_may_end_in_half_a_number(text):
    assert extract(text, finished=False) is None
    assert verify_text("1", text, finished=False, match="number").outcome is Outcome.UNPARSEABLE


def test_a_closed_box_is_an_answer_even_where_the_rest_is_truncated():
    assert verify_text("1", r"\boxed{1} as can be seen fr", finished=False).success


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000),
        (r"10,\!000", 10000),
        ("-7", -7),
        ("+7", 7),
        ("\u22127", -7),  # the minus sign of typesetting
        ("72.", 72),
        ("$72.$", 72),
        (r"\$1,000.50", Fraction("1000.5")),
        ("-$5", -5),
        (r"50\%", 50),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("3e2", 300),
        ("2/6", Fraction(1, 3)),
        (r"\dfrac{-1}{2}", Fraction(-1, 2)),
        (r"-\frac12", Fraction(-1, 2)),
        ("x = 5", 5),
        (r"72 \text{ dollars}", 72),
        (r"\text{72}", 72),
        ("1 1/2", Fraction(3, 2)),
        (r"-1\frac{1}{2}", Fraction(-3, 2)),
        (r"1\frac{-1}{2}", None),
        (r"5 \text{ million}", None),
        (r"5 \text{ or more}", None),
        ("1,2345", None),
        ("3 4", None),
        (r"2\pi", None),
        ("2 or 3", None),
        ("1/0", None),
        ("0x10", None),
        ("\uff11\uff12", 12),
        ("", None),
        ("1e400", None),
        ("1" * 200, None),
    ],
)
def test_what_is_one_number_and_which(text, value):
    assert number(text) == value


@given(st.fractions(max_denominator=10**6, min_value=-(10**9), max_value=10**9))
def test_every_way_of_writing_a_fraction_is_the_same_number(value):
    sign = "-" if value < 0 else ""
    above, below = abs(value.numerator), value.denominator
    for text in (f"{sign}{above}/{below}", f"{sign}{above:,}/{below:,}", rf"{sign}\frac{{{above}}}{{{below}}}"):
        assert number(text) == value
        assert verify_text(f"{value}", rf"\boxed{{{text}}}", match="number").success


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_decimals_are_exact(value):
    assert number(f"{value:,f}") == Fraction(value)
    assert not verify_text(f"{value:f}", f"#### {value + 1:f}", match="number").success


def test_numbers_are_compared_exactly_and_not_within_a_tolerance():
    assert not verify_text("1/3", "#### 0.3333333333333333", match="number").success
    assert not verify_text("9007199254740992", "#### 9007199254740993", match="number").success


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\dfrac{\pi}{2})", True),
        (r"\text{Evelyn}", "Evelyn", True),
        ("p - q", "p-q", True),
        ("11/2", "1 1/2", False),
        ("p - q", "q - p", False),
        ("n=1,2,3", "n=2,3,4", False),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False),
        ("(1,2)", "(2,1)", False),
        (r"\leftarrow", "arrow", False),
    ],
)
def test_text_is_compared_without_its_spelling(gold, answer, same):
    assert verify_text(gold, rf"\boxed{{{answer}}}").success is same


def test_each_outcome():
    assert verify_text("7", "#### 7", match="number").outcome is Outcome.CORRECT
    assert verify_text("7", "#### 8", match="number").outcome is Outcome.INCORRECT
    assert verify_text("7", "#### seven", match="number").detail == "not a number"
    assert verify_text("7", "I do not know", match="number").outcome is Outcome.UNPARSEABLE
    assert verify_text("7", "", match="number").score == 0.0


def test_a_gold_answer_that_is_no_number_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'p - q' is not a number"):
        verify_text("p - q", "7", match="number")


def test_mentioning_the_answer_does_not_pay():
    assert not verify_text("42", r"is it 42? no: \boxed{41}", match="number").success
    assert not verify_text("42", "42 is wrong, #### 41", match="number").success


# Text made of the parts that the patterns look for is where they would break or slow down.
PARTS = [
    "\\boxed",
    "{",
    "}",
    "\\",
    "####",
    "\n",
    "1",
    ",",
    ".",
    "e",
    "-",
    "/",
    "$",
    " ",
    "\\text{",
    "\\frac",
    "\ud800",
    "\0",
]
texts = st.text(st.characters(exclude_categories=[])) | st.lists(st.sampled_from(PARTS)).map("".join)


@given(texts, st.booleans(), st.sampled_from(["exact", "number"]))
@example("\\boxed{" * 2000, True, "exact")
@example("\\boxed{" + "{" * 5000 + "}" * 5001, True, "number")
def test_no_text_raises_and_every_verdict_can_be_written_to_disk(text, finished, match):
    verdict = verify_text("7", text, finished, match)
    assert verdict.outcome in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE)
    assert verdict.success == (verdict.score == 1.0)
    assert len((verdict.answer + verdict.detail).encode("utf-8")) < 1000


@given(st.text("abc {}\\$.,%12"))
def test_an_answer_equals_itself_in_a_box(answer):
    if last_box(rf"\boxed{{{answer}}}") == answer == answer.strip() != "":
        assert verify_text(answer, rf"\boxed{{{answer}}}").success


@pytest.mark.parametrize(
    "part", ["\\boxed{", "\\boxed ", "{", "}", "1", "1,", "1,111,", "1e", "1/", "####", " ", "$", "\\", "-", ".1 "]
)
def test_time_grows_with_the_length_and_not_with_its_square(part):
    def work(text: str) -> None:
        verify_text("7", text, match="number")
        verify_text("7", rf"\boxed{{{text}}}")

    check_time_grows_with_length(work, part, 10_000)


@pytest.mark.parametrize("answer", ["10**10**10", "9" * 10**6, "1e" + "9" * 50, "1/" + "9" * 10**6, "-" * 10**6])
def test_huge_numbers_cost_nothing(answer):
    start = time.process_time()
    assert not verify_text("7", rf"\boxed{{{answer}}}", match="number").success
    assert time.process_time() - start < 0.5


def test_normalise_keeps_what_carries_meaning():
    assert normalise(r"\frac{\pi}{2}") == r"\frac{\pi}{2}"
    assert normalise("New York") == normalise(" New  York. ") == "NewYork"
