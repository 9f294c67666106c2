"""Texts that are the same, or nearly so: equal after normalising, or with most of their n-grams in common."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outrider.record.normalised import normalised

Grams = frozenset[int]

ROUNDING = 1e-9  # 0.55 * 20 is above 11 in floating point

_TOKEN = re.compile(r"[a-z]+|\d+|[^\s${}\\]")


class NearPair(NamedTuple):
    """Member ``first`` of one list and member ``second`` of the other, or of the same list, and how alike they are."""

    first: int
    second: int
    similarity: float


def same(texts: Sequence[str], others: Sequence[str] | None = None) -> list[NearPair]:
    """Texts that are equal apart from case, spacing and Unicode variants, each with the first equal one.

    Within one list where ``others`` is None, else from ``texts`` to ``others``.

    >>> same(["Find x.", "find  X.", "Find y.", "FIND X."])
    [NearPair(first=0, second=1, similarity=1.0), NearPair(first=0, second=3, similarity=1.0)]
    """
    firsts: dict[str, int] = {}
    for i, text in enumerate(texts):
        firsts.setdefault(normalised(text), i)
    result = ((firsts.get(normalised(text)), j) for j, text in enumerate(texts if others is None else others))
    return [NearPair(i, j, 1.0) for i, j in result if i is not None and not (others is None and i == j)]


def grams(text: str, n: int) -> Grams:
    r"""The different runs of ``n`` tokens of a text, as hashes; a shorter text is one run of all its tokens.

    A token is a run of the letters a to z in any case, a run of digits, or any other sign alone. ``$``, braces and the
    backslash are none, so that ``$\frac{1}{2}$`` and ``\(\frac12\)`` differ in little. Two different runs have the
    same hash with a chance of 1e-7 in two million.

    >>> len(grams("Find x + 1, for $x$!", 2)), grams(r"$x$ IS {1}", 3) == grams("x is 1", 3)
    (7, True)
    """
    tokens = _TOKEN.findall(text.casefold())
    return frozenset(hash(tuple(tokens[i : i + n])) for i in range(max(1, len(tokens) - n + 1)))


def near(texts: Sequence[Grams], others: Sequence[Grams] | None, least: float) -> Iterator[NearPair]:
    r"""All pairs whose sets of n-grams have at least so much in common, by the measure of Jaccard.

    .. math:: J(A, B) = |A \cap B| / |A \cup B|

    Within one list where ``others`` is None, else from ``texts`` to ``others``; no set may be empty. Exact.

    Source: Chaudhuri et al. 2006 and Bayardo et al. 2007, "Scaling up all pairs similarity search", for the filter.
    """
    counts = Counter(gram for members in (texts if others is None else others) for gram in members)

    # For J >= t two sets must share one of the first |A| - ceil(t |A|) + 1 members of each, in any fixed order: the
    # rest alone is too small. With the rarest members first, few pairs do, and only these are compared.
    def first(members: Grams) -> list[int]:
        kept = len(members) - math.ceil(least * len(members) - ROUNDING) + 1
        # hashes differ from run to run; they only order equally rare members, so the pairs are the same
        return sorted(members, key=lambda gram: (counts[gram], gram))[:kept]

    firsts = [first(members) for members in texts]
    where: dict[int, list[int]] = defaultdict(list)
    for j, prefix in enumerate(firsts if others is None else map(first, others)):
        for gram in prefix:
            where[gram].append(j)
    for i, prefix in enumerate(firsts):
        for j in sorted({j for gram in prefix for j in where.get(gram, ()) if others is not None or j > i}):
            similarity = jaccard(texts[i], (texts if others is None else others)[j])
            if similarity >= least - ROUNDING:
                yield NearPair(i, j, similarity)


def jaccard(one: Grams, other: Grams) -> float:
    """Share of the members of either that both have."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)
