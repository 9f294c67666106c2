"""Seeding: which examples, how they are written, what the corpus keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Seed, View
from outrider.explore.corpus import Exemplar, question_of, without_thinking
from outrider.explore.embed import Random, Tfidf
from outrider.explore.seed import ExemplarTemplate
from outrider.record import Context, Group, Problem, Rollout, SampleRequest, correct, incorrect
from outrider.tasks import Countdown
from outrider.testing.scripted import ScriptedEngine
from scripted import LONG
from small import random_policy

PLAIN = ExemplarTemplate(whole="{examples}{question}", example="{problem}{solution}\n")
EMPTY = np.zeros(0, np.int32)


class Characters(ScriptedEngine):
    """One token per character of the prompt."""

    def encode(self, problem: Problem) -> np.ndarray:
        return np.array([ord(c) for c in problem.prompt], np.int32)


def text_of(request: SampleRequest) -> str:
    return "".join(map(chr, request.prompt_ids))


def solved(problem: Problem, *texts: str, kind: str = "plain", success: bool = True) -> Group:
    """A group with one rollout per text."""
    rollouts = [
        Rollout(
            problem_id=problem.id,
            group_id=f"g:{problem.id}",
            member=member,
            prompt_ids=EMPTY,
            token_ids=np.array([1], np.int32),
            logprobs_T=np.zeros(1, np.float32),
            prefix_ids=EMPTY,
            context=Context(kind),
            text=text,
        ).verified(correct() if success else incorrect(), 1.0)
        for member, text in enumerate(texts)
    ]
    return Group(problem, f"g:{problem.id}", tuple(rollouts))


def view(engine: ScriptedEngine | None = None, prompt_limit: int = LONG) -> View:
    return View([], 1, 0, 0.0, lambda n: [], engine or Characters(), 0, prompt_limit)


def ask(seed: Seed, *problems: Problem, **seen: Any) -> list[SampleRequest]:
    asked = seed.seeded([SampleRequest(p, n=3) for p in problems], view(**seen))
    return [asked[p.id] for p in problems]


A, B, C, D = (Problem(*pair) for pair in (("a", "3 4>7:"), ("b", "3 5>8:"), ("c", "9 9>18:"), ("d", "3 4 6>13:")))


# What is written


def test_the_published_template():
    seed = Seed()
    seed.observe([solved(A, "3+4=7"), solved(B, "3+5=8")])
    [request] = ask(seed, D)
    assert text_of(request).split("\n") == [
        "<task>",
        " You are given several worked examples,",
        " each with a <problem> and a <solution>.",
        " Extract a general strategy, then think",
        " through the new problem, and finally",
        " provide the detailed solution.",
        "</task>",
        "",
        "<examples>",
        ' <example id="1">',
        "  <problem>3 4>7:</problem>",
        "  <solution>3+4=7</solution>",
        " </example>",
        ' <example id="2">',
        "  <problem>3 5>8:</problem>",
        "  <solution>3+5=8</solution>",
        " </example>",
        "</examples>",
        "",
        "<new_problem>3 4 6>13:</new_problem>",
    ]
    assert (request.problem, request.n, request.context) == (D, 3, Context("seeded", ("a", "b"), "as_generated"))


def test_a_chat_format_stays_around_the_whole():
    """Where a task tells the bare question, the examples stand beside it, within the user's turn."""
    chat = [
        Problem(name, f"<user>{question}\nBe brief.<assistant>", metadata={"question": question})
        for name, question in (("a", "1+1?"), ("b", "2+2?"))
    ]
    seed = Seed(template=PLAIN)
    seed.observe([solved(chat[0], "It is {2}.")])
    assert text_of(ask(seed, chat[1])[0]) == "<user>1+1?It is {2}.\n2+2?\nBe brief.<assistant>"
    assert question_of(Problem("c", "prompt", metadata={"question": "not in it"})) == "prompt"


def test_a_real_tokenizer_sees_the_text_as_it_is_written():
    seed = Seed(
        template=ExemplarTemplate(whole="{examples}{question}", example="{problem}{solution}</s>\n"), max_tokens=200
    )
    seed.observe([solved(A, "3+4=7")])
    policy = random_policy()
    [request] = ask(seed, D, engine=policy)
    assert policy.token_texts(request.prompt_ids) == ["<s>", *"3 4>7:3+4=7", "</s>", *"\n3 4 6>13:"]


@pytest.mark.parametrize("trained", ["as_generated", "original", "excluded"])
def test_how_a_seeded_rollout_is_trained_travels_with_it(trained):
    seed = Seed(trained=trained)
    seed.observe([solved(A, "3+4=7")])
    assert ask(seed, D)[0].context == Context("seeded", ("a",), trained)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"whole": "{question}"}, r"must contain \{examples\}, \{question\}"),
        ({"whole": "{examples}{question}{answer}"}, r"but contains \{answer\}"),
        ({"whole": "{examples} {question} {"}, "literal braces must be written as"),
        ({"example": "{problem}"}, r"must contain \{problem\}, \{solution\}"),
        ({"whole": "{examples} {question} {}"}, r"but contains \{\}"),
    ],
)
def test_a_template_that_leaves_something_out_is_refused(wrong, complaint):
    with pytest.raises(ValidationError, match=complaint):
        ExemplarTemplate(**wrong)


# Which examples


def test_the_nearest_first_and_never_the_problem_itself():
    seed = Seed(k=2)
    seed.observe([solved(p, "x") for p in (C, A, B, D)])
    assert ask(seed, D)[0].context.exemplars == ("a", "b")
    assert "d" in ask(seed, A)[0].context.exemplars


def test_the_problem_under_another_id_is_no_example():
    """Warm-start files name problems in their own way."""
    seed = Seed(template=PLAIN)
    seed.observe([solved(Problem("file-1", " 3 4>7:"), "3+4=7"), solved(C, "9+9=18")])
    assert ask(seed, A)[0].context.exemplars == ("c",)


def test_a_prompt_leaves_room_for_the_longest_response():
    """The model's context limits a prompt as ``max_tokens`` does: shorter examples, and at last none."""
    seed = Seed(template=PLAIN, k=1)
    seed.observe([solved(B, "3+5=8")])
    whole = ask(seed, A)[0]
    for limit, told in ((len(text_of(whole)) - 2, {"cut": 3.0}), (len(A.prompt), {"unseeded": 3.0})):
        other = Seed(template=PLAIN, k=1)
        other.observe([solved(B, "3+5=8")])
        request = ask(other, A, prompt_limit=limit)[0]
        assert request.context.kind == "plain" if "unseeded" in told else len(text_of(request)) == limit
        assert told.items() <= other.observe([]).items()


def test_among_equals_the_latest():
    seed = Seed(k=2)
    for name in "wxyz":
        seed.observe([solved(Problem(name, "1 1>2:"), "1+1=2")])
    assert ask(seed, D)[0].context.exemplars == ("z", "y")
    seed.observe([solved(Problem("w", "1 1>2:"), "1+1=2")])
    assert ask(seed, D)[0].context.exemplars == ("w", "z")


def test_nearest_is_by_the_cosines_of_the_embedder():
    task = Countdown()
    problems = [task.train(i) for i in range(40)]
    for embed in (Tfidf(), Random()):
        seed = Seed(k=5, embed=embed, template=PLAIN)
        seed.observe([solved(p, "x") for p in problems[:30]])
        for asked in problems[25:]:
            others = [p for p in problems[:30] if p.id != asked.id]
            cosines = embed.cosines([asked.prompt], [p.prompt for p in problems[:30]])[0]
            by_id = {p.id: cosine for p, cosine in zip(problems[:30], cosines, strict=True)}
            chosen = ask(seed, asked)[0].context.exemplars
            assert [by_id[c] for c in chosen] == sorted((by_id[p.id] for p in others), reverse=True)[:5]
            assert asked.id not in chosen


def test_without_a_solved_problem_the_prompt_stays_plain_and_is_counted():
    seed = Seed()
    for corpus in ([], [solved(D, "3+4=7,7 6;7+6=13")]):  # its own solution is no example
        seed.observe(corpus)
        [request] = ask(seed, D)
        assert (request.context, request.prompt_ids, request.n) == (Context(), None, 3)
        metrics = seed.observe([])
        assert (metrics["seeded"], metrics["unseeded"]) == (0, 3)


# Fitting


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 20), st.integers(0, 200), st.integers(1, 4))
def test_a_prompt_fits_and_its_question_is_whole(lengths, asked, limit, k):
    """With one token per character, solutions are cut no more than needed, and the last ones go last."""
    question = Problem("q", "?" * asked)
    seed = Seed(k=k, template=PLAIN, max_tokens=max(1, limit))
    seed.observe([solved(Problem(f"p{i}", f"{i}"), chr(65 + i) * n) for i, n in enumerate(lengths)])
    [request] = ask(seed, question)
    order = [int(name[1:]) for name in request.context.exemplars]

    def size(count: int, longest: int) -> int:
        return asked + sum(2 + min(lengths[i], longest) for i in list(range(len(lengths)))[::-1][:count])

    if not order:
        assert request.prompt_ids is None
        assert size(1, 1) > seed.max_tokens
        return
    text = text_of(request)
    assert len(text) <= seed.max_tokens
    assert text.endswith("\n" + question.prompt)
    lines = text.split("\n")[:-1]
    shown = [len(line) - 1 for line in lines]
    assert lines == [f"{i}" + chr(65 + i) * n for i, n in zip(order, shown, strict=True)]
    assert order == list(range(len(lengths)))[::-1][: len(order)]  # equally near: the latest first
    longest = max(shown)
    assert shown == [min(lengths[i], longest) for i in order]
    assert longest == max(lengths[i] for i in order) or size(len(order), longest + 1) > seed.max_tokens
    assert len(order) == min(k, len(lengths)) or size(len(order) + 1, 1) > seed.max_tokens


def test_what_was_cut_or_excluded_is_counted():
    seed = Seed(k=2, template=PLAIN, max_tokens=30)
    seed.observe([solved(A, "x" * 50), solved(B, "y" * 5)])
    ask(seed, D)  # 9 of the question, and 7 a problem with its line's end: 7 left for solutions
    metrics = seed.observe([])
    assert {name: metrics[name] for name in ("seeded", "unseeded", "cut", "fewer")} == {
        "seeded": 3,
        "unseeded": 0,
        "cut": 3,
        "fewer": 0,
    }
    assert text_of(ask(seed, D)[0]) == "3 4>7:xxx\n3 5>8:yyy\n3 4 6>13:"


class Words(ScriptedEngine):
    """One token per word: how many characters that is differs from text to text."""

    def encode(self, problem: Problem) -> np.ndarray:
        return np.arange(len(problem.prompt.split()), dtype=np.int32)


@given(st.lists(st.text("a ", min_size=1, max_size=80), min_size=1, max_size=3), st.integers(3, 40))
def test_other_tokenizers_fit_too(texts, limit):
    seed = Seed(k=3, template=ExemplarTemplate(whole="{examples}{question}", example="{problem} {solution}\n"))
    seed = seed.model_copy(update={"max_tokens": limit}, deep=True)
    seed.observe([solved(Problem(f"p{i}", f"{i}"), f"b{text}") for i, text in enumerate(texts)])
    [request] = ask(seed, Problem("q", "the question"), engine=Words())
    assert request.prompt_ids is None or len(request.prompt_ids) <= limit
    assert (request.prompt_ids is None) == (limit < 4)  # the question and one example of two words


# What the corpus keeps


outcomes = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans(), st.text("ab", max_size=3)), max_size=9)


@given(st.lists(outcomes, max_size=6), st.integers(1, 4), st.randoms(use_true_random=False))
def test_one_entry_per_problem_its_latest_success(steps, capacity, random):
    """Against a list of all that ever happened; the order of a batch leaves no trace."""
    seed, shuffled = Seed(capacity=capacity), Seed(capacity=capacity)
    history: dict[str, list[tuple[int, str, bool]]] = {}
    evicted = 0
    for number, step in enumerate(steps):
        groups = {}
        for name, success, helped, text in step:
            problem = Problem(f"p{name}", f"question {name}")
            more = solved(problem, text, kind="seeded" if helped else "plain", success=success).rollouts
            groups.setdefault(name, Group(problem, f"g{name}"))
            renumbered = [
                Rollout(**{f: getattr(r, f) for f in r.__slots__} | {"member": groups[name].size}) for r in more
            ]
            groups[name] = groups[name].joined(renumbered)
            if success and text:
                history.setdefault(f"p{name}", []).append((number, text, helped))
        batch = list(groups.values())
        evicted += seed.observe(batch)["evicted"]
        random.shuffle(batch)
        shuffled.observe(batch)
    latest = {key: (seen[-1][0], key, seen[-1][1], seen[-1][2]) for key, seen in history.items()}
    kept = sorted(latest.values())[-capacity:]
    assert seed.state_dict() == {"corpus": [[key, f"question {key[1]}", text, helped] for _, key, text, helped in kept]}
    assert shuffled.state_dict() == seed.state_dict()
    assert evicted >= len(latest) - len(kept)


def test_thoughts_are_not_kept():
    seed = Seed()
    seed.observe([solved(A, "<think>7 is 3 and 4</think>\n3+4=7"), solved(B, "<think>all of it is thought</think>")])
    assert seed.state_dict() == {"corpus": [["a", "3 4>7:", "3+4=7", False]]}
    assert without_thinking("a<think>b</think>c<think>d</think>e") == "ace"


def test_a_branch_is_kept_from_its_first_token():
    [parent] = solved(A, "3+4").rollouts
    branch = Rollout(**{f: getattr(parent, f) for f in parent.__slots__} | {"prefix_text": "3+4", "text": "=7"})
    seed = Seed()
    seed.observe([Group(A, "g", (branch,))])
    assert seed.state_dict()["corpus"][0][2] == "3+4=7"


def test_a_reward_is_no_success():
    """The failed rollouts of this file have score 1.0."""
    seed = Seed()
    assert seed.observe([solved(A, "3+4=8", success=False)])["corpus"] == 0


def test_metrics_of_rescue():
    seed = Seed()
    both = solved(A, "x").joined([])
    helped, alone = solved(B, "x", kind="seeded"), solved(C, "x", "y")
    metrics = seed.observe([both, helped, alone, solved(D, "x", kind="seeded", success=False)])
    assert {name: metrics[name] for name in ("rescued", "corpus", "corpus_seeded", "evicted")} == {
        "rescued": 1,
        "corpus": 3,
        "corpus_seeded": 1,
        "evicted": 0,
    }


def test_state_goes_through_json_and_chooses_the_same():
    task = Countdown()
    problems: Sequence[Problem] = [task.train(i) for i in range(60)]
    seed = Seed(k=3)
    for start in (0, 15, 30):
        seed.observe([solved(p, p.metadata["solution"]) for p in problems[start : start + 20]])
    again = Seed(k=3)
    again.load_state_dict(json.loads(json.dumps(seed.state_dict())))
    one, other = ask(seed, *problems[50:]), ask(again, *problems[50:])
    assert [r.context for r in other] == [r.context for r in one]
    assert [text_of(r) for r in other] == [text_of(r) for r in one]
    assert again.state_dict() == seed.state_dict()


def test_an_example_is_that_of_the_step_and_not_of_an_earlier_one():
    """Prompts are kept for the rounds of one step; what the step solves changes them."""
    seed = Seed(k=1)
    seed.observe([solved(C, "9+9=18")])
    assert ask(seed, D)[0].context.exemplars == ("c",)
    seed.observe([solved(A, "3+4=7")])
    assert ask(seed, D)[0].context.exemplars == ("a",)
    other = Seed(k=1)
    other.observe([solved(C, "9+9=18")])
    seed.load_state_dict(other.state_dict())
    assert ask(seed, D)[0].context.exemplars == ("c",)


# Beginning with a file


def test_a_corpus_to_begin_with(tmp_path):
    path = tmp_path / "solved.jsonl"
    lines = [{"id": "a", "problem": "3 4>7:", "solution": "3+4=7"}, {"id": "b", "problem": "3 5>8:", "solution": "3+5"}]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    seed = Seed(corpus=str(path))
    assert ask(seed, D)[0].context.exemplars == ("a", "b")
    assert seed.state_dict()["corpus"] == [[*lines[0].values(), False], [*lines[1].values(), False]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no solved problem: remove corpus"),
        ("\n{", "line 2: broken JSON"),
        ("[1]", "line 1: expected an object, not list"),
        ('{"id": "a", "problem": "p"}', "line 1: the field 'solution' must be a non-empty string"),
        ('{"id": 1, "problem": "p", "solution": "s"}', "line 1: the field 'id' must be a non-empty string"),
        ('{"id": "a", "problem": "p", "solution": "s"}\n' * 2, "line 2: an earlier line has the id 'a' as well"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_refused_when_the_recipe_is_parsed(tmp_path, text, complaint):
    path = tmp_path / "solved.jsonl"
    path.write_text(text)
    with pytest.raises(ValidationError, match=complaint):
        Seed(corpus=str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(ValidationError, match=r"solved\.jsonl is not a text file in UTF-8"):
        Seed(corpus=str(path))
    with pytest.raises(ValidationError, match=r"cannot read .*none: No such file or directory"):
        Seed(corpus=str(tmp_path / "none"))
    path.write_text("".join(f'{{"id": "{i}", "problem": "p", "solution": "s"}}\n' for i in range(3)))
    with pytest.raises(ValidationError, match=r"solved\.jsonl holds 3 solved problems, above capacity, which is 2"):
        Seed(corpus=str(path), capacity=2)


def test_entries_are_written_with_their_number():
    template = ExemplarTemplate(whole="{examples}|{question}", example="{number}.{problem}={solution};")
    entries = [Exemplar("p", "abcdef"), Exemplar("r", "gh")]
    assert template.write("q", entries, 3) == "1.p=abc;2.r=gh;|q"
