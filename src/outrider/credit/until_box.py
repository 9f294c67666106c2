r"""Credit that ends with the first ``\boxed{…}``: what follows an answer is not imitated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import pieces_of
from outrider.texts import first_box_end


class UntilBox(Shaper):
    r"""Takes the advantage of every token behind the one that closes the first box.

    Token-exact: the token with the closing brace is the last one that keeps its advantage, whatever else is in it, and
    the end token behind an answer has none. Tokens stay in denominators. Of a branch, own tokens alone are looked at.

    Degenerate cases: a response without a closed box keeps everything.

    Source: rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1, which removes "any content that
    followed the first boxed marker"; decided: the box itself stays, or there would be no answer.

    >>> m = Members(
    ...     np.array([1.0]), np.array([True]), np.array([5]),
    ...     pieces_GT=[np.array(["so ", "\\boxed{", "4", "}.", "<end>"])],
    ... )
    >>> UntilBox().shape([np.ones(5)], m, 1)[0].tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """

    reads_pieces: ClassVar[bool] = True

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [_cut(a, list(p)) for a, p in zip(advantages_GT, pieces_of(members, "until_box"), strict=True)]


def _cut(advantages_T: Floats, pieces: Sequence[str]) -> Floats:
    end = first_box_end("".join(pieces))
    if end is None:
        return advantages_T.copy()
    begins_T = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])[:-1]])
    return np.where(begins_T < end, advantages_T, 0.0)
