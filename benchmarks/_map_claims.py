"""The papers' headline figures, row by row, beside what the same recipe shows in each setting of the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from _map_read import Results, change, largest

from outrider.bench.tables import NONE, markdown


def faster(found: Results, recipe: str) -> str:
    """GRPO's steps over those after which the recipe has GRPO's last pass@1."""
    reached = found["recipes"][recipe]["reached_pass@1_of_base"]["steps"]
    last = found["recipes"]["grpo"]["points"][-1]["steps"]["value"]
    return "not reached" if reached is None else f"{last / reached:.1f} times"


def kept(found: Results, recipe: str, quantity: str) -> str:
    """The change from GRPO's on the untouched problems, or on the others where a bench has none."""
    where = found if found["untouched"] is None else found["untouched"]
    return change(where["recipes"][recipe]["minus_base"][quantity])


def one(found: Results, recipe: str) -> str:
    return kept(found, recipe, "pass@1")


def most(found: Results, recipe: str) -> str:
    return kept(found, recipe, largest(found))


class Claim(NamedTuple):
    recipe: str
    of: str
    reported: str
    measured: Callable[[Results, str], str]


CLAIMS: Sequence[Claim] = (
    Claim("dars-hw-breadth", "pass@1 (Table 1, 1.5B and 7B)", "+0.028, +0.031", one),
    Claim("dars-hw-breadth", "pass@128; here the largest k", "+0.026, +0.020", most),
    Claim("dars-hw", "pass@1 (Table 1)", "+0.004, +0.020", one),
    Claim("dars-hw", "pass@128", "+0.025, +0.021", most),
    Claim("xrpo", "pass@1 (abstract)", "up to +0.04", one),
    Claim("xrpo", "fewer steps to GRPO's pass@1 (section 5)", "2.4 to 2.7 times", faster),
    Claim("deep-grpo", "pass@1 (Table 1)", "+0.036", one),
    Claim("deep-grpo", "pass@128 (Table 5)", "+0.045", most),
)


def claims(results: Mapping[str, Results]) -> str:
    """A row for each figure, a column for each setting."""
    rows = []
    for claim in CLAIMS:
        there = [
            claim.measured(found, claim.recipe) if claim.recipe in found["recipes"] else NONE
            for found in results.values()
        ]
        if any(cell != NONE for cell in there):
            rows.append([claim.recipe, claim.of, claim.reported, *there])
    return markdown(["recipe", "of", "reported", *results], rows)
