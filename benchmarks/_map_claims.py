"""The claims of the papers, row by row, beside the changes of their recipes in each setting of the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from _map_read import Results, change, final_change, largest

from outrider.bench.tables import NONE, as_change, markdown


def faster(found: Results, recipe: str) -> str:
    """GRPO's steps until it first has its final pass@1, divided by the recipe's steps until then; of the means."""
    grpo, there = (found["recipes"][name]["reached_pass@1_of_base"]["steps"] for name in ("grpo", recipe))
    if there is None:
        return "not reached"
    return f"{grpo / there:.1f} times" if there else NONE  # before any step: GRPO has not risen


def one(found: Results, recipe: str) -> str:
    """The change of pass@1 on the final test set."""
    return as_change(final_change(recipe, found, "pass@1"))


def one_at_equal_steps(found: Results, recipe: str) -> str:
    """The change of pass@1 after as many steps, on the problems of the curve."""
    return change(found["recipes"][recipe]["minus_base_at_equal_steps"]["pass@1"])


def greedy(found: Results, recipe: str) -> str:
    """The change of greedy accuracy on the final test set."""
    return as_change(final_change(recipe, found, "greedy"))


def most(found: Results, recipe: str) -> str:
    """The change of the largest pass@k on the final test set."""
    return as_change(final_change(recipe, found, largest(found)))


class Claim(NamedTuple):
    """What a paper reports of a recipe, with the paper's numbers, and what is measured of it here."""

    recipe: str
    of: str
    reported: str
    measured: Callable[[Results, str], str]


CLAIMS: Sequence[Claim] = (
    Claim("dars-hw-breadth", "pass@1 (Table 1: 1.5B, 7B)", "+0.028, +0.031", one),
    Claim("dars-hw-breadth", "pass@128; here the largest pass@k", "+0.026, +0.020", most),
    Claim("dars-hw", "pass@1 (Table 1: 1.5B, 7B)", "+0.004, +0.020", one),
    Claim("dars-hw", "the same, at equal steps", "+0.004, +0.020", one_at_equal_steps),
    Claim("dars-hw", "pass@128; here the largest pass@k", "+0.025, +0.021", most),
    Claim("xrpo", "pass@1 (abstract)", "up to +0.04", one),
    Claim("xrpo", "fewer steps to GRPO's pass@1 (section 4.2)", "2.4, 2.7 times", faster),
    Claim("deep-grpo", "greedy (Table 1, 8 rollouts; 16)", "+0.036, +0.018", greedy),
    Claim("deep-grpo", "pass@64 (Table 5; 16); here the largest pass@k", "+0.044, +0.039", most),
)


def claims(results: Mapping[str, Results]) -> str:
    """A row for each claim, a column for the comparison of each setting."""
    rows = []
    for claim in CLAIMS:
        there = [
            claim.measured(found, claim.recipe) if claim.recipe in found["recipes"] else NONE
            for found in results.values()
        ]
        if any(cell != NONE for cell in there):
            rows.append([claim.recipe, claim.of, claim.reported, *there])
    return markdown(["recipe", "of", "reported", *results], rows)
