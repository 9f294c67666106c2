"""The rules that every component of the objective keeps, as one matrix of components and rules.

A new component joins by a line in its table: options, and an example that was worked by hand. A component without one
fails ``test_every_component_is_in_the_matrix``. ``test_the_matrix_catches_what_is_wrong`` breaks components on purpose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, get_args, get_origin

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.objective import (
    AGGREGATES,
    CORRECTIONS,
    K1,
    K2,
    K3,
    KL_ESTIMATORS,
    SELECTIONS,
    SURROGATES,
    Aggregate,
    Cispo,
    Clip,
    ClipCov,
    Constant,
    Correction,
    Forking,
    Gmpo,
    KlCov,
    KlEstimator,
    Likelihood,
    Mask,
    Recompute,
    Sapo,
    Selection,
    SequenceMean,
    Simko,
    Surrogate,
    TokenMean,
    Truncate,
    Unclipped,
)
from outrider.objective.correction import correct
from outrider.objective.options import ObjectiveOptions
from outrider.objective.ratio import TokenRatios
from outrider.objective.selection import Selected, selected
from outrider.objective.weights import token_weights
from outrider.record.row import WeightedRow
from outrider.testing.losses import LOSS_LAWS, LossClaims, slope

# Surrogates: for a response of one token, the derivative of its gain by log pi, with advantage 1 and with -1.

RATIOS = (0.5, 0.75, 1.0, 1.25, 2.0, 8.0)  # two lie between the bounds below and above, if those are mixed up


class Slopes(NamedTuple):
    """A surrogate and its slopes at ``RATIOS``, by hand.

    Attributes:
        good: with advantage 1.
        bad: with advantage -1.
        marks: name to what is marked, at the ratios with advantage 1 and then with -1.
        response: the gains of a response of three tokens with the ratios 2, 0.5 and 0.5 and the advantages 1, 0 and -1.
            Needed where the tokens of a response share a ratio.
        stops_gradient: a factor of the gain is detached.
    """

    component: Surrogate
    good: tuple[float, ...]
    bad: tuple[float, ...]
    marks: dict[str, list[float]]
    response: tuple[float, float, float] | None = None
    stops_gradient: bool = False


def gate(tau: float, ratio: float) -> float:
    """4 s (1 - s) of a sigmoid s at tau (ratio - 1), which is 1 / cosh^2 of half of that."""
    return 1 / math.cosh(tau * (ratio - 1) / 2) ** 2


SAPO = [*(gate(1.5, ratio) for ratio in RATIOS), *(gate(2.0, ratio) for ratio in RATIOS)]
MEAN = (2.0 * 0.5 * 0.5) ** (1 / 3)  # 0.794
CLIPPED = (MEAN, 0.0, -0.8)
_ALL, _PASS = tuple(RATIOS), tuple(-ratio for ratio in RATIOS)
SURROGATE_CASES = {
    # good: nothing to gain beyond 1.28; bad: nothing to lose below 0.8
    "clip": Slopes(
        Clip(low=0.2, high=0.28),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, 0.0, -1.0, -1.25, -2.0, -8.0),
        {"clip_low": [0] * 6 + [1, 1, 0, 0, 0, 0], "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6},
    ),
    # and what is bad costs no more than 3 times its advantage
    "clip with dual": Slopes(
        Clip(low=0.3, high=0.28, dual=3.0),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, -0.75, -1.0, -1.25, -2.0, 0.0),
        {
            "clip_low": [0] * 6 + [1, 0, 0, 0, 0, 0],
            "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6,
            "clip_dual": [0] * 11 + [1],
        },
    ),
    "clip of the response": Slopes(
        Clip(low=0.2, high=0.28, ratio="sequence"),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, 0.0, -1.0, -1.25, -2.0, -8.0),
        {"clip_low": [0] * 6 + [1, 1, 0, 0, 0, 0], "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6},
        CLIPPED,
    ),
    "clip by GSPO-token": Slopes(
        Clip(low=0.2, high=0.28, ratio="sequence_token"),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, 0.0, -1.0, -1.25, -2.0, -8.0),
        {"clip_low": [0] * 6 + [1, 1, 0, 0, 0, 0], "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6},
        CLIPPED,
        stops_gradient=True,
    ),
    "unclipped": Slopes(Unclipped(), _ALL, _PASS, {}),
    "unclipped, of the response": Slopes(Unclipped(ratio="sequence"), _ALL, _PASS, {}, (MEAN, 0.0, -MEAN)),
    "unclipped, by GSPO-token": Slopes(
        Unclipped(ratio="sequence_token"), _ALL, _PASS, {}, (MEAN, 0.0, -MEAN), stops_gradient=True
    ),
    # whatever the ratio
    "likelihood": Slopes(Likelihood(), (1.0,) * 6, (-1.0,) * 6, {}),
    # the weight is at least 0.8 and at most 4, whatever the sign
    "cispo": Slopes(
        Cispo(low=0.2, high=3.0),
        (0.8, 0.8, 1.0, 1.25, 2.0, 4.0),
        (-0.8, -0.8, -1.0, -1.25, -2.0, -4.0),
        {"clip_low": [1, 1, 0, 0, 0, 0] * 2, "clip_high": [0, 0, 0, 0, 0, 1] * 2},
        stops_gradient=True,
    ),
    # log 2 is 0.69: beyond 0.3 nothing to gain, below -0.6 nothing to lose; what has no advantage counts as 0
    "gmpo": Slopes(
        Gmpo(low=0.6, high=0.3),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, -0.75, -1.0, -1.25, -2.0, -8.0),
        {"clip_low": [0] * 6 + [1, 0, 0, 0, 0, 0], "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6},
        (math.exp((0.3 + 0 - 0.6) / 3), 0.0, -math.exp((0.3 + 0 - 0.6) / 3)),
    ),
    # nothing forks here, so it is the clip; what it does where responses fork: test_simko.py
    "simko": Slopes(
        Simko(low=0.3, high=0.28, quantile=0.5, top=1, share=0.5, penalty=2.0),
        (0.5, 0.75, 1.0, 1.25, 0.0, 0.0),
        (0.0, -0.75, -1.0, -1.25, -2.0, -8.0),
        {"clip_low": [0] * 6 + [1, 0, 0, 0, 0, 0], "clip_high": [0, 0, 0, 0, 1, 1] + [0] * 6, "forking": [0] * 12},
    ),
    # the slope of rho by log pi is rho
    "sapo": Slopes(
        Sapo(tau_positive=1.5, tau_negative=2.0),
        tuple(ratio * share for ratio, share in zip(RATIOS, SAPO[: len(RATIOS)], strict=True)),
        tuple(-ratio * share for ratio, share in zip(RATIOS, SAPO[len(RATIOS) :], strict=True)),
        {"gate": SAPO},
    ),
}


def check_slopes_by_hand(case: Slopes) -> None:
    for sign, expected, first in ((1.0, case.good, 0), (-1.0, case.bad, len(RATIOS))):
        for place, (ratio, by_hand) in enumerate(zip(RATIOS, expected, strict=True)):
            _, marks, slopes = slope(case.component, [ratio], [sign], [1])
            assert slopes.item() == pytest.approx(by_hand), (ratio, sign)
            assert {name: float(mark) for name, mark in marks.items()} == pytest.approx(
                {name: marked[first + place] for name, marked in case.marks.items()}
            ), (ratio, sign)


def check_a_response_by_hand(case: Slopes) -> None:
    assert case.response is not None or not case.component.per_response
    if case.response is not None:
        assert slope(case.component, [2.0, 0.5, 0.5], [1.0, 0.0, -1.0], [3]).gain.tolist() == pytest.approx(
            case.response
        )


def keeps(law: Callable[[LossClaims], None]) -> Callable[[Slopes], None]:
    return lambda case: law(LossClaims(case.component, case.stops_gradient))


SURROGATE_RULES: dict[str, Callable[[Slopes], None]] = {
    "slopes_by_hand": check_slopes_by_hand,
    "a_response_by_hand": check_a_response_by_hand,
    **{name.replace(" ", "_"): keeps(law) for name, law in LOSS_LAWS.items()},
}

# Selections: of three rows with seven trainable tokens, and one that was observed, which is the most extreme of all.

LOGPROBS = [[-1.0, -3.0, -90.0], [-2.0, -2.0, -4.0], [-1.0, -1.0]]  # the trained ones have a mean of -2
ADVANTAGES = [[3.0, 3.0, 90.0], [0.0, 0.0, 0.0], [0.5, 0.5]]  # and of 1
ENTROPIES = [[0.5, 2.0, 9.0], [1.0, 1.0, 1.5], [0.0, 0.25]]
# the products of what is off the means: 2, -2 | 0, 0, 2 | -0.5, -0.5


class Choice(NamedTuple):
    """A selection, and what it chooses in the rows above, by hand; None: it says nothing of that kind.

    Attributes:
        draws: where a lot decides, in place of ``keeps``: how many tokens lose their gradient, and in which places of
            the trainable ones they may be, each of which comes up at times.
    """

    component: Selection
    keeps: list[list[bool]] | None = None
    penalties: list[list[float]] | None = None
    draws: tuple[int, set[int]] | None = None


SELECTION_CASES = {
    # floor(0.6 * 7) = 4 of 7: 2, 1.5, and both of 1.0
    "forking": Choice(Forking(share=0.6), keeps=[[False, True, False], [True, True, True], [False, False]]),
    # 3 of 7: 2, 1.5 and one of 1.0, but equals go together
    "forking, equals": Choice(Forking(share=0.45), keeps=[[False, True, False], [True, True, True], [False, False]]),
    # all of 7 may be drawn of those in [1, 3]: the two of covariance 2
    "clip_cov": Choice(
        ClipCov(share=1.0, low=1.0, high=3.0), keeps=[[False, True, True], [True, True, False], [True, True]]
    ),
    "clip_cov, low ones": Choice(
        ClipCov(share=1.0, low=-1.0, high=-0.25), keeps=[[True, True, True], [True, True, True], [False, False]]
    ),
    # floor(0.3 * 7) = 2 of the six that are not -2
    "clip_cov, drawn": Choice(ClipCov(share=0.3, low=-1.0, high=3.0), draws=(2, {0, 2, 3, 4, 5, 6})),
    # one of 7, and two are equal
    "kl_cov": Choice(KlCov(share=0.2, coef=3.0), penalties=[[3.0, 0, 0], [0, 0, 3.0], [0, 0]]),
    # all of 7, but those above 0 alone
    "kl_cov, all": Choice(KlCov(share=1.0, coef=0.5), penalties=[[0.5, 0, 0], [0, 0, 0.5], [0, 0]]),
}


def rows_of_three(first_seed: int = 0) -> list[WeightedRow]:
    return [
        WeightedRow(
            context_ids=np.array([7], np.int32),
            token_ids=np.arange(len(logprobs), dtype=np.int32),
            old_logprobs_N=np.array(logprobs, np.float32),
            advantages_N=np.array(advantages),
            trainable_N=np.array([logprob > -90 for logprob in logprobs]),
            entropies_N=np.array(entropies, np.float32),
            seed=seed,
        )
        for seed, (logprobs, advantages, entropies) in enumerate(
            zip(LOGPROBS, ADVANTAGES, ENTROPIES, strict=True), first_seed
        )
    ]


def as_lists(found: list[Selected], name: str) -> list[list[float]] | None:
    parts = [getattr(one, name) for one in found]
    return None if all(part is None for part in parts) else [part.tolist() for part in parts]


def check_choice_by_hand(case: Choice) -> None:
    found = selected(case.component, rows_of_three())
    assert case.draws is not None or as_lists(found, "keeps_N") == case.keeps
    assert as_lists(found, "penalties_N") == case.penalties


def check_what_a_lot_decides(case: Choice) -> None:
    if case.draws is None:
        return
    rows, number, places = rows_of_three(), *case.draws
    trainable = np.concatenate([row.trainable_N for row in rows])
    drawn = set()
    for run in range(50):
        found = selected(case.component, rows_of_three(3 * run))
        lost = np.flatnonzero(~np.concatenate([one.keeps_N for one in found])[trainable])
        assert len(lost) == number
        drawn |= {int(place) for place in lost}
    assert drawn == places


def check_it_says_what_it_declares(case: Choice) -> None:
    assert case.component.leaves_out == (case.keeps is not None or case.draws is not None)
    assert case.component.penalises == (case.penalties is not None)


def check_the_order_of_rows_is_nothing(case: Choice) -> None:
    rows = rows_of_three()
    straight = selected(case.component, rows)
    for order in itertools.permutations(range(3)):
        found = selected(case.component, [rows[place] for place in order])
        for name in ("keeps_N", "penalties_N"):
            assert as_lists(found, name) == as_lists([straight[place] for place in order], name)


def check_without_a_trainable_token_it_says_nothing(case: Choice) -> None:
    observed = [replace(row, trainable_N=np.zeros_like(row.trainable_N)) for row in rows_of_three()]
    assert selected(case.component, observed) == [Selected()] * 3
    assert selected(case.component, []) == []


SELECTION_RULES = [
    check_choice_by_hand,
    check_what_a_lot_decides,
    check_it_says_what_it_declares,
    check_the_order_of_rows_is_nothing,
    check_without_a_trainable_token_it_says_nothing,
]

# Corrections, aggregates and KL estimators: numbers to numbers.

WEIGHTS = np.array([0.25, 1.0, 3.0])


class Cut(NamedTuple):
    """A correction, what the weights 0.25, 1 and 3 become, and which of them count as cut.

    Attributes:
        response: what the tokens of a response become whose own weights are 0.5, 1.5 and 6.
    """

    component: Correction
    importance: list[float]
    cut: list[bool]
    response: list[float]


PRODUCT = 0.5 * 1.5 * 6  # 4.5
GEOMETRIC = PRODUCT ** (1 / 3)  # 1.65
CORRECTION_CASES = {
    "recompute": Cut(Recompute(), [1, 1, 1], [False, False, False], [1, 1, 1]),
    "truncate": Cut(Truncate(cap=2.0), [0.25, 1, 2], [False, False, True], [0.5, 1.5, 2]),
    "truncate by product": Cut(Truncate(level="sequence", cap=2.5), [0.25, 1, 2.5], [False, False, True], [2.5] * 3),
    "truncate by mean": Cut(Truncate(level="geometric"), [0.25, 1, 2], [False, False, True], [GEOMETRIC] * 3),
    "mask": Cut(Mask(low=0.5, high=2.0), [0, 1, 0], [True, False, True], [0, 0, 0]),
    "mask by token": Cut(Mask(level="token", low=0.0, high=2.0), [0.25, 1, 0], [False, False, True], [0.5, 1.5, 0]),
    # the bounds themselves count
    "mask by mean": Cut(
        Mask(level="geometric", low=0.25, high=3.0), [0.25, 1, 3], [False, False, False], [GEOMETRIC] * 3
    ),
}


def check_cut_by_hand(case: Cut) -> None:
    importance, cut = case.component.importance(WEIGHTS)
    assert importance.tolist() == case.importance
    assert cut.tolist() == case.cut


def check_a_corrected_response_by_hand(case: Cut) -> None:
    sampled = np.full(4, -2.0)
    row = WeightedRow(np.zeros(1, np.int32), np.zeros(4, np.int32), sampled, np.ones(4), np.arange(4) < 3)
    [corrected], _ = correct(case.component, [row], [sampled + np.log([0.5, 1.5, 6, 90])])  # the last was observed
    assert corrected.importance_N is not None
    assert corrected.importance_N.tolist() == pytest.approx([*case.response, 0])


def check_equal_engines_are_not_corrected(case: Cut) -> None:
    importance, cut = case.component.importance(np.ones(3))
    assert importance.tolist() == [1, 1, 1]
    assert not cut.any()


def check_a_weight_depends_on_itself_alone(case: Cut) -> None:
    """The learner may pass the weights of a micro-batch."""
    weights = np.array([0.1, 0.7, 1.3, 2.9, 8.0])
    for whole, parts in zip(
        case.component.importance(weights),
        zip(*(case.component.importance(weights[i : i + 1]) for i in range(len(weights))), strict=True),
        strict=True,
    ):
        assert whole.tolist() == np.concatenate(parts).tolist()


def check_leaving_out_needs_the_level_of_tokens(case: Cut) -> None:
    zero = 0 in case.importance
    assert case.component.leaves_out == (zero and case.component.weight_level == "token")


class Weighed(NamedTuple):
    """An aggregate, and the weight of each token in rows of 2, 0 and 6, and of 4 without an advantage, where a response
    has 10 at most."""

    component: Aggregate
    weights: tuple[float, float, float, float]


AGGREGATE_CASES = {
    "token_mean": Weighed(TokenMean(), (1 / 12, 0, 1 / 12, 1 / 12)),
    "token_mean, with signal": Weighed(TokenMean(denominator="with_signal"), (1 / 8, 0, 1 / 8, 0)),
    "sequence_mean": Weighed(SequenceMean(), (1 / 6, 0, 1 / 18, 1 / 12)),
    "sequence_mean, with signal": Weighed(SequenceMean(denominator="with_signal"), (1 / 4, 0, 1 / 12, 0)),
    "constant": Weighed(Constant(), (1 / 40, 0, 1 / 40, 1 / 40)),
    "constant of its own": Weighed(Constant(length=5, denominator="with_signal"), (1 / 10, 0, 1 / 10, 0)),
}


def check_weights_by_hand(case: Weighed) -> None:
    rows = [
        WeightedRow(
            np.zeros(1, np.int32), np.zeros(n, np.int32), np.zeros(n), np.full(n, advantage), np.arange(n) < trained
        )
        for n, trained, advantage in ((2, 2, 1.0), (3, 0, 0.0), (7, 6, 1.0), (4, 4, 0.0))
    ]
    options = ObjectiveOptions(aggregate=case.component)
    assert token_weights(rows, options, 10).tolist() == pytest.approx(case.weights)
    assert token_weights(rows[::-1], options, 10).tolist() == pytest.approx(case.weights[::-1])


class Pull(NamedTuple):
    """A KL estimator, and its values where the reference is less likely by e, as likely, and likelier by e^2."""

    component: KlEstimator
    values: tuple[float, float, float]


KL_CASES = {
    "k1": Pull(K1(), (1.0, 0.0, -2.0)),
    "k2": Pull(K2(), (0.5, 0.0, 2.0)),
    "k3": Pull(K3(), (math.exp(-1), 0.0, math.exp(2) - 3)),
}


def check_values_by_hand(case: Pull) -> None:
    assert case.component.value(torch.tensor([-1.0, 0.0, 2.0])).tolist() == pytest.approx(case.values)


def check_it_says_of_each_row_whether_it_acts(case: Pull) -> None:
    rows = rows_of_three()
    straight = case.component.acts_on(rows)
    assert len(straight) == 3
    assert case.component.acts_on(rows[::-1]) == straight[::-1]


def by_name(rules: dict[str, Callable] | list[Callable]) -> dict[str, Callable]:
    return rules if isinstance(rules, dict) else {rule.__name__.removeprefix("check_"): rule for rule in rules}


MATRIX = {
    "surrogate": (SURROGATES, SURROGATE_CASES, SURROGATE_RULES),
    "selection": (SELECTIONS, SELECTION_CASES, SELECTION_RULES),
    "correction": (
        CORRECTIONS,
        CORRECTION_CASES,
        [
            check_cut_by_hand,
            check_a_corrected_response_by_hand,
            check_equal_engines_are_not_corrected,
            check_a_weight_depends_on_itself_alone,
            check_leaving_out_needs_the_level_of_tokens,
        ],
    ),
    "aggregate": (AGGREGATES, AGGREGATE_CASES, [check_weights_by_hand]),
    "KL estimator": (KL_ESTIMATORS, KL_CASES, [check_values_by_hand, check_it_says_of_each_row_whether_it_acts]),
}
EVERY = [
    (kind, name, rule)
    for kind, (_, cases, rules) in MATRIX.items()
    for name in cases
    for rule in by_name(rules).items()
]


@pytest.mark.parametrize(("kind", "name", "rule"), EVERY, ids=[f"{name}-{rule}" for _, name, (rule, _) in EVERY])
def test_every_component_keeps_every_rule(kind, name, rule) -> None:
    rule[1](MATRIX[kind][1][name])


@pytest.mark.parametrize("kind", MATRIX)
def test_every_component_is_in_the_matrix(kind: str) -> None:
    table, cases, _ = MATRIX[kind]
    seen = {type(case.component) for case in cases.values()}
    missing = [name for name, component in table.items() if component not in seen]
    assert not missing, (
        f"{', '.join(missing)}: named in objective/__init__.py, but without an example by hand in "
        "test_objective_matrix.py"
    )


COMPONENTS = [(kind, name) for kind, (table, _, _) in MATRIX.items() for name in table]


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_component_says_what_it_and_its_options_are(kind: str, name: str) -> None:
    component = MATRIX[kind][0][name]
    assert component.__doc__
    assert [key for key, option in component.model_fields.items() if not option.description] == []


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_every_option_is_set_in_an_example(kind: str, name: str) -> None:
    """To something else than its default, and every one of named values: or nobody would see that it does nothing."""
    table, cases, _ = MATRIX[kind]
    examples = [case.component for case in cases.values() if type(case.component) is table[name]]
    for key, option in table[name].model_fields.items():
        given = [getattr(example, key) for example in examples]
        assert any(value != option.default for value in given), f"no example of {name} sets {key}"
        named = get_args(option.annotation) if get_origin(option.annotation) is Literal else ()
        assert set(named) <= set(given if named else ()), f"no example of {name} has every {key} of {named}"


def swapped(self: Clip, tokens: TokenRatios) -> tuple[Tensor, dict[str, Tensor]]:
    """The bounds change places where the advantage is negative: with equal ones nobody would see it."""
    bad = tokens.advantages < 0
    low, high = torch.where(bad, 1 - self.high, 1 - self.low), torch.where(bad, 1 + self.low, 1 + self.high)
    ratio = tokens.ratio(self.ratio)
    gain = torch.minimum(ratio * tokens.advantages, ratio.clamp(low, high) * tokens.advantages)
    return gain, {"clip_low": (ratio < low) & bad, "clip_high": (ratio > high) & (tokens.advantages > 0)}


WRONG = {
    "bounds that are swapped between signs": ("clip", Clip, "gain", swapped),
    "a clip that is open for what is bad": (
        "clip",
        Clip,
        "gain",
        lambda self, t: (t.ratio(self.ratio).clamp(1 - self.low, 1 + self.high) * t.advantages, {}),
    ),
    "a mark that is not declared": ("clip", Clip, "diagnostics", property(lambda self: ("clip_low",))),
    "a gradient through the weight": (
        "cispo",
        Cispo,
        "gain",
        lambda self, t: (t.log_ratio.exp() * t.advantages * t.logprobs, {}),
    ),
    "a mean over the whole batch": (
        "gmpo",
        Gmpo,
        "gain",
        lambda self, t: (t.advantages * t.log_ratio.mean().exp(), {}),
    ),
    "one temperature for both signs": (
        "sapo",
        Sapo,
        "gain",
        lambda self, t: (4 * (t.ratio("token") - 1).sigmoid() * t.advantages, {}),
    ),
    "the lowest entropies": (
        "forking",
        Forking,
        "select",
        lambda self, rows: [Selected(keeps_N=(r.entropies_N <= 1.0) & r.trainable_N) for r in rows],
    ),
    "a threshold of each row": (
        "kl_cov",
        KlCov,
        "select",
        lambda self, rows: [Selected(penalties_N=self.coef * (r.advantages_N == r.advantages_N.max())) for r in rows],
    ),
    "observed tokens count": (
        "clip_cov",
        ClipCov,
        "select",
        lambda self, rows: [Selected(keeps_N=r.old_logprobs_N * r.advantages_N < self.low) for r in rows],
    ),
    "a cap on the wrong side": (
        "truncate",
        Truncate,
        "importance",
        lambda self, w: (np.maximum(w, self.cap), w < self.cap),
    ),
    "weights over their mean": (
        "recompute",
        Recompute,
        "importance",
        lambda self, w: (w / w.mean(), np.zeros(len(w), np.bool_)),
    ),
    "rows without a token count": (
        "sequence_mean",
        SequenceMean,
        "divisor",
        lambda self, tokens_R, most: tokens_R[tokens_R > 0] * len(tokens_R),
    ),
    "the other direction": ("k3", K3, "value", lambda self, d: (-d).exp() + d - 1),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_matrix_catches_what_is_wrong(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its rules alone: no test of the component itself is asked."""
    name, owner, attribute, mutated = WRONG[what]
    monkeypatch.setattr(owner, attribute, mutated)
    [(_, cases, rules)] = [entry for entry in MATRIX.values() if name in entry[1]]
    caught = []
    for rule_name, rule in by_name(rules).items():
        try:
            rule(cases[name])
        except AssertionError:
            caught.append(rule_name)
    assert caught, what
