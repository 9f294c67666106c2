"""Classes for TRL's environment_factory as a task: their tools in the prompt, their calls, their rewards."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli import main
from outrider.config import load_recipe
from outrider.environments.environment import Environment, Reply
from outrider.environments.environments import Failed, Key
from outrider.environments.tool_calls import answer_text, answered, read_turn
from outrider.errors import UserError
from outrider.model.load import Policy, save_policy
from outrider.model.options import PolicyOptions
from outrider.model.tiny import tiny_policy
from outrider.record import Outcome
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.tasks.trl import Trl
from outrider.validate.environments import compare_environments

ZOO = str(Path(__file__).with_name("tool_zoo.py"))
SHOWS_TOOLS = (
    "{% if tools %}[tools]{% for t in tools %}{{ t | tojson }}{% endfor %}[/tools]\n{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}"
    "{% if messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user\n{% else %}\n{% endif %}"
    "<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    chat = [{"role": "system", "content": "Count."}, {"role": "user", "content": "Get there."}]
    for name, starts in {"train": range(6), "held": range(4, 8)}.items():
        lines = [{"prompt": chat, "start": start, "goal": start + 2} for start in starts]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def task(kind: str = "Counter", **options: Any) -> Trl:
    return Trl.model_validate(
        {"environment_factory": f"{ZOO}:{kind}", "train_data": "train.jsonl", "heldout_data": "held.jsonl"} | options
    )


def begun(made: Trl) -> Environment:
    environment = made.make_environment()
    assert environment.begin(made.heldout(1)[0], 7) == ""
    return environment


def test_a_problem_is_a_row_with_what_reset_says_and_the_tools(rows: Path) -> None:
    made = task()
    [first, *_] = made.heldout(4)
    assert first.messages_before == ({"role": "system", "content": "Count."},)
    assert first.prompt == "Get there. You are at 4."
    assert [tool["function"]["name"] for tool in first.tools] == ["add", "hang", "look"]
    assert first.tools[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"step": {"type": "integer", "description": "How much to add."}},
        "required": ["step"],
    }
    assert made.counts == {"train": 4, "heldout": 4, "excluded": 2}
    assert {made.train(index).prompt for index in range(4)} == {f"Get there. You are at {i}." for i in range(4)}
    assert made.train(1) == task().train(1)


def test_calls_are_answered_and_the_turn_without_one_is_rewarded(rows: Path) -> None:
    environment = begun(task())
    assert environment.step("I add. " + call("add", step=1)) == Reply("<tool_response>\nNow at 5.\n</tool_response>")
    assert environment.step(call("add", step=1) + call("look")) == Reply(answer_text(["Now at 6.", "6"]))
    done = environment.step("There.")
    assert done.done
    assert done.verdict is not None
    assert (done.verdict.outcome, done.verdict.score, done.verdict.answer) == (Outcome.CORRECT, 1.0, "There.")
    other = begun(task()).step("No.").verdict
    assert other is not None
    assert (other.outcome, other.score) == (Outcome.INCORRECT, 0.0)


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (call("sub", step=1), "Tool sub not found."),
        (call("reset", start=1, goal=1), "Tool reset not found."),
        (call("get_reward"), "Tool get_reward not found."),
        (call("_hidden"), "Tool _hidden not found."),
        (call("__class__"), "Tool __class__ not found."),
        (call("add"), "missing 1 required positional argument: 'step'"),
        (call("add", step=1, twice=True), "unexpected keyword argument 'twice'"),
        (call("add", step="one"), "'<' not supported between instances of 'str' and 'int'"),
        (call("add", step=-1), "Only upwards."),
        ("<tool_call>add(1)</tool_call>", "the call is no JSON"),
        ('<tool_call>["add"]</tool_call>', "the call is no object with a name"),
        ('<tool_call>{"name": "add", "arguments": "1"}</tool_call>', "the arguments of the call are no object"),
        ('<tool_call>{"name": "add"', "the call does not end with </tool_call>"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "the call is no JSON"),
    ],
)
def test_what_cannot_be_called_is_an_answer_and_an_error(rows: Path, turn: str, said: str) -> None:
    reply = begun(task()).step(turn)
    assert reply.error
    assert not reply.done
    assert said in reply.observation.replace('\\"', "'")


@given(
    st.text(alphabet='<>/tool_call{}":,ad1 ', max_size=80), st.sampled_from(["", "<tool_call>", call("add", step=1)])
)
def test_any_turn_is_read(text: str, begins: str) -> None:
    calls = read_turn(begins + text).calls
    assert all(bool(one.wrong) or one.name for one in calls) or not calls
    assert (not calls) or "<tool_call>" in begins + text


@given(st.lists(st.text("aä\ud800", max_size=60), min_size=1, max_size=4), st.integers(1, 200))
def test_answers_that_are_too_long_keep_their_marks(results: list[str], most: int) -> None:
    reply = answered(results, False, most)
    assert reply.observation.count("<tool_response>") == reply.observation.count("</tool_response>") == len(results)
    marks = len(answer_text([""] * len(results)))
    assert len(reply.observation.encode("utf-8", "replace")) <= max(most, marks)
    assert reply.cut == (len(answer_text(results).encode("utf-8", "replace")) > most)


def test_thinking_calls_nothing() -> None:
    assert read_turn(f"<think>{call('add')}</think>" + call("look")).calls[0].name == "look"
    assert len(read_turn(f"<think>{call('add')}</think>" + call("look")).calls) == 1


def test_a_call_in_thinking_that_is_not_closed_presses_nothing(rows: Path) -> None:
    for turn in ("<think>" + call("press"), "<think>" + call("press") + "</think>1", "[THINK]" + call("press")):
        environment = begun(task("Silent", reward_funcs=[f"{ZOO}:tidy"]))
        assert environment.step(turn).done, "a turn that calls nothing ends the rollout"
        assert environment._environment.calls == 0  # type: ignore[attr-defined]


def test_reward_functions_are_summed_and_none_is_excluded(rows: Path) -> None:
    made = task("Silent", reward_funcs=[f"{ZOO}:presses", f"{ZOO}:tidy"], success_at=2.0)
    environment = begun(made)
    environment.step(call("press"))
    verdict = environment.step("1").verdict
    assert verdict is not None
    assert verdict.score == 0.5 + 0.25 * 6
    assert verdict.success
    other = begun(made).step("none").verdict
    assert other is not None
    assert (other.score, other.success) == (0.25 * 6, False)


def test_without_a_reward_a_rollout_is_unscorable(rows: Path) -> None:
    environment = begun(task("Silent", reward_funcs=[f"{ZOO}:presses"]))
    with pytest.raises(ValueError, match=r"the rewards are \[None\]"):
        environment.step("nothing")
    with pytest.raises(TypeError, match=r"two returned \[1.0, 2.0\], not a list with the score of one"):
        begun(task("Silent", reward_funcs=[f"{ZOO}:two"])).step("")


def test_a_tool_that_hangs_costs_its_own_rollout(rows: Path) -> None:
    made = task(limits={"seconds": 1.0})
    environments, problem = made.environments(), made.heldout(1)[0]
    for key in ((0, 0), (0, 1)):
        environments.begin(key, problem, 0)
    heard: dict[Key, Reply | Failed] = {}
    for _ in range(2):  # both may have answered at once
        heard |= dict(environments.answers())
    environments.act((0, 0), call("hang"))
    assert list(environments.answers()) == [((0, 0), Failed("no answer in 1 s", hung=True))]
    environments.act((0, 1), call("look"))
    assert list(environments.answers()) == [((0, 1), Reply(answer_text(["4"])))]
    environments.close([(0, 1)])


def test_a_tool_that_floods_costs_its_own_rollout(rows: Path) -> None:
    environments, problem = task("Flooding").environments(), task("Flooding").heldout(1)[0]
    environments.begin((0, 0), problem, 0)
    list(environments.answers())
    environments.act((0, 0), call("flood"))
    failed = Failed("ValueError: an observation of 10,000,000 bytes, more than 1,048,576")
    assert list(environments.answers()) == [((0, 0), failed)]
    environments.end()


def test_a_random_start_is_one_for_a_problem_and_equal_rows_are_problems(rows: Path) -> None:
    for name, n in {"train": 5, "held": 2}.items():
        (rows / f"{name}.jsonl").write_text('{"prompt": "Roll."}\n' * n)
    made = task("Dice")
    prompts = {problem.prompt for problem in [made.train(index) for index in range(3)] + made.heldout(9)}
    assert len(prompts) == 5
    assert made.counts == {"train": 3, "heldout": 2, "excluded": 2}
    assert begun(made).step("end").done
    assert compare_environments(made, made.heldout(2)).sentence.endswith("both plays were identical")


def test_a_start_that_follows_from_nothing_is_said(rows: Path) -> None:
    made = task("Clock")
    with pytest.raises(ValueError, match=r"reset returned .*, but the prompt has"):
        made.make_environment().begin(made.heldout(1)[0], 0)
    assert "2 failed" in compare_environments(made, made.heldout(2)).sentence


def test_validate_calls_every_tool_twice(rows: Path) -> None:
    assert "2 differed between the two plays" in compare_environments(task("Watch"), task("Watch").heldout(2)).sentence
    slow = task(limits={"seconds": 1.0})
    assert "1 failed, such as" in compare_environments(slow, slow.heldout(1)).sentence, "one of its tools hangs"


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("Nothing", {}, "has no 'Nothing'"),
        ("NoReset", {}, "NoReset has no method reset, which begins a rollout"),
        ("NoTools", {}, "NoTools has no public method beside reset"),
        ("Silent", {}, "Silent has no method get_reward, and no function rewards it either"),
        ("Silent", {"reward_funcs": [f"{ZOO}:of_a_trainer"]}, "asks for trainer_state, which is not known"),
        ("Undescribed", {}, "the tool pull cannot be described"),
        ("Counter", {"train_data": "held.jsonl"}, "every row is also held out"),
        ("Counter", {"limits": {"bytes": 3}}, "reset returns more than 3 bytes (limits.bytes)"),
    ],
)
def test_what_is_no_such_class_is_a_sentence(rows: Path, kind: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        _ = task(kind, **options).train(0), task(kind, **options).heldout(1)


def test_a_row_that_does_not_fit_is_a_sentence(rows: Path) -> None:
    (rows / "held.jsonl").write_text('{"prompt": "Go.", "start": 1}\n')
    with pytest.raises(UserError, match=r"its environment cannot begin \(TypeError: .*missing .*'goal'"):
        task().heldout(1)
    (rows / "held.jsonl").write_text('{"question": "Go."}\n')
    with pytest.raises(UserError, match=r"held.jsonl, line 1: no field 'prompt'"):
        task().heldout(1)


def writer(template: str) -> Policy:
    """A random policy to which whole calls are single tokens, so that it writes some."""
    policy = tiny_policy(
        0, 1024, "".join(sorted({*string.ascii_letters, *string.digits, *string.punctuation, " ", "\n"}))
    )
    policy.tokenizer.add_tokens([call("add", step=1), call("look"), call("sub"), "You are at", "Now at"])
    policy.tokenizer.chat_template = template
    policy.model.resize_token_embeddings(len(policy.tokenizer))
    return policy


def test_the_tools_reach_the_prompt_as_the_template_writes_them(rows: Path) -> None:
    [problem] = task().heldout(1)
    policy = writer(SHOWS_TOOLS)._replace(options=PolicyOptions(chat=True))
    turns = [*(problem.messages_before or ()), {"role": "user", "content": problem.prompt}]
    wanted = policy.tokenizer.apply_chat_template(
        turns, tools=list(problem.tools), add_generation_prompt=True, return_dict=True
    )
    assert "[tools]" in policy.tokenizer.apply_chat_template(turns, tools=list(problem.tools), tokenize=False)
    assert np.array_equal(policy.encode(problem), wanted["input_ids"])


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "does not support tools"),
        (SHOWS_TOOLS.replace("tool_call>", "call>"), "writes tool calls in an unknown format"),
        (SHOWS_TOOLS.replace("tool_response>", "answer>"), "writes tool calls in an unknown format"),
    ],
)
def test_a_template_without_tools_is_a_sentence(rows: Path, template: str, said: str) -> None:
    policy = writer(template)._replace(options=PolicyOptions(chat=True))
    with pytest.raises(UserError, match=said):
        policy.encode(task().heldout(1)[0])


@pytest.mark.parametrize("mark", ["<tool_call>", "</tool_call>"])
def test_a_tokenizer_that_hides_calls_is_a_sentence(rows: Path, mark: str) -> None:
    """As a special token it is not in the text of a turn, and no call would ever be found."""
    policy = writer(SHOWS_TOOLS)._replace(options=PolicyOptions(chat=True))
    policy.tokenizer.add_special_tokens({"additional_special_tokens": [mark]})
    with pytest.raises(UserError, match=f"{mark} is a special token of this tokenizer"):
        policy.encode(task().heldout(1)[0])


def test_it_trains(rows: Path) -> None:
    save_policy(writer(SHOWS_TOOLS), rows / "model", {})
    (rows / "count.yaml").write_text(
        "extends: grpo\nsummary: GRPO on counters.\nmodel: model\npolicy: {chat: true}\n"
        f"task: {{trl: {{environment_factory: '{ZOO}:Counter', train_data: train.jsonl, heldout_data: held.jsonl}}}}\n"
        "explore: [{uniform: {n: 4}}]\nobjective: {kl: 0.0}\nsample: {max_tokens: 160}\n"
        "learn: {lr: 1.0e-4}\ntrain: {problems: 2, steps: 2}\nevaluate: {problems: 2, n: 2, before: false}\n"
    )
    assert main(["train", "count.yaml", "--out", "runs/a", "train.ranks=1", "train.trackers=[]"]) == 0
    metrics = RunFolder(rows / "runs" / "a").metrics()
    assert [row["step"] for row in metrics] == [1, 2]
    assert sum(row["turn_errors"] for row in metrics) > 0
    rollouts = [r for step in (1, 2) for r in RolloutStore(rows / "runs" / "a" / "rollouts").read(step)]
    assert not any("environment" in rollout.stop.value for rollout in rollouts)
    assert sum("Now at" in rollout.text for rollout in rollouts) > 0
    assert {"done"} <= {rollout.stop.value for rollout in rollouts}


def test_the_fingerprint_changes_with_whatever_makes_or_rewards_a_rollout(rows: Path) -> None:
    (rows / "zoo.py").write_text(Path(ZOO).read_text())
    (rows / "score.py").write_text("def score(completions, **_):\n    return [1.0]\n")
    options = {"environment_factory": "zoo.py:Counter", "reward_funcs": ["score.py:score"]}
    first = task(**options).fingerprint
    assert task(**options).fingerprint == first
    found = {first, task(**options, success_at=0.5).fingerprint}
    (rows / "score.py").write_text("def score(completions, **_):\n    return [0.5]\n")
    found.add(task(**options).fingerprint)
    with (rows / "zoo.py").open("a") as file:
        file.write("LIMIT = 7  # what a class reads beside its own source\n")
    found.add(task(**options).fingerprint)
    assert len(found) == 4


def test_without_a_chat_template_it_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UserError, match=r"policy.chat=true"):
        load_recipe("grpo", ["task={trl: {environment_factory: 'a:B', train_data: a, heldout_data: b}}"])
