"""Every line of the comparison with verl and TRL is zero to 1e-6, or is so once its reason is accounted for."""

from __future__ import annotations

import pytest

from compare import TOLERANCE, Comparison
from compare.credit import ADVANTAGES
from compare.far import BOUNDS, FAR
from compare.losses import LOSSES

pytest.importorskip("verl", reason="needs verl and TRL: docs/use-outside.md")
pytest.importorskip("trl", reason="needs verl and TRL: docs/use-outside.md")


EVERY = [*ADVANTAGES, *LOSSES, *(line._replace(theirs=f"far: {line.theirs}") for line in FAR)]


@pytest.mark.parametrize("line", EVERY, ids=lambda line: line.theirs)
def test_a_line_agrees_or_says_why(line: Comparison) -> None:
    raw, explained = line.compare()
    assert explained <= TOLERANCE
    assert raw <= TOLERANCE or line.why


def test_every_bound_is_one_of_a_line():
    assert BOUNDS.keys() <= {line.theirs for line in FAR}
