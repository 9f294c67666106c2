"""Options that a Tinker service does not support are refused when the recipe is read, in one sentence with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.config import load_recipe, recipe_of_run
from outrider.errors import UserError
from outrider.learn.options import Tinker
from outrider.objective import Truncate
from outrider.sample.options import TinkerSampling

FITS = ["engine=tinker", "policy.lora={rank: 8}", "learn.clip_norm=null"]


@pytest.mark.parametrize("recipe", ["grpo", "dars-hw", "deep-grpo", "xrpo", "gspo", "kl-cov", "cispo", "maxrl"])
def test_methods_fit(recipe: str) -> None:
    loaded = load_recipe(recipe, FITS)
    assert isinstance(loaded.engine.sampler, TinkerSampling)
    assert isinstance(loaded.engine.learner, Tinker)
    assert loaded.objective.correction == Truncate(), "as with every sampler that is not the learner"
    assert recipe_of_run(loaded.resolved()).engine == loaded.engine


@pytest.mark.parametrize(
    ("recipe", "override", "said"),
    [
        ("grpo", "policy.lora=null", r"trains an adapter, not all weights: policy.lora=\{rank: 32\}"),
        ("grpo", "policy.lora={rank: 8, alpha: 16}", "lora.alpha is 16.0, and a Tinker service always takes 32.0"),
        ("grpo", "policy.lora={rank: 8, targets: [q_proj]}", r"policy.lora.targets is \['q_proj'\]"),
        ("grpo", "objective.kl=0.04", "objective.kl is 0.04, and a Tinker service keeps no reference"),
        ("grpo", "objective.entropy.bonus=0.01", "objective.entropy needs the entropy of every token"),
        ("grpo", "sample.temperature=0.6", "sample.temperature is 0.6, and a Tinker service has its own"),
        ("grpo", "sample.stop=[x]", "sample.stop names texts"),
        ("grpo", "learn.weight_decay=0.1", "decays the adapters of all its users"),
        (
            "grpo",
            "learn.gradient_checkpointing=true",
            "learn.gradient_checkpointing is not supported with engine=tinker",
        ),
        ("grpo", "learn.deterministic=true", "learn.deterministic is not supported with engine=tinker"),
        ("grpo", "learn.compile=true", "learn.compile is not supported with engine=tinker"),
        ("grpo", "train.ranks=2", "one process talks to a Tinker service"),
        ("grpo", "engine={sampler: tinker}", "sampler and learner are both tinker"),
        ("grpo", "engine={learner: tinker}", "sampler and learner are both tinker"),
        ("grpo", "engine={sampler: tinker, learner: {tinker: {url: here}}}", "engine.learner.tinker.url"),
        ("grpo", "engine=tinkr", "engine"),
        ("grpo", "task=hops", "turns of task 'hops' end at texts"),
        ("attnrl", "explore.0.n=8", "explore.1 needs the policy's attention, which a Tinker service cannot measure"),
        ("forking-tokens", "explore.0.n=8", "a Tinker service returns no entropies"),
        ("arpo", "explore.0.n=8", "a Tinker service returns no entropies"),
    ],
)
def test_what_does_not_fit_is_refused(recipe: str, override: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_recipe(recipe, [*FITS, override])


def test_the_key_is_in_no_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
    assert "secret" not in str(load_recipe("grpo", FITS).resolved())
