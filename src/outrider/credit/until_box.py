r"""Credit up to the first ``\boxed{…}``: tokens after the answer get no advantage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import token_texts_of
from outrider.needs import Needs
from outrider.texts import tokens_until_box


class UntilBox(Shaper):
    r"""Sets the advantage to 0 for every token after the token that closes the first ``\boxed{…}``.

    The token with the closing brace is the last token that keeps its advantage, whatever else this token contains. Only
    the response's trainable tokens are searched for ``\boxed{…}``. The verifier must use the first box as well
    (``boxes: first``); otherwise an incorrect answer that is corrected later would be imitated.

    Degenerate cases: a response without a closed box does not change.

    Source: rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1, which removes "any content that
    followed the first boxed marker". Our choice: the box itself keeps its advantage, since it contains the answer. No
    end token is added after the box, and a sampled end token gets no advantage, so only tokens up to the end of the box
    are imitated. (The report does not say whether its fine-tuning appends an end token.) Tokens without advantage still
    count in the loss's denominators.

    >>> m = Members(
    ...     np.array([1.0]), np.array([True]), np.array([5]),
    ...     token_texts_GT=[np.array(["so ", "\\boxed{", "4", "}.", "<end>"])],
    ... )
    >>> UntilBox().shape([np.ones(5)], m, 1)[0].tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """

    requires: ClassVar[Needs] = frozenset({"texts"})

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [_cut(a, list(p)) for a, p in zip(advantages_GT, token_texts_of(members, "until_box"), strict=True)]


def _cut(advantages_T: Floats, token_texts: Sequence[str]) -> Floats:
    return np.where(np.arange(len(advantages_T)) < tokens_until_box(token_texts), advantages_T, 0.0)
