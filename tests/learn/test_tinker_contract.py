"""What sampler and learner keep when a Tinker service has the policy: a scripted one, and SkyRL's on JAX."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tinker_services import ROWS, SkyrlServer, needs_skyrl
from transformers import AutoModelForCausalLM

from outrider.config import load_recipe
from outrider.errors import EngineLostError, UserError
from outrider.learn.batching import cut_by_group
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions, Tinker
from outrider.learn.service_loss import named_loss
from outrider.learn.tinker import TinkerLearner
from outrider.learn.tinker_abilities import Abilities, abilities_of
from outrider.model.attention import use_plans
from outrider.model.load import Policy, load_policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.model.tinker_service import ServiceRollout, TinkerService
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Outcome, Problem, Rollout, SampleRequest, SamplingParams, StopReason, Verdict
from outrider.record.row import WeightedRow
from outrider.sample.options import SampleOptions
from outrider.sample.requests import Room
from outrider.sample.tinker import TinkerSampler
from outrider.tasks.countdown import Countdown
from outrider.train.collect import Collector
from outrider.train.weight_sync import WeightSync
from policy_rows import STREAMS, ragged_rows
from scripted_tinker import ScriptedTinker
from small import branch_of, request

pytest.importorskip("tinker")
RANK = 4
PROMPTS = [[1, 5, 9, 12, 7], [1, 8, 8], [1, 20, 4, 30, 11, 6]]


@pytest.fixture(scope="session")
def skyrl(model_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkyrlServer]:
    server = SkyrlServer(model_folder, tmp_path_factory.mktemp("skyrl"), adapters=64)
    yield server.wait()
    server.kill()


# "means" has the factors that "sums" has none of, and both are distinguished below
@pytest.fixture(
    params=[pytest.param("sums", marks=pytest.mark.slow), "means", pytest.param("skyrl", marks=needs_skyrl)]
)
def address(request: pytest.FixtureRequest, model_folder: str) -> Iterator[str]:
    if request.param == "skyrl":
        yield request.getfixturevalue("skyrl").address
        return
    scripted = ScriptedTinker(model_folder, mean=request.param == "means")
    yield scripted.address
    scripted.close()


@pytest.fixture
def service(address: str, model_folder: str) -> TinkerService:
    return opened(address, model_folder)


@pytest.fixture
def policy(model_folder: str) -> Policy:
    return load_policy(model_folder, device=torch.device("meta"))


_OPEN: list[TinkerService] = []


def opened(address: str, model: str, **options: object) -> TinkerService:
    _OPEN.append(TinkerService(model, LoraOptions(rank=RANK), 3, Tinker(**{"url": address, "rows": ROWS, **options})))
    return _OPEN[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Or a session would go on telling servers that are gone that it lives."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def learner_at(service: TinkerService, objective: dict[str, object], **options: object) -> TinkerLearner:
    described = ObjectiveOptions(**{"streams": STREAMS, **objective})
    learn = LearnOptions(**{"lr": 1e-2, "clip_norm": None, **options})
    return TinkerLearner(service, learn, PolicyLoss(described, 16), named_loss(described))


def beside(service: TinkerService, model: str, out: Path, objective: dict[str, object], **options: object):
    """A local learner with the adapter that the service has now."""
    twin = AutoModelForCausalLM.from_pretrained(model).eval()
    add_adapter(twin, LoraOptions(rank=RANK), seed=0)
    copy_adapter(service, twin, out)
    use_plans(twin)
    described = ObjectiveOptions(**{"streams": STREAMS, **objective})
    learn = LearnOptions(**{"lr": 1e-2, "clip_norm": None, **options})
    return LocalLearner(twin, learn, PolicyLoss(described, 16))


def adapter_of(service: TinkerService, out: Path) -> dict[str, torch.Tensor]:
    folder = out / f"adapter-{len(list(out.iterdir()))}"
    service.download(folder.name, folder)
    return {
        name.removeprefix("base_model.model."): value
        for name, value in load_file(folder / "adapter_model.safetensors").items()
    }


def copy_adapter(service: TinkerService, twin: torch.nn.Module, out: Path) -> None:
    found = adapter_of(service, out)
    trained = {n.replace(".default", ""): p for n, p in twin.named_parameters() if p.requires_grad}
    assert found.keys() == trained.keys()
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(found[name])
    # SkyRL's JAX backend has one matrix for layers that read the same, and its file repeats it
    for layer in range(2):
        for first, *others in (
            ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            ("mlp.gate_proj", "mlp.up_proj"),
        ):
            shared = twin.get_submodule(f"model.layers.{layer}.{first}.lora_A.default")
            for other in others:
                beside_it = twin.get_submodule(f"model.layers.{layer}.{other}.lora_A.default")
                if torch.equal(shared.weight, beside_it.weight):
                    beside_it.weight = shared.weight


def rows_of(learner: LocalLearner, seed: int = 0, n: int = 12) -> list[WeightedRow]:
    """Rows whose old log-probabilities are near the policy's, some far enough to be clipped; no entropies."""
    rows = ragged_rows(n, seed)
    rng = np.random.default_rng(seed)
    near = [(now + rng.normal(0, 0.15, len(now))).astype(np.float32) for now in learner.logprobs(rows)]
    for row, old in zip(rows, near, strict=True):
        old[~row.trainable_N] = np.nan  # as of tokens that nobody sampled
    return [replace(row, old_logprobs_N=old, entropies_N=None) for row, old in zip(rows, near, strict=True)]


# The learner

OBJECTIVES: dict[str, tuple[str | None, dict[str, object]]] = {
    "clip": ("ppo", {"surrogate": {"clip": [0.2, 0.28]}}),
    "clip, constant": ("ppo", {"surrogate": {"clip": [0.1, 0.1]}, "aggregate": "constant"}),
    "clip, corrected": ("ppo", {"correction": {"truncate": {}}, "aggregate": "sequence_mean"}),
    "clip_cov": ("ppo", {"select": {"clip_cov": {"share": 0.1, "low": -9.0, "high": 9.0}}}),
    "cispo": ("cispo", {"surrogate": {"cispo": [0.1, 0.1]}}),
    "unclipped": ("importance_sampling", {"surrogate": "unclipped"}),
    "dual clip": (None, {"surrogate": {"clip": {"dual": 1.1}}}),
    "gspo": (None, {"surrogate": {"clip": {"low": 3e-2, "high": 4e-2, "ratio": "sequence"}}}),
    "gmpo": (None, {"surrogate": "gmpo"}),
    "sapo": (None, {"surrogate": "sapo"}),
    "kl_cov": (None, {"select": {"kl_cov": {"share": 0.3}}}),
}


# a loss by name, one with a correction, and one that services do not know; the others are more of the same
QUICK = ("clip", "clip, corrected", "gspo")
MARKED = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in OBJECTIVES]


@pytest.mark.parametrize("name", MARKED)
def test_a_step_is_the_local_learners(service: TinkerService, model_folder: str, tmp_path: Path, name: str) -> None:
    """Two updates: the second with moments. A step of AdamW is as large as the learning rate, fifty bounds; where a
    gradient is of the size of its rounding, a step may be any share of that."""
    named, objective = OBJECTIVES[name]
    there = learner_at(service, objective, lr=5e-3)
    here = beside(service, model_folder, tmp_path, objective, lr=5e-3)
    assert (there._named.name if there._named else None) == named
    begin = {n: p.detach().clone() for n, p in here.model.named_parameters() if p.requires_grad}
    for seed in range(2):
        rows = rows_of(here, seed)
        mine, theirs = here.update(rows).metrics, there.update(rows).metrics
        # a service weighs all rows, the local learner those that it passes: their metrics of the weights differ
        shared = {key for key in mine.keys() & theirs.keys() if not key.startswith(("weight_", "sampler_kl_"))}
        # the norm alone shows a factor that all rows share, since Adam's step does not depend on it
        assert {"loss", "kl_old", "updates", "grad_norm"} <= shared
        assert {k: theirs[k] for k in shared} == pytest.approx({k: mine[k] for k in shared}, rel=1e-3, abs=1e-5)
    found = adapter_of(service, tmp_path)
    moved = 0.0
    for full, parameter in here.model.named_parameters():
        if parameter.requires_grad:
            moved = max(moved, float((parameter.detach() - begin[full]).abs().max()))
            assert (parameter - found[full.replace(".default", "")]).abs().max() < 1e-4, full
    assert moved > 5e-3


def test_what_is_told_to_the_optimizer(address: str, model_folder: str, tmp_path: Path) -> None:
    """Betas, schedule and warm-up, and of services that clip the norm too."""
    service = opened(address, model_folder)
    clips = abilities_of(service).clipping
    options = {
        "betas": (0.8, 0.95),
        "schedule": "linear",
        "warmup": "3 updates",
        "clip_norm": 0.05 if clips else None,
        "epochs": 2,
        "minibatches": 2,
    }
    there = learner_at(service, {}, **options)
    here = beside(service, model_folder, tmp_path, {}, **options)
    rows = rows_of(here)
    mine, theirs = here.update(rows, 0.25).metrics, there.update(rows, 0.25).metrics
    assert theirs["learning_rate"] == pytest.approx(mine["learning_rate"])
    assert theirs["updates"] == mine["updates"] == 4
    # nothing is skipped here but rows without an advantage
    batches = [[r.length for r in batch if r.has_signal] for batch in cut_by_group(rows, 2)]
    # two epochs; what a batch is filled up with is as long as its shortest row
    filled = sum(sum(lengths) + (-len(lengths) % ROWS) * min(lengths) for lengths in batches)
    assert theirs["trained_tokens"] == 2 * filled
    found = adapter_of(service, tmp_path)
    for full, parameter in here.model.named_parameters():
        if parameter.requires_grad:
            assert (parameter - found[full.replace(".default", "")]).abs().max() < 1e-4, full


def test_likelihoods_are_the_models(service: TinkerService, model_folder: str, tmp_path: Path) -> None:
    there, here = learner_at(service, {}), beside(service, model_folder, tmp_path, {})
    rows = rows_of(here)
    for _ in range(2):
        for a, b in zip(there.logprobs(rows), here.logprobs(rows), strict=True):
            assert np.abs(a - b).max() < 1e-5
        there.update(rows)
        here.update(rows)
    assert there.logprobs([]) == []


def test_a_resumed_learner_goes_on_as_the_other(address: str, model_folder: str, tmp_path: Path) -> None:
    first = opened(address, model_folder)
    learner = learner_at(first, {}, warmup="4 updates")
    here = beside(first, model_folder, tmp_path, {})
    batches = [rows_of(here, seed) for seed in range(3)]
    learner.update(batches[0])
    learner.save(tmp_path)
    learner.update(batches[1])
    again = learner_at(opened(address, model_folder), {}, warmup="4 updates")
    again.load(tmp_path)
    assert (again.steps, again.optimizer_steps) == (1, 1)
    again.update(batches[1])
    for a, b in zip(learner.logprobs(batches[2]), again.logprobs(batches[2]), strict=True):
        assert np.abs(a - b).max() < 1e-6
    assert "tml-" not in (tmp_path / "tinker.json").read_text()


@pytest.mark.parametrize("objective", [{}, {"surrogate": "sapo"}])
def test_a_loss_that_is_not_finite_changes_nothing(model_folder: str, tmp_path: Path, objective) -> None:
    """It is skipped and counted, as by the local learner; a gradient that the service has could not be taken back."""
    scripted = ScriptedTinker(model_folder)
    service = opened(scripted.address, model_folder)
    there, here = learner_at(service, objective), beside(service, model_folder, tmp_path, objective)
    rows, before = rows_of(here), scripted.asked.count("optim_step")
    rows = [replace(row, advantages_N=np.where(row.advantages_N != 0, np.inf, 0.0)) for row in rows]
    assert there.update(rows).metrics["skipped_nonfinite"] == 1
    assert scripted.asked.count("optim_step") == before
    scripted.close()


@needs_skyrl
def test_a_restarted_server_goes_on_as_the_other(model_folder: str, tmp_path: Path) -> None:
    """The moments of the optimizer and its count of steps too; the same two updates, with and without a kill."""
    server = SkyrlServer(model_folder, tmp_path / "server", adapters=8).wait()
    try:
        first = opened(server.address, model_folder)
        learner, here = learner_at(first, {}), beside(first, model_folder, tmp_path, {})
        batches = [rows_of(here, seed) for seed in range(4)]
        for batch in batches[:2]:
            learner.update(batch)
        (tmp_path / "kept").mkdir()
        learner.save(tmp_path / "kept")
        learner.update(batches[2])
        want = learner.logprobs(batches[3])
        server.kill()
        server.start()
        server.wait()
        again = learner_at(opened(server.address, model_folder), {})
        again.load(tmp_path / "kept")
        again.update(batches[2])
        for a, b in zip(want, again.logprobs(batches[3]), strict=True):
            assert np.abs(a - b).max() < 1e-5
    finally:
        server.kill()


def test_no_signal_moves_nothing(service: TinkerService, model_folder: str, tmp_path: Path) -> None:
    there, here = learner_at(service, {}), beside(service, model_folder, tmp_path, {})
    rows = [replace(row, advantages_N=np.zeros(len(row.token_ids))) for row in rows_of(here)]
    before = there.logprobs(rows)
    assert there.update(rows).metrics["skipped_no_signal"] == 1
    assert all(np.array_equal(a, b) for a, b in zip(before, there.logprobs(rows), strict=True))


# The sampler


@pytest.fixture
def sampler(service: TinkerService, policy: Policy) -> TinkerSampler:
    made = TinkerSampler(policy, SampleOptions(max_tokens=12), service)
    made.take(0, lambda folder: None)
    return made


def draw(sampler: TinkerSampler, n: int = 3, **rest: object) -> list[Rollout]:
    return sampler.sample([request(f"p{i}", prompt, n=n, **rest) for i, prompt in enumerate(PROMPTS)])


def own_logprobs(model: str, rollout: Rollout) -> np.ndarray:
    plain = AutoModelForCausalLM.from_pretrained(model).eval()
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])
    with torch.no_grad():
        logits = plain(input_ids=ids).logits[0]
    first = len(rollout.prompt_ids) + rollout.branch_at
    chosen = torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None]
    return logits[first - 1 : -1].log_softmax(-1).gather(1, chosen)[:, 0].numpy()


def test_log_probabilities_are_those_of_the_model(sampler: TinkerSampler, model_folder: str) -> None:
    """A new adapter changes nothing yet."""
    for rollout in draw(sampler):
        assert np.abs(rollout.logprobs_T - own_logprobs(model_folder, rollout)).max() < 1e-5


def test_a_prefix_continued_is_the_whole_sampled_at_once(sampler: TinkerSampler, model_folder: str) -> None:
    greedy = SamplingParams(0.0, max_tokens=12)
    for whole in draw(sampler, n=1, params=greedy):
        [rest] = sampler.sample([branch_of(whole, 1, 1, first_member=1, params=greedy)])
        assert rest.response_ids.tolist() == whole.token_ids.tolist()
    for child in sampler.sample([branch_of(whole, 1, 4, first_member=1)]):
        assert (child.parent, child.branch_at) == (whole.id, 1)
        assert np.abs(child.logprobs_T - own_logprobs(model_folder, child)).max() < 1e-5


def test_a_rollout_is_a_function_of_its_identity(sampler: TinkerSampler) -> None:
    requests = [request(f"p{i}", prompt, n=3, seed=7) for i, prompt in enumerate(PROMPTS)]
    together = {r.id: r.token_ids.tolist() for r in sampler.sample(requests)}
    backwards = {r.id: r.token_ids.tolist() for r in sampler.sample(requests[::-1])}
    alone = {r.id: r.token_ids.tolist() for one in requests for r in sampler.sample([one])}
    assert together == backwards == alone
    [later] = sampler.sample([replace(requests[0], n=1, first_member=2)])
    assert later.token_ids.tolist() == together[later.id]
    assert len({str(ids) for ids in together.values()}) > len(together) / 2


def test_rounds_of_a_group_repeat_no_member(sampler: TinkerSampler) -> None:
    """A service counts seeds upwards within a request: a second round must begin behind the first."""
    prompt = PROMPTS[0]
    first = sampler.sample([request("p", prompt, n=4)])
    second = sampler.sample([replace(request("p", prompt, n=4), first_member=4)])
    # a member may happen to draw what another has; all four would be seeds that repeat
    assert len({str(r.token_ids.tolist()) for r in second} - {str(r.token_ids.tolist()) for r in first}) > 1


def test_a_weight_sync_is_probed(
    request: pytest.FixtureRequest, service: TinkerService, policy: Policy, model_folder: str, tmp_path: Path
) -> None:
    skyrl = "skyrl" in request.node.name
    made = TinkerSampler(policy, SampleOptions(max_tokens=12), service)
    there, here = learner_at(service, {}), beside(service, model_folder, tmp_path, {})
    over = WeightSync(made, there, Ranks(), [(Problem("p", ""), np.array(PROMPTS[0], np.int32))])
    for version in range(2):
        gauges = over(version)
        assert gauges["probe_max"] < 1e-4
        assert gauges["engines"] == 1
        there.update(rows_of(here, version))
    service.sync_weights = lambda: None  # type: ignore[method-assign]  # weights reach a sampler only when that is asked
    if skyrl:
        assert over(2)["probe_max"] < 1e-4, "on JAX sampler and trainer have the same memory"
    else:
        with pytest.raises(UserError, match=r"log-probabilities are .* from the learner's|did not arrive"):
            over(2)


def test_the_exported_adapter_loads(service: TinkerService, policy: Policy, model_folder: str, tmp_path: Path) -> None:
    there, here = learner_at(service, {}), beside(service, model_folder, tmp_path, {})
    rows = rows_of(here)
    there.update(rows)
    writer = there.writer(policy)
    assert writer is not None
    writer(tmp_path / "model", {"step": 1})
    loaded = load_policy(str(tmp_path / "model"))
    use_plans(loaded.model)
    again = LocalLearner(loaded.model, LearnOptions(), PolicyLoss(ObjectiveOptions(), 16))
    for a, b in zip(there.logprobs(rows), again.logprobs(rows), strict=True):
        assert np.abs(a - b).max() < 1e-4


def held(model_folder: str, policy: Policy, **options: object) -> tuple[ScriptedTinker, TinkerSampler]:
    """A service that keeps the answers for the second prompt back, and a sampler there."""
    scripted = ScriptedTinker(model_folder)
    sampler = TinkerSampler(policy, SampleOptions(max_tokens=4), opened(scripted.address, model_folder, **options))
    sampler.take(0, lambda folder: None)
    scripted.slow = PROMPTS[1]
    return scripted, sampler


def test_rollouts_are_verified_while_others_are_drawn(model_folder: str, policy: Policy) -> None:
    scripted, sampler = held(model_folder, policy)
    recipe, sizes = load_recipe("grpo"), list[int]()

    class Verifying(
        Countdown
    ):  # not a method set on Countdown: isinstance remembers that a class had a protocol's method
        def verify_all(self, items: list[object]) -> list[Verdict]:
            sizes.append(len(items))
            scripted.holds.set()  # only now the second answer comes: who waits for all waits a minute
            return [Verdict(Outcome.INCORRECT, 0.0) for _ in items]

    begin = time.monotonic()
    collect = Collector(sampler, Verifying(), recipe.reward, Ranks(), Clock())
    rollouts = collect([request(f"p{i}", prompt, n=2) for i, prompt in enumerate(PROMPTS[:2])])
    assert sizes == [2, 2]
    assert [r.problem_id for r in rollouts] == ["p0", "p0", "p1", "p1"]
    assert time.monotonic() - begin < 30
    scripted.close()


def test_so_many_requests_are_under_way(model_folder: str, policy: Policy) -> None:
    scripted, sampler = held(model_folder, policy, in_flight=2)
    drawn = threading.Thread(target=lambda: sampler.sample([request(f"p{i}", PROMPTS[1]) for i in range(5)]))
    drawn.start()
    time.sleep(0.5)
    assert scripted.asked.count("asample") == 2
    scripted.holds.set()
    drawn.join()
    assert scripted.asked.count("asample") == 5
    scripted.close()


# What services do otherwise


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("ignored", [(), ("grad_clip_norm",), ("eps", "beta1", "beta2")])
def test_what_a_service_does_is_found_by_trying(model_folder: str, mean: bool, ignored: tuple[str, ...]) -> None:
    scripted = ScriptedTinker(model_folder, mean, ignored)
    found = abilities_of(opened(scripted.address, model_folder, rows=1))
    if "eps" in ignored:
        assert not found.epsilon
    else:
        want = Abilities(mean, mean, True, "grad_clip_norm" not in ignored)
        assert found == want
    scripted.close()


@pytest.mark.parametrize("jitter", [1e-5, 1e-3])
def test_a_service_may_give_other_last_digits_each_time(model_folder: str, jitter: float) -> None:
    scripted = ScriptedTinker(model_folder, mean=True)
    scripted.jitter = jitter
    assert abilities_of(opened(scripted.address, model_folder, rows=1)) == Abilities(True, True)
    scripted.close()


def test_a_mean_over_the_rows_of_a_request_is_refused(model_folder: str) -> None:
    """How an update is cut into requests is the package's affair."""
    scripted = ScriptedTinker(model_folder)
    scripted.per_request = True
    with pytest.raises(UserError, match="depends on how an update is split"):
        abilities_of(opened(scripted.address, model_folder, rows=1))
    scripted.close()


@pytest.mark.parametrize(
    ("ids", "logprobs", "said"),
    [
        ([5, 2, 7, 8], [-1.0] * 4, "went on behind one"),
        ([5, 7], [-1.0] * 2, "ended a response at no end token"),
        ([5, 2], [-1.0, math.nan], "NaN log-probability"),
        ([5, 2], [-1.0], "2 tokens and 1 log-probabilities"),
        ([], [], "0 tokens"),
    ],
)
def test_what_cannot_be_a_rollout_is_refused(service_of_none: TinkerSampler, ids, logprobs, said: str) -> None:
    with pytest.raises(EngineLostError, match=said):
        service_of_none._tokens(ServiceRollout(ids, logprobs, True), Room(4, StopReason.LENGTH))


def test_an_end_token_at_the_limit_ends_a_rollout(service_of_none: TinkerSampler) -> None:
    one = ServiceRollout([5, 7, 8, 2], [-1.0] * 4, False)
    assert service_of_none._tokens(one, Room(4, StopReason.LENGTH)).stop is StopReason.STOP


def test_an_adapter_that_is_no_archive_is_said(
    model_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = ScriptedTinker(model_folder)
    monkeypatch.setattr("scripted_tinker._packed", lambda adapter: b"<html>503</html>")
    with pytest.raises(EngineLostError, match=r"the adapter that the Tinker service .* sent is not an archive"):
        opened(scripted.address, model_folder).download("a", tmp_path / "a")
    scripted.close()


@pytest.fixture
def service_of_none(policy: Policy) -> TinkerSampler:
    return TinkerSampler(policy, SampleOptions(max_tokens=4), None)  # type: ignore[arg-type]  # asks nothing


def test_a_key_that_a_service_repeats_is_not_shown(model_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", " tml-secret-123\n")
    scripted = ScriptedTinker(model_folder)
    service = opened(scripted.address, model_folder)
    with pytest.raises(EngineLostError, match=r"bad key \*\*\*") as error:
        service.ask("to save", lambda: (_ for _ in ()).throw(ValueError("bad key tml-secret-123")))
    assert "secret" not in str(error.value)
    scripted.close()


@pytest.mark.parametrize(
    ("ignored", "options", "said"),
    [
        (("grad_clip_norm",), {"clip_norm": 1.0}, "ignores gradient clipping, .* learn.clip_norm=null"),
        (("eps",), {}, "ignores epsilon"),
    ],
)
def test_what_a_service_ignores_is_refused(model_folder: str, ignored, options, said: str) -> None:
    scripted = ScriptedTinker(model_folder, ignores=ignored)
    with pytest.raises(UserError, match=said):
        learner_at(opened(scripted.address, model_folder), {}, **options)
    scripted.close()


def test_a_service_that_stops_answering_is_lost(model_folder: str, policy: Policy) -> None:
    scripted = ScriptedTinker(model_folder)
    service = opened(scripted.address, model_folder, seconds=3)
    sampler = TinkerSampler(policy, SampleOptions(max_tokens=12), service)
    sampler.take(0, lambda folder: None)
    scripted.fails_at = "asample"
    with pytest.raises(EngineLostError, match=r"asked for rollouts and failed .*no asample today"):
        draw(sampler)
    scripted.close()
    begin = time.monotonic()
    for _ in range(3):  # only the first waits
        with pytest.raises(
            EngineLostError, match=r"asked to save and did not answer in 3 s \(engine.learner.tinker.sec"
        ):
            service.save("x")
    assert time.monotonic() - begin < 6


def test_bad_services_are_sentences(model_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = ScriptedTinker(model_folder)
    with pytest.raises(UserError, match="does not serve 'other/model'"):
        opened(scripted.address, "other/model")
    scripted.close()
    with pytest.raises(UserError, match="there is no Tinker service at"):
        opened(scripted.address, model_folder)
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    with pytest.raises(UserError, match="needs a key in the environment variable TINKER_API_KEY"):
        TinkerService(model_folder, LoraOptions(), 0, Tinker())


def test_the_longest_of_several_rounds_stays_below_the_services_seeds() -> None:
    from outrider.sample.tinker import first_seed

    seeds = [first_seed(SampleRequest(Problem(str(i), ""), group_id=str(i), first_member=500)) for i in range(200)]
    assert max(seeds) < 2**31
    assert len(set(seeds)) == 200
