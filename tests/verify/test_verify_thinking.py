"""Reasoning is not the answer: what stands behind the last closed block is verified, everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.environments.tool_calls import read_turn
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Outcome, Problem, SampleRequest
from outrider.tasks import WordProblems
from outrider.train.collect import Collector
from outrider.verify.code import UnitTests
from outrider.verify.function import Function
from outrider.verify.program import program_of
from outrider.verify.thinking import MARKS, UNCLOSED, TurnThinking, answer_of, opened_by, split_thinking
from outrider.verify.verifier import Verifier
from outrider.verify.verifiers import VERIFIERS
from verdicts import check_time_grows_with_length

CALL = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'

# A response, and what of it is verified; None: a block is not closed.
SPLIT = [
    ("no marks at all", "no marks at all"),
    ("<think>it may be 4</think>It is 5.", "It is 5."),
    ("<think>\n4?\n</think>\n\n\n5", "5"),
    ("Well. <reasoning>4</reasoning> So 5", " So 5"),
    ("<THINK>4</Think> 5", " 5"),
    ("[THINK]4[/THINK]5", "5"),
    ("◁think▷4◁/think▷5", "5"),
    ("<|channel|>analysis<|message|>4<|end|>5", "5"),
    ("4 it seems</think>5", "5"),
    ("4</think>5</think>6", "6"),
    ("<think>a</think>5<think>b</think>6", "6"),
    ("<think>a<think>b</think>c</think>6", "6"),
    ("<think><think>a</think>6", "6"),
    ("<think>a<reason>b</reason>c</think>6", "6"),
    ("<think></think>6", "6"),
    ("<think>6", None),
    ("It is 6. <think>or 7", None),
    ("<think>a</think>6<thinking>b", None),
    ("<think>a<reason>b</reason>6", None),
    ("<think>a</thinking>6", None),
    ("<think>close it with `</think>`, then say 6", None),
    ("<think>```\ndraft\n```\n6", None),
    ("<think>```\nan open draft\n</think>\n6", "6"),
    ("an open draft\n```python\nx = 1\n</think>\n```python\nx = 2\n```", "```python\nx = 2\n```"),
    ("```\n<think>4</think>\n5\n```", "5\n```"),
    ("The mark `<think>` begins it. 6", "The mark `<think>` begins it. 6"),
    ('print("<think>")', 'print("<think>")'),
    ('re.sub(r"<think>.*?</think>", "", s)', 're.sub(r"<think>.*?</think>", "", s)'),
    ("f'{a}</think>'", "f'{a}</think>'"),
    ("```python\ns = '''\n<think>\na\n</think>\n'''\n```", "```python\ns = '''\n<think>\na\n</think>\n'''\n```"),
    ("```python\nopened = s.find(open + '<think> ')\n```", "```python\nopened = s.find(open + '<think> ')\n```"),
    ('<think>He said "7"</think>It\'s "8".', 'It\'s "8".'),
    ("<think>don't</think>6", "6"),
    ("< think >4</think >5", "5"),
    ("a < b, [3], 2 <think", "a < b, [3], 2 <think"),
    ('<tool_call>{"say": "a <think> b"}</tool_call>', '<tool_call>{"say": "a <think> b"}</tool_call>'),
    ("<tool_call> or not</think>6", "6"),
]


@pytest.mark.parametrize(("text", "answer"), SPLIT)
def test_what_follows_the_last_closed_block_is_the_answer(text, answer):
    assert split_thinking(text).answer == answer


def test_the_reasoning_is_kept_without_its_marks():
    assert split_thinking("<think>\n4?\n</think>\n5").thinking == "4?"
    assert split_thinking("4?</think>5").thinking == "4?"
    assert split_thinking("<think>4?") == ("4?", None, "<think>")


def test_a_prompt_that_ends_with_an_opening_mark_has_begun_the_reasoning():
    for mark in MARKS:
        assert opened_by(f"Say it.{mark}\n") == MARKS[mark].lower()
    assert opened_by("Think between <think> and </think>.") is None
    assert opened_by("<think>\n\n</think>\n\n") is None
    assert split_thinking("it is 7", None, "<think>\n").answer is None
    assert split_thinking("so</think>7", None, "<think>\n").answer == "7"
    assert answer_of("7", Problem("p", "Assistant: <think>")) is None
    assert answer_of("7", Problem("p", "Assistant: <think>", messages_before=())) == "7", "a template writes more"
    assert answer_of("7", Problem("p", "?").prompted("<|assistant|><think>\n")) is None
    assert answer_of("7", Problem("p", "Assistant: <think>").prompted("<|assistant|>")) == "7"


def test_other_marks_and_none_can_be_configured():
    assert split_thinking("<mull>4</mull>5", {"<mull>": "</mull>"}).answer == "5"
    assert split_thinking("<mull>4</mull>5").answer == "<mull>4</mull>5"
    assert split_thinking("<think>4", {}).answer == "<think>4"
    assert VERIFIERS["number"](thinking={}).verify(Problem("p", "", "4"), "<think>4", True).success


GOLDS = {
    "number": ("7", r"\boxed{7}", r"\boxed{8}"),
    "exact": ("7", r"\boxed{7}", r"\boxed{8}"),
    "math": ("7", r"\boxed{7}", r"\boxed{8}"),
    "qa": (["Paris"], "<answer>Paris</answer>", "<answer>Rome</answer>"),
}


@pytest.mark.parametrize("name", GOLDS)
@pytest.mark.parametrize("opening", ["<think>", "<reasoning>", "[THINK]"])
def test_no_verifier_takes_its_answer_from_the_reasoning(name, opening):
    if name == "math":
        pytest.importorskip("math_verify")
    gold, right, wrong = GOLDS[name]
    verifier, problem, closing = VERIFIERS[name](), Problem("p", "", gold), MARKS[opening]
    assert verifier.verify(problem, f"{opening}{wrong}{closing}{right}", True).success
    assert verifier.verify(problem, f"{opening}{right}{closing}{wrong}", True).outcome is Outcome.INCORRECT
    for finished in (True, False):
        unclosed = verifier.verify(problem, f"{opening}{right}", finished)
        assert (unclosed.outcome, unclosed.detail) == (Outcome.UNPARSEABLE, UNCLOSED)
    assert not verifier.verify(problem, f"{opening}{right}{closing}", True).success


# A prompt, a response and its verdict for the gold answer 7: ok, no, un: a block is not closed, un0: no answer.
RESPONSES = [
    (
        "",
        "<think>\nOkay, so 3+4... \\boxed{8}? no. It's 7.\n</think>\n\n**Solution**\n\nThe sum is\n\n\\[\\boxed{7}\\]",
        "ok",
    ),
    ("", "<think>\nOkay, so 3+4... is 7.\n</think>\n\nThe sum is \\boxed{8}", "no"),
    ("", "Okay, so 3+4 is 7.\n</think>\n\nThe sum is \\boxed{7}", "ok"),
    ("", "Okay, so 3+4 is \\boxed{7}.\n</think>\n\nThe sum is \\boxed{8}", "no"),
    ("<|im_start|>assistant\n<think>\n", "Okay, so 3+4 is \\boxed{7}. But wait, let me check this again. Wait,", "un"),
    ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "The sum is \\boxed{7}.", "ok"),
    ("", "<think>\n\n</think>\n\nThe sum is \\boxed{7}.", "ok"),
    ("", "<think></think>\\boxed{7}", "ok"),
    ("", "<thinking>I should add. 7</thinking>\n<answer>\\boxed{7}</answer>", "ok"),
    ("", "<reasoning>\n3+4=7\n</reasoning>\n<answer>\n7\n</answer>", "ok"),
    ("", "<reasoning>\n3+4=7\n</reasoning>\n<answer>\n8\n</answer>", "no"),
    ("", "<reasoning>\n3+4=7\n\n<answer>\n7\n</answer>", "un"),
    ("", "[THINK]3+4=7[/THINK]The answer is 7.", "ok"),
    ("", "[THINK]3+4=7", "un"),
    ("", "<think>3+4=8</think>The answer is 7.<think>hmm, \\boxed{8}</think>", "un0"),
    ("", "<think>first</think>\nLet me think more.\n<think>second: \\boxed{7}</think>\nIt is \\boxed{8}", "no"),
    ("", "<think>The user wants the format <think>...</think> then the answer. So 8?</think>\\boxed{7}", "ok"),
    ("", "<think>The user wants the format `<think>` ... `</think>` then the answer. So \\boxed{7}?", "un"),
    ("", "<think>\n```python\nprint('</think>')\n```\nso \\boxed{7}", "un"),
    ("", "<think>\n```python\nprint(3+4)\n```\n</think>\nIt prints \\boxed{7}.", "ok"),
    ("", "I will use <think> tags. \\boxed{7}", "un"),
    ("", 'Tags such as "<think>" are not needed: \\boxed{7}', "ok"),
    ("", "Here is a program:\n```python\ns = '<think>' + str(3 + 4)\n```\n\\boxed{7}", "ok"),
    ("", "<|channel|>analysis<|message|>3+4=8?<|end|><|start|>assistant<|channel|>final<|message|>\\boxed{7}", "ok"),
    ("", "<Think>\\boxed{8}</THINK>\\boxed{7}", "ok"),
    ("", "◁think▷8◁/think▷\\boxed{7}", "ok"),
    ("", "< think >\\boxed{7}", "un"),
    ("", "<think>\\boxed{7}<\\think>", "un"),
    ("", "<think>\\boxed{7}</think>", "un0"),
    ("", "<think>\\boxed{7}\n\n**Final Answer**\n\\boxed{7}", "un"),
    ("", "\\boxed{7}</think>", "un0"),
    ("A user asks. Assistant: <think>", " 3+4 is 7 </think> <answer>\\boxed{7}</answer>", "ok"),
    ("A user asks. Assistant: <think>", " 3+4 is 7. \\boxed{7}", "un"),
    ("", "<thought>3+4=7 \\boxed{7}", "un"),
]


@pytest.mark.parametrize(("prompt", "text", "right"), RESPONSES)
def test_responses_as_reasoning_models_write_them(prompt, text, right):
    verdict = VERIFIERS["number"]().verify(Problem("p", prompt, "7"), text, True)
    unparseable = "un" if verdict.detail == UNCLOSED else "un0"
    assert right == {Outcome.CORRECT: "ok", Outcome.INCORRECT: "no"}.get(verdict.outcome, unparseable)


def test_every_verifier_is_given_its_text_by_the_one_place_that_splits():
    overriding = {name for name, verifier in VERIFIERS.items() if verifier.verify is not Verifier.verify}
    # the sum hands the whole response to its verifiers, each of which splits it
    assert overriding <= {"function", "weighted_sum"}, "a verifier with its own verify does not know reasoning"


def test_a_program_in_the_reasoning_is_not_run_and_one_that_prints_marks_is():
    draft, final = "```python\ndef f(): return 1\n```", "```python\ndef f(): return '<think>'\n```"
    assert (
        program_of(split_thinking(f"<think>\n{draft}\n</think>\n{final}").answer, True, "block")
        .strip()
        .endswith("'<think>'")
    )
    problem = Problem("p", "", {"prefix": "", "solution": None, "plan": None})
    unclosed = UnitTests().verify(problem, f"<think>\n{draft}", True)
    assert (unclosed.outcome, unclosed.detail) == (Outcome.UNPARSEABLE, UNCLOSED)


def test_the_first_indent_of_a_completion_is_kept():
    assert split_thinking("<think>so</think>\n    return 1\n").answer == "    return 1\n"


def test_a_function_gets_the_answer_or_the_whole(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "def plain(problem, completion): return float('4' in completion)\n"
        "def trl(completions, **columns): return [float('4' in c) for c in completions]\n"
    )
    problem = Problem("p", "2+2?", {"answer": "4", "fields": {}})

    def success(name: str, **options: str) -> list[bool]:
        verifier = Function(function=f"{tmp_path / 'mine.py'}:{name}", **options)
        return [
            verifier.verify(problem, text, True).success
            for text in ("<think>4</think>5", "<think>5</think>4", "<think>4")
        ]

    assert success("plain") == [False, True, False]
    assert success("plain", completion="whole") == [True, True, True]
    assert success("trl", style="trl") == [True, True, True]
    assert success("trl", style="trl", completion="answer") == [False, True, False]


def test_word_problems_are_read_behind_the_reasoning():
    nine = Problem("p", "?", answer=9)
    assert WordProblems().verify(nine, "<think>8</think>So it is 9.", True).success
    assert not WordProblems().verify(nine, "<think>9</think>So it is 8.", True).success
    assert WordProblems().verify(nine, "<think>9", True).detail == UNCLOSED


@pytest.mark.parametrize(
    ("turn", "prompt", "calls"),
    [
        (f"<think>{CALL}", "", 0),
        (f"<think>{CALL}</think>", "", 0),
        (f"<think>so</think>{CALL}", "", 1),
        (f"so</think>{CALL}", "<think>\n", 1),
        (CALL, "<think>\n", 0),
        (CALL, "<think>\n\n</think>\n\n", 1),
        (f"<reasoning>{CALL}", "", 0),
        (f"[THINK]{CALL}[/THINK]{CALL}", "", 1),
        (f"{CALL}<think>or", "", 0),
    ],
)
def test_a_call_in_the_reasoning_is_not_executed(turn, prompt, calls):
    assert len(read_turn(turn, prompt).calls) == calls


def test_reasoning_goes_on_from_turn_to_turn_unless_a_template_begins_each_anew():
    plain = TurnThinking(Problem("p", "Go: <think>"))
    assert plain.split("first").answer is None
    assert plain.split("still").answer is None
    assert plain.split("enough</think>call").answer == "call"
    assert plain.split("7").answer == "7"
    assert answer_of("7", plain.problem) == "7"
    templated = TurnThinking(Problem("p", "Go").prompted("<think>\n"))
    assert templated.split("so</think>call").answer == "call"
    assert templated.split("7").answer is None


def test_marks_that_are_special_tokens_stay_in_the_text():
    import numpy as np

    from outrider.model.tiny import character_tokenizer
    from outrider.sample.requests import decode

    ids = [np.array([3, 4], np.int32)]
    for marks in (["[THINK]", "[/THINK]"], ["<|other|>", "<|marks|>"]):
        tokenizer = character_tokenizer()
        plain = decode(character_tokenizer(), ids)[0]
        tokenizer.add_special_tokens({"additional_special_tokens": marks})
        opened, closed = (tokenizer.convert_tokens_to_ids(mark) for mark in marks)
        end = tokenizer.eos_token_id
        [text] = decode(tokenizer, [np.array([opened, 3, closed, 4, end], np.int32)])
        assert text.replace(marks[0], "").replace(marks[1], "").replace(" ", "") == plain.replace(" ", "")
        assert [mark in text for mark in marks] == [marks[0] == "[THINK]"] * 2


class OneText:
    """A sampler that has drawn one text."""

    def __init__(self, rollout):
        self.rollout = rollout

    def sample(self, requests):
        return [self.rollout]


@pytest.mark.parametrize(("end", "success"), [(None, True), ("<|assistant|>", True), ("<|assistant|><think>\n", False)])
def test_a_chat_template_that_begins_the_reasoning_is_known_where_rollouts_are_verified(end, success, tmp_path):
    import numpy as np

    from outrider.credit.reward import RewardOptions
    from outrider.record import Rollout
    from outrider.tasks import Table

    (tmp_path / "t.jsonl").write_text('{"problem": "3 + 4?", "answer": "7"}\n')
    task = Table(heldout_data=str(tmp_path / "t.jsonl"))
    [problem] = task.heldout(1)
    none = np.zeros(0, np.int32)
    rollout = Rollout(problem.id, "g", 0, none, none, none.astype(np.float32), none, text=r"Maybe \boxed{7}?")
    collect = Collector(OneText(rollout), task, RewardOptions(), Ranks(), Clock(), prompt_end=end)
    request = SampleRequest(problem, n=1, prompt_ids=none)
    for one in (collect, collect.renewed()):
        [verified] = one([request])
        assert verified.verdict.success is success


MARKED = [
    "<think>",
    "</think>",
    "```",
    "```python",
    "\n",
    '"',
    "'",
    "`",
    "<tool_call>",
    "</tool_call>",
    " ",
    "7",
    "[THINK]",
]


@given(st.lists(st.sampled_from(MARKED) | st.text(max_size=3)).map("".join), st.sampled_from(["", "<think>"]))
def test_any_text_is_split_into_parts_of_itself(text, prompt):
    split = split_thinking(text, None, prompt)
    assert split.answer is None or text.endswith(split.answer)
    assert (split.answer is None) == bool(split.unclosed)


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<think></think>",
        "```\n",
        "```a\n",
        "```\n</think>\n",
        '"<think>',
        "<think>'",
        "<tool_call>",
        "<",
        "[THINK",
    ],
)
def test_time_grows_with_the_length_of_a_hostile_text(piece):
    check_time_grows_with_length(split_thinking, piece, 20_000)
