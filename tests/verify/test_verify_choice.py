# ruff: noqa: RUF001 - signs that look like others
r"""Multiple choice: letters in any wrapping, texts of options, golds as tables have them, and what is no letter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.record import Outcome, Problem
from outrider.verify.choice import MultipleChoice, options_of
from outrider.verify.choice_letter import read_choice
from outrider.verify.maths import Maths
from verdicts import check_time_grows_with_length

OPTIONS = {"A": "10 joules", "B": "12 joules", "C": "15 joules", "D": "a lot"}

# The option that is read; two: more than one; —: none. A line break is written as a sign of its own.
RESPONSES = r"""
B | B
B | (B)
B | [B]
B | B.
B | B)
B | B: 12
B | **B**
B | **B.**
B | **(B) 12**
B | \text{B}
B | \textbf{(B) }12
B | \boxed{\textbf{(B)}12}
B | $\boxed{\mathrm{B}}$
B | Option B
B | choice (b)
B | Answer: B
B | answer: b
B | The answer is B.
B | The correct answer is **B**.
B | The correct answer is: B
B | The correct answer is (B) 12.
B | \boxed{B}
B | \boxed{\text{B. 12 joules}}
B | \boxed{\text{Option B}}
B | So the answer is \boxed{B}.
B | B is correct.
B | Therefore, (B) is the correct answer.
B | Option B is the right one.
B | I would choose B.
B | The correct option is B because 12 is even.
B | The best choice is option B, since 12 is even.
B | <answer>B</answer>
B | Answer: B) 12⏎
B | **Answer:** B
B | **Final Answer: (B)**
B | ### Answer⏎B
B | #### B
B | \boxed{C} looks right, but no.⏎Answer: B
B | Answer: C⏎On second thought: \boxed{B}
B | The answer is C. Wait, that is wrong. The answer is B.
B | A is wrong, C is wrong.⏎⏎**B**
B | Answer: \(B\)
B | Answer: $\boxed{\text{(B)}}$
B | The answer is option B: 12 joules.
B | The answer is B - twelve joules
B | Answer - B
B | ANSWER: B
B | My answer: B
B | The right choice would be (B).
B | （B）
B | Ⓑ
B | 12 joules
B | The answer is 12 joules.
B | \boxed{12 \text{ joules}}
B | Answer: 12 joules
two | B or C
two | (B) or (C)
two | Answer: B, C
two | Answer: B and C
— | The answer is either B or C.
two | \boxed{B}, \boxed{C}
two | \boxed{B \text{ or } C}
two | Answer: B. 15 joules
two | (B) 12 joules (C) 15 joules
— | A train leaves the station.
— | I think it is hard.
I | I
— | B^2
— | 2B
— | B + 1
— | Bob
— | The answer is not B.
— | Answer: unknown
— | The answer is a train.
C | Answer: C
C | 15 joules
A | The answer is a.
A | Answer: A
A | \boxed{A}
D | D. Both A and B
D | The answer is D. Both (A) and (C) are true.
— | B'
— | B*
— | \overline{B}
— | B:C
B | B. A train
B | Let's compare. A) is too small. C) is too large. So B) it is.⏎⏎Answer: B) 12 joules
B | Looking at the options:⏎A. no⏎B. yes⏎C. no⏎⏎The correct answer is **B. 12 joules**.
B | The answer is (B).
B | **The correct answer is B.**
B | Thus, the correct choice is **(B) 12 joules**.
B | Therefore, the answer is B) 12 joules.
B | Hence option (B) is correct.
B | Hence, B.
B | So, B
B | Final answer: B
B | Final Answer: \boxed{B}
B | \[\boxed{\text{(B) }12\text{ joules}}\]
B | $\boxed{\textbf{B}}$
B | \boxed{\textbf{(B)}\ 12\text{ joules}}
B | \boxed{(B)}
B | \boxed{B.}
B | \boxed{B)}
B | \boxed{\mathbf{B}}
B | \boxed{\text{Choice B}}
B | \boxed{\text{The answer is B}}
B | \boxed{\text{option (B)}}
B | \boxed{\textbf{(B)}~12}
B | \boxed{\text{B}: 12}
B | \boxed{\text{B) 12 joules}}
B | \boxed{\mathrm{(B)}}
B | The answer must be B, because energy is conserved.
B | Answer: **B**. Energy is conserved.
B | Answer: B.⏎Explanation: energy is conserved; option A ignores friction.
B | The energy is 12 joules, so the answer is B.
B | I'd go with B.
B | I think the answer is B.
B | I believe that option B is the best answer.
B | My final answer is B
B | [[B]]
B | ((B))
B | <answer>(B)</answer>
B | <answer>B. 12 joules</answer>
B | Answer: b) 12 joules
B | Answer: $B$
B | Answer: \text{B}
B | Answer: ``B``
B | Answer:B
B | Answer is B
B | Correct option: B
B | Correct answer: (B)
B | The correct letter is B.
B | It is B.
B | It's (B) 12 joules
B | B) 12 joules is correct.
B | The answer is B: 12 joules. Option C would need 15 joules.
B | Of A, B and C, the answer is B.
B | A train does 12 J of work, A is too small. The best option is B.
B | Option A is incorrect. Option C is incorrect. Option B is correct.
A | Option A is correct, B is not.
B | The answer is not A; the answer is B.
C | Answer: B⏎Wait, recompute.⏎Answer: C
C | \boxed{B} no, \boxed{C}
— | \boxed{\text{none of these}}
— | I am not sure.
— | The answer cannot be determined.
— | As an AI model, I can not tell.
A | A
— | The answer is E=mc^2.
two | Answer: (A), (B)
two | Answer: A/B
two | \boxed{A,B}
two | The answer is B or C, depending on friction.
— | Either could be right: A or B
"""
READ = [row.replace("⏎", "\n").split(" | ", 1) for row in RESPONSES.strip().split("\n")]


def verdict(text: str, options: dict[str, str] | None = OPTIONS, finished: bool = True) -> Any:
    return MultipleChoice(options="options").verify(
        Problem("p", "", {"label": "B", "options": options}), text, finished
    )


@pytest.mark.parametrize(("label", "text"), READ)
def test_an_option_is_read_in_any_wrapping(label, text):
    found = verdict(text)
    if label in OPTIONS or label == "I":
        assert (found.success, found.answer) == (label == "B", label)
    else:
        assert found.outcome is Outcome.UNPARSEABLE
        assert found.detail.startswith("two options") == (label == "two")


@pytest.mark.parametrize(("label", "text"), [row for row in READ if "joules" not in row[1]])
def test_letters_are_read_without_options_too(label, text):
    found = verdict(text, None)
    assert found.success == (label == "B")


def test_a_truncated_response_counts_by_a_closed_box_alone():
    assert verdict(r"\boxed{B} because", finished=False).success
    assert verdict("Answer: B", finished=False).detail == "truncated before an option was stated"


def test_a_letter_with_the_text_of_another_option_is_two():
    assert verdict(r"\boxed{B. 15 joules}").detail == "two options: B and C"
    assert verdict(r"\boxed{B. 12 J}").success, "a text that is no option does not matter"


@pytest.mark.parametrize(
    ("fields", "options", "more", "label"),
    [
        ({"answer": "B"}, None, {}, "B"),
        ({"answer": "(b)"}, None, {}, "B"),
        ({"answer": "C. 12"}, None, {}, "C"),
        ({"answer": "C", "options": ["x", "y", "z"]}, "options", {}, "C"),
        ({"answer": "y", "options": ["x", "y", "z"]}, "options", {}, "B"),
        ({"answer": "B. y", "options": ["x", "y", "z"]}, "options", {}, "B"),
        ({"answer": "y", "options": ["A. x", "B. y", "C. z"]}, "options", {}, "B"),
        ({"answer": 1, "options": ["x", "y", "z"]}, "options", {"index": 0}, "B"),
        ({"answer": "1", "options": ["x", "y", "z"]}, "options", {"index": 1}, "A"),
        ({"answer": 12, "options": [10, 12]}, "options", {}, "B"),
        ({"answer": "B", "options": {"A": "x", "B": "y"}}, "options", {}, "B"),
        ({"answer": "y", "options": {"label": ["A", "B"], "text": ["x", "y"]}}, "options", {}, "B"),
        ({"answer": "2", "options": {"label": ["1", "2"], "text": ["x", "y"]}}, "options", {}, "2"),
        ({"answer": "B", "options": [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]}, "options", {}, "B"),
        ({"answer": "y", "a": "x", "b": "y"}, ["a", "b"], {}, "B"),
        ({"answer": 0}, None, {"index": 0}, "A"),
    ],
)
def test_golds_and_options_as_tables_have_them(fields, options, more, label):
    verifier = MultipleChoice(options=options, **more)
    problem = Problem("p", "", verifier.reference(fields, "answer"))
    assert problem.answer["label"] == label
    assert verifier.verify(problem, verifier.right(problem), True).success
    assert verifier.verify(problem, f"The answer is ({label}).", True).success


@pytest.mark.parametrize(
    ("fields", "options", "more", "said"),
    [
        ({"answer": ""}, None, {}, "holds no answer"),
        ({"answer": "twelve"}, None, {}, "is not a letter"),
        ({"answer": "B or C"}, None, {}, "is not a letter"),
        ({"answer": "E", "options": ["x", "y"]}, "options", {}, "is not one of A, B or the text of an option"),
        ({"answer": "1", "options": ["x", "y"]}, "options", {}, "index: 0 or 1 reads positions"),
        ({"answer": "2", "options": ["x", "y"]}, "options", {"index": 0}, "no position from 0 to 1"),
        ({"answer": "A"}, "options", {}, "no field 'options'"),
        ({"answer": "A", "options": "x, y"}, "options", {}, "no list or object of options"),
        ({"answer": "A", "options": ["x"]}, "options", {}, "has 1 options"),
        ({"answer": "A", "options": {"label": ["A", "B"], "text": ["x"]}}, "options", {}, "2 labels and 1 texts"),
        ({"answer": "z", "options": ["z", "z"]}, "options", {}, "is not one of"),
    ],
)
def test_a_row_that_no_response_can_be_verified_by_is_a_sentence(fields, options, more, said):
    with pytest.raises(ValueError, match=said):
        MultipleChoice(options=options, **more).reference(fields, "answer")


def test_numbered_options_are_read_by_their_numbers():
    options = {"1": "x", "2": "y"}
    verifier, problem = MultipleChoice(options="options"), Problem("p", "", {"label": "2", "options": options})
    for text in ("Answer: 2", r"\boxed{(2)}", "Option 2", "2. y", "y"):
        assert verifier.verify(problem, text, True).success
    assert not verifier.verify(problem, "Answer: 1", True).success


def test_options_of_two_equal_texts_are_distinguished_by_letters_alone():
    assert options_of({"o": ["x", "x", "y"]}, "o") == {"A": "x", "B": "x", "C": "y"}
    assert (
        not MultipleChoice()
        .verify(Problem("p", "", {"label": "A", "options": {"A": "x", "B": "x"}}), "Answer: x", True)
        .success
    )


# Under math, where the gold answer is an option.
UNDER_MATHS = r"""
B | \text{(B)} | correct
B | (b) | correct
B | \textbf{(B)}12 | correct
B | \text{B. twelve} | correct
B | \text{Answer: B} | correct
(B) | B | correct
\text{(D)} | D) 5 | correct
C. 12 | C | correct
C. 12 | 12 | correct
C. 12 | \textbf{(C) }12 | correct
A:B=1:2 | A:B=1:2 | correct
C. 12 | 13 | wrong
C. 12 | B | wrong
A:B=1:2 | A:B=1:3 | wrong
B | B^2 | wrong
B | B+1 | wrong
B | B-1 | wrong
B | B - 1 | wrong
B | (B) - 1 | wrong
B | (B)^2 | wrong
B | (B)(C) | wrong
B | 2B | wrong
B | BC | wrong
B | -B | wrong
B | |B| | wrong
B | B' | wrong
B | B! | wrong
B | B_1 | wrong
B | B(1) | wrong
B | B/2 | wrong
B | \overline{B} | wrong
B | B \cdot 2 | wrong
B | B, C | wrong
B | B \text{ or } C | wrong
B | A | wrong
B | 12 | wrong
C | C+D | wrong
E | E=mc^2 | wrong
"""


@pytest.mark.parametrize("row", UNDER_MATHS.strip().splitlines())
def test_maths_reads_an_option_where_the_gold_answer_is_one(row):
    pytest.importorskip("math_verify")
    gold, answer, right = row.split(" | ")
    verifier = Maths()
    problem = Problem("p", "", verifier.reference({"answer": gold}, "answer"))
    assert verifier.verify(problem, rf"\boxed{{{answer}}}", True).success == (right == "correct")


@pytest.mark.parametrize(
    ("text", "options", "success"),
    [
        ("\\boxed{41}, or rather\nAnswer: 42", {"no_box": "answer_line"}, True),
        ("\\boxed{42}, or rather\nAnswer: 41", {"no_box": "answer_line"}, False),
        ("Answer: 41\nor rather \\boxed{42}", {"no_box": "answer_line"}, True),
        ("Answer: $\\boxed{42}$", {"no_box": "answer_line"}, True),
        ("\\boxed{41}\n#### 42", {"no_box": "answer_line"}, True),
        ("\\boxed{42}\nAnswer:", {"no_box": "answer_line"}, True),
        ("\\boxed{42}\nAnswer: 41", {}, True),
        ("\\boxed{42}\nAnswer: 41", {"no_box": "answer_line", "boxes": "first"}, True),
        ("\\boxed{42}\nAnswer: 41", {"no_box": "answer_line", "boxes": "all"}, False),
    ],
)
def test_the_answer_line_that_follows_a_box_wins_where_both_are_read(text, options, success):
    pytest.importorskip("math_verify")
    assert Maths(**options).verify(Problem("p", "", "42"), text, True).success is success


def test_of_a_truncated_response_the_line_does_not_win():
    pytest.importorskip("math_verify")
    assert Maths(no_box="answer_line").verify(Problem("p", "", "42"), "\\boxed{42}\nAnswer: 4", False).success


PARTS = [
    "A",
    "B",
    "(",
    ")",
    ".",
    ":",
    "answer",
    " is ",
    "option ",
    "\\boxed{",
    "}",
    "\\text{",
    "**",
    "or ",
    "12",
    "\n",
    "Answer: ",
]


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=2)).map("".join), st.sampled_from([None, OPTIONS]))
def test_any_response_is_verified(text, options):
    found = verdict(text, options)
    assert found.outcome in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE)
    assert read_choice(text) is None or read_choice(text).label


@pytest.mark.parametrize(
    "part",
    ["answer is ", "the ", "final ", "(A) ", "B or ", "\\boxed{", "option A is ", "Answer: \n", "A is correct "],
)
def test_time_grows_with_the_length_of_a_hostile_text(part):
    def work(text: str) -> None:
        verdict(text)
        read_choice(text[:1000])

    check_time_grows_with_length(work, part, 20_000, 2e-3)
