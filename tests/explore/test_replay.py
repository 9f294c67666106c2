"""Success replay: what joins a group again, with what, and who does not count it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from outrider.analyse.selection import RolloutSelection, select
from outrider.cli import main
from outrider.config import load_recipe
from outrider.credit.assign import assign
from outrider.credit.group_mean import GroupMean
from outrider.errors import UserError
from outrider.explore import Replay, Uniform
from outrider.explore.outcome import evidence, first_pass, outcome
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group, Mode, Observation, Outcome, Rollout, SampleRequest
from outrider.record.store import RolloutStore
from outrider.report.run import open_run
from outrider.runs.folder import RunFolder
from outrider.testing.scripted import POOL, ScriptedRun
from outrider.testing.situations import Situation
from outrider.train.collect import Collector
from outrider.train.metrics import step_metrics
from scripted import group, members, view


def asked(stage: Replay, *groups: Group, step: int = 2) -> list[SampleRequest]:
    return stage.plan(view(groups, step))


def completed(base: Group, request: SampleRequest) -> Group:
    """With the replay as the explorer and the collector make it."""
    whole = replace(request, group_id=base.id, first_member=base.size, stage="1-replay")
    again = whole.replayed()
    return base.joined([again.verified(again.verdict, 1.0)])


@pytest.mark.parametrize(
    ("visits", "kept"),
    [
        (["1000"], True),
        (["1100"], False),  # half of them
        (["0000"], False),
        (["100e"], True),
        (["1eee"], False),  # all that could be verified
        (["1000", "0000"], True),
        (["1000", "eeee"], True),
        (["1000", "1110"], False),
    ],
)
def test_successes_of_problems_that_are_seldom_solved_are_replayed(visits, kept):
    stage = Replay()
    for step, endings in enumerate(visits, 1):
        stage.observe([group(endings, step=step)])
    assert len(asked(stage, group("0000", step=5))) == kept


@pytest.mark.parametrize("now", ["0001", "eeee", ""])
def test_nothing_is_replayed_where_the_policy_solves_or_nobody_can_say(now):
    stage = Replay()
    stage.observe([group("1000")])
    assert asked(stage, group(now, step=2)) == []


def test_a_group_that_was_excluded_gets_nothing():
    stage = Replay()
    stage.observe([group("1000")])
    assert asked(stage, group("0000", step=2).excluded("too hard")) == []


def test_the_last_success_joins_with_the_numbers_it_was_drawn_with_and_teaches():
    """One success beside four failures: 4 / 5 and -1 / 5 without a deviation, on the tokens of the step before."""
    stage = Replay()
    before, now = group("10100"), group("0000", step=2)
    stage.observe([before])
    [request] = asked(stage, now)
    joined = completed(now, request)
    last, old = joined.rollouts[-1], before.rollouts[2]
    assert (last.id, last.member, last.stage) == (f"{now.id}/4", 4, "1-replay")
    assert (last.context.kind, last.context.exemplars, last.replayed) == ("replayed", (old.id,), True)
    for name in ("token_ids", "logprobs_T", "prompt_ids"):
        np.testing.assert_array_equal(getattr(last, name), getattr(old, name))
    assert last.policy_version == old.policy_version
    rows, [credited] = assign([joined], {"main": [GroupMean(std=False)]}, 2, False, lambda p: old.prompt_ids)
    assert [r.advantage for r in credited.rollouts] == pytest.approx([-0.2] * 4 + [0.8])
    np.testing.assert_array_equal(rows[-1].old_logprobs_N, old.logprobs_T)


def test_it_is_no_evidence_and_costs_nothing():
    stage = Replay()
    stage.observe([group("1000")])
    now = group("0000", step=2)
    joined = completed(now, asked(stage, now)[0])
    assert joined.size == 5
    assert first_pass(joined) == list(now.rollouts)
    assert evidence(joined.rollouts) == list(now.rollouts)
    assert outcome(joined) == "unsolved"
    assert joined.generated_tokens == now.generated_tokens
    np.testing.assert_equal(step_metrics([joined], 7), step_metrics([now], 7))


def test_it_grows_older_until_it_is_too_old():
    """A replay is no new success: its age is counted from the draw."""
    stage, ages = Replay(oldest=3), []
    stage.observe([group("1000")])
    for step in range(2, 7):
        now = group("0000", step=step)
        requests = asked(stage, now, step=step)
        numbers = stage.observe([completed(now, requests[0]) if requests else now])
        ages.append((numbers["replayed"], numbers["age"]))
    np.testing.assert_equal(ages, [(1, 1), (1, 2), (1, 3), (0, np.nan), (0, np.nan)])


def test_rollouts_with_observations_are_not_kept():
    """A state has no room for what was said; also where that was nothing, and every token was sampled."""
    [spoken] = members("1", POOL[0], 1, observations=(Observation(3, 0, 3, 3),))
    stage = Replay()
    stage.observe([Group(POOL[0], "train:1:p0", (spoken, *members("00", POOL[0], 1, first=1)))])
    assert stage.state_dict()["kept"] == []


def test_what_a_stage_excluded_is_not_kept():
    """A success without a digit, say, was not to be trained on."""
    visit = group("1000")
    stage = Replay()
    stage.observe([replace(visit, rollouts=(visit.rollouts[0].excluded("sift: no digit"), *visit.rollouts[1:]))])
    assert asked(stage, group("0000", step=2)) == []


@pytest.mark.parametrize("changed", [{"mode": Mode(0.5)}, {"prompt_ids": np.array([9], np.int32)}])
def test_what_was_drawn_otherwise_is_let_go(changed):
    """After a resume with another temperature, or another prompt: rows of two modes are no batch."""
    stage, now = Replay(), group("0000", step=2)
    stage.observe([group("1000")])
    other = replace(now, rollouts=tuple(replace(r, **changed) for r in now.rollouts))
    assert asked(stage, other) == []
    numbers = stage.observe([other])
    assert (numbers["outdated"], numbers["replayed"], numbers["kept"]) == (1, 0, 0)


def test_the_memory_has_an_end_in_tokens(monkeypatch):
    """What succeeded last stays, also where it is an older problem's; what is too long alone is forgotten, too."""
    stage, seen = Replay(), [group("100", problem) for problem in POOL[:3]]
    length = len(seen[0].rollouts[0].prompt_ids) + len(seen[0].rollouts[0].token_ids)
    monkeypatch.setattr("outrider.explore.replay.MOST_TOKENS", 2 * length)
    told = [stage.observe([each]) for each in (seen[1], seen[0], seen[1], seen[2])]
    assert [(each["forgotten"], each["kept"]) for each in told] == [(0, 1), (0, 2), (0, 2), (1, 2)]
    assert [r.problem.id for r in asked(stage, *(group("000", p, 2) for p in POOL[:3]))] == ["p1", "p2"]
    monkeypatch.setattr("outrider.explore.replay.MOST_TOKENS", length - 1)
    told = stage.observe([])
    assert (told["forgotten"], told["kept"]) == (2, 0)


def test_a_state_keeps_every_bit_and_no_clock():
    [odd] = members("1", POOL[0], 1, logprobs_T=np.array([-1 / 3, -1e-30, -7.1], np.float32), text="∑ \x00")
    odd = odd.verified(replace(odd.verdict, seconds=1.25, answer="7"), 0.3)
    stage = Replay()
    stage.observe([Group(POOL[0], "train:1:p0", (odd, *members("00", POOL[0], 1, first=1)))])
    other = Replay()
    other.load_state_dict(json.loads(json.dumps(stage.state_dict())))
    [mine], [its] = (asked(each, group("00", step=2)) for each in (stage, other))
    for name in ("token_ids", "logprobs_T", "prompt_ids", "prefix_ids"):
        first, second = getattr(mine.replay, name), getattr(its.replay, name)
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    for name in ("id", "mode", "stop", "text", "verdict", "policy_version", "seed", "stream", "reward", "context"):
        assert getattr(mine.replay, name) == getattr(its.replay, name), name
    assert mine.replay.verdict.seconds == 0


def test_a_run_replays_what_it_drew():
    """Problem p0 is solved once, in the first step."""

    def ending(request: SampleRequest, member: int) -> Outcome:
        return Outcome.CORRECT if request.group_id == "train:1:p0" and member == 1 else Outcome.INCORRECT

    situation = Situation(2, lambda: Uniform(n=3), ending)
    run = ScriptedRun([Uniform(n=3), Replay()], situation, train=lambda index: POOL[index % 2])
    first, second, third = run.steps(3)
    [drawn] = [r for g in first for r in g.rollouts if r.success]
    for groups, metrics in ((second, None), (third, run.metrics)):
        [again] = [r for g in groups for r in g.rollouts if r.success]
        assert again.context.exemplars == (drawn.id,)
        assert metrics is None or metrics["explore/1-replay/age"] == 2


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["explore=[replay]"], "replay needs plain rollouts and cannot be the first stage"),
        (["explore=[uniform, {replay: {stream: branch}}]"], "'branch', which has no chain"),
        (["task={hops: {}}", "explore=[uniform, replay]"], "those of hops have several"),
        (["explore=[uniform, replay, refill]"], "replay must be the last stage: refill after it"),
    ],
)
def test_what_it_cannot_work_in_is_refused(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        load_recipe("grpo", overrides)


def test_reports_and_analyses_see_what_was_drawn_alone(tmp_path: Path):
    """On disk are all members; the plain form, which every number is made of, has those of the step."""
    now = group("00", step=2)
    stage = Replay()
    stage.observe([group("100")])
    joined = completed(now, asked(stage, now)[0])
    folder = tmp_path / "run"
    RolloutStore(folder / "rollouts").write(2, joined.rollouts)
    [_, _, kept] = RolloutStore(folder / "rollouts").read(2)
    assert kept.replayed
    counted = "SELECT count(*), count(*) FILTER (outcome = 'correct') FROM rollouts"
    assert open_run(folder).db.execute(counted).fetchone() == (2, 0)
    RunFolder(folder).config.write_text("{}")
    plan = select(folder, RolloutSelection(split="train", steps="last", limit=None))
    assert plan.rollouts == len(plan.read(folder, 2)) == 2


def test_the_collector_keeps_the_order_and_pays_by_todays_rewards():
    """Two rollouts of one problem, a replay, two of another; the sampler is asked for the drawn ones alone."""

    class Sampler:
        def sample(self, requests: list[SampleRequest]) -> list[Rollout]:
            return [
                made for request in requests for made in members("00", request.problem, 2, first=request.first_member)
            ]

    [old] = members("1", POOL[1], 1)
    requests = [
        SampleRequest(POOL[0], n=2, group_id="train:2:p0"),
        SampleRequest(POOL[1], replay=old, group_id="train:2:p1", first_member=4, stage="1-replay"),
        SampleRequest(POOL[2], n=2, group_id="train:2:p2"),
    ]
    recipe = load_recipe("grpo", ["reward.correct=3"])
    collect = Collector(Sampler(), recipe.task, recipe.reward, Ranks(), Clock())
    drawn = collect(requests)
    assert [r.id for r in drawn] == ["train:2:p0/0", "train:2:p0/1", "train:2:p1/4", "train:2:p2/0", "train:2:p2/1"]
    assert drawn[2].reward == 3
    assert [r.id for r in collect(requests[1:2])] == ["train:2:p1/4"]


def test_training_replays_and_goes_on_as_if_uninterrupted(tmp_path: Path, capsys):
    """A pool of few hard problems: some step replays, its tokens are not counted, and the screen says what it is."""
    out = tmp_path / "run"
    told = ["task={countdown: {pool: 8, sizes: [5]}}", "explore.0.uniform.n=4", "train.problems=8", "train.steps=6"]
    told += ["train.tokens=null", "evaluate.problems=4", "evaluate.n=2", "train.ranks=1", "learn.schedule=constant"]
    assert main(["train", "success-replay", *told, "--out", str(out)]) == 0
    folder = RunFolder(out)
    metrics = list(folder.metrics())
    replayed = [row["explore/1-replay/replayed"] for row in metrics]
    assert sum(replayed) > 0
    spent = 0
    for row in metrics:
        rollouts: list[Rollout] = folder.rollouts.read(int(row["step"]), "train")
        assert sum(r.replayed for r in rollouts) == row["explore/1-replay/replayed"]
        spent += sum(r.trainable_tokens for r in rollouts if not r.replayed)
        assert row["tokens"] == spent
        assert all(r.success and r.advantage is not None for r in rollouts if r.replayed)
    short = tmp_path / "interrupted"
    begun = [word for word in told if word != "train.steps=6"]
    assert main(["train", "success-replay", *begun, "train.steps=3", "--out", str(short)]) == 0
    assert main(["train", "success-replay", *told, "--out", str(short), "--resume", "--force"]) == 0
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (out, short)]
    assert weights[0] == weights[1]
    assert any("replayed rollouts were trained on" in notice for notice in open_run(out).notices)
    step = 1 + replayed.index(max(replayed))
    assert main(["show", str(out), "--step", str(step), "--n", "99"]) == 0
    assert "replayed:" in capsys.readouterr().out
