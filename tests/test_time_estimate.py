"""The amounts of a run, and a first estimate of its time."""

from __future__ import annotations

import re

import pytest

from outrider.cli import main
from outrider.config import load_recipe
from outrider.train.time_estimate import Amounts, amount_lines, amounts


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        # 2 x 300 x 65 responses of 96 tokens
        (["train.tokens=1000000"], Amounts(1_000_000, 3_744_000, 2)),
        (["train.tokens=null", "train.steps=10"], Amounts(245_760, 3_744_000, 2)),  # 10 x 256 x 96
        (["train.tokens=100", "train.steps=10"], Amounts(100, 3_744_000, 2)),
        (["evaluate={before: false, after: false}"], Amounts(1_600_000, 0, 0)),
        (["evaluate={greedy: false, n: 1, problems: 10}", "train.evaluate_at=[0.5]"], Amounts(1_600_000, 2_880, 3)),
        # 10 steps, every third: 3, 6 and 9
        (["train.steps=10", "train.tokens=null", "train.evaluate_every=3"], Amounts(245_760, 9_360_000, 5)),
    ],
)
def test_the_amounts_are_what_the_configuration_multiplies_to(overrides: list[str], expected: Amounts) -> None:
    assert amounts(load_recipe("grpo", overrides), step_tokens=256 * 96) == expected


def test_a_run_without_evaluation_says_so() -> None:
    [training, evaluation] = amount_lines(load_recipe("grpo", ["evaluate={before: false, after: false}"]), 256 * 96)
    assert training == "training: at most 1,600,000 generated tokens"
    assert evaluation == "evaluation: none"


def test_a_dry_run_ends_with_a_measured_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", "train.problems=2", "--dry-run"]) == 0
    *_, evaluation, time = capsys.readouterr().out.splitlines()
    assert evaluation.startswith("# evaluation: 2 of 300 problems")
    assert re.match(r"# time: about [\d:]+ at most \(rough: from [\d,]+ tokens of one process", time)


def test_an_engine_that_the_probe_cannot_measure_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    servers = 'engine.sampler={vllm: {servers: ["http://127.0.0.1:9"]}}'
    assert main(["train", "grpo", servers, "--dry-run"]) == 0
    assert "# time: no estimate" in capsys.readouterr().out
