"""Questions of several hops: the success of demonstrations, careless or not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.config import load_recipe
from outrider.explore.segment import Turns
from outrider.model.load import load_policy
from outrider.model.places import local_config, model_folder
from outrider.record import Problem, SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.tasks import Hops
from outrider.tasks.hops import is_heldout
from outrider.train.turns import turn_options, with_turns

TASK = Hops()
PROBLEMS = [TASK.train(i) for i in range(300)]


def verified(task: Hops, problem: Problem) -> tuple[int, bool]:
    """The turns of a demonstration, and whether it is right; only its last turn ends it."""
    environment = task.make_environment()
    environment.begin(problem, 0)
    turns = task.demonstration(problem)
    *replies, last = [environment.step(turn) for turn in turns]
    assert not any(reply.done or reply.error for reply in replies)
    assert last.done
    assert last.verdict is not None
    return len(turns), last.verdict.success


def test_a_demonstration_is_right_and_as_short_as_the_limit_of_turns() -> None:
    """At the worst, of six hops five lead to another entity, four of which end one hop later: 15 calls."""
    for problem in [*PROBLEMS, *(Hops(astray=1).train(i) for i in range(300))]:
        turns, right = verified(TASK, problem)
        assert right
        assert int(problem.level) < turns <= TASK.limits.turns


def test_a_demonstration_is_a_function_of_its_problem() -> None:
    careless = Hops(careless=0.4)
    for problem in PROBLEMS:
        assert careless.demonstration(problem) == Hops(careless=0.4, seed=3, hops=(1,)).demonstration(problem)
    assert careless.fingerprint == TASK.fingerprint, "its problems are the same"


@pytest.mark.parametrize("c", [0.2, 0.5, 0.9])
def test_as_much_is_right_as_the_chances_say(c: float) -> None:
    """Of one hop. With K and M read and the answer due, after a careful call or a careless one; and with K alone."""
    due = (1 - c + c / 4) / (1 - c / 2)  # careful; careless: M of K and M in half of the answers, or again
    known = ((1 - c) * due + c / 4) / (1 - c / 2)
    right = (1 - c) * due + c / 2 * known  # K as an answer is wrong
    problems = [Hops(hops=(1,)).train(i) for i in range(3000)]
    share = sum(verified(Hops(careless=c), problem)[1] for problem in problems) / len(problems)
    assert share == pytest.approx(right, abs=0.03)


def test_how_careless_is_bounded() -> None:
    with pytest.raises(ValueError, match="careless"):
        Hops(careless=1.0)


def test_training_never_shows_a_heldout_problem() -> None:
    heldout = {p.id for p in TASK.heldout(300)}
    assert len(heldout) == 300
    assert all(map(is_heldout, heldout))
    assert not any(is_heldout(Hops(seed=seed).train(i).id) for seed in (0, 1) for i in range(500))


# the shipped base


CARD = Path(model_folder("base:hops")) / "README.md"


def measured() -> dict[str, list[float]]:
    """The card's table: pass@1, pass@8, pass@64 and greedy by level."""
    rows = re.findall(r"^\| (\d|all) \| (.*) \|$", CARD.read_text(), re.MULTILINE)
    return {level: [float(cell.split("±")[0]) for cell in cells.split("|")] for level, cells in rows}


def test_the_base_leaves_something_to_find_at_every_level() -> None:
    """What it is for, by its card."""
    table = measured()
    assert list(table) == ["1", "2", "3", "4", "5", "6", "all"]
    assert 0.05 < table["all"][0] < 0.2
    assert 0.4 < table["all"][2] < 0.8
    assert all(table[level][0] < 0.1 < 0.2 < table[level][2] for level in "3456")


def test_the_base_is_small() -> None:
    assert sum(file.stat().st_size for file in CARD.parent.iterdir()) < 3_000_000
    assert load_policy("base:hops").model.num_parameters() == 449_152


def test_the_base_is_what_its_card_says() -> None:
    """At each level, 16 samples of 8 of the card's 50 problems: within three standard errors."""
    policy = ready(load_policy("base:hops"), "packed")[0]
    options = turn_options(SampleOptions(max_tokens=160), TASK)
    sampler = with_turns(LocalSampler(policy, options), TASK, policy, options)
    problems = TASK.heldout(48)
    requests = [SampleRequest(p, n=16, prompt_ids=policy.encode(p), group_id=p.id) for p in problems]
    solved: dict[str, list[bool]] = {level: [] for level in "123456"}
    levels = {problem.id: problem.level for problem in problems}
    for rollout in sampler.sample(requests):
        solved[levels[rollout.problem_id]].append(rollout.verdict is not None and rollout.verdict.success)
    table = measured()
    for level, found in solved.items():
        assert sum(found) / len(found) == pytest.approx(table[level][0], abs=0.15 if level in "12" else 0.02)


# the setting


@pytest.mark.parametrize("name", ["tree-grpo", "deep-grpo", "arpo", "attnrl", "dars-pivots", "xrpo-deep"])
def test_in_the_setting_those_that_cut_at_steps_cut_at_turns(name: str) -> None:
    recipe = load_recipe(name, setting="hops")
    assert isinstance(recipe.task, Hops)
    assert recipe.explore[-1].segment == Turns()
    assert recipe.objective.kl == load_recipe(name).objective.kl, "what is said of countdown holds here"


@pytest.mark.parametrize("name", ["grpo", "dars-hw", "xrpo", "xrpo-no-icl", "remax", "treerl", "treepo", "dapo"])
def test_what_the_setting_asks_for_fits_the_base(name: str) -> None:
    recipe = load_recipe(name, setting="hops")
    context = (local_config(recipe.model) or {})["max_position_embeddings"]
    longest = max(len(problem.prompt) for problem in PROBLEMS) + 1
    seeded = max(
        (getattr(stage.seed, "max_tokens", 0) for stage in recipe.explore if hasattr(stage, "seed")), default=0
    )
    assert max(longest, seeded) + recipe.sample.max_tokens <= context
