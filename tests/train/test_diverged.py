"""A run whose weights diverge, or that asks for more than there is, ends with one sentence and loses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.cli import main
from outrider.errors import UserError
from outrider.record import Rollout, SamplingParams
from outrider.sample.draw import draw
from outrider.train.collect import _refuse_diverged

FEW = ["train={problems: 2, steps: 3, tokens: null, ranks: 1, trackers: [], save_every: 1}"]
FEW += ["evaluate={before: false, after: false}", "explore.0.n=4", "sample.max_tokens=24"]


def test_diverged_weights_end_the_run_with_a_sentence_and_keep_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gradient is finite; the step is so large that the logits are not."""
    words = ["train", "grpo", *FEW, "learn={lr: 1e10, clip_norm: null}", "reward.incorrect=-1", "reward.unparseable=1"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("outrider: ")]
    assert "the policy has diverged" in said
    diverged = int(said.split("step ")[1].split(":")[0])
    assert max(path.name for path in (tmp_path / "run/checkpoints").iterdir()) == f"step-{diverged - 1:08d}"
    assert main([*words, "--out", str(tmp_path / "run"), "--resume"]) == 2
    assert "the policy has diverged" in capsys.readouterr().err


def test_logits_that_are_not_finite_have_no_log_probability() -> None:
    logits = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]])
    drawn = draw(logits, torch.tensor([0.5, 0.5], dtype=torch.float64), SamplingParams())
    assert drawn.logprobs.isfinite().tolist() == [True, False]


def test_a_response_of_a_diverged_policy_is_a_sentence_and_no_rollout() -> None:
    """Whatever has drawn it; a token that was observed has no log-probability by its nature."""
    ids = np.zeros(2, np.int32)
    logprobs = np.array([-1.0, np.nan], np.float32)
    observed = Rollout("p", "g", 0, ids, ids, logprobs, ids[:0], trainable_T=np.array([True, False]))
    _refuse_diverged([observed])
    with pytest.raises(UserError, match="the policy has diverged: with the weights of step 7"):
        _refuse_diverged([observed, replace(observed, trainable_T=None, policy_version=7)])


def test_more_rollouts_than_the_memory_holds_are_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "grpo", *FEW, "explore.0.n=100000000000", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "a step has up to 200,000,000,000 rollouts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*words[:-2], "--dry-run"]) == 2
