"""Cases that cost others a run, each by its thread, where no other file tests it with the same numbers.

Those that stand elsewhere: seven rewards of 0.35 and another one, ``[0.1, 0.1, 0.1]`` and rewards 1e-5 apart
(NeMo-RL#4161, atropos#481, verl#6348), a sibling without tokens whose reward is 100 (OpenRLHF#1239), one dissenter
(NeMo-RL#3469): ``test_credit.py`` and ``test_credit_matrix.py``; a success among four under MaxRL (prime-rl):
``test_baselines.py``; two of four under PKPO (rLLM#743): ``test_passk_credit.py``; one success of four (verl#7240):
``test_measure_passk.py``; 8,192 tokens at 0.0002 (verl#7830): ``test_objective_select.py``; unequal sets and
factorials (Math-Verify#14): ``test_verify_answers.py``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from outrider.credit import GroupMean, Members, advantages
from outrider.credit.reward import RewardOptions
from outrider.learn.batching import cut_by_group
from outrider.record import Outcome, Problem, Verdict, correct, incorrect
from outrider.record.row import imitation_row
from outrider.verify.answers import number, verify_text
from outrider.verify.pool import VerifierPool


def members(rewards: list[float], tokens: list[int] | None = None) -> Members:
    rewards_G = np.array(rewards, np.float64)
    return Members(rewards_G, rewards_G > 0, np.array(tokens or [3] * len(rewards)))


def test_a_masked_last_row_is_not_among_its_siblings() -> None:
    """NeMo-Gym#3351: of 1, 3, 2 and a masked 0 the mean is 2, not 1.5."""
    found = advantages([GroupMean(std=False)], members([1, 3, 2, 0], [3, 3, 3, 0]))
    assert [a.tolist() for a in found] == [[-1.0] * 3, [1.0] * 3, [0.0] * 3, []]


def test_seven_equal_float32_rewards_and_another_are_bounded() -> None:
    """NeMo-RL#4161: a residue of 1.6e-4 in a variance of equals made advantages of thousands."""
    rewards = np.array([0.35] * 7 + [0.75], np.float32)
    group = members([0.0] * 8)
    assert not GroupMean().advantages(replace(group, rewards_G=rewards[:1].repeat(8))).any()
    mixed = GroupMean().advantages(replace(group, rewards_G=rewards))
    assert mixed[-1] == pytest.approx(0.35 / 0.02**0.5, rel=1e-4)  # float32 rewards; mean 0.4, variance 0.02
    assert mixed[:-1] == pytest.approx(np.full(7, -0.05 / 0.02**0.5), rel=1e-4)


def test_doing_nothing_is_not_rewarded_beside_minus_one() -> None:
    """trl#6427: a rollout without a verdict had reward 0, the best of its group where the others had -1."""
    value = RewardOptions(correct=1.0, incorrect=-1.0, unparseable=-1.0)
    failed = Verdict(Outcome.ERROR, float("nan"), 0.1)
    rewards = [value.of(verdict) for verdict in (incorrect(), incorrect(), failed)]
    assert rewards[:2] == [-1.0, -1.0]
    assert np.isnan(rewards[2])
    assert GroupMean().advantages(members(rewards)).tolist() == [0.0, 0.0, 0.0]
    with_success = GroupMean(std=False).advantages(members([value.of(correct()), *rewards]))
    np.testing.assert_allclose(with_success, [4 / 3, -2 / 3, -2 / 3, 0.0], atol=1e-15)


def test_an_answer_is_never_run(tmp_path: Path) -> None:
    r"""verl#7603: an answer with \pi in it was handed to eval, and one payload could patch the grader."""
    touched = tmp_path / "touched"
    payload = rf"\pi*__import__('pathlib').Path('{touched}').touch()"
    for text in (payload, rf"\boxed{{{payload}}}", f"#### {payload}", rf"\frac{{{payload}}}{{1}}"):
        assert number(text) is None
        assert not verify_text("3.14159", text, match="number").success
        assert not verify_text(r"\pi", text).success
    assert not touched.exists()


def test_half_a_second_is_not_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout that waits for the thread it gave up on returns after the hang, whatever the limit of 0.5 s.

    The fixture hangs for 3 s and wants the end within 1 s; 120 s and 60 s say the same on a busy machine.
    """
    (tmp_path / "hanging.py").write_text("import time\n\ndef hang(problem, text, finished):\n    time.sleep(120)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import hanging

    with VerifierPool(hanging.hang, workers=1, seconds=0.5) as pool:
        start = time.monotonic()
        [verdict] = pool.verify([(Problem("p", "what?"), "text", True)])
        assert (verdict.outcome, verdict.seconds) == (Outcome.TIMEOUT, 0.5)
    assert time.monotonic() - start < 60


def test_3509_rows_in_batches_of_640() -> None:
    """SkyRL#1483: "3509 not divisible by 640". Batches here are so many parts of whole groups, all rows in them."""
    one = imitation_row(np.zeros(1, np.int32), np.zeros(1, np.int32))
    rows = [replace(one, group=str(i // 8)) for i in range(3509)]  # the last group has five
    cut = cut_by_group(rows, 6)
    assert sum(map(len, cut)) == 3509
    assert {id(row) for part in cut for row in part} == set(map(id, rows))
    assert max(map(len, cut)) - min(map(len, cut)) <= 8 + 3  # one group more or less, and the short one
