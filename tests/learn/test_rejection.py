"""Rejection fine-tuning: filters, what is kept of a step, where credit ends, and the loss that this makes.

Steps worked by hand are in ``stage_cases.py``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli import main
from outrider.config import load_recipe
from outrider.credit import Imitation, Members, UntilBox, advantages
from outrider.errors import UserError
from outrider.explore import Keep, Sift
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.load import PACKED, Policy
from outrider.model.nucleus import branching_of
from outrider.model.tiny import tiny_policy
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record import Context, Group, Outcome, Problem, Rollout, Verdict
from outrider.record.row import WeightedRow, imitation_row
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.sample.ready import ready
from outrider.tasks.table import Table
from outrider.testing.scripted import SteppedEngine
from outrider.verify.maths import Maths
from scripted import group, view

LOOP = "so we add the numbers again 1 " * 20


def verified(rollout: Rollout, outcome: Outcome) -> Rollout:
    return rollout.verified(Verdict(outcome, float(outcome is Outcome.CORRECT)), 0.0)


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("it is 4", Outcome.CORRECT, ""),
        ("it is 4", Outcome.INCORRECT, ""),
        ("it is 4", Outcome.UNPARSEABLE, "sift: no answer"),
        ("it is 4", Outcome.TIMEOUT, "sift: unscorable"),
        ("it is 4", Outcome.ERROR, "sift: unscorable"),
        ("it is four", Outcome.CORRECT, "sift: no digit"),
        ("it is ٤", Outcome.CORRECT, ""),  # a digit of another script
        (LOOP, Outcome.CORRECT, "sift: repetitive"),
        ("1 " * 40, Outcome.CORRECT, ""),  # 38 trigrams say nothing
        (r"\boxed{4} " + LOOP, Outcome.CORRECT, ""),  # what follows the answer is not imitated
        (r"\boxed{four} 4", Outcome.CORRECT, "sift: no digit"),
    ],
)
def test_what_is_sifted_out_and_why(text: str, outcome: Outcome, reason: str) -> None:
    made = group("1")
    [rollout] = made.rollouts
    made = replace(made, rollouts=(verified(replace(rollout, text=text), outcome),))
    assert Sift().drop([made]) == ({rollout.id: reason} if reason else {})
    lenient = Sift(digit=False, redundancy=None).drop([made])
    assert lenient == ({rollout.id: reason} if reason in ("sift: no answer", "sift: unscorable") else {})


def test_what_another_stage_has_excluded_keeps_its_reason() -> None:
    made = group("10").excluded("refill: surplus")
    assert Sift().drop([made]) == {}
    keep = Keep()
    assert keep.plan(view([made])) == []
    assert keep.drop([made]) == {}


STEPS = st.lists(st.text("10e", min_size=1, max_size=5), min_size=1, max_size=5)


def step_of(endings: list[str]) -> list[Group]:
    return [group(ending, Problem(f"p{i}", "")) for i, ending in enumerate(endings)]


@given(STEPS, st.one_of(st.none(), st.integers(1, 9)), st.sampled_from([0.0, 0.05, 0.25, 0.5]))
def test_as_many_are_kept_as_may_be_and_the_share_of_failures_is_never_passed(
    endings: list[str], most: int | None, noise: float
) -> None:
    groups = step_of(endings)
    stage = Keep(most=most, noise=noise)
    assert stage.plan(view(groups)) == []
    dropped = stage.drop(groups)
    rollouts = [r for g in groups for r in g.rollouts]
    kept = [r for r in rollouts if r.id not in dropped]
    right, wrong = sum(r.success for r in kept), sum(not r.success for r in kept)
    everybody = sum(r.success for r in rollouts), sum(not r.success for r in rollouts if r.reward == 0)
    # the best of all choices by brute force: most responses, of these as many failures as the share allows
    allowed = [
        (n, failures)
        for n in range((len(rollouts) if most is None else most) + 1)
        for failures in range(n + 1)
        if n - failures <= everybody[0] and failures <= everybody[1] and failures <= noise * n + 1e-9
    ]
    assert (right + wrong, wrong) in allowed
    if everybody[1] >= noise * len(rollouts):
        assert right + wrong == max(n for n, _ in allowed)
    assert stage.observe(groups)["kept"] == right + wrong
    assert set(dropped.values()) <= {"keep: incorrect", "keep: beyond the most", "keep: unscorable"}


class Branching(SteppedEngine):
    """A rollout's nuclei are as large as its length says."""

    def branching(self, rollouts: list[Rollout], mass: float) -> list[np.ndarray]:
        return [np.full(3, sum(map(ord, r.id)) % 17, np.int32) for r in rollouts]


def test_the_highest_branching_is_kept_of_the_whole_step() -> None:
    groups = step_of(["111", "1101", "11"])
    stage = Keep(most=4, by="branching")
    stage.plan(replace(view(groups), engine=Branching()))
    dropped = stage.drop(groups)
    right = [r for g in groups for r in g.rollouts if r.success]
    sizes = {r.id: int(s[0]) for r, s in zip(right, Branching().branching(right, 0.95), strict=True)}
    kept = sorted(sizes[r.id] for r in right if r.id not in dropped)
    assert kept == sorted(sizes.values())[-4:]


class Boxed(SteppedEngine):
    """The third token closes a box."""

    def token_texts(self, ids: np.ndarray) -> list[str]:
        return ["\\boxed{", "4", "}", *(" and" for _ in ids[3:])][: len(ids)]


def test_what_follows_the_answer_ranks_nothing() -> None:
    """Of two, the one with more entropy before its box is closed; the other babbles behind it."""
    made = group("11")
    calm, babble = np.array([0.5, 0.5, 0.5, 0.0], np.float32), np.array([0.1, 0.1, 0.1, 9.0], np.float32)
    shared = {"token_ids": np.arange(1, 5, dtype=np.int32), "logprobs_T": np.zeros(4, np.float32)}
    rollouts = tuple(
        replace(r, **shared, entropies_T=h, text=r"\boxed{4} and")
        for r, h in zip(made.rollouts, (calm, babble), strict=True)
    )
    groups = [replace(made, rollouts=rollouts)]
    stage = Keep(most=1, by="entropy")
    stage.plan(replace(view(groups), engine=Boxed()))
    assert stage.drop(groups) == {rollouts[1].id: "keep: beyond the most"}
    assert stage.observe(groups)["value"] == pytest.approx(0.5)


def test_what_is_never_trained_on_takes_no_place() -> None:
    """The greedy yardstick of a group, and responses that were never verified, which are no failures."""
    made = group("11e0")
    rollouts = list(made.rollouts)
    rollouts[0] = replace(rollouts[0], context=Context("plain", (), "excluded"))
    groups = [replace(made, rollouts=tuple(rollouts))]
    stage = Keep(most=2, noise=0.5)
    stage.plan(view(groups))
    assert stage.drop(groups) == {rollouts[2].id: "keep: unscorable"}
    assert stage.observe(groups)["kept"] == 2.0


def test_lots_are_of_the_rollout_and_the_seed() -> None:
    groups = step_of(["11111111"])

    def kept(seed: int, order: int) -> set[str]:
        stage = Keep(most=3)
        given = [replace(groups[0], rollouts=groups[0].rollouts[::order])]
        stage.plan(replace(view(given), seed=seed))
        return {r.id for r in given[0].rollouts} - set(stage.drop(given))

    assert kept(1, 1) == kept(1, -1)
    assert len({frozenset(kept(seed, 1)) for seed in range(20)}) > 5


def test_a_problem_has_no_more_than_its_share() -> None:
    groups = step_of(["11110000", "10"])
    stage = Keep(per_problem=2, noise=0.4)
    stage.plan(view(groups))
    dropped = stage.drop(groups)
    left = Counter((r.problem_id, r.success) for g in groups for r in g.rollouts if r.id not in dropped)
    assert (left["p0", True], left["p1", True]) == (2, 1)
    assert left["p0", False] + left["p1", False] == 2, "0.4 of five"


def test_without_entropies_there_is_nothing_to_rank_by() -> None:
    made = group("11")
    bare = replace(made, rollouts=tuple(replace(r, entropies_T=None) for r in made.rollouts))
    with pytest.raises(UserError, match="stage keep needs the entropy of every token"):
        Keep(by="entropy").plan(view([bare]))


# Where credit ends


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.sampled_from([True, False]))
def test_credit_ends_with_the_token_that_closes_the_first_box(sizes: list[int], nested: bool) -> None:
    box = r"\boxed{\frac{1}{2} \boxed{7}}" if nested else r"\boxed{4}"
    text = f"so {box}, that is \\boxed{{5}} and no more"
    cuts = [0, *itertools.accumulate(sizes)]
    parts = [text[a:b] for a, b in itertools.pairwise(cuts) if text[a:b]]
    parts.append(text[len("".join(parts)) :])
    members = Members(np.ones(1), np.ones(1, bool), np.array([len(parts)]), token_texts_GT=[np.array(parts)])
    [credit] = advantages([Imitation(), UntilBox()], members)
    kept = [part for part, a in zip(parts, credit, strict=True) if a]
    assert credit.tolist() == sorted(credit.tolist(), reverse=True), "a beginning of the response"
    assert box in "".join(kept)
    assert box not in "".join(kept[:-1])


# The loss


def small() -> Policy:
    return ready(tiny_policy(3), "packed")[0]


def rows_of(policy: Policy) -> list[WeightedRow]:
    rng = np.random.default_rng(0)
    vocabulary = len(policy.tokenizer)
    return [
        imitation_row(rng.integers(4, vocabulary, 5).astype(np.int32), rng.integers(4, vocabulary, n).astype(np.int32))
        for n in (3, 7, 5)
    ]


def test_the_loss_is_the_cross_entropy_whatever_policy_sampled() -> None:
    """The gradient of the mean negative log-likelihood over tokens, with any old log-probabilities."""
    policy = small()
    old = [-5.0, 0.0, -0.1]
    rows = [
        replace(row, old_logprobs_N=np.full(len(row.token_ids), logprob, np.float32))
        for logprob, row in zip(old, rows_of(policy), strict=True)
    ]
    options = ObjectiveOptions(surrogate={"likelihood": {}})
    made = LocalLearner(policy.model, LearnOptions(lr=1e-12, clip_norm=None), PolicyLoss(options, 16))
    caught: list[torch.Tensor] = []
    made.optimizer.register_step_pre_hook(
        lambda *_: caught.extend(p.grad.clone() for p in made.parameters if p.grad is not None)
    )
    made.update(rows, 0.0)
    plain = tiny_policy(3).model
    total = torch.zeros(())
    for row in rows:
        ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
        logits = plain(input_ids=ids).logits[0]
        first = len(row.context_ids)
        total = total + torch.nn.functional.cross_entropy(logits[first - 1 : -1], ids[0, first:], reduction="sum")
    (total / sum(len(row.token_ids) for row in rows)).backward()
    wanted = {p.grad.shape: p.grad for p in plain.parameters() if p.grad is not None}
    size = sum(float((g**2).sum()) for g in caught)
    whole = sum(float((p.grad**2).sum()) for p in plain.parameters() if p.grad is not None)
    assert size == pytest.approx(whole, rel=1e-4)
    [embedding] = [g for g in caught if g.shape == plain.get_input_embeddings().weight.shape]
    torch.testing.assert_close(embedding, wanted[embedding.shape], atol=1e-6, rtol=1e-3)


def test_nucleus_sizes_are_those_of_the_models_own_distribution() -> None:
    policy = small()
    made = group("1").rollouts[0]
    rng = np.random.default_rng(1)
    ids = rng.integers(4, len(policy.tokenizer), 9).astype(np.int32)
    flags = np.array([True, True, False, True, True, True])
    rollout = replace(made, prompt_ids=ids[:3], token_ids=ids[3:], trainable_T=flags)
    found = branching_of(policy.model, rollout, 0.9)
    with torch.no_grad():
        probs = tiny_policy(3).model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0].softmax(-1)
    for size, place in zip(found, np.arange(2, 8)[flags], strict=True):
        ordered = np.sort(probs[place].double().numpy())[::-1]
        assert ordered[:size].sum() >= 0.9 - 1e-6
        assert ordered[: size - 1].sum() < 0.9
    assert branching_of(policy.model, replace(rollout, token_ids=ids[:0], trainable_T=None), 0.9).tolist() == []
    plain = policy._replace(path=PACKED._replace(name="plain"))
    with pytest.raises(UserError, match="nucleus sizes cannot be measured"):
        plain.branching([rollout], 0.9)


# Whole


def test_a_run_imitates_what_is_kept_and_counts_the_rest_by_reason(tmp_path) -> None:
    words = ["train.problems=8", "train.steps=2", "train.tokens=null", "train.trackers=[]", "train.ranks=1"]
    words += ["explore.2.most=6", "explore.2.noise=0.34", "evaluate={problems: 2, n: 2, bootstrap: 0, greedy: false}"]
    words += ["task.countdown.sizes=[3]", "sample.max_tokens=40"]
    assert main(["train", "rft-rbf", *words, "--out", str(tmp_path / "run")]) == 0
    for row in RunFolder(tmp_path / "run").metrics():
        rollouts = list(RolloutStore(tmp_path / "run" / "rollouts").read(int(row["step"])))
        trained = [r for r in rollouts if not r.unused]
        assert len(trained) == row["explore/2-keep/kept"] == 6
        assert sum(not r.success for r in trained) == row["explore/2-keep/failures"] == 2
        assert {r.advantage for r in trained} == {1.0}
        reasons = Counter(r.unused for r in rollouts if r.unused)
        assert {reason.replace(" ", "_"): count for reason, count in reasons.items()} == {
            name.removeprefix("unused/"): value for name, value in row.items() if name.startswith("unused/")
        }
        assert row["explore/2-keep/value"] > 1.0
        assert row["learn/updates"] == 1


@pytest.mark.parametrize("recipe", ["rft-rbf", "rft-noisy-rbf"])
def test_who_cannot_measure_nucleus_sizes_says_so(recipe: str) -> None:
    for engine in ("engine={learner: fsdp2, sampler: {vllm: {servers: ['http://127.0.0.1:8000']}}}",):
        with pytest.raises(UserError, match=r"explore.2 needs the policy's branching factors"):
            load_recipe(recipe, [engine])


def test_the_papers_verifier_goes_by_the_box_that_credit_ends_with() -> None:
    """A wrong answer that is corrected later is not imitated as right, and a right one is, whatever follows it."""
    task = load_recipe("rft", setting="paper").task
    assert isinstance(task, Table)
    assert isinstance(task.verifier, Maths)
    text = r"I think \boxed{3}. Wait, \boxed{4}"
    assert task.verifier._answer(text, True) == "3"
    assert Maths()._answer(text, True) == "4"
    assert Maths(boxes="all")._answer(text, True) == "3, 4"
