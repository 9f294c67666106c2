"""Ten traps of Tinker services, each with the test that falls into it if the code does.

They are known from the protocol's packages and servers; a trap that other tests show is named here.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.errors import EngineLostError, UserError
from outrider.learn.options import LearnOptions, Tinker
from outrider.learn.tinker import TinkerLearner
from outrider.learn.tinker_abilities import Abilities
from outrider.model import tinker_service
from outrider.model.options import LoraOptions
from outrider.model.tinker_service import TinkerService
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from policy_rows import STREAMS, ragged_rows
from scripted_tinker import ScriptedTinker

pytest.importorskip("tinker")
HERE = Path(__file__).parents[1]
RULES, CONTRACT, RUNS, TRAPS = (
    f"{room}/test_tinker_{name}.py"
    for room, name in (("config", "rules"), ("learn", "contract"), ("train", "runs"), ("learn", "traps"))
)

SHOWN = {
    "(1) servers speak to different versions of the package": [
        (TRAPS, "test_each_kind_of_server_has_an_extra_of_its_own"),
        (TRAPS, "test_another_version_of_the_package_is_named_while_nothing_is_answered"),
        (TRAPS, "test_without_the_package_both_extras_are_named"),
    ],
    "(2) losses are sums, or means": [
        (CONTRACT, "test_what_a_service_does_is_found_by_trying"),
        (CONTRACT, "test_a_step_is_the_local_learners"),
        (CONTRACT, "test_a_mean_over_the_rows_of_a_request_is_refused"),
    ],
    "(3) a step takes the learning rate and drops the rest": [
        (CONTRACT, "test_what_a_service_ignores_is_refused"),
        (CONTRACT, "test_what_is_told_to_the_optimizer"),
        (RULES, "test_what_does_not_fit_is_refused"),  # the decay of weights
    ],
    "(4) several samples take the seed and those after it": [
        (CONTRACT, "test_rounds_of_a_group_repeat_no_member"),
        (CONTRACT, "test_the_longest_of_several_rounds_stays_below_the_services_seeds"),
    ],
    "(5) likelihoods have the service's temperature": [(RULES, "test_what_does_not_fit_is_refused")],
    "(6) of several losses in one batch the first is taken": [(RUNS, "test_one_update_is_of_one_loss")],
    "(7) no divergence, no entropy": [(RULES, "test_what_does_not_fit_is_refused")],
    "(8) weights reach the sampler when asked for alone": [(CONTRACT, "test_a_weight_sync_is_probed")],
    "(9) what a loss holds fixed is lost when it is sent": [
        (TRAPS, "test_what_a_loss_holds_fixed_stays_fixed[detach]"),
        (TRAPS, "test_what_a_loss_holds_fixed_stays_fixed[no_grad]"),
    ],
    "(10) a resumed adapter is of more layers": [(CONTRACT, "test_a_resumed_learner_goes_on_as_the_other")],
}


@pytest.mark.parametrize("trap", SHOWN)
def test_a_trap_has_its_tests(trap: str) -> None:
    for file, name in SHOWN[trap]:
        functions = {node.name for node in ast.parse((HERE / file).read_text()).body if hasattr(node, "name")}
        assert name.partition("[")[0] in functions, (file, name)


@pytest.fixture
def scripted(model_folder: str) -> Iterator[ScriptedTinker]:
    server = ScriptedTinker(model_folder)
    yield server
    server.close()


def test_each_kind_of_server_has_an_extra_of_its_own() -> None:
    extras = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [of_skyrl], [of_hosted] = extras["skyrl"], extras["tinker"]
    assert of_skyrl == f"tinker=={tinker_service._SKYRL}"
    least = of_hosted.removeprefix("tinker>=").split(".")
    assert [int(part) for part in least] > [int(part) for part in tinker_service._SKYRL.split(".")]
    assert not any("outrider[" in wanted for wanted in of_skyrl), "one that wanted both could not be installed"


def test_another_version_of_the_package_is_named_while_nothing_is_answered(
    scripted: ScriptedTinker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = tinker_service._package()
    scripted.fails_at = "create_model"

    def refused() -> str:
        with pytest.raises(EngineLostError, match="asked for an adapter and failed") as error:
            TinkerService(scripted.folder, LoraOptions(rank=4), 0, Tinker(url=scripted.address, seconds=20))
        return str(error.value)

    assert "the package tinker here is" not in refused()
    monkeypatch.setattr(sdk, "__version__", "0.38.0")
    assert refused().endswith("; the package tinker here is 0.38.0, and SkyRL 0.3 needs 0.24.1 (outrider[skyrl])")


def test_without_the_package_both_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tinker", None)
    with pytest.raises(UserError, match=r"'outrider\[tinker\]' for the hosted one, 'outrider\[skyrl\]' for SkyRL"):
        TinkerService("m", LoraOptions(rank=4), 0, Tinker(url="http://127.0.0.1:9"))


class Fixed(PolicyLoss):
    """The mean of w·log π over the tokens, with a w that is made of log π and held fixed."""

    how = "detach"

    def __call__(self, batch, logprobs_N: Tensor, entropies_N, references_N):  # type: ignore[no-untyped-def]
        if self.how == "detach":
            weights_N = logprobs_N.detach().exp()
        else:
            with torch.no_grad():
                weights_N = logprobs_N.exp()
        return (weights_N * logprobs_N).mean(), {}


@pytest.mark.parametrize("how", ["detach", "no_grad"])
def test_what_a_loss_holds_fixed_stays_fixed(
    scripted: ScriptedTinker, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The gradient is taken here, and numbers are sent: were the loss sent, the package would trace it, and what
    ``no_grad`` holds fixed would be differentiated too."""
    service = TinkerService(scripted.folder, LoraOptions(rank=4), 0, Tinker(url=scripted.address, rows=1))
    monkeypatch.setattr("outrider.learn.tinker.abilities_of", lambda _: Abilities(row_mean=False, batch_mean=False))
    loss = Fixed(ObjectiveOptions(streams=STREAMS), 16)
    loss.how = how
    learner = TinkerLearner(service, LearnOptions(clip_norm=None), loss)
    sent: dict[bytes, np.ndarray] = {}
    backward = service.backward

    def seen(rows, name, config=None, trainer=None):  # type: ignore[no-untyped-def]
        sent.update({row.ids.tobytes(): row.advantages for row in rows})
        return backward(rows, name, config, trainer)

    monkeypatch.setattr(service, "backward", seen)
    rows = [row for row in ragged_rows(6, 0) if row.has_signal]
    now = learner.logprobs(rows)
    learner.update(rows)
    tokens = sum(len(one) for one in now)
    assert len(sent) == len(rows)
    for row, logprobs in zip(rows, now, strict=True):
        whole = np.concatenate([row.context_ids, row.token_ids])
        own = sent[whole.tobytes()][-len(row.token_ids) :]
        assert own == pytest.approx(-np.exp(logprobs) / tokens, rel=1e-6)
    service.close()
