"""Interventions where the true effect is known, against one continuation at a time, and at the ends of responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.analyse.arguments import Intervene
from outrider.analyse.intervene_command import Interventions, intervene_command
from outrider.analyse.selection import AnalysisPlan
from outrider.analyse.sites import KEPT, REPLACED, Site, chosen_positions, site_table
from outrider.errors import UserError
from outrider.model.attention import use_plans
from outrider.model.load import Policy
from outrider.record import Outcome, Prefix, Problem, Rollout, SampleRequest, Verdict, correct, incorrect
from outrider.sample.local import LocalSampler
from outrider.tasks import Countdown, Hops
from outrider.tasks.task import Task
from small import random_model, request

END, LIMIT = 2, 16


class Numbers:
    """A tokenizer that writes a token as its number."""

    eos_token_id = END

    def batch_decode(self, batch: Sequence[Sequence[int]], skip_special_tokens: bool = False) -> list[str]:
        return [" ".join(str(int(i)) for i in ids if i != END) for ids in batch]


class WinningTokens(Task):
    """Success is a token of ``answer["wins"]`` at the place ``answer["at"]``; an unfinished response can be refused."""

    whole: bool = False

    @property
    def name(self) -> str:
        return "winning tokens"

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        ids = [int(word) for word in text.split()]
        at = problem.answer["at"]
        if self.whole and not finished:
            return Verdict(Outcome.TIMEOUT, float("nan"))
        return correct() if at < len(ids) and ids[at] in problem.answer["wins"] else incorrect()


def policy(markov: bool = False) -> Policy:
    model = random_model("qwen2", initializer_range=0.4)
    if markov:  # nothing but the embedding of the last token reaches the head
        with torch.no_grad():
            for layer in model.get_decoder().layers:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
    use_plans(model)
    return Policy(model, Numbers())


def asked(**values: object) -> Intervene:
    sample = values.pop("sample", {"max_tokens": LIMIT, "rows": 1024})
    return Intervene(task=Countdown(), sample=sample, **{"positions": 4, "k": 6, **values})


def interventions(p: Policy, a: Intervene, **options: object) -> Interventions:
    return Interventions(p, LocalSampler(p, a.sample), WinningTokens(**options), a)


def responses(p: Policy, n: int = 4) -> list[Rollout]:
    """Different responses to two prompts, of several lengths."""
    sampler = LocalSampler(p, asked().sample)
    return sampler.sample([request("a", [1, 5, 9], n=n), request("b", [1, 7], n=n)])


def won_by(at: int, wins: Sequence[int]) -> dict[str, Problem]:
    return {name: Problem(name, "", {"at": at, "wins": list(wins)}) for name in "ab"}


def test_a_verifier_of_one_token_gives_that_token_its_whole_effect_and_later_ones_none() -> None:
    p = policy()
    work = interventions(p, asked(positions=LIMIT))
    rollouts = [r for r in responses(p, 8) if len(r.token_ids) > 6][:3]
    assert len(rollouts) == 3
    for rollout in rollouts:
        at, token = 4, int(rollout.token_ids[4])
        problems = won_by(at, [token])
        sites = work.sites([rollout])
        assert [s.position for s in sites] == list(range(len(rollout.token_ids)))
        kept, replaced = ([f.successes for f in work.count_continuations(sites, problems, b)] for b in (KEPT, REPLACED))
        assert (kept[at], replaced[at]) == (6, 0)  # the effect is 1
        assert set(kept[at + 1 :]) == set(replaced[at + 1 :]) == {6}  # decided before: the effect is 0


def test_effects_on_a_markov_policy_are_the_differences_of_its_transition_probabilities() -> None:
    p = policy(markov=True)
    k, wins = 1000, range(3, 20)
    work = interventions(p, asked(positions=3, k=k))
    rollout = max(responses(p), key=lambda r: len(r.token_ids))
    with torch.no_grad():
        body = p.model.get_decoder()
        chain = p.model.lm_head(body.norm(body.embed_tokens.weight)).softmax(-1).double().numpy()
    sizes = []
    for site in work.sites([rollout]):
        problems = won_by(site.position + 1, wins)
        effects = []
        for branch in (KEPT, REPLACED):
            token = site.tokens[branch]
            (counted,) = work.count_continuations([site], problems, branch)
            true = chain[token, list(wins)].sum() if token != END else 0.0
            assert abs(counted.successes / k - true) <= 4 * np.sqrt(true * (1 - true) / k)
            effects.append(true)
        before = [*rollout.prompt_ids, *rollout.token_ids][len(rollout.prompt_ids) + site.at - 1]
        others = np.delete(np.arange(len(chain)), site.tokens[KEPT])
        assert site.tokens[REPLACED] == others[chain[before, others].argmax()]
        sizes.append(abs(effects[0] - effects[1]))
    assert max(sizes) > 0.1  # else the test could not tell the two tokens apart


def one_by_one(work: Interventions, site: Site, problem: Problem, branch: str, k: int) -> int:
    """The definition: each continuation drawn and verified alone, from its identity."""
    path = site.path(branch)
    if path[-1] == END or len(path) == LIMIT:
        return k * work.task.verify(problem, " ".join(str(i) for i in path if i != END), path[-1] == END).success
    successes = 0
    for j in range(k):
        (drawn,) = work.sampler.sample(
            [
                SampleRequest(
                    problem,
                    prefix=Prefix(site.rollout.id, path),
                    prompt_ids=site.rollout.prompt_ids,
                    group_id=f"{branch}:{site.rollout.group_id}",
                    first_member=j,
                    seed=work.options.seed,
                )
            ]
        )
        text = " ".join(str(i) for i in drawn.response_ids if i != END)
        successes += work.task.verify(problem, text, not drawn.truncated).success
    return successes


@pytest.mark.parametrize("choose", ["entropy", "random"])
def test_batches_give_what_one_continuation_at_a_time_gives(choose: str) -> None:
    p = policy()
    work = interventions(p, asked(choose=choose, positions=3, k=3, seed=5))
    rollouts = responses(p, 2)
    branch = rollouts[0]
    branch = replace(  # the same response as the continuation of its own beginning
        branch,
        member=20,
        parent=branch.id,
        prefix_ids=branch.token_ids[:2],
        token_ids=branch.token_ids[2:],
        logprobs_T=branch.logprobs_T[2:],
        entropies_T=None,
    )
    problems = won_by(6, range(3, 16))
    sites = work.sites([*rollouts, branch])
    assert {s.position - s.at for s in sites} == {0, 2}
    for site in (s for s in sites if s.rollout is branch):
        whole = rollouts[0].token_ids[: site.position + 1].tolist()
        assert site.path(KEPT).tolist() == whole
        assert site.path(REPLACED).tolist() == [*whole[:-1], site.tokens[REPLACED]]
    counts = []
    for side in (KEPT, REPLACED):
        batched = work.count_continuations(sites, problems, side)
        again = work.count_continuations(sites[::-1], problems, side)[::-1]
        assert batched == again
        expected = [one_by_one(work, s, problems[s.rollout.problem_id], side, 3) for s in sites]
        assert [f.successes for f in batched] == expected
        counts += expected
    assert 0 < sum(counts) < 3 * len(counts)
    other = interventions(p, asked(choose=choose, positions=3, k=3, seed=6)).count_continuations(sites, problems, KEPT)
    assert [f.successes for f in other] != counts[: len(sites)]


def test_a_token_that_ends_a_response_is_verified_once_and_counts_k_times() -> None:
    p = policy()
    work = interventions(p, asked())
    rollout = next(r for r in responses(p, 16) if not r.truncated and len(r.token_ids) > 2)
    last = len(rollout.token_ids) - 1
    site = work.sites([rollout])[0]._replace(at=last)
    assert site.tokens[KEPT] == END
    wins = [int(rollout.token_ids[last - 1])]
    (counted,) = work.count_continuations([site], won_by(last - 1, wins), KEPT)
    assert (counted.successes, counted.tokens) == (6, 0)
    (counted,) = work.count_continuations([site], won_by(last, range(32)), KEPT)  # nothing stands where the end is
    assert (counted.successes, counted.tokens) == (0, 0)
    (counted,) = work.count_continuations([site], won_by(last, [site.tokens[REPLACED]]), REPLACED)
    assert counted.successes == 6
    assert counted.tokens >= 6


def test_a_response_at_its_limit_is_unfinished_and_what_cannot_be_verified_is_counted() -> None:
    p = policy()
    rollout = next(r for r in responses(p, 16) if r.truncated)
    assert len(rollout.token_ids) == LIMIT
    work = interventions(p, asked(), whole=True)
    site = work.sites([rollout])[0]._replace(at=LIMIT - 1)
    (counted,) = work.count_continuations([site], won_by(0, range(32)), KEPT)
    assert counted == (0, 6, 0)  # six timeouts of the verifier, no token
    table = site_table("train", 3, [site], [counted], [counted], 6)
    assert table["unscorable"].to_pylist() == [12]
    assert table["kept_successes"].to_pylist() == [None]  # not known, which is not 0


def test_rows_say_which_token_and_what_the_policy_says_of_it() -> None:
    p = policy()
    work = interventions(p, asked(positions=2))
    rollouts = responses(p)
    sites = work.sites(rollouts)
    counts = work.count_continuations(sites, won_by(2, range(3, 16)), KEPT)
    rows = site_table("train", 3, sites, counts, counts, 6).to_pylist()
    assert len(rows) == sum(min(2, len(r.token_ids)) for r in rollouts)
    for row, site in zip(rows, sites, strict=True):
        r = site.rollout
        assert (row["group_id"], row["member"], row["position"]) == (r.group_id, r.member, site.at)
        assert row["token_id"] == r.token_ids[site.at]
        assert row["relative_position"] == pytest.approx(site.at / len(r.token_ids))
        assert row["logprob"] == pytest.approx(float(r.logprobs_T[site.at]), abs=1e-4)  # as the sampler recorded it
        assert row["entropy"] == pytest.approx(float(r.entropies_T[site.at]), abs=1e-4)
        assert row["ppl"] == pytest.approx(float(np.exp(-r.logprobs_T.mean())), rel=1e-4)
        assert row["alternative_id"] != row["token_id"]


def test_positions_are_one_of_each_stretch_of_the_sampled_tokens() -> None:
    rollout = responses(policy())[0]
    ids = np.arange(3, 10, dtype=np.int32)
    rollout = replace(rollout, token_ids=ids, trainable_T=np.array([1, 1, 0, 0, 1, 1, 1], np.bool_))
    entropies = np.array([0.1, 0.4, 9.0, 9.0, 0.2, 0.3, 0.3])
    assert chosen_positions(rollout, entropies, asked(positions=2)) == [1, 5]
    assert chosen_positions(rollout, entropies, asked(positions=50)) == [0, 1, 4, 5, 6]
    assert chosen_positions(rollout, entropies, asked(positions=1)) == [1]
    drawn = {
        tuple(chosen_positions(rollout, entropies, asked(positions=2, choose="random", seed=seed)))
        for seed in range(50)
    }
    assert drawn == {(a, b) for a in (0, 1) for b in (4, 5, 6)}
    random = asked(positions=2, choose="random")
    members = {tuple(chosen_positions(replace(rollout, member=m), entropies, random)) for m in range(30)}
    assert members == drawn  # one seed does not choose the same place everywhere


def test_a_task_with_turns_is_refused(tmp_path: Path) -> None:
    """A continuation would go on without its environment."""
    options = Intervene.model_construct(task=Hops())
    with pytest.raises(UserError, match="rollouts of task 'hops' have turns"):
        intervene_command(tmp_path, options, AnalysisPlan("train", None, [], "", 0), tmp_path / "out")
