"""Each framework's dump, in the form in which it writes it; by its own code too, where it is installed."""

from __future__ import annotations

import ast
import json
import math
import os
import zipfile
from collections import Counter, defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import dumps
from dumps import CHAT, TURNS, TURNS_TEXT, column, rows, said
from outrider.errors import UserError
from outrider.importers import read

# TRL


def test_trl_reads_messages_rewards_and_steps(tmp_path):
    dumps.trl(tmp_path, 2, {"acc": [1.0, 0.0]}, prompt=[CHAT] * 2, completion=[TURNS, TURNS[2:]], advantage=[0.5, -0.5])
    dumps.trl(tmp_path, 1, {"acc": [0.0]}, prompt=[CHAT], completion=[TURNS], advantage=[0.0], source=["web"])
    found = rows(tmp_path)
    assert column(found, "step", "member", "reward", "advantage") == [
        (1, 0, 0.0, 0.0),
        (2, 0, 1.0, 0.5),
        (2, 1, 0.0, -0.5),
    ]
    assert column(found, "text") == [TURNS_TEXT, TURNS_TEXT, "Vier: 四\u2028."]
    assert column(found, "prompt")[0] == "[system]\nAdd.\n\n[user]\n2 + 2?"
    assert column(found, "outcome") == [None] * 3  # a reward is no verdict
    verified = read(tmp_path, columns={"success": "acc >= 1"})
    assert verified.rollouts["outcome"].to_pylist() == ["incorrect", "correct", "incorrect"]
    assert said(verified, "Success is acc >= 1")


def test_trl_adds_several_rewards_and_says_so(tmp_path):
    rewards = {"acc": [1.0, None, None], "format": [0.25, 0.25, None]}
    dumps.trl(tmp_path, 1, rewards, prompt=["a"] * 3, completion=["b"] * 3, note=["x"] * 3)
    found = read(tmp_path)
    reward = found.rollouts["reward"].to_pylist()
    assert reward[:2] == [1.25, 0.25]
    assert math.isnan(reward[2])  # nobody could score it: not zero, and not missing
    assert said(found, "sum of acc, format")
    assert rows(tmp_path, columns={"reward": "acc"})[0]["reward"] == 1.0


TRL_GROUPS = {"prompt": ["a"] * 4 + ["b"] * 4, "completion": list("cdefghij")}
ACC = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]


def grouped(*rewards: list[float], scale: str = "group") -> list[float]:
    """TRL's advantages of two groups of four."""
    total = np.sum(rewards, axis=0).reshape(2, 4)
    centred = total - total.mean(axis=1, keepdims=True)
    by = {"group": total.std(axis=1, ddof=1, keepdims=True), "batch": total.std(ddof=1), "none": 1 - 1e-4}[scale]
    return (centred / (by + 1e-4)).ravel().tolist()


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_trls_rewards_are_the_columns_that_give_the_advantages(tmp_path, scale):
    """A length that a reward function logged is a column of floats as well, and was added to the reward."""
    length = [float(n) for n in (812, 40, 3, 977, 5, 60, 71, 8)]
    style = [0.5, 0.25, 0.0, 0.5, 0.0, 0.25, 0.5, 0.0]
    table = {"acc": ACC, "style": style, "length": length}
    dumps.trl(tmp_path / "run", 1, table, advantage=grouped(ACC, style, scale=scale), **TRL_GROUPS)
    found = read(tmp_path / "run")
    assert found.rollouts["reward"].to_pylist() == [a + b for a, b in zip(ACC, style, strict=True)]
    assert said(found, "sum of acc, style", "length is not used as rewards")
    weighted = grouped([2.5 * a for a in ACC], style, scale=scale)
    dumps.trl(tmp_path / "weighted", 1, table, advantage=weighted, **TRL_GROUPS)
    found = read(tmp_path / "weighted")
    assert found.rollouts["reward"].null_count == 8  # no plain sum is what was trained on
    assert said(found, "no sum of acc, style, length gives the advantages", "name the column")
    assert rows(tmp_path / "weighted", columns={"reward": "acc"})[0]["reward"] == 1.0


def test_groups_of_trl_that_agree_tell_too_what_is_no_reward(tmp_path):
    """Advantages of 0 where lengths differ; and a prompt that was drawn twice in a row is two groups."""
    length = [float(n) for n in (812, 40, 3, 977, 5, 60, 71, 8)]
    dumps.trl(tmp_path / "agree", 1, {"acc": [1.0] * 8, "length": length}, advantage=[0.0] * 8, **TRL_GROUPS)
    assert said(read(tmp_path / "agree"), "reward is acc", "length is not used")
    once = {"prompt": ["a"] * 8 + ["b"] * 4 + ["c"] * 4, "completion": [str(i) for i in range(16)]}
    dumps.trl(
        tmp_path / "twice", 1, {"acc": ACC * 2, "length": length * 2}, advantage=grouped(ACC) + grouped(ACC), **once
    )
    assert said(read(tmp_path / "twice"), "reward is acc", "length is not used")


def test_trls_trainer_state_names_the_reward_functions(tmp_path):
    for at, keys in ((5, ["rewards/other/mean"]), (10, ["rewards/acc/mean", "rewards/acc/std", "reward"])):
        state = tmp_path / f"checkpoint-{at}/trainer_state.json"
        state.parent.mkdir()
        state.write_text(json.dumps({"log_history": [dict.fromkeys(keys, 0.5), {"loss": 1.0}]}))
    dumps.trl(tmp_path, 1, {"acc": ACC, "length": [9.0] * 8}, **TRL_GROUPS)
    found = read(tmp_path / "completions")
    assert found.rollouts["reward"].to_pylist() == ACC
    assert said(found, "reward is acc", "trainer_state.json", "length")


def test_trls_completions_of_two_runs_are_refused(tmp_path):
    for run in "ab":
        dumps.trl(tmp_path / run, 1, {"acc": ACC}, **TRL_GROUPS | {"completion": [run] * 8})
    with pytest.raises(UserError, match=r"step 1 was already read from .*, so these are two runs"):
        read(tmp_path)


def test_trl_leaves_out_a_batch_that_was_logged_again(tmp_path):
    batch = {"prompt": ["a", "b"], "completion": ["c", "d"], "advantage": [0.5, -0.5]}
    for step, reward in [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]:
        dumps.trl(tmp_path, step, {"acc": [reward, None]}, **batch)
    found = read(tmp_path)
    assert found.rollouts["step"].to_pylist() == [1, 1, 4, 4]
    assert said(found, "2 files were skipped", "the file before")


# verl


def test_verl_takes_acc_as_success_where_it_states_one(tmp_path):
    accs = [True, 0.0, 0.1, None, "True"]  # a manager without an accuracy fills in the score; str is `default=str`
    records = [dumps.verl(1, "p", "o", 0.1, acc=acc, pred="4") for acc in accs]
    found = read(dumps.lines(tmp_path / "1.jsonl", [*records, dumps.verl(1, "p", "o", 1.0)]))
    assert found.rollouts["outcome"].to_pylist() == ["correct", "incorrect", None, None, "correct", None]
    assert found.rollouts["reward"].to_pylist() == [0.1] * 5 + [1.0]
    assert found.rollouts["answer"].to_pylist() == ["4"] * 5 + [None]
    assert said(found, "1 rollout has an acc other than 0 and 1")
    assert said(found, "3 of 6 rollouts have a verdict")


def test_verl_tells_validation_from_training_and_groups_by_uid(tmp_path):
    dumps.lines(tmp_path / "train/1.jsonl", [dumps.verl(1, "p", "o", 1.0, uid=f"{u}_0_0") for u in "ab"])
    dumps.lines(tmp_path / "val/1.jsonl", [dumps.verl(1, "p", "o", 1.0, reward=1.0)])
    found = rows(tmp_path)
    assert column(found, "split") == ["train", "train", "evaluate"]
    assert len({row["group_id"] for row in found}) == 3  # two draws of one prompt are two groups
    assert len({row["problem_id"] for row in found}) == 1


def verl_step(step: int, sizes: dict[str, int], **more: object) -> list[dict[str, object]]:
    """So many responses to each prompt, one after another in turns."""
    turns = [(i, prompt) for prompt, size in sizes.items() for i in range(size)]
    return [dumps.verl(step, prompt, f"{prompt}{i}", 0.0, **more) for i, prompt in sorted(turns)]


def test_a_prompt_that_a_verl_step_drew_twice_is_two_groups_without_uid_too(tmp_path):
    dumps.lines(tmp_path / "1.jsonl", verl_step(1, {"a": 4, "b": 4, "c": 8}))
    dumps.lines(tmp_path / "2.jsonl", verl_step(2, {"a": 1, "b": 1, "c": 3}))
    found = read(tmp_path)
    table = found.rollouts.to_pylist()
    sizes = [sorted(Counter(r["group_id"] for r in table if r["step"] == step).values()) for step in (1, 2)]
    assert sizes == [[4, 4, 4, 4], [1, 1, 1, 1, 1]]
    assert len({r["problem_id"] for r in table}) == 3
    assert sorted(column(table, "group_id", "member")) == sorted(set(column(table, "group_id", "member")))
    assert said(found, "2 times a prompt was sampled again in its step")


def test_groups_of_verl_that_differ_in_size_are_left_and_said_to_be_unclear(tmp_path):
    found = read(dumps.lines(tmp_path / "1.jsonl", verl_step(1, {"a": 4, "b": 4, "c": 7})))
    assert sorted(Counter(found.rollouts["group_id"].to_pylist()).values()) == [4, 4, 7]
    assert said(found, "1 prompt has more responses than others", "only uid shows")
    told = read(dumps.lines(tmp_path / "1.jsonl", verl_step(1, {"a": 4, "b": 4, "c": 8}, uid="u_0_0")))
    assert not said(told, "was sampled again")


def test_verls_rollouts_of_two_runs_are_refused(tmp_path):
    for run in "ab":
        dumps.lines(tmp_path / run / "1.jsonl", verl_step(1, {"p": 2}))
    with pytest.raises(UserError, match=r"b/1.jsonl: step 1 was already read from .*a/1.jsonl"):
        read(tmp_path)


def test_verl_keeps_the_last_output_of_an_agents_rollout(tmp_path):
    uids = ["a_0_0", "a_0_1", "a_1_0", "b_0_0", "b_0_1", "b_0_2"]
    records = [dumps.verl(1, "p", uid, 1.0, uid=uid) for uid in uids]
    found = read(dumps.lines(tmp_path / "1.jsonl", records))
    assert found.rollouts["text"].to_pylist() == ["a_0_1", "a_1_0", "b_0_2"]
    assert said(found, "3 earlier outputs", "skipped")


# verifiers and prime-rl


def test_results_of_vf_eval(tmp_path):
    error = {"error": "Boom", "error_chain_repr": "Boom()", "error_chain_str": "Boom: it broke"}
    records = [
        dumps.vf_result(0, 1.0, CHAT, TURNS),
        dumps.vf_result(0, 0.4, CHAT, None, is_truncated=True),
        dumps.vf_result(1, 0.0, error=error),
        {"prompt": CHAT, "completion": "4", "answer": "4", "task": "default", "reward": 0.5},  # as 0.1.5 wrote it
    ]
    path = dumps.lines(tmp_path / "run/results.jsonl", records)
    found = rows(path)
    assert column(found, "outcome") == [None, None, "error", None]
    assert column(found, "stop") == ["stop", "length", "stop", None]
    assert column(found, "text")[0] == TURNS_TEXT
    assert column(found, "detail")[2] == "Boom: it broke"
    assert column(found, "member", "tokens") == [(0, 5), (1, 5), (0, 5), (2, None)]
    assert column(rows(path, columns={"success": "metrics.exact >= 1"}), "outcome") == [
        "correct",
        "incorrect",
        "error",
        None,
    ]


def test_results_of_vf_eval_of_two_models_are_kept_apart(tmp_path):
    for model in ("one", "two"):
        dumps.lines(tmp_path / f"gsm--{model}/5f3a/results.jsonl", [dumps.vf_result(0, 1.0)] * 2)
    found = read(tmp_path)
    assert Counter(found.rollouts["model"].to_pylist()) == {"one": 2, "two": 2}
    assert set(found.rollouts["level"].to_pylist()) == {None}
    assert len(set(found.rollouts["group_id"].to_pylist())) == 2
    assert said(found, "2 models are kept separate", "one, two")


def test_results_of_vf_eval_of_two_environments_and_runs_are_kept_apart(tmp_path):
    for folder in ("gsm--one/5f3a", "gsm--one/77b0", "aime--one/11aa"):
        dumps.lines(tmp_path / f"{folder}/results.jsonl", [dumps.vf_result(0, 1.0)] * 2)
    found = rows(tmp_path)
    # the two runs of one environment are distinguished; the other environment has one run only
    assert Counter(column(found, "model", "test_set")) == {
        ("(none)", "aime"): 2,
        ("5f3a", "gsm"): 2,
        ("77b0", "gsm"): 2,
    }
    assert len(set(column(found, "problem_id"))) == 3
    assert set(column(found, "member")) == {0, 1}


def test_environments_of_evaluations_are_test_sets(tmp_path):
    tried = [
        dumps.episode([dumps.trace(f"{env}{i}", [dumps.node(m, None) for m in CHAT], {"r": 1.0})], env={"id": env})
        for env in ("gsm8k", "aime")
        for i in range(2)
    ]
    found = rows(dumps.lines(tmp_path / "traces.jsonl", tried))
    assert Counter(column(found, "test_set", "problem_id")) == {("gsm8k", "gsm8k/h1"): 2, ("aime", "aime/h1"): 2}


def test_steps_of_two_runs_of_prime_rl_are_refused(tmp_path):
    for run in "ab":
        dumps.lines(tmp_path / run / "step_2/train_rollouts.jsonl", [dumps.vf_result(0, 1.0)])
    with pytest.raises(UserError, match=r"step 2 was already read from "):
        read(tmp_path)


def test_the_threshold_of_vf_eval_is_its_success(tmp_path):
    path = dumps.lines(tmp_path / "results.jsonl", [dumps.vf_result(0, r) for r in (0.49, 0.5, 1.0)])
    (tmp_path / "metadata.json").write_text(json.dumps({"env_id": "x", "pass_threshold": 0.5}))
    found = read(tmp_path)
    assert found.rollouts["outcome"].to_pylist() == ["incorrect", "correct", "correct"]
    assert said(found, "reward >= 0.5", "pass_threshold")
    assert said(found, "1 other file")
    assert path.name == "results.jsonl"


def test_steps_of_prime_rls_folders(tmp_path):
    dumps.lines(tmp_path / "step_2/train_rollouts.jsonl", [dumps.vf_result(0, 1.0)])
    dumps.lines(tmp_path / "step_10/eval_rollouts.jsonl", [dumps.vf_result(0, 1.0)])
    assert column(rows(tmp_path), "step", "split") == [(2, "train"), (10, "evaluate")]


def test_a_trace_is_read_from_its_graph(tmp_path):
    nodes = [
        dumps.node(CHAT[1], None),
        dumps.node({"role": "assistant", "content": "lost"}, 0, [-3.0]),  # a branch that was given up
        dumps.node(
            {"role": "assistant", "content": None, "reasoning_content": "hm"}, 0, [-1.0, -2.0], advantages=[0.5] * 2
        ),
        dumps.node({"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "x"}, 2),
        dumps.node({"role": "assistant", "content": "4"}, 3, [-2.0], advantages=[0.5], entropies=[0.25]),
    ]
    policy = {"start": 7, "end": 8}
    work = {"type": "train", "step": 9, "policy": policy}
    done = dumps.trace("t", nodes, {"right": 1.0, "style": 0.5})
    path = dumps.lines(tmp_path / "traces.jsonl", [dumps.episode([done], work, group={"id": "g"})])
    (found,) = rows(path)
    assert found["text"] == "[assistant]\n<think>hm</think>\n\n[tool]\n4\n\n[assistant]\n4"
    assert found["prompt"] == "2 + 2?"
    assert (found["step"], found["split"], found["policy_version"], found["group_id"]) == (9, "train", 7, "train:9:g")
    assert (found["tokens"], found["logprob"]) == (4, -2.0)  # all that was sampled; the mean of -3, -1, -2, -2
    assert (found["entropy"], found["advantage"], found["reward"], found["stop"]) == (0.25, 0.5, 1.5, "stop")
    # of the last branch: the tool's three tokens, and two of the template before the second turn
    assert (found["turns"], found["observed"], found["turn_errors"]) == (2, 5, None)
    (verified,) = rows(path, columns={"success": "rewards.right.score >= 1"})
    assert verified["outcome"] == "correct"


def test_failed_limited_and_untrained_traces(tmp_path):
    nodes = [dumps.node(CHAT[1], None), dumps.node({"role": "assistant", "content": "4"}, 0, [-1.0])]
    error = [{"type": "ModelError", "message": "gone"}]
    traces = [
        dumps.trace("a", nodes, {}, ok=False, errors=error),
        dumps.trace("b", nodes, {}, ok=False, is_timeout=True),
        dumps.trace("c", nodes, {"r": 0.0}, stop_condition="max_turns"),
        dumps.trace("d", nodes, {"r": 0.0}, agent={"name": "judge", "trainable": False}),
        dumps.trace("e", [], {}),
    ]
    found = read(dumps.lines(tmp_path / "t.jsonl", [dumps.episode(traces), dumps.episode([])]))
    table = found.rollouts.to_pylist()
    assert column(table, "outcome", "detail") == [
        ("error", "ModelError: gone"),
        ("timeout", None),
        (None, None),
        (None, None),
    ]
    assert column(table, "reward") == [None, None, 0.0, None]
    assert column(table, "stop")[2] == "length"
    assert column(table, "prompt")[3] == "2 + 2?"  # of the task, as the trace has no message
    assert said(found, "1 trace", "not trained", "skipped")
    assert said(found, "1 episode without a trace")


def test_prime_rls_two_files_hold_a_rollout_once(tmp_path):
    nodes = [dumps.node(CHAT[1], None), dumps.node({"role": "assistant", "content": "4"}, 0, [-1.0])]
    paid = [nodes[0], nodes[1] | {"advantages": [0.5]}]
    work = {"type": "train", "step": 1}
    folder = tmp_path / "step_1/train"
    dumps.lines(folder / "all/traces.jsonl", [dumps.episode([dumps.trace(n, nodes, {"r": 1.0})], work) for n in "ab"])
    dumps.lines(folder / "effective/traces.jsonl", [dumps.episode([dumps.trace("a", paid, {"r": 1.0})], work)])
    found = rows(tmp_path)
    assert column(found, "advantage", "unused") == [(0.5, ""), (None, "not in an effective batch")]
    assert column(found, "member") == [0, 1]
    assert column(rows(folder / "all"), "unused") == ["", ""]  # nothing tells what was trained on


# open-instruct


def test_open_instruct_has_tokens_and_no_text(tmp_path):
    records = [
        dumps.open_instruct(1, 0, [5, 6], [7, 8, 9], logprobs=[-1.0, -2.0, -3.0]),
        dumps.open_instruct(1, 0, [5, 6], [7, 8, 9], finish_reason="length", logprobs=None),
        dumps.open_instruct(1, 1, [5, 6], [], request_info={"tool_calleds": True}),
        dumps.open_instruct(2, 0, [5, 6], [1], reward=float("nan"), finish_reason="abort"),
    ]
    found = read(dumps.lines(tmp_path / "r.jsonl", records))
    table = found.rollouts.to_pylist()
    assert column(table, "text", "tokens", "logprob") == [
        ("7 8 9", 3, -2.0),
        ("7 8 9", 3, None),
        ("", 0, None),
        ("1", 1, -0.5),
    ]
    assert column(table, "stop") == ["stop", "length", "stop", None]
    assert column(table, "group_id", "member") == [
        ("train:1:0", 0),
        ("train:1:0", 1),
        ("train:1:1", 0),
        ("train:2:0", 0),
    ]
    assert len({row["problem_id"] for row in table}) == 1
    assert math.isnan(table[3]["reward"])
    assert said(found, "token ids")
    assert said(found, "1 rollout called tools")


# lm-eval


def test_lm_eval_reads_one_filter_and_no_likelihoods(tmp_path):
    strict = [dumps.lm_eval(i, [f"r{i}"], {"exact_match": float(i)}) for i in range(2)]
    flexible = [dumps.lm_eval(i, [f"r{i}"], {"exact_match": 1.0}, filter="flexible-extract") for i in range(2)]
    path = dumps.lines(
        tmp_path / "samples_x.jsonl", [*strict, *flexible, dumps.lm_eval_choices(9) | {"filter": "strict-match"}]
    )
    found = read(path)
    table = found.rollouts.to_pylist()
    assert column(table, "text", "outcome", "answer") == [("r0", "incorrect", "0"), ("r1", "correct", "1")]
    assert column(table, "split", "prompt")[0] == ("greedy", "Q: What is 0?\nA:")
    assert said(found, "2 lines of filters other than strict-match")
    assert said(found, "1 line without generated text")
    other = rows(path, columns={"success": "exact_match,flexible-extract", "level": "doc.level"})
    assert column(other, "outcome", "level") == [("correct", "Level 2")] * 2


def test_lm_evals_verdict_on_repeats_is_nobodys(tmp_path):
    sampled = {"gen_args_0": {"arg_0": "Q", "arg_1": {"do_sample": True, "temperature": 0.7}}}
    record = dumps.lm_eval(1, ["a", "b", "a"], {"exact_match": 1.0}, arguments=sampled)
    path = dumps.lines(tmp_path / "s.jsonl", [record])
    found = read(path)
    assert column(found.rollouts.to_pylist(), "text", "member", "outcome") == [
        ("a", 0, None),
        ("b", 1, None),
        ("a", 2, None),
    ]
    assert set(found.rollouts["split"].to_pylist()) == {"evaluate"}
    assert said(found, "1 document has repeats")
    assert column(rows(path, columns={"success": "exact_match >= 1"}), "outcome") == [None] * 3


def lm_eval_folder(folder: Path, models: str, tasks: str, dates: str = "1") -> Path:
    for model in models:
        for task in tasks:
            for date in dates:
                records = [
                    dumps.lm_eval(i, [f"{model}{i}"], {"exact_match": 1.0}) | {"doc_hash": f"h{i}"} for i in (1, 2)
                ]
                dumps.lines(folder / f"org__{model}" / f"samples_{task}_2026-0{date}-01T00-00-00.5.jsonl", records)
    return folder


@pytest.mark.parametrize(
    ("models", "tasks", "dates", "apart", "words"),
    [
        (
            "abc",
            "x",
            "1",
            {(f"org__{m}", None) for m in "abc"},
            ["3 models are kept separate: org__a, org__b, org__c."],
        ),
        ("a", "xy", "1", {(None, "x"), (None, "y")}, ["Samples come from 2 test sets: x, y."]),
        ("ab", "xy", "1", {(f"org__{m}", t) for m in "ab" for t in "xy"}, ["2 models are kept separate"]),
        ("a", "x", "12", {(f"2026-0{d}-01T00-00-00.5", None) for d in "12"}, ["2 files of one task are kept separate"]),
        ("ab", "x", "12", {(f"org__{m}/2026-0{d}-01T00-00-00.5", None) for m in "ab" for d in "12"}, ["4 models"]),
    ],
)
def test_lm_eval_keeps_models_tasks_and_dates_apart(tmp_path, models, tasks, dates, apart, words):
    """They ask the same documents: 18 responses of three models were 6 problems, and their pass@3 over the models."""
    found = read(lm_eval_folder(tmp_path, models, tasks, dates))
    table = found.rollouts.to_pylist()
    assert set(column(table, "model", "test_set")) == apart
    ids = {"/".join(filter(None, [model, test_set, doc])) for model, test_set in apart for doc in ("h1", "h2")}
    assert set(column(table, "problem_id")) == ids
    assert set(Counter(column(table, "problem_id")).values()) == {1}
    assert set(column(table, "member")) == {0}
    assert said(found, *words)


def test_one_model_and_task_of_lm_eval_keep_their_ids(tmp_path):
    lm_eval_folder(tmp_path, "ab", "x")
    for model in "ab":
        assert column(rows(tmp_path / f"org__{model}"), "problem_id", "level") == [("h1", None), ("h2", None)]


def test_lm_eval_without_a_metric_that_is_success(tmp_path):
    path = dumps.lines(
        tmp_path / "s.jsonl", [dumps.lm_eval(1, ["a"], {"bleu": 0.3}), dumps.lm_eval(2, ["a"], {"acc": 0.5})]
    )
    found = read(path)
    assert found.rollouts["outcome"].to_pylist() == [None, None]
    assert said(found, "No metric gives success by itself", "bleu")
    assert said(found, "acc other than 0 and 1")


# Inspect


@pytest.mark.parametrize("write", [dumps.inspect_eval, dumps.inspect_json])
def test_inspect_reads_scores_epochs_and_turns(tmp_path, write):
    nan, unscored = float("nan"), {"value": float("nan"), "reason": "refusal", "history": []}
    messages = [
        {**m, "source": s}
        for m, s in zip([*CHAT, *TURNS], ["input", "input", "generate", None, "generate"], strict=True)
    ]
    picture = {"type": "image", "image": "attachment://k"}
    samples = [
        dumps.inspect_sample(7, 1, {"match": "C"}, messages=messages, input=CHAT, attachments={"k": "data:"}),
        dumps.inspect_sample(7, 2, {"match": "I"}),
        dumps.inspect_sample("x", 1, {"match": "N"}, limit={"type": "token", "limit": 9}),
        dumps.inspect_sample("y", 1, {"match": nan}),
        dumps.inspect_sample("z", 1, {}) | {"scores": {"match": unscored}},
        dumps.inspect_sample("p", 1, {"match": "P"}, input=[{"role": "user", "content": [picture]}]),
        dumps.inspect_sample("e", 1, {}, error={"message": "RuntimeError('no')", "traceback": ""}) | {"scores": None},
    ]
    found = read(write(tmp_path / "a.log", samples))
    table = found.rollouts.to_pylist()
    assert column(table, "outcome") == ["correct", "incorrect", "unparseable", "error", "unparseable", None, None]
    assert column(table, "problem_id", "member")[:3] == [("sums/7", 0), ("sums/7", 1), ("sums/x", 0)]
    assert column(table, "text")[:2] == [TURNS_TEXT, "It is 4."]
    assert column(table, "prompt")[::5] == ["[system]\nAdd.\n\n[user]\n2 + 2?", "[image]"]
    assert column(table, "tokens", "stop", "split")[1] == (5, "stop", "evaluate")
    assert column(table, "detail")[6] == "RuntimeError('no')"
    assert said(found, "Success is the score match")
    assert said(found, "1 sample ended in an error")


def test_inspect_with_two_scorers_must_be_told_which(tmp_path):
    path = dumps.inspect_json(
        tmp_path / "a.json", [dumps.inspect_sample(1, 1, {"match": "I", "model": {"right": 0.8}})]
    )
    assert said(read(path), "several scorers", "match, model")
    assert column(rows(path), "outcome") == [None]
    assert column(rows(path, columns={"success": "match"}), "outcome") == ["incorrect"]
    assert column(rows(path, columns={"success": "model.right > 0.5"}), "outcome") == ["correct"]
    assert column(rows(path, columns={"success": "scores.model.value.right > 0.5"}), "outcome") == ["correct"]


@pytest.mark.parametrize("write", [dumps.inspect_eval, dumps.inspect_json])
def test_inspect_logs_of_two_models_are_kept_apart(tmp_path, write):
    for model in ("m/one", "m/two"):
        write(tmp_path / f"{model[2:]}.eval", [dumps.inspect_sample(1, 1, {"match": "C"})], model=model)
    found = read(tmp_path)
    assert said(found, "2 models", "m/one, m/two")
    assert column(found.rollouts.to_pylist(), "problem_id", "model", "test_set", "member") == [
        ("m/one/sums/1", "m/one", "sums", 0),
        ("m/two/sums/1", "m/two", "sums", 0),
    ]


def test_a_field_of_an_unknown_dump_names_model_and_test_set(tmp_path):
    """Both have a problem 1; the rollouts of one model and set are numbered from 0, wherever they stand in the file."""
    records = [{"q": 1, "ok": m == "b", "who": m, "from": t} for m in "ab" for t in "xy" for _ in range(2)]
    path = dumps.lines(tmp_path / "mine.jsonl", records)
    names = {"problem": "q", "success": "ok", "model": "who", "test_set": "from"}
    found = rows(path, columns=names)
    assert Counter(column(found, "problem_id")) == {f"{m}/{t}/1": 2 for m in "ab" for t in "xy"}
    assert column(found, "member") == [0, 1] * 4
    one = rows(dumps.lines(tmp_path / "one.jsonl", records[:4]), columns=names)
    assert set(column(one, "problem_id", "model")) == {("x/1", "a"), ("y/1", "a")}, "one model needs no mark"
    records[0].pop("who")
    mixed = rows(dumps.lines(tmp_path / "mixed.jsonl", records), columns=names)
    assert column(mixed, "problem_id", "model")[0] == ("(none)/x/1", "(none)")


def test_long_ids_keep_the_names_of_their_model(tmp_path):
    """An id of more than 64 characters is hashed; the model before it must not be, as comparisons take it off."""
    for model in ("one", "two"):
        samples = [dumps.inspect_sample("x" * 100, 1, {"match": "C"})]
        dumps.inspect_eval(tmp_path / f"{model}.eval", samples, model=model)
    ids = column(rows(tmp_path), "problem_id")
    assert [name.split("/")[:2] for name in ids] == [["one", "sums"], ["two", "sums"]]
    assert len({name.partition("/")[2] for name in ids}) == 1


def test_inspect_logs_of_one_model_and_task_are_kept_apart(tmp_path):
    for name in ("first", "again"):
        dumps.inspect_eval(tmp_path / f"{name}.eval", [dumps.inspect_sample(1, 1, {"match": "C"})])
    assert column(rows(tmp_path), "problem_id", "model") == [("again/sums/1", "again"), ("first/sums/1", "first")]


def test_inspect_logs_that_are_truncated_chunked_or_damaged(tmp_path):
    samples = [dumps.inspect_sample(i, 1, {"match": "C"}) for i in range(3)]
    path = dumps.inspect_json(tmp_path / "a.json", samples)
    text = path.read_text()
    path.write_text(text[: text.index('"id": 2')])
    found = read(path)
    assert found.rollouts.num_rows == 2
    assert said(found, "1 log was read up to where it is truncated")
    path.write_text(text.replace('"id": 1,', '"id": nope,'))
    with pytest.raises(UserError, match="Expecting value"):
        read(path)
    chunked = dumps.inspect_eval(tmp_path / "c.eval", [dumps.inspect_sample(1, 1, {"match": "C"})], zstd=False)
    with zipfile.ZipFile(chunked, "a") as archive:
        archive.writestr("samples/9_epoch_1/sample.json", "{}")
        archive.writestr("samples/9_epoch_1/messages/0.json", "[]")
    found = read(chunked)
    assert found.rollouts.num_rows == 1
    assert said(found, "1 sample was skipped, as it is chunked")
    packed = dumps.inspect_eval(tmp_path / "d.eval", samples)
    packed.write_bytes(
        packed.read_bytes().replace(
            pa.Codec("zstd").compress(json.dumps(samples[1]).encode(), asbytes=True)[:40], b"x" * 40
        )
    )
    with pytest.raises(UserError, match=r"1_epoch_1\.json cannot be read"):
        read(packed)


# the frameworks themselves, where they are installed


def test_verls_own_writers(tmp_path):
    classic = pytest.importorskip("verl.trainer.ppo.ray_trainer").RayPPOTrainer
    extra = {"acc": [np.bool_(True), np.bool_(False)], "pred": ["4", "5"], "short": [1]}
    classic._write_generations(["p", "p"], ["a", "b\u2028"], ["4", None], [1.0, -1.0], extra, str(tmp_path), 3)
    found = rows(tmp_path)
    assert column(found, "step", "text", "reward", "outcome", "answer", "member") == [
        (3, "a", 1.0, "correct", "4", 0),
        (3, "b\u2028", -1.0, "incorrect", "5", 1),
    ]


def test_verls_newer_writer(tmp_path):
    """Its module needs a cluster's packages to be imported, its writing function only these three."""
    verl = pytest.importorskip("verl")
    tree = ast.parse((Path(verl.__file__).parent / "trainer/ppo/v1/trainer_base.py").read_text())
    (write,) = (node for node in ast.walk(tree) if getattr(node, "name", "") == "_write_generations")
    write.decorator_list = []
    names = {"json": json, "os": os, "np": np}
    exec(compile(ast.Module([write], []), "verl", "exec"), names)
    extra = {"uid": ["u_0_0", "u_0_1", "u_1_0"], "reward": [1.0] * 3, "acc": [None, np.bool_(True), np.float32(0)]}
    names["_write_generations"](["p"] * 3, ["a", "b", "c"], ["4"] * 3, [1.0, 1.0, 0.0], extra, str(tmp_path), 3)
    found = rows(tmp_path)
    assert column(found, "split", "text", "outcome") == [("evaluate", "b", "correct"), ("evaluate", "c", "incorrect")]


def test_trls_own_log(tmp_path):
    trl = pytest.importorskip("trl.trainer.grpo_trainer")
    logs = {"prompt": deque([CHAT, CHAT]), "completion": deque([TURNS, TURNS[2:]]), "images": deque()}
    logs |= {"rewards": {"acc": deque([1.0, math.nan])}, "extra": {"src": deque(["w", None])}}
    logs["advantages"] = deque([0.5, 0.0])
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        _metrics=defaultdict(dict),
        accelerator=SimpleNamespace(is_main_process=True),
        log_completions=True,
        num_completions_to_print=0,
        _logs=logs,
        state=SimpleNamespace(global_step=3),
        args=SimpleNamespace(report_to=[], output_dir=str(tmp_path)),
    )
    (tmp_path / "completions").mkdir()
    parent = patch.object(trl, "super", lambda *a: SimpleNamespace(log=lambda *a: 0), create=True)
    with patch.object(trl, "is_rich_available", lambda: False), parent:
        trl.GRPOTrainer.log(trainer, {})
    found = rows(tmp_path)
    assert column(found, "step", "text", "advantage") == [(3, TURNS_TEXT, 0.5), (3, "Vier: 四\u2028.", 0.0)]
    assert (found[0]["reward"], math.isnan(found[1]["reward"])) == (1.0, True)


def test_a_log_of_thousands_of_samples_is_read_without_its_directory_for_each(tmp_path, monkeypatch):
    samples = [dumps.inspect_sample(i, 1, {"match": "C"}) for i in range(300)]
    path = dumps.inspect_eval(tmp_path / "a.eval", samples, zstd=False)
    opened = []
    whole = zipfile.ZipFile._RealGetContents
    monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", lambda self: (opened.append(self), whole(self))[1])
    assert len(read(path).rollouts) == 300
    assert len(opened) < 10


def test_a_flipped_bit_in_a_sample_of_a_log_is_named(tmp_path):
    path = dumps.inspect_eval(tmp_path / "a.eval", [dumps.inspect_sample(1, 1, {"match": "C"})], zstd=False)
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("samples/1_epoch_1.json").header_offset + 30 + len("samples/1_epoch_1.json") + 60
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.eval: samples/1_epoch_1\.json cannot be read"):
        read(path)
