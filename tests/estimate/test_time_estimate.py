"""The amounts of a run, and a first estimate of its time."""

from __future__ import annotations

import re

import pytest

from outrider.cli import main
from outrider.config import load_recipe
from outrider.estimate.time_estimate import Amounts, Rates, amount_lines, amounts, time_sentence


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
        (["train.tokens=null", "train.seconds=60", "train.evaluate_every=3"], Amounts(None, 3_744_000, 2)),
    ],
)
def test_the_amounts_are_what_the_configuration_multiplies_to(overrides: list[str], expected: Amounts) -> None:
    assert amounts(load_recipe("grpo", overrides)) == expected


def test_a_run_without_evaluation_says_so() -> None:
    [training, evaluation] = amount_lines(load_recipe("grpo", ["evaluate={before: false, after: false}"]))
    assert training == "training: at most 1,600,000 generated tokens"
    assert evaluation == "evaluation: none"


def test_evaluations_by_step_are_said_to_be_the_fewest_where_steps_are_not_limited() -> None:
    more = ", more with train.evaluate_every if responses are shorter"
    assert amount_lines(load_recipe("grpo", ["train.evaluate_every=3"]))[-1].endswith(more)
    for overrides in (["train.evaluate_every=3", "train.steps=10"], []):
        assert more not in amount_lines(load_recipe("grpo", overrides))[-1]


def test_a_stage_without_a_bound_is_named() -> None:
    """``refill`` draws until enough groups are mixed; a limit of tokens bounds it, one of steps does not."""
    recipe = ["train.steps=10", "train.tokens=null", "evaluate={before: false, after: false}"]
    [training, _] = amount_lines(load_recipe("dapo", recipe))
    assert training.endswith("generated tokens, plus those of refill (unbounded)")
    assert amounts(load_recipe("dapo", ["train.tokens=1000000"])).unbounded == ()
    assert "at most" not in time_sentence(load_recipe("dapo", recipe), Rates(1, 1, 1, 1, 8), 1)


def test_the_estimate_is_tokens_times_rates_up_to_the_limit_of_seconds() -> None:
    few = ["evaluate={before: false, greedy: false, n: 1, problems: 10}", "train.tokens=1000"]  # 960 tokens
    rates = Rates(sample=0.01, verify=0.02, learn=0.03, other=0.04, tokens=8)
    whole = time_sentence(load_recipe("grpo", few), rates, 2)  # 1000 x 0.10 / 2 and 960 x 0.03 / 2
    assert whole.startswith("time: about 1:04 at most")
    assert "training 0:50 (sample 0:05, verify 0:10, learn 0:15, other 0:20), evaluation 0:14" in whole
    short = time_sentence(load_recipe("grpo", [*few, "train.seconds=20"]), rates, 2)
    assert "training 0:20 (train.seconds), evaluation 0:14" in short


def test_a_dry_run_ends_with_a_measured_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", "train.problems=2", "--dry-run"]) == 0
    *_, evaluation, time = capsys.readouterr().out.splitlines()
    assert evaluation.startswith("# evaluation: 2 of 300 problems")
    assert re.match(r"# time: about [\d:]+ at most \(rough: from [\d,]+ tokens of one process", time)


def test_an_engine_that_the_probe_cannot_measure_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    servers = 'engine.sampler={vllm: {servers: ["http://127.0.0.1:9"]}}'
    assert main(["train", "grpo", servers, "--dry-run"]) == 0
    assert "# time: no estimate" in capsys.readouterr().out
