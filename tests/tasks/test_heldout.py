"""Held-out problems of generated tasks: exchangeable in order, the same for every seed, and as 0.2 had them on demand.

Shown by how common a problem is: how often a long, independent sequence of draws comes to it. Common problems are
easier for every policy that was trained on the task, and where one is drawn without repetition they come first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from outrider.tasks import countdown, hops, word_problems
from outrider.tasks.countdown import Countdown
from outrider.tasks.dice import Dice
from outrider.tasks.heldout import Order, drawn, shuffled
from outrider.tasks.hops import Hops
from outrider.tasks.stories import Ranges
from outrider.tasks.task import Task
from outrider.tasks.word_problems import WordProblems

GENERATED: dict[str, Callable[..., Task]] = {
    "countdown": Countdown,
    "frontier": lambda **rest: Countdown(highest=20, cap=100, **rest),
    "hops": Hops,
    "prose": lambda **rest: WordProblems(steps=(2, 3, 4), highest=20, cap=100, **rest),
}
PROSE = WordProblems(steps=(2, 3, 4), highest=20, cap=100)
DRAWN = {"countdown": 800, "frontier": 2000, "hops": 1200, "prose": 1400}
SMALLEST_LEVEL = {"countdown": "3", "frontier": "3", "hops": "1", "prose": "2"}


def trend(names: list[str], common: Counter[str]) -> float:
    """The p-value of: the first half of a level is as common as the second."""
    counts = np.array([common[name] for name in names])
    half = len(counts) // 2
    return float(mannwhitneyu(counts[:half], counts[half:]).pvalue)


@pytest.mark.parametrize("name", GENERATED)
def test_heldout_problems_are_exchangeable_in_their_order(name: str) -> None:
    common = Counter(many_draws(name))
    assert trend(of_smallest_level(name, "shuffled"), common) > 1e-3
    # of one hop every question is as common as any other, so there the order of the draws is exchangeable too
    if name != "hops":
        assert trend(of_smallest_level(name, "drawn"), common) < 1e-3, "the test sees an order that is not exchangeable"


def of_smallest_level(name: str, order: Order) -> list[str]:
    """Its held-out problems by what makes two of them the same; a story is told in many words."""
    if name != "prose":
        task = GENERATED[name](heldout_order=order)
        return [p.id for p in task.heldout(DRAWN[name]) if p.level == SMALLEST_LEVEL[name]]
    if order == "shuffled":
        stories = word_problems._population((2, 3, 4), 2, Ranges(20, 100))
    else:
        draw, key = PROSE._story, word_problems._heldout_key
        stories = drawn((2, 3, 4), draw, key, seed="heldout word problem", n=DRAWN[name])
    return [story.key for story in stories if story.steps == 2]


def many_draws(name: str) -> list[str]:
    """Problems of the smallest level, each as often as an independent sequence of draws comes to it."""
    dice = Dice(12345)
    if name == "prose":
        return [PROSE._story(dice, 2).key for _ in range(40_000)]
    if name == "hops":
        return [hops._draw(dice.random, 1, 0.5).id for _ in range(40_000)]
    ranges = (12, 60) if name == "countdown" else (20, 100)
    return [countdown._draw(dice, 3, *ranges).id for _ in range(100_000)]


@pytest.mark.parametrize("name", GENERATED)
def test_heldout_problems_are_distinct_balanced_and_the_same_for_every_seed(name: str) -> None:
    make = GENERATED[name]
    whole = make().heldout(100_000)
    assert len({p.id for p in whole}) == len(whole) > 700
    assert [p.id for p in make(seed=7).heldout(40)] == [p.id for p in whole[:40]], "a prefix, whatever the seed"
    assert len(set(Counter(p.level for p in whole).values())) == 1, "each level as often"


@pytest.mark.parametrize("name", GENERATED)
def test_the_fingerprint_tells_the_two_orders_apart(name: str) -> None:
    new, old = GENERATED[name](), GENERATED[name](heldout_order="drawn")
    assert new.fingerprint == f"{old.fingerprint}/shuffled"


# md5 of repr(task.heldout(300)) at 6ee38b2, before there was another order
OF_0_2 = {
    "countdown": "d8951c1bb906c21a5658474af966002f",
    "frontier": "08398e54e8cd9b3ca3886a1cd29a63cc",
    "hops": "77cfacea3dc0cce3691e7d3501974bbc",
    "prose": "86b6d8d22bc7612b266d336573982085",
}


@pytest.mark.parametrize("name", GENERATED)
def test_the_order_drawn_is_that_of_0_2(name: str) -> None:
    problems = GENERATED[name](heldout_order="drawn").heldout(300)
    assert {problem.test_set for problem in problems} == {""}
    as_of_0_2 = repr(problems).replace(", test_set='')", ")")  # 0.2 had no test sets
    assert hashlib.md5(as_of_0_2.encode()).hexdigest() == OF_0_2[name]


def test_a_rare_problem_is_as_often_early_as_late() -> None:
    """Over many seeds, with nine common problems and one that is drawn once in a hundred."""

    def places(order: Callable[[int], list[int]]) -> float:
        return float(np.mean([found.index(9) for seed in range(300) if 9 in (found := order(seed))]))

    def draw(dice, level):
        return min(dice.below(100) // 11, 9)

    assert places(lambda s: drawn([0], draw, str, seed=str(s), n=10)) > 8
    mixed = places(
        lambda s: shuffled([0], lambda d, level: draw(d, level), lambda k: f"{s}:{k}", seed=str(s), draws=500)
    )
    assert mixed == pytest.approx(4.5, abs=4 * 2.9 / 300**0.5)
