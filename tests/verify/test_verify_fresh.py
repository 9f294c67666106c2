# ruff: noqa: RUF001 - signs that look like others
"""Responses as chat models write them, and the verdict that each deserves: reasoning, options, answer lines."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from outrider.environments.tool_calls import read_turn
from outrider.record import Outcome, Problem
from outrider.verify.choice import MultipleChoice
from outrider.verify.maths import Maths
from outrider.verify.question_answering import QuestionAnswering
from outrider.verify.verifier import Verifier
from outrider.verify.verifiers import VERIFIERS

RIGHT, WRONG = True, False


def verifier_named(name: str) -> Verifier:
    """The verifier of a table's row."""
    if name in ("math", "answer_line"):
        if find_spec("math_verify") is None:
            pytest.skip("math-verify is not installed")
        return Maths(no_box="answer_line") if name == "answer_line" else Maths()
    if name.startswith("qa"):
        return QuestionAnswering(take="tag" if name == "qa_tag" else "whole")
    return VERIFIERS[name]()


def check(name: str, gold: str, response: str, right: bool, prompt: str = "") -> None:
    """The verdict is the right one, and none without knowledge."""
    verifier = verifier_named(name)
    problem = Problem("new", prompt, verifier.reference({"answer": gold}, "answer"))
    verdict = verifier.verify(problem, response, True)
    assert verdict.outcome not in (Outcome.TIMEOUT, Outcome.ERROR), verdict
    assert verdict.success is right, verdict


REASONING = [
    (
        "math",
        "12",
        "<think>\nSix pairs, so \\boxed{6}... no, \\boxed{12}.\n</think>\n\nThere are \\boxed{12} ways.",
        RIGHT,
    ),
    ("math", "6", "<think>\nSix pairs, so \\boxed{6}... no, 12.\n</think>\n\nThere are \\boxed{12} ways.", WRONG),
    ("math", "6", "<think>So it is \\boxed{6}.</think>\n\nThe answer is six.", WRONG),
    ("number", "18", "<think>\n16 - 3 - 4 = 9; 9 * 2 = 18\n</think>\nJanet makes **$18** every day.", RIGHT),
    ("number", "18", "<think>\n9 * 2 = 18\n</think>\nJanet makes **$16** every day.", WRONG),
    ("number", "18", "<think>\n9 * 2 = 18\n</think>\n\n", WRONG),
    ("exact", "blue", "<reasoning>red? \\boxed{red}</reasoning>\n\\boxed{blue}", RIGHT),
    ("exact", "red", "<reasoning>red? \\boxed{red}</reasoning>\n\\boxed{blue}", WRONG),
    ("exact", "red", "<reasoning>\\boxed{red}</reasoning>\nIt is blue.", WRONG),
    ("qa", "Paris", "<think>France... capital is Paris, not Lyon.</think>\nParis", RIGHT),
    ("qa", "Paris", "<think>France... capital is Paris.</think>\nLyon", WRONG),
    ("qa", "Paris", "<think>\nParis", WRONG),
    ("choice", "C", "<thinking>Answer: B, as 4 is even. Wait.</thinking>\n\n**Answer: C**", RIGHT),
    ("choice", "B", "<thinking>Answer: B, as 4 is even. Wait.</thinking>\n\n**Answer: C**", WRONG),
    ("choice", "B", "<thinking>\nAnswer: B\n</thinking>\n\nI cannot tell.", WRONG),
    ("math", "7", "<think>\nThen \\boxed{7}", WRONG),
    ("math", "7", "<think>\nOkay, so x = 7. Therefore \\boxed{7}.\n\nBut wait, let me double-check that", WRONG),
    ("number", "7", "<think>\nOkay, #### 7", WRONG),
    ("number", "7", "<|begin_of_thought|>\n\n3 + 4 = 7", WRONG),
    ("choice", "A", "<think>\nAnswer: A", WRONG),
    ("math", "7", "<think>one</think><think>\\boxed{7}", WRONG),
    ("number", "7", "<think>one</think>\nSo far 5.\n<think>But 7", WRONG),
    ("math", "9", "Sure.\n<THINK>\n\\boxed{9}", WRONG),
    ("math", "4", "<think>a <think>\\boxed{3}</think> b \\boxed{5}</think> \\boxed{4}", RIGHT),
    ("math", "5", "<think>a <think>\\boxed{3}</think> b \\boxed{5}</think> \\boxed{4}", WRONG),
    ("math", "5", "<think>a <think>\\boxed{3}</think> b \\boxed{5}</think>", WRONG),
    ("number", "40", "<think>It is 30.</think>\nFirst: 30.\n<think>No, 40.</think>\nThe answer is 40.", RIGHT),
    ("number", "30", "<think>It is 30.</think>\nFirst: 30.\n<think>No, 40.</think>\nThe answer is 40.", WRONG),
    ("math", "2", "<think>x</think>\n\\boxed{2}\n<think>or was it 3?</think>\nYes: \\boxed{2}", RIGHT),
    (
        "math",
        "10",
        "<|begin_of_thought|>\\boxed{1}<|end_of_thought|>\n<|begin_of_solution|>\\boxed{10}<|end_of_solution|>",
        RIGHT,
    ),
    (
        "math",
        "1",
        "<|begin_of_thought|>\\boxed{1}<|end_of_thought|>\n<|begin_of_solution|>\\boxed{10}<|end_of_solution|>",
        WRONG,
    ),
    ("math", "10", "[THINK]\\boxed{3}[/THINK]\\boxed{10}", RIGHT),
    ("math", "3", "[THINK]\\boxed{3}[/THINK] It is ten.", WRONG),
    ("number", "10", "◁think▷3◁/think▷ The answer is 10.", RIGHT),
    ("number", "3", "◁think▷3◁/think▷ The answer is ten.", WRONG),
    ("number", "10", "<scratchpad>7*9=63</scratchpad>\n#### 10", RIGHT),
    ("number", "63", "<scratchpad>7*9=63</scratchpad>\nI do not know.", WRONG),
    ("number", "5", "<reasoning>\n2+3=5\n</reasoning>\n<answer>\n5\n</answer>", RIGHT),
    ("number", "5", "<reasoning>\n2+3=5\n</reasoning>\n<answer>\n6\n</answer>", WRONG),
    (
        "math",
        "8",
        "<|channel|>analysis<|message|>Maybe \\boxed{6}<|end|><|start|>assistant<|channel|>final<|message|>\\boxed{8}",
        RIGHT,
    ),
    (
        "math",
        "6",
        "<|channel|>analysis<|message|>Maybe \\boxed{6}<|end|><|start|>assistant<|channel|>final<|message|>Eight.",
        WRONG,
    ),
    ("math", "8", "We double: \\boxed{8}", RIGHT),
    ("number", "8", "I think the answer is 8.", RIGHT),
    ("math", "8", "<think>\n\n</think>\n\n\\boxed{8}", RIGHT),
    ("math", "8", "The tag `<think>` opens a block. \\boxed{8}", RIGHT),
    ("math", "7", "<think>\nfoo\n</think>\n<answer>\\boxed{7}</answer>", RIGHT),
    ("math", "7", "<think>\nfoo\n</think >\n\\boxed{7}", RIGHT),
    ("math", "7", "< think >\nfoo \\boxed{7}\n</think>\nseven", WRONG),
    ("math", "7", "<think>`</think>` \\boxed{8}</think>\\boxed{7}", RIGHT),
    ("math", "7", "<think>\n```\nprint(1)\n\\boxed{8}\n</think>\n\\boxed{7}", RIGHT),
    ("math", "8", "<think>\n```\nprint(1)\n\\boxed{8}\n</think>\nIt's seven.", WRONG),
    ("number", "7", "<think>\n```python\nx=7\n```\n", WRONG),
    ("math", "7", "```\n<think>\n\\boxed{7}\n```", WRONG),
    ("math", "7", "<Think>\\boxed{8}</Think>\\boxed{7}", RIGHT),
    ("math", "7", "<thinking>\\boxed{8}</thinking>\\boxed{7}", RIGHT),
    ("math", "7", "<thinking>\\boxed{7}</think>", WRONG),
    ("math", "8", "<think>a</think>\\boxed{7}<think>\\boxed{8}</think>", WRONG),
    ("math", "7", "<think>a</think>\\boxed{7}<think>\\boxed{8}</think>", WRONG),
    ("math", "7", "<think>a</think>\\boxed{7}</think>", WRONG),
    ("math", "7", "<think>a</think>\\boxed{7}\n</answer>", RIGHT),
    ("exact", "7", "<think>\\boxed{7}", WRONG),
    ("exact", "7", "<think>8</think>#### 7", RIGHT),
    ("exact", "8", "<think>8</think>I give up", WRONG),
    ("qa_tag", "Paris", "<think><answer>Paris</answer></think><answer>Lyon</answer>", WRONG),
    ("qa_tag", "Lyon", "<think><answer>Paris</answer></think><answer>Lyon</answer>", RIGHT),
    ("qa_tag", "Paris", "<think><answer>Paris</answer></think>Lyon", WRONG),
    ("qa_tag", "Paris", "<think><answer>Paris</answer>", WRONG),
    ("choice", "B", "<think>The answer is B.</think>The answer is C.", WRONG),
    ("choice", "C", "<think>The answer is B.</think>The answer is C.", RIGHT),
]
PROMPTED = [
    ("math", "12", "So 12... \\boxed{11}?\n</think>\n\n\\boxed{12}", "<|im_start|>assistant\n<think>\n", RIGHT),
    ("math", "11", "So 12... \\boxed{11}?\n</think>\n\n\\boxed{12}", "<|im_start|>assistant\n<think>\n", WRONG),
    ("math", "11", "So \\boxed{11}.", "<|im_start|>assistant\n<think>\n", WRONG),
    ("number", "11", "So 11.", "<｜Assistant｜><think>\n", WRONG),
    ("number", "11", "So 12.</think>It is 11.", "<｜Assistant｜><think>\n", RIGHT),
    ("choice", "A", "Answer: A", "<|im_start|>assistant\n<think>", WRONG),
    ("number", "11", "It is 11.", "<|im_start|>assistant\n<think>\n\n</think>\n\n", RIGHT),
    ("math", "11", "\\boxed{11}", "Write <think> ... </think> before the answer. What is 5 + 6?", RIGHT),
    ("math", "11", "\\boxed{11}", "Think within <think> and </think>. What is 5 + 6?", RIGHT),
]
CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'
TURNS = [
    (f"<think>I need a search.</think>\n{CALL}", "", 1),
    (f"<think>I could {CALL} but no.</think>\nDone.", "", 0),
    (f"<think>I could {CALL}", "", 0),
    (f"<think>a</think><think>b {CALL}", "", 0),
    (f"<reasoning>{CALL}</reasoning>{CALL}", "", 1),
    (f"{CALL}\n{CALL}", "", 2),
    (f"Perhaps {CALL}", "<|im_start|>assistant\n<think>\n", 0),
    (f"Perhaps {CALL}</think>{CALL}{CALL}", "<|im_start|>assistant\n<think>\n", 2),
    (f"{CALL}<think>was that right?", "", 0),
    (f"[THINK]{CALL}[/THINK]ok", "", 0),
    ('<tool_call>{"name": "write", "arguments": {"text": "<think> is a tag"}}</tool_call>', "", 1),
]
LETTERS = [
    ("choice", "B", "The answer is B.", RIGHT),
    ("choice", "B", "The correct answer is (B) 12 apples.", RIGHT),
    ("choice", "B", "The correct answer is **B**.", RIGHT),
    ("choice", "B", "**Correct answer: B) Photosynthesis**", RIGHT),
    ("choice", "B", "\\boxed{B}", RIGHT),
    ("choice", "B", "\\boxed{\\text{B}}", RIGHT),
    ("choice", "B", "$\\boxed{\\mathrm{(B)}\\ 12}$", RIGHT),
    ("choice", "B", "#### B", RIGHT),
    ("choice", "B", "B", RIGHT),
    ("choice", "B", "(B)", RIGHT),
    ("choice", "B", "B. 12", RIGHT),
    ("choice", "B", "Step 1: A is too small.\nStep 2: C is too big.\n\nFinal Answer: B", RIGHT),
    ("choice", "B", "Therefore, the best option is **Option B**.", RIGHT),
    ("choice", "B", "Option A is wrong since it is even. So the answer is option B.", RIGHT),
    ("choice", "B", "答案：B", RIGHT),
    ("choice", "B", "因此，正确答案是 B。", RIGHT),
    ("choice", "B", "故选B。", RIGHT),
    ("choice", "B", "### Final Answer\n\n**B**", RIGHT),
    ("choice", "B", "Answer:\nB", RIGHT),
    ("choice", "B", "<answer>B</answer>", RIGHT),
    ("choice", "B", "Answer: A", WRONG),
    ("choice", "B", "The answer is A, not B.", WRONG),
    ("choice", "B", "Answer: A or B", WRONG),
    ("choice", "B", "Answer: A, B", WRONG),
    ("choice", "B", "\\boxed{AB}", WRONG),
    ("choice", "B", "\\boxed{A} \\boxed{B}", WRONG),
    ("choice", "B", "Both A and B are correct.", WRONG),
    ("choice", "B", "The answer is not B.", WRONG),
    ("choice", "B", "I think B is tempting, but the answer is C.", WRONG),
    ("choice", "B", "Answer: B\n\nWait, let me redo this.\n\nAnswer: D", WRONG),
    ("choice", "A", "A train leaves the station.", WRONG),
    ("choice", "A", "Answer: A train", WRONG),
    ("choice", "A", "The answer is a bit unclear.", WRONG),
    ("choice", "B", "Vitamin B is needed.", WRONG),
    ("choice", "B", "\\boxed{C}\n\nAnswer: C", WRONG),
    ("choice", "B", "None of the above.", WRONG),
    ("choice", "C", "The answer is D. C is wrong because it is odd.", WRONG),
    ("choice", "D", "The answer is D. C is wrong because it is odd.", RIGHT),
    ("math", "B", "\\boxed{B}", RIGHT),
    ("math", "B", "\\boxed{(B)}", RIGHT),
    ("math", "B", "\\boxed{\\textbf{(B) } 12}", RIGHT),
    ("math", "(B)", "\\boxed{\\text{B}}", RIGHT),
    ("math", "B", "\\boxed{\\text{Option B: } 12}", RIGHT),
    ("math", "B", "\\boxed{B.}", RIGHT),
    ("math", "C. 12", "\\boxed{\\text{C}}", RIGHT),
    ("math", "(C) 12", "\\boxed{C. \\ 12}", RIGHT),
    ("math", "B", "\\boxed{A}", WRONG),
    ("math", "B", "\\boxed{12}", WRONG),
    ("math", "B", "\\boxed{AB}", WRONG),
    ("math", "B", "\\boxed{A, B}", WRONG),
    ("math", "B", "\\boxed{2B}", WRONG),
    ("math", "C. 12", "\\boxed{\\text{B. } 12}", WRONG),
    ("math", "B", "\\boxed{\\text{not B}}", WRONG),
    ("math", "B", "The answer is B.", WRONG),
    ("answer_line", "B", "Some work.\n\nAnswer: B", RIGHT),
    ("answer_line", "B", "Some work.\n\n**Answer: (B)**", RIGHT),
    ("answer_line", "B", "Some work.\n\n**Answer:** $\\boxed{B}$", RIGHT),
    ("answer_line", "B", "We have \\boxed{B}.\n\nAnswer: C", WRONG),
    ("answer_line", "C", "We have \\boxed{B}.\n\nAnswer: C", RIGHT),
    ("answer_line", "B", "Answer: B\n\nHmm, that fails.\n\nAnswer: A", WRONG),
    ("answer_line", "12", "Thus 3*4.\n\nFinal Answer: 12", RIGHT),
    ("answer_line", "12", "Thus 3*4.\n\n### Answer: $12$", RIGHT),
    ("answer_line", "4", "Thus 3*4.\n\nAnswer: 12", WRONG),
    (
        "choice",
        "C",
        "The correct answer is:\n\n**C. It increases the rate.**\n\nThis is because A lowers it and B has no effect.",
        RIGHT,
    ),
    ("choice", "C", "### Answer: C", RIGHT),
    ("choice", "C", "## Answer\nC", RIGHT),
    ("choice", "C", "✅ **Answer: C**", RIGHT),
    ("choice", "C", "正确答案：C", RIGHT),
    ("choice", "C", "正确答案是：**C**", RIGHT),
    ("choice", "C", "答案是C。", RIGHT),
    ("choice", "C", "答案为 (C)", RIGHT),
    ("choice", "C", "因此选C", RIGHT),
    ("choice", "C", "所以，应选择 C 选项。", RIGHT),
    ("choice", "C", "选项C正确。", RIGHT),
    ("choice", "C", "\\boxed{C}。", RIGHT),
    ("choice", "C", "【答案】C", RIGHT),
    ("choice", "C", "答案：D", WRONG),
    ("choice", "C", "答案不是C。", WRONG),
    ("choice", "C", "答案：C或D", WRONG),
    ("choice", "C", "The answer cannot be C.", WRONG),
    ("choice", "C", "If the answer is C, then x = 3, which is false.", WRONG),
    ("choice", "C", "If the answer were C, then x = 3, which is false. So the answer is D.", WRONG),
    ("choice", "C", "The wrong answer is C.", WRONG),
    ("choice", "C", "°C", WRONG),
    ("choice", "D", "Answer: D (A, B and C are all true)", RIGHT),
    ("choice", "B", "Plan B is best.", WRONG),
    ("choice", "C", "There were four options and the answer is C.", RIGHT),
    ("choice", "C", "If x = 3 then the answer is C.", RIGHT),
    ("choice", "C", "If x = 3, the answer is C.", RIGHT),
    ("choice", "C", "因为A不对，所以选C。", RIGHT),
    ("choice", "C", "因为A不是素数所以选C。", RIGHT),
    ("choice", "C", "不能选C。", WRONG),
    ("choice", "C", "不应选C。", WRONG),
    ("choice", "C", "错误的选项是C。", WRONG),
    ("choice", "C", "如果选C，则矛盾。", WRONG),
    ("choice", "C", "选项C错误。", WRONG),
    ("choice", "C", "选项C不正确。", WRONG),
    ("choice", "C", "排除选项C。", WRONG),
    ("choice", "C", "选C、D。", WRONG),
    ("choice", "C", "答案是C和D。", WRONG),
    ("choice", "C", "答案是C或者D", WRONG),
    ("choice", "C", "综上所述，正确选项是 **C**。", RIGHT),
    ("choice", "C", "综上，选 (C)。", RIGHT),
    ("choice", "C", "故正确答案为C选项。", RIGHT),
    ("choice", "C", "因此，答案是 \\boxed{C}。", RIGHT),
    ("choice", "C", "因此答案应为C：它最大。", RIGHT),
    ("choice", "C", "所以答案是 C. 北海", RIGHT),
    ("choice", "B", "A选项错误，B选项正确，故选B.", RIGHT),
    ("choice", "B", "因此选择B选项。", RIGHT),
    ("choice", "B", "本题选B", RIGHT),
    ("choice", "B", "正确答案是A，不是B。", WRONG),
    ("choice", "A", "正确答案是A，不是B。", RIGHT),
    ("choice", "B", "选项：A. 猫 B. 狗", WRONG),
    ("choice", "B", "选择题：B是什么？", WRONG),
    ("choice", "B", "The correct answer is:\nB", RIGHT),
    ("choice", "B", "The correct answer is: \n\n(B) Because A is wrong.", RIGHT),
    ("choice", "B", "The correct answer is:\n\nA. cat", WRONG),
    ("choice", "B", "The answer is:\n\nNot B.", WRONG),
    ("choice", "B", "Statement B is correct but statement A is better.", WRONG),
    ("choice", "B", "So B is correct.", RIGHT),
    ("choice", "B", "**B** is correct.", RIGHT),
    ("choice", "B", "(B) is correct.", RIGHT),
    ("choice", "B", "Therefore, B is the correct answer.", RIGHT),
    ("choice", "B", "Therefore B is correct.", RIGHT),
    ("choice", "B", "We conclude that B is correct.", RIGHT),
    ("choice", "B", "Hence, choice B is the answer.", RIGHT),
    ("choice", "B", "A is correct, not B.", WRONG),
    ("choice", "B", "I doubt that B is correct.", WRONG),
    ("choice", "B", "It is not true that B is correct.", WRONG),
    ("choice", "B", "B is not correct.", WRONG),
    ("choice", "B", "B is correct? No, C.", WRONG),
    ("choice", "B", "### Answer\n\nB", RIGHT),
    ("choice", "B", "**Answer**\n\nB", RIGHT),
    ("choice", "B", "- **Answer:** B", RIGHT),
    ("answer_line", "8", "Final Answer: The final answer is $8$. I hope it is correct.", RIGHT),
    ("answer_line", "8", "Final Answer: The final answer is $\\boxed{8}$. I hope it is correct.", RIGHT),
    ("answer_line", "\\frac{1}{2}", "**Final Answer:** \\(\\frac{1}{2}\\)", RIGHT),
    ("answer_line", "\\frac{1}{2}", "**Final Answer:** \\[\\frac{1}{2}\\]", RIGHT),
    ("answer_line", "\\frac{1}{2}", "**Final Answer:**\n\\[\\frac{1}{2}\\]", RIGHT),
    ("answer_line", "\\frac{1}{2}", "**Final Answer:**\n\n$$\n\\frac{1}{2}\n$$", RIGHT),
    ("answer_line", "\\frac{1}{2}", "### Final Answer\n\n$$\n\\boxed{\\frac{1}{2}}\n$$", RIGHT),
    ("answer_line", "\\frac{1}{2}", "答案：$\\frac{1}{2}$", RIGHT),
    ("answer_line", "8", "#### Final Answer\n\n8", RIGHT),
    ("answer_line", "8", "#### Final Answer\n\nThe answer is $8$.", RIGHT),
    ("answer_line", "8", "#### Step 2\n\n8", WRONG),
    ("answer_line", "8", "#### Answer: 8", RIGHT),
    ("answer_line", "8", "### Final Answer: $8$", RIGHT),
    ("answer_line", "8", "**Final Answer**\n8", RIGHT),
    ("answer_line", "8", "- Answer: 8", RIGHT),
    ("answer_line", "8", "> Answer: 8", RIGHT),
    ("answer_line", "8", "The final answer is: 8", RIGHT),
    ("answer_line", "8", "The correct answer is: 8", RIGHT),
    ("answer_line", "8", "Answer: $$8$$", RIGHT),
    ("answer_line", "8", "Answer: \\( 8 \\)", RIGHT),
    ("answer_line", "8", "Answer: \\[ x = 8 \\]", RIGHT),
    ("answer_line", "8", "Answer: **8**", RIGHT),
    ("answer_line", "8", "Answer: **8 apples**", RIGHT),
    ("answer_line", "8", "答案：8", RIGHT),
    ("answer_line", "8", "**答案：** 8", RIGHT),
    ("answer_line", "8", "最终答案：$8$。", RIGHT),
    ("answer_line", "8", "答案：9", WRONG),
    ("answer_line", "8", "答：8个", RIGHT),
    ("answer_line", "8", "Answer:\n\n9", WRONG),
    ("answer_line", "8", "Answer:\n\n8\n\n9", RIGHT),
    ("answer_line", "(1,2)", "Answer: $(1,2)$.", RIGHT),
    ("answer_line", "8", "Final Answer: The final answer is $9$. I hope it is correct.", WRONG),
    ("answer_line", "x^2+1", "Final Answer: The final answer is $x^2+1$. I hope it is correct.", RIGHT),
    ("answer_line", "8", "\\boxed{8}\n\n### Answer\nThe shop has 8.", RIGHT),
    ("answer_line", "8", "\\boxed{9}\n\nFinal answer: 8", RIGHT),
    ("exact", "blue", "#### blue\n\nHope this helps", RIGHT),
]
OPTIONS = {"A": "a lion", "B": "12", "C": "the North Sea", "D": "None of the above"}
TEXTS = [
    ("B", "The answer is 12.", RIGHT),
    ("B", "\\boxed{12}", RIGHT),
    ("B", "Answer: B. 12", RIGHT),
    ("B", "Answer: (B)", RIGHT),
    ("B", "**Answer: 12.0**", RIGHT),
    ("C", "The answer is the north sea.", RIGHT),
    ("C", "Answer: C. The North Sea", RIGHT),
    ("C", "The correct option is **C) the North Sea**, which is cold.", RIGHT),
    ("A", "Answer: A lion", RIGHT),
    ("D", "Answer: None of the above", RIGHT),
    ("D", "The correct choice is D.", RIGHT),
    ("B", "Answer: A. 12", WRONG),
    ("B", "Answer: 13", WRONG),
    ("B", "Answer: 112", WRONG),
    ("C", "Answer: North", WRONG),
    ("C", "Answer: a lion in the North Sea", WRONG),
    ("A", "Answer: a tiger", WRONG),
    ("D", "Answer: E", WRONG),
    ("B", "Answer: A and B", WRONG),
    ("D", "None of these is easy. Answer: B", WRONG),
]


@pytest.mark.parametrize(("name", "gold", "response", "right"), REASONING)
def test_only_what_follows_the_reasoning_is_verified(name: str, gold: str, response: str, right: bool) -> None:
    check(name, gold, response, right)


@pytest.mark.parametrize(("name", "gold", "response", "prompt", "right"), PROMPTED)
def test_reasoning_may_begin_in_the_prompt(name: str, gold: str, response: str, prompt: str, right: bool) -> None:
    check(name, gold, response, right, prompt)


@pytest.mark.parametrize(("text", "prompt", "calls"), TURNS)
def test_calls_within_reasoning_are_not_executed(text: str, prompt: str, calls: int) -> None:
    assert len(read_turn(text, prompt).calls) == calls


@pytest.mark.parametrize(("name", "gold", "response", "right"), LETTERS)
def test_the_stated_answer_decides(name: str, gold: str, response: str, right: bool) -> None:
    check(name, gold, response, right)


@pytest.mark.parametrize(("gold", "response", "right"), TEXTS)
def test_an_option_is_named_by_letter_or_text(gold: str, response: str, right: bool) -> None:
    verifier = MultipleChoice(options="choices")
    problem = Problem("new", "", verifier.reference({"answer": gold, "choices": OPTIONS}, "answer"))
    assert verifier.verify(problem, response, True).success is right
