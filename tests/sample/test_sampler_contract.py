"""What every sampler keeps, by one suite: the local one, and vLLM where there is one.

Over HTTP with the interpreter that ``OUTRIDER_VLLM_PYTHON`` names; inside this process where this interpreter has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.config import load_recipe, recipe_of_run
from outrider.errors import EngineLostError, UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.load import Policy, load_policy
from outrider.model.weights_file import named_weights, write_weights
from outrider.objective import Mask, Truncate
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.ranks import Ranks
from outrider.record import RAW, Mode, SamplingParams, StopReason
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.ready import ready
from outrider.sample.sampler import CopiesWeights, Sampler
from outrider.sample.synced_weights import SyncedWeights
from outrider.sample.vllm import VllmSampler
from outrider.sample.vllm_engine import VllmEngine
from outrider.sample.vllm_inside import VllmInside
from outrider.train.collect import with_entropies
from outrider.train.engines import open_sampler
from sampler_cases import LONG, PROMPTS, draw, move, own_logits, own_logprobs, rounding, weight_sync
from small import branch_of, request
from vllm_servers import Server, driver_there, needs_vllm, needs_vllm_here, on_a_cpu

Open = Callable[..., Sampler]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    folder = tmp_path_factory.mktemp("servers")
    started = [Server("base:countdown", folder / f"{i}.log") for i in range(2)]
    try:
        yield [server.wait() for server in started]
    finally:
        for server in started:
            server.kill()


@pytest.fixture
def policy() -> Policy:
    return ready(load_policy("base:countdown"))[0]


@pytest.fixture(scope="module")
def engine() -> Iterator[VllmEngine]:
    """One for all tests, which start from its weights as little as from a server's: it takes a minute to make."""
    with on_a_cpu():
        made = VllmEngine(ready(load_policy("base:countdown"))[0], SyncedWeights(None, lambda make: make()))
    yield made
    made.close()


@pytest.fixture(
    params=[
        "local",
        pytest.param("vllm", marks=needs_vllm),
        pytest.param("two servers", marks=needs_vllm),
        pytest.param("inside", marks=needs_vllm_here),
    ]
)
def sampler_of(request: pytest.FixtureRequest, policy: Policy) -> Iterator[Open]:
    opened: list[Sampler] = []

    def open_(**options: object) -> Sampler:
        sample = SampleOptions(**{"max_tokens": 24, **options})
        if request.param == "local":
            opened.append(LocalSampler(policy, sample))
        elif request.param == "inside":
            opened.append(VllmInside(policy, sample, request.getfixturevalue("engine")))
        else:
            chosen = request.getfixturevalue("servers")[: 1 if request.param == "vllm" else 2]
            opened.append(VllmSampler(policy, sample, Vllm(servers=[server.address for server in chosen])))
        opened[-1].take(0, lambda folder: write_weights(policy.model, folder))
        return opened[-1]

    yield open_
    for sampler in opened:
        if not isinstance(sampler, VllmInside):  # its engine serves the next test
            sampler.close()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_the_model(sampler_of: Open, policy: Policy, temperature: float) -> None:
    for rollout in draw(sampler_of(temperature=temperature)):
        assert rollout.mode == Mode(temperature)
        assert np.abs(rollout.logprobs_T - own_logprobs(policy, rollout, temperature)).max() < rounding(
            policy, rollout, temperature
        )


def test_a_prefix_continued_is_the_whole_sampled_at_once(sampler_of: Open, policy: Policy) -> None:
    sampler = sampler_of(temperature=0.0)
    for whole in draw(sampler, n=1):
        assert whole.mode == RAW
        assert len(whole.token_ids) > 4, whole.text
        [rest] = sampler.sample([branch_of(whole, 4, 1, first_member=1)])
        assert rest.response_ids.tolist() == whole.token_ids.tolist()
        assert np.abs(rest.logprobs_T - whole.logprobs_T[4:]).max() < rounding(policy, whole)
    children = sampler_of().sample([branch_of(whole, 4, 5, first_member=1)])
    for child in children:
        assert (child.parent, child.branch_at, child.response_ids[:4].tolist()) == (
            whole.id,
            4,
            whole.token_ids[:4].tolist(),
        )
        assert np.abs(child.logprobs_T - own_logprobs(policy, child)).max() < rounding(policy, child)


def test_a_rollout_is_a_function_of_its_identity(sampler_of: Open) -> None:
    sampler = sampler_of()
    requests = [request(f"p{i}", prompt, n=3, seed=7) for i, prompt in enumerate(PROMPTS)]
    together = {r.id: r.token_ids.tolist() for r in sampler.sample(requests)}
    backwards = {r.id: r.token_ids.tolist() for r in sampler.sample(requests[::-1])}
    alone = {r.id: r.token_ids.tolist() for one in requests for r in sampler.sample([one])}
    assert together == backwards == alone
    [later] = sampler.sample([replace(requests[0], n=1, first_member=2)])
    assert later.token_ids.tolist() == together[later.id]
    other = {r.id: r.token_ids.tolist() for r in sampler.sample([replace(r, seed=8) for r in requests])}
    assert sum(other[key] != together[key] for key in other) > len(other) / 2
    assert len({str(ids) for ids in together.values()}) > len(together) / 2


def test_members_follow_the_distribution(sampler_of: Open, policy: Policy) -> None:
    """First tokens of many members against the softmax: a chi-square far beyond its mean would be another one."""
    n, (prompt,) = 800, PROMPTS[:1]
    drawn = sampler_of(max_tokens=1).sample([request("p", prompt, n=n)])
    shares = own_logits(policy, prompt)[-1].softmax(-1).numpy()
    counts = np.bincount([int(r.token_ids[0]) for r in drawn], minlength=len(shares))
    likely = shares * n > 5
    expected = np.append(shares[likely], shares[~likely].sum()) * n
    seen = np.append(counts[likely], counts[~likely].sum())
    freedom = len(expected) - 1
    assert ((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum() < freedom + 5 * np.sqrt(2 * freedom) + 5


def test_new_weights_show_in_the_next_token(sampler_of: Open, policy: Policy) -> None:
    sampler = sampler_of()
    before = draw(sampler)
    for version in (1, 2):
        move(policy)
        sampler.take(version, lambda folder: write_weights(policy.model, folder))
        for rollout in draw(sampler):
            assert rollout.policy_version == version
            assert np.abs(rollout.logprobs_T - own_logprobs(policy, rollout)).max() < rounding(policy, rollout)
    assert any(a.token_ids.tolist() != b.token_ids.tolist() for a, b in zip(before, draw(sampler), strict=True))


def test_what_members_share_comes_from_a_cache(sampler_of: Open, policy: Policy) -> None:
    sampler = sampler_of(max_tokens=4)
    sampler.sample([request("p", LONG, n=5)])
    counts = sampler.take(1, lambda folder: write_weights(policy.model, folder))
    if counts:  # what the local one prefills, it prefills once
        assert counts["prompt_tokens"] == 5 * len(LONG)
        assert 0 < counts["cached_tokens"] < 5 * len(LONG)
    assert sum(sampler.take(2, lambda folder: write_weights(policy.model, folder)).values()) == 0


def test_responses_end_as_they_should(sampler_of: Open, policy: Policy) -> None:
    problem = load_recipe("grpo", [], setting="countdown").task.heldout(1)[0]
    prompt = policy.encode(problem).tolist()
    ended = sampler_of(max_tokens=96).sample([request("p", prompt, n=8)])
    assert {r.stop for r in ended} == {StopReason.STOP}
    assert all(int(r.token_ids[-1]) == policy.tokenizer.eos_token_id for r in ended)
    cut = sampler_of(max_tokens=5).sample([request("p", prompt, n=4)])
    assert {(r.stop, len(r.token_ids)) for r in cut} == {(StopReason.LENGTH, 5)}
    stopped = sampler_of(max_tokens=96, stop=[";"]).sample([request("p", prompt, n=8)])
    texts = [r.text for r in stopped if r.stop is StopReason.TEXT]
    assert texts
    assert all(text.index(";") == len(text) - 1 for text in texts)
    full = sampler_of(max_tokens=200).sample([request("p", [1, *(8 for _ in range(250))], n=4)])
    assert {r.stop for r in full} <= {StopReason.CONTEXT, StopReason.STOP}
    assert max(len(r.token_ids) for r in full) <= 5


def test_a_truncated_distribution_is_recorded_as_one(sampler_of: Open, policy: Policy) -> None:
    """Where an engine renormalises over the tokens it keeps, a rollout says so; where it does not, it must not."""
    for rollout in draw(sampler_of(top_k=2), n=2):
        logits = own_logits(policy, [*rollout.prompt_ids, *rollout.token_ids])[len(rollout.prompt_ids) - 1 : -1]
        kept = logits.topk(2).values
        norm = (kept if rollout.mode == Mode(1.0, 1.0, 2) else logits).logsumexp(-1)
        assert rollout.mode in (RAW, Mode(1.0, 1.0, 2))
        chosen = logits.gather(1, torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None])[:, 0]
        assert (chosen >= kept.min(-1).values).all(), "one of the two"
        assert np.abs(rollout.logprobs_T - (chosen - norm).numpy()).max() < 1e-5


def test_what_cannot_be_drawn_is_a_sentence(sampler_of: Open) -> None:
    sampler = sampler_of()
    with pytest.raises(UserError, match="leave no room in"):
        sampler.sample([request("p", [1] * 256)])
    with pytest.raises(UserError, match="the model has 32 tokens"):
        sampler.sample([request("p", [1, 32])])


# The probe after each weight sync


def test_a_weight_sync_that_arrives_passes(sampler_of: Open, policy: Policy) -> None:
    over = weight_sync(sampler_of(), policy)
    for version in (1, 2, 2):  # the last without a change: the same numbers are then right
        if version == 2:
            move(policy, size=0.0)
        else:
            move(policy)
        assert over(version)["probe_max"] < 1e-4  # rounding, of moved weights


def test_a_weight_sync_that_does_not_arrive_is_refused(sampler_of: Open, policy: Policy) -> None:
    sampler = sampler_of()
    over = weight_sync(sampler, policy)
    over(1)
    for name in ("take", "copy_weights"):
        if hasattr(sampler, name):
            setattr(sampler, name, lambda version, weights: {})
    decoder = getattr(sampler, "decoder", None)
    if decoder is not None:
        kept = LocalSampler(ready(load_policy("base:countdown"))[0], SampleOptions(max_tokens=24))
        sampler.decoder = kept.decoder  # of weights that stay
        move(policy, size=0.0)
    over(1)  # with prompts that are cached now, which may change last bits
    move(policy, size=1e-6)
    with pytest.raises(UserError, match="the weights did not arrive"):
        over(2)
    move(policy)
    with pytest.raises(UserError, match=r"log-probabilities.* are .* from the learner's"):
        over(3)
    assert weight_sync(sampler, policy, refuse=False)(4)["probe_max"] > 1e-3, "shown all the same"


TIED = pytest.mark.skipif(driver_there(), reason="on a GPU vLLM's head is the embedding, so that none is missing")


@needs_vllm
@pytest.mark.parametrize("forgotten", ["the cache", pytest.param("the head", marks=TIED), "one server"])
def test_half_a_weight_sync_is_refused(policy: Policy, servers: Sequence[Server], forgotten: str, monkeypatch) -> None:
    sampler = VllmSampler(policy, SampleOptions(max_tokens=24), Vllm(servers=[s.address for s in servers]))
    over = weight_sync(sampler, policy)
    over(1)
    server = sampler._servers[1]
    if forgotten == "one server":
        monkeypatch.setattr(server, "reload", lambda folder: None)
    elif forgotten == "the cache":
        monkeypatch.setattr(
            server,
            "reload",
            lambda folder: server.post(
                "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            ),
        )
    else:
        monkeypatch.setattr(over._learner, "export", lambda folder, adapter: without_head(policy, folder))
    move(policy)
    with pytest.raises(UserError, match=r"log-probabilities.* are .* from the learner's|did not arrive"):
        over(2)
    sampler.close()


@needs_vllm_here
@pytest.mark.parametrize("forgotten", ["the cache", pytest.param("the head", marks=TIED)])
def test_half_a_weight_sync_inside_is_refused(
    policy: Policy, engine: VllmEngine, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = weight_sync(VllmInside(policy, SampleOptions(max_tokens=24), engine), policy)
    over(1)
    if forgotten == "the cache":
        monkeypatch.setattr(engine._llm, "reset_prefix_cache", lambda: True)
    else:
        known = named_weights(policy.model)
        monkeypatch.setattr(over._learner, "weights", lambda: (pair for pair in known if pair[0] != "lm_head.weight"))
    move(policy)
    with pytest.raises(UserError, match=r"log-probabilities.* are .* from the learner's|did not arrive"):
        over(2)


@needs_vllm_here
def test_vllm_copies_weights_at_a_sync_and_not_later(policy: Policy, engine: VllmEngine) -> None:
    """The learner changes its weights in place; an engine that kept references would sample from half an update."""
    sampler = VllmInside(policy, SampleOptions(max_tokens=24), engine)
    assert isinstance(sampler, CopiesWeights)
    sampler.copy_weights(1, named_weights(policy.model))
    before = draw(sampler)
    for rollout in before:
        assert np.abs(rollout.logprobs_T - own_logprobs(policy, rollout)).max() < rounding(policy, rollout)
    move(policy)
    engine._forget()
    for rollout, again in zip(before, draw(sampler), strict=True):
        assert again.token_ids.tolist() == rollout.token_ids.tolist()
        assert np.abs(again.logprobs_T - rollout.logprobs_T).max() < 1e-5


@needs_vllm_here
def test_vllm_samples_after_sleep_and_sync(policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU vLLM's sleep frees nothing, but the calls and their order are the same."""
    sampler = VllmInside(policy, SampleOptions(max_tokens=24), engine)
    monkeypatch.setattr(engine, "_sleeps", True)
    over = weight_sync(sampler, policy)
    for version in (1, 2):
        over.sleep()
        assert engine._asleep
        move(policy)
        assert over(version)["probe_max"] < 1e-4
        assert not engine._asleep


def test_an_engine_that_a_failed_sync_left_asleep_is_lost() -> None:
    """vLLM itself would wait for ever."""
    engine = VllmEngine.__new__(VllmEngine)
    engine._asleep = True
    with pytest.raises(EngineLostError, match="no weight sync has woken it"):
        engine.complete([])


@needs_vllm_here
def test_an_engine_that_fails_is_lost(policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose memory runs out, or whose kernels know no such heads, which shows when it first draws."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Unsupported CPU attention configuration\nhead_dim=16")

    sampler = VllmInside(policy, SampleOptions(max_tokens=24), engine)
    monkeypatch.setattr(engine._llm, "generate", fails)
    with pytest.raises(
        EngineLostError, match=r"^vLLM fails in this process \(RuntimeError: Unsupported CPU \S+ \S+\)$"
    ):
        draw(sampler)


def without_head(policy: Policy, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_weights(policy.model, folder)
    file = folder / "model.safetensors"
    save_file({k: v for k, v in load_file(file).items() if not k.startswith("lm_head")}, file)


def test_the_learner_knows_the_entropies_that_an_engine_does_not_give(policy: Policy) -> None:
    """Branches and greedy responses among the rollouts."""
    sampler = LocalSampler(policy, SampleOptions(max_tokens=24, temperature=0.7))
    roots = draw(sampler)
    more = [
        branch_of(roots[0], 3, 2, first_member=9),
        request("q", PROMPTS[0], params=SamplingParams(0.0, max_tokens=9)),
    ]
    rollouts = [*roots, *sampler.sample(more)]
    learner = LocalLearner(policy.model, LearnOptions(), PolicyLoss(ObjectiveOptions(), 24), path=policy.path)
    blind = [replace(rollout, entropies_T=None) for rollout in rollouts]
    for seen, filled in zip(rollouts, with_entropies(blind, learner.entropies), strict=True):
        assert np.abs(seen.entropies_T - filled.entropies_T).max() < 1e-5
    flags_T = np.arange(len(blind[0].token_ids)) % 3 > 0
    [told] = with_entropies([replace(blind[0], trainable_T=flags_T)], learner.entropies)
    assert np.isnan(told.entropies_T[~flags_T]).all(), "what was observed has none"
    assert np.abs(told.entropies_T - rollouts[0].entropies_T)[flags_T].max() < 1e-5


@pytest.mark.parametrize(
    ("recipe", "reads"),
    [("grpo", False), ("arpo", True), ("entropy-shaping", True), ("forking-tokens", True), ("treerl", False)],
)
def test_recipes_say_whether_they_read_entropies(recipe: str, reads: bool) -> None:
    assert load_recipe(recipe, []).reads_entropies == reads


def test_another_engine_is_corrected_unless_said_otherwise() -> None:
    vllm = 'engine.sampler={vllm: {servers: ["http://a"]}}'
    assert load_recipe("grpo", []).objective.correction is None
    assert load_recipe("grpo", [vllm]).objective.correction == Truncate()
    assert load_recipe("grpo", [vllm, "objective.correction=null"]).objective.correction is None
    assert load_recipe("grpo", ["engine.sampler=vllm"]).objective.correction == Truncate()
    assert load_recipe("grpo", [vllm, "objective.correction={mask: {}}"]).objective.correction == Mask()
    local, remote = load_recipe("grpo", []), load_recipe("grpo", [vllm, "objective.correction=null"])
    assert local.difference(remote) == ["engine: {} -> absent", 'engine.sampler: absent -> "vllm"']
    moved = load_recipe("grpo", [vllm.replace("//a", "//b"), "objective.correction=null"])
    assert remote.difference(moved) == [], "an address is no difference"
    inside = load_recipe("grpo", ["engine.sampler={vllm: {memory: 0.3}}", "objective.correction=null"])
    assert remote.difference(inside) == [], "nor is where vLLM runs"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            'servers: ["http://a"], memory: 0.3',
            "memory applies to in-process vLLM, but servers is set: remove one of them",
        ),
        ("in_flight: 3", "in_flight applies to vLLM servers, but servers is empty"),
        ("seconds: 3", "seconds applies to vLLM servers, but servers is empty"),
        ("memory: 1.5", "memory"),
        ('servers: ["http://a:1", "http://b:1", "http://a:1/"]', "servers has http://a:1 twice: remove the duplicate"),
    ],
)
def test_options_of_the_other_kind_are_refused(options: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_recipe("grpo", [f"engine.sampler={{vllm: {{{options}}}}}"])


@pytest.mark.parametrize("options", ["", 'servers: ["http://a"]'])
def test_a_recipe_that_states_all_defaults_is_the_same(options: str) -> None:
    recipe = load_recipe("grpo", [f"engine.sampler={{vllm: {{{options}}}}}"])
    assert recipe_of_run(recipe.resolved()).engine == recipe.engine


def test_without_vllm_it_is_a_sentence(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.sample.vllm_engine._MODULE", "no_such_vllm")
    with pytest.raises(UserError, match="has no vLLM: install it there") as error:
        open_sampler(load_recipe("grpo", ["engine.sampler=vllm"]), policy, Ranks())
    assert sys.executable in str(error.value)
