"""Environments of the real package ``verifiers``, with the interpreter that ``OUTRIDER_VERIFIERS_PYTHON`` names: a
single turn, the use of tools, and a game of several turns."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_trl_task import SHOWS_TOOLS, call

from outrider.cli import main
from outrider.environments.environment import Reply
from outrider.environments.environments import Environments, Failed
from outrider.environments.tool_calls import answer_text
from outrider.environments.verifiers_messages import FirstRequest, observation_of, problem_of, shows_the_same
from outrider.errors import UserError
from outrider.model.load import Policy, save_policy
from outrider.model.tiny import tiny_policy
from outrider.record import Outcome, Problem
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.tasks.verifiers import Verifiers
from outrider.validate.environments import compare_environments

PYTHON = os.environ.get("OUTRIDER_VERIFIERS_PYTHON", "")
needs_verifiers = pytest.mark.skipif(not PYTHON, reason="OUTRIDER_VERIFIERS_PYTHON names no interpreter with verifiers")
ZOO = Path(__file__).parents[1].joinpath("verifiers_zoo")
KEY = (0, 0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(ZOO)
    opened: list[Verifiers] = []

    def make(taskset: str, **options: Any) -> Verifiers:
        given = {"taskset": taskset, "python": PYTHON, "heldout_size": 2, "limits": {"seconds": 60.0}} | options
        opened.append(Verifiers.model_validate(given))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def heard(environments: Environments) -> Reply | Failed:
    [(key, answer)] = environments.answers()
    assert key == KEY
    return answer


def play(task: Verifiers, problem: Problem, *turns: str) -> list[Reply | Failed]:
    environments = task.environments()
    environments.begin(KEY, problem, 0)
    said = [heard(environments)]
    for turn in turns:
        environments.act(KEY, turn)
        said.append(heard(environments))
    environments.close([KEY])
    return said


@needs_verifiers
def test_a_single_turn(made: Any) -> None:
    task = made("sums_env", config={"taskset": {"n": 5}})
    assert task.counts == {"heldout": 2, "train": 3}
    assert made("sums_env", config={"taskset": {"n": 5}}, success_at=0.5).fingerprint != task.fingerprint
    problems = [task.train(index) for index in range(3)] + task.heldout(9)
    assert {problem.prompt for problem in problems} == {f"{i}+{i + 1}=" for i in range(5)}
    assert problems[0].messages_before == ({"role": "system", "content": "Add."},)
    assert problems[0].tools == ()
    right = str(sum(map(int, problems[0].prompt[:-1].split("+"))))
    opening, done = play(task, problems[0], right)
    assert opening == Reply()
    assert isinstance(done, Reply)
    assert done.verdict is not None
    assert (done.verdict.outcome, done.verdict.score) == (Outcome.CORRECT, 1.5), "the weighted sum of its rewards"
    assert done.verdict.answer == right
    wrong = play(task, problems[0], "<think>1</think> -1")[-1]
    assert isinstance(wrong, Reply)
    assert wrong.verdict is not None
    assert (wrong.verdict.outcome, wrong.verdict.score, wrong.verdict.answer) == (Outcome.INCORRECT, 0.5, "-1")


@needs_verifiers
def test_tools_are_called_and_what_they_say_is_observed(made: Any) -> None:
    task = made("lookup-env")
    [problem, _] = task.heldout(2)
    assert [tool["function"]["name"] for tool in problem.tools] == ["book_find"]
    assert problem.tools[0]["function"]["parameters"]["required"] == ["name"]
    name = problem.prompt[len("Number of ") : -1]
    number = {"1": "17", "2": "42", "3": "5", "4": "99"}[name]
    _, found, two, bad, unknown, malformed, done = play(
        task,
        problem,
        "I look it up. " + call("book_find", name=name),
        call("book_find", name=name) + call("book_find", name="x"),
        call("book_find", name="bad"),
        call("book_lose", name=name),
        '<tool_call>{"name": "book_find", "arguments": {</tool_call>',
        f"It is {number}.",
    )
    assert found == Reply(answer_text([number]))
    assert two == Reply(answer_text([number, "nothing"]))
    assert bad == Reply(answer_text(["Error executing tool find: nobody"]))
    assert unknown == Reply(answer_text(["error: unknown tool 'book_lose'"]), error=True)
    assert malformed == Reply(answer_text(["error: unknown tool 'malformed'"]), error=True)
    assert isinstance(done, Reply)
    assert done.verdict is not None
    assert (done.done, done.verdict.score) == (True, 1.0)


@needs_verifiers
def test_a_game_of_several_turns_side_by_side(made: Any) -> None:
    task = made("guess-env")
    assert task.counts == {"heldout": 2}
    problem = task.train(3)
    assert (problem.id, problem.prompt) == ("guess-env:5", "Guess 0 to 9:")
    environments, keys = task.environments(), [(0, guess) for guess in range(10)]
    for key in keys:
        environments.begin(key, problem, 0)
    first = gather(environments, 10)
    assert first == dict.fromkeys(keys, Reply())
    for key in keys:
        environments.act(key, str(key[1]))
    said = gather(environments, 10)
    [won] = [key for key, reply in said.items() if isinstance(reply, Reply) and reply.done]
    for key in keys:
        if key != won:
            assert said[key] == Reply("more" if key < won else "less")
    verdict = said[won].verdict  # type: ignore[union-attr]
    assert verdict is not None
    assert (verdict.success, verdict.score) == (True, 1.0)
    lost = next(key for key in keys if key != won)
    for left in (2, 1, 0):
        environments.act(lost, str(lost[1]))
        reply = heard_of(environments, lost)
        assert reply.done == (left == 0)
    assert reply.verdict is not None
    assert reply.verdict.score == 0.0
    environments.close(keys)
    assert compare_environments(task, task.heldout(2)).sentence.endswith("both plays were identical")


def gather(environments: Environments, n: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    while len(found) < n:
        found |= dict(environments.answers())
    return found


def heard_of(environments: Environments, key: Any) -> Reply:
    [(found, reply)] = environments.answers()
    assert found == key
    assert isinstance(reply, Reply)
    return reply


@needs_verifiers
def test_what_goes_wrong_costs_its_own_rollout(made: Any) -> None:
    task = made("odd-env", limits={"seconds": 4.0})
    environments, problem = task.environments(), task.train(0)
    for key in ((0, 0), (0, 1)):
        environments.begin(key, problem, 0)
    gather(environments, 2)
    for text, why in {
        "raise": "EnvError: OddEnv.run(): OSError: the disk is gone",
        "rewrite": "its harness rewrote the conversation, and what was sampled cannot be changed",
        "second": "its episode has several agents that are the policy, and a rollout is of one",
        "nan": "its reward is nan",
        "wait": "no answer in 4 s",
    }.items():
        environments.begin(KEY, problem, 0)
        heard(environments)
        environments.act(KEY, text)
        answer = heard(environments)
        assert isinstance(answer, Failed), text
        assert why in answer.why
        assert answer.hung == (text == "wait")
    environments.act((0, 1), "on")
    assert heard_of(environments, (0, 1)) == Reply("on")
    environments.begin(KEY, problem, 0)
    heard(environments)
    environments.act(KEY, "exit")
    environments.act((0, 1), "on")
    assert gather(environments, 2) == dict.fromkeys([KEY, (0, 1)], Failed("its process died"))
    environments.begin(KEY, problem, 0)
    assert heard(environments) == Reply()
    environments.act(KEY, "block")
    answer = heard(environments)
    assert answer == Failed("no answer in 4 s", hung=True)
    environments.begin(KEY, problem, 0)
    assert heard(environments) == Reply()
    environments.close([KEY])


@needs_verifiers
@pytest.mark.parametrize(
    ("taskset", "options", "said"),
    [
        ("no_such_env", {}, "No module named 'no_such_env'|taskset 'no_such_env' not found"),
        ("json", {}, "json"),
        ("sums_env", {"config": {"taskset": {"n": "many"}}}, "taskset.n"),
        ("sums_env", {"heldout_size": 8}, "has 8 tasks, and 8 are held out"),
        ("sums_env", {"python": "/nowhere/python"}, "/nowhere/python cannot be started"),
    ],
)
def test_what_cannot_be_loaded_is_a_sentence(made: Any, taskset: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        made(taskset, **options).train(0)


def test_an_interpreter_without_the_package_is_a_sentence(made: Any) -> None:
    with pytest.raises(UserError, match=r"No module named 'verifiers.*name an interpreter that has verifiers 0.4"):
        made("sums_env", python=None).train(0)


def writer() -> Policy:
    """A random policy that can write digits, whole calls, and its end."""
    policy = tiny_policy(0, 1024, "".join(sorted({*string.printable} - {*"\t\r\v\f"})))
    policy.tokenizer.add_tokens([call("book_find", name="1"), call("book_lose"), "more", "less", "17"])
    policy.tokenizer.chat_template = SHOWS_TOOLS
    policy.model.resize_token_embeddings(len(policy.tokenizer))
    return policy


@needs_verifiers
@pytest.mark.parametrize("taskset", ["sums-env", "lookup-env", "guess-env"])
def test_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taskset: str) -> None:
    monkeypatch.chdir(ZOO)
    save_policy(writer(), tmp_path / "model", {})
    task = {"taskset": taskset, "python": PYTHON, "heldout_size": 2, "limits": {"seconds": 60.0}}
    (tmp_path / "recipe.yaml").write_text(
        f"extends: grpo\nsummary: GRPO.\nmodel: {tmp_path}/model\npolicy: {{chat: true}}\n"
        f"task: {{verifiers: {json.dumps(task)}}}\n"
        "explore: [{uniform: {n: 8}}]\nobjective: {kl: 0.0}\nsample: {max_tokens: 768}\n"
        "learn: {lr: 1.0e-4}\ntrain: {problems: 2, steps: 2}\nevaluate: {problems: 2, n: 2}\n"
    )
    out = tmp_path / "run"
    assert main(["train", f"{tmp_path}/recipe.yaml", "--out", str(out), "train.ranks=1", "train.trackers=[]"]) == 0
    assert [row["step"] for row in RunFolder(out).metrics()] == [1, 2]
    rollouts = [r for step in (1, 2) for r in RolloutStore(out / "rollouts").read(step)]
    assert not any("environment" in rollout.stop.value for rollout in rollouts)
    assert any(rollout.stop.value == "done" for rollout in rollouts)
    observed = [r for r in rollouts if r.trainable_T is not None and not r.trainable_T.all()]
    assert bool(observed) == (taskset != "sums-env")


def test_messages_are_prompts_and_observations() -> None:
    user, system = {"role": "user", "content": "?"}, {"role": "system", "content": "s"}
    tool = {"name": "f", "description": "", "parameters": {}}
    problem = problem_of("a", 3, FirstRequest([system, user], [tool]))
    assert problem == Problem("a", "?", 3, messages_before=(system,), tools=({"type": "function", "function": tool},))
    assert shows_the_same(problem, FirstRequest([system, user], [tool]))  # type: ignore[arg-type]
    assert not shows_the_same(problem, FirstRequest([system, user], []))  # type: ignore[arg-type]
    assert not shows_the_same(problem, FirstRequest([user], [tool]))  # type: ignore[arg-type]
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert observation_of([{"role": "user", "content": parts}], True, 99) == Reply("a\nb", error=True)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for refused in (
        problem_of("a", 0, FirstRequest([system], [])),
        problem_of("a", 0, FirstRequest([], [])),
        problem_of("a", 0, FirstRequest([image], [])),
        observation_of([image], False, 99),
        observation_of([{"role": "tool", "content": "1"}, user], False, 99),
        observation_of([user, user], False, 99),
        observation_of([{"role": "user", "content": "x" * 10**7}], False, 99),
        observation_of([{"role": "tool", "content": "x" * 10**6}] * 2, False, 99),
        observation_of([], False, 99),
    ):
        assert isinstance(refused, Failed)
