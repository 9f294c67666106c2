"""Datasets of the reasoning-gym package: endless training, disjoint held-out problems, the package's own scores."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from pydantic import ValidationError

from outrider.errors import UserError
from outrider.record import Outcome
from outrider.tasks import Gym

installed = pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is None, reason="needs reasoning-gym")

FEW = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}  # a+b and a-b with one digit: 200 questions


@pytest.fixture
def gym():
    """Makes tasks and closes them."""
    made: list[Gym] = []

    def make(dataset: str = "chain_sum", **options) -> Gym:
        made.append(Gym(dataset=dataset, **{"heldout_size": 20, **options}))
        return made[-1]

    yield make
    for task in made:
        task.close()


# problems


@installed
def test_training_is_random_access(gym):
    indices = [0, 1, 300, 2, 10**9]
    forwards = [gym().train(i) for i in indices]
    task = gym()
    assert [task.train(i) for i in reversed(indices)] == forwards[::-1]
    assert len({p.id for p in forwards}) == 5
    assert gym(seed=1).train(0) != forwards[0]


@installed
def test_every_process_sees_the_same_problems(gym):
    code = (
        "from outrider.tasks import Gym; import json; t = Gym(dataset='chain_sum', heldout_size=20)\n"
        "print(json.dumps([t.train(7).prompt, t.heldout(1)[0].id, t.fingerprint]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    task = gym()
    assert json.loads(output) == [task.train(7).prompt, task.heldout(1)[0].id, task.fingerprint]


@installed
def test_no_question_is_on_both_sides(gym):
    task = gym(config=FEW, heldout_size=60)
    heldout = {p.prompt for p in task.heldout(60)}
    assert len(heldout) == 60
    train = {task.train(i).prompt for i in range(1000)}
    assert not train & heldout
    assert len(train) > 100, "and the other 140 questions are all there to be drawn"
    # each draw is held out with probability 0.3, so 1000 problems cost 1000 * 0.3 / 0.7 = 429 further draws
    assert 300 < task.counts["redrawn"] < 560
    assert task.counts["heldout"] == 60


@installed
def test_held_out_problems_are_the_same_for_every_seed_and_number(gym):
    first = gym().heldout(20)
    assert gym(seed=5).heldout(20) == first
    assert gym().heldout(3) == first[:3]
    assert gym().heldout(100) == first


@installed
def test_a_dataset_with_fewer_questions_than_are_held_out(gym):
    task = gym(config=FEW, heldout_size=250)
    assert len(task.heldout(250)) == 200
    assert task.counts == {"heldout": 200, "redrawn": 0}
    with pytest.raises(UserError, match="needs a smaller heldout_size \\(now 250\\)"):
        task.train(0)


@installed
def test_the_fingerprint_follows_the_problems(gym):
    tasks = [gym(), gym(seed=1), gym(config={"max_terms": 3}), gym(heldout_size=21), gym("leg_counting")]
    assert len({task.fingerprint for task in tasks}) == len(tasks)


@installed
def test_a_generator_that_fails_is_drawn_again_and_does_not_change_what_follows(gym):
    """Every third item fails, and a failure makes this dataset forget the items after it, as word_ladder does."""
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS, register_dataset

    @dataclass
    class Config:
        seed: int
        size: int

    class Flaky(ProceduralDataset):
        def __init__(self, config):
            super().__init__(config, config.seed, config.size)

        def __getitem__(self, index):
            if index >= self.size or (self.seed + index) % 3 == 0:
                self.size = min(self.size, index)
                raise IndexError("used up")
            return {"question": f"{self.seed} {index}", "answer": "", "metadata": {}}

    register_dataset("flaky", Flaky, Config)
    try:
        forwards = [gym("flaky").train(i).prompt for i in range(30)]
        task = gym("flaky")
        assert [task.train(i).prompt for i in range(30)] == forwards
        assert len(set(forwards)) == 30
        assert task.counts["redrawn"] >= 8, "ten of the thirty, give or take the phase, fail once or more"
    finally:
        del DATASETS["flaky"]


@installed
def test_generating_leaves_numpys_global_generator_alone(gym):
    task = gym("pool_matrix", heldout_size=2)  # it seeds that generator for every item
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    task.train(0)
    assert (np.random.random(3) == expected).all()  # noqa: NPY002


# verdicts: in this process where no worker is needed, as each pool imports the package anew for two seconds


def scorer(dataset: str = "chain_sum", answer: str = "tag"):
    from outrider.tasks.gym import Scorer

    return Scorer(dataset, {}, answer)


@installed
@pytest.mark.parametrize("dataset", ["chain_sum", "knights_knaves", "rearc"])
def test_the_gold_answer_is_right_and_another_is_not(gym, dataset):
    verifier = scorer(dataset)
    for problem in gym(dataset, heldout_size=3).heldout(3):
        right = problem.answer["answer"]
        verdict = verifier(problem, f"I think <answer>no</answer>, or rather <answer> {right} </answer>.", True)
        assert (verdict.outcome, verdict.score, verdict.answer) == (Outcome.CORRECT, 1.0, right[:200])
        verdict = verifier(problem, f"<answer>{right}</answer><answer>no</answer>", True)
        assert verdict.outcome is Outcome.INCORRECT
        assert 0 <= verdict.score < 1


@installed
def test_partial_scores_are_incorrect_with_that_score(gym):
    """The package's default scorer: an answer that contains the right one gets the ratio of the lengths."""
    [problem] = gym("base_conversion", heldout_size=1).heldout(1)
    right = problem.answer["answer"]
    verdict = scorer("base_conversion")(problem, f"<answer>{right}{' ' * 3}{right}</answer>", True)
    assert verdict.outcome is Outcome.INCORRECT
    assert verdict.score == pytest.approx(len(right) / (2 * len(right) + 3))


@installed
def test_where_the_answer_is_read_from(gym):
    tag, whole = scorer(), scorer(answer="whole")
    problem = gym().train(0)
    right = problem.answer["answer"]
    for verifier, text, finished, detail in [
        (tag, right, True, "no answer"),
        (tag, "<answer>", True, "no answer"),
        (tag, f"</answer>{right}<answer>", True, "no answer"),
        (tag, f"<answer>{right}", False, "truncated before an answer"),
        (whole, right, False, "truncated before an answer"),
        (whole, " ", True, "no answer"),
    ]:
        verdict = verifier(problem, text, finished)
        assert (verdict.outcome, verdict.score, verdict.detail) == (Outcome.UNPARSEABLE, 0.0, detail)
    assert tag(problem, f"<answer>{right}</answer> and so on", False).success
    assert whole(problem, f" {right}\n", True).success


@installed
def test_verdicts_come_from_processes_that_outlive_errors_and_end_when_closed(gym):
    task = gym()
    problem = task.train(0)
    right = f"<answer>{problem.answer['answer']}</answer>"
    broken = replace(problem, answer={"question": problem.answer["question"], "metadata": {}})
    first, second, third = task.verify_all([(problem, right, True), (broken, right, True), (problem, right, True)])
    assert first.success
    assert third.success
    assert second.outcome is Outcome.ERROR, "a scorer that raises is no zero"
    assert math.isnan(second.score)
    assert "KeyError" in second.detail
    for _ in range(2):
        task.close()
    assert task.verify(problem, right, True).success, "a closed task starts again"


@installed
def test_questions_that_change_from_process_to_process_are_refused(gym, monkeypatch):
    """ransom_note iterates over sets of strings, whose order is another in every process unless it is fixed."""
    monkeypatch.setenv("PYTHONHASHSEED", "4321")
    task = gym("ransom_note", heldout_size=1)
    with pytest.raises(UserError, match="PYTHONHASHSEED=0"):
        task.verify(task.train(0), "<answer>True</answer>", True)


# bad input


@installed
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dataset": "chain_sun"}, "no dataset 'chain_sun' (did you mean 'chain_sum'?)"),
        ({"config": {"min_term": 2}}, "no option 'min_term' (did you mean 'min_terms'?)"),
        ({"config": {"seed": 2}}, "no option 'seed' (known: "),
        ({"config": {"min_terms": 9, "max_terms": 2}}, "refuses its config: AssertionError: max_terms must be"),
        ({"config": {"min_terms": "two"}}, "refuses its config: TypeError"),
    ],
)
def test_one_sentence_for_every_mistake(gym, options, reason):
    with pytest.raises(UserError) as caught:
        gym(**options).train(0)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_without_the_question_is_refused():
    with pytest.raises(ValidationError, match=r"without \{question\}"):
        Gym(dataset="chain_sum", prompt="Well?")


def test_without_the_package_it_says_what_to_install(monkeypatch):
    for name in ("reasoning_gym", "reasoning_gym.factory"):
        monkeypatch.setitem(sys.modules, name, None)  # what Python does for a package that is missing
    with pytest.raises(UserError, match=r"pip install 'outrider\[gym\]'"):
        Gym(dataset="chain_sum").train(0)
