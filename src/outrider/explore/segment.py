"""Segmenters, which define where a response may be cut, and at which cuts a branch may start."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from outrider.explore.surroundings import Surroundings
from outrider.explore.view import Engine
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record import Rollout
from outrider.record.turns import sampled

Mark = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentedRollout:
    """A rollout that may be branched. Positions count response tokens: a cut at ``t`` keeps ``response_ids[:t]``.

    Attributes:
        rollout: the rollout. In a branch, cuts may also lie in the prefix that the branch shares with its parent.
        bounds: positions at which segments end, in ascending order, with ``0 < t < T``. The start and the end of a
            response are not included.
        candidates: the bounds at which a branch may start; see :meth:`Segmenter.chain`.
    """

    rollout: Rollout
    bounds: Sequence[int]
    candidates: Sequence[int]

    @property
    def length(self) -> int:
        """Number of response tokens (``T``), including the prefix that a branch shares with its parent."""
        return self.rollout.branch_at + len(self.rollout.token_ids)


class Segmenter(Options):
    """Cuts a response into segments at token positions, without decoding and re-encoding its text."""

    answer_marks: list[Mark] = Field(
        [],
        description=(
            "strings that announce an answer, such as \\boxed or ####; no rollout branches off after the first such "
            "string in a response"
        ),
    )

    def bounds(self, token_texts: Sequence[str], sampled_T: NDArray[np.bool_]) -> list[int]:
        """Return the segment ends, each in ``0 < t < T``, ascending.

        Args:
            token_texts: the text of each response token; empty unless the segmenter ``requires`` texts.
            sampled_T: whether the policy sampled each token; False for tokens of observations.
        """
        raise NotImplementedError

    def check(self, around: Surroundings) -> None:
        """Raise ValueError, when a recipe is read, if the segmenter would never cut a response."""

    @property
    def requires(self) -> Needs:
        """Optional engine features that the segmenter needs: ``texts``, the text of each token."""
        return frozenset({"texts"}) if self.answer_marks else NOTHING

    def chain(
        self, rollout: Rollout, relatives: Mapping[str, Rollout], engine: Engine, taken: Container[int] = ()
    ) -> SegmentedRollout:
        """Return the rollout with its segment ends, and with those segment ends (candidates) at which a branch may
        start. A segment end ``t`` is a candidate if

        - ``t`` lies after the rollout's own branch point, since earlier tokens belong to the parent;
        - the token at ``t`` was sampled, since a branch must not write observations;
        - ``response_ids[:t]`` contains none of ``answer_marks``, since a response with two answers rarely succeeds;
        - ``t`` is not in ``taken``: no branch of an earlier round starts there.

        A candidate always leaves at least one token of the response for a branch to sample.

        Args:
            relatives: the group's rollouts by id. A branch's prefix may contain observations of these rollouts.
            taken: positions of this rollout at which branches already start.
        """
        sampled_T = sampled(rollout, relatives)
        token_texts = engine.token_texts(rollout.response_ids) if "texts" in self.requires else []
        bounds = self.bounds(token_texts, sampled_T)
        answered = min((t for mark in self.answer_marks for t in _ends(token_texts, [mark])), default=len(sampled_T))
        candidates = [t for t in bounds if rollout.branch_at < t < answered and sampled_T[t] and t not in taken]
        return SegmentedRollout(rollout, bounds, candidates)


class Chunk(Segmenter):
    """Cuts every ``tokens`` tokens; the last segment may be shorter. With ``tokens: 1``, branches may start at every
    token.

    Source: DEEP-GRPO (arXiv 2602.14169) section 4.1; 50 is the released code's default, and the paper gives no value.

    >>> Chunk(tokens=2).bounds([], np.ones(6, bool))
    [2, 4]
    """

    tokens: int = Field(50, ge=1, description="length of each segment in tokens; the last segment may be shorter")

    def check(self, around: Surroundings) -> None:
        if self.tokens >= around.max_tokens:
            raise ValueError(
                f"cuts responses every {self.tokens} tokens, but responses have at most {around.max_tokens} "
                "(sample.max_tokens), so none would ever be cut"
            )

    def bounds(self, token_texts: Sequence[str], sampled_T: NDArray[np.bool_]) -> list[int]:
        return list(range(self.tokens, len(sampled_T), self.tokens))


class Delimiter(Segmenter):
    """Cuts after each token that completes one of ``marks``, whatever else the token contains.

    For example, the mark ``"."`` causes a cut after the token ``".\\n"``. DEEP-GRPO's released code does not cut after
    this token, because the code compares token ids with the id of ".". The joined text of the tokens is searched for
    marks from left to right. Marks do not overlap, and longer marks take precedence. A mark may also span several
    tokens. A response without a mark is one segment; AttnRL instead cuts such responses at lines or, without lines, at
    tokens. Source: DEEP-GRPO (arXiv 2602.14169) section 4.1.

    >>> Delimiter(marks=["."]).bounds(["a", ".\\n", "b", ".", "c"], np.ones(5, bool))
    [2, 4]
    """

    marks: list[Mark] = Field(
        ["."], min_length=1, description="strings after which a segment ends, such as a full stop or a line break"
    )

    @property
    def requires(self) -> Needs:
        return frozenset({"texts"})

    def bounds(self, token_texts: Sequence[str], sampled_T: NDArray[np.bool_]) -> list[int]:
        return sorted({t for t in _ends(token_texts, self.marks) if t < len(token_texts)})


class Turns(Segmenter):
    """Cuts at an agent's turns: where an observation ends and the policy continues. A response of a single turn is one
    segment.

    Source: the Think-Action-Observation steps of DEEP-GRPO (arXiv 2602.14169, section 4.1), which are also the nodes of
    Tree-GRPO.

    >>> Turns().bounds([], np.array([True, True, False, False, True]))
    [4]
    """

    def check(self, around: Surroundings) -> None:
        if not around.turns:
            raise ValueError(
                f"cuts rollouts at their turns, but task {around.task!r} has single-turn rollouts: use another "
                "segmenter, chunk or delimiter"
            )

    def bounds(self, token_texts: Sequence[str], sampled_T: NDArray[np.bool_]) -> list[int]:
        return [int(t) + 1 for t in np.flatnonzero(~sampled_T[:-1] & sampled_T[1:])]


SEGMENTERS: dict[str, type[Segmenter]] = {"chunk": Chunk, "delimiter": Delimiter, "turns": Turns}


def _ends(token_texts: Sequence[str], marks: Sequence[str]) -> list[int]:
    """Return the number of tokens up to the end of each occurrence of a mark, ascending."""
    pattern = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))
    characters = np.cumsum([len(text) for text in token_texts])
    ends = [match.end() for match in re.finditer(pattern, "".join(token_texts))]
    return [int(t) + 1 for t in np.searchsorted(characters, ends)]
