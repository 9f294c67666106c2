"""Finds repeated texts: texts that are equal after normalising, or that have most of their n-grams in common."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outrider.record.normalised import normalised

Grams = frozenset[int]

ROUNDING = 1e-9  # tolerance, since for example 0.55 * 20 exceeds 11 in floating point

_TOKEN = re.compile(r"[a-z]+|\d+|[^\s${}\\]")


class NearPair(NamedTuple):
    """Two similar texts and their ``similarity``. ``first`` is an index into one list of texts, and ``second`` is an
    index into the other list, or into the same list."""

    first: int
    second: int
    similarity: float


def same(texts: Sequence[str], others: Sequence[str] | None = None) -> list[NearPair]:
    """Find texts that are equal except for case, spacing and Unicode variants. Each text is paired with the first text
    that equals it.

    Pairs are within ``texts`` if ``others`` is None, otherwise between ``texts`` and ``others``.

    >>> same(["Find x.", "find  X.", "Find y.", "FIND X."])
    [NearPair(first=0, second=1, similarity=1.0), NearPair(first=0, second=3, similarity=1.0)]
    """
    firsts: dict[str, int] = {}
    for i, text in enumerate(texts):
        firsts.setdefault(normalised(text), i)
    result = ((firsts.get(normalised(text)), j) for j, text in enumerate(texts if others is None else others))
    return [NearPair(i, j, 1.0) for i, j in result if i is not None and not (others is None and i == j)]


def grams(text: str, n: int) -> Grams:
    r"""Return hashes of the distinct n-grams (runs of ``n`` tokens) of a text. A text of fewer than ``n`` tokens has a
    single, shorter n-gram.

    A token is a run of letters a to z in any case, a run of digits, or any other single character. ``$``, braces and
    the backslash are not tokens, so ``$\frac{1}{2}$`` and ``\(\frac12\)`` are similar. Among two million different
    n-grams, the probability that any two have the same hash is 1e-7.

    >>> len(grams("Find x + 1, for $x$!", 2)), grams(r"$x$ IS {1}", 3) == grams("x is 1", 3)
    (7, True)
    """
    tokens = _TOKEN.findall(text.casefold())
    return frozenset(hash(tuple(tokens[i : i + n])) for i in range(max(1, len(tokens) - n + 1)))


def near(texts: Sequence[Grams], others: Sequence[Grams] | None, least: float) -> Iterator[NearPair]:
    r"""Yield all pairs of n-gram sets whose Jaccard similarity is at least ``least``.

    .. math:: J(A, B) = |A \cap B| / |A \cup B|

    Pairs are within ``texts`` if ``others`` is None, otherwise between ``texts`` and ``others``. No set may be empty.
    The search is exact.

    Source: the filter that avoids most comparisons is from Chaudhuri, Ganti and Kaushik (2006), and from Bayardo, Ma
    and Srikant, "Scaling up all pairs similarity search" (2007).
    """
    counts = Counter(gram for members in (texts if others is None else others) for gram in members)

    # Let the members of each set A be in a fixed order. If J >= t, the first |A| - ceil(t |A|) + 1 members of two sets
    # have a member in common, since the other members are too few. With the rarest members first, few pairs of sets
    # have one, and only those pairs are compared.
    def first(members: Grams) -> list[int]:
        kept = len(members) - math.ceil(least * len(members) - ROUNDING) + 1
        # hashes differ from run to run, but they only order members that are equally rare, so the pairs stay the same
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
    """Return the number of common members divided by the number of members in the union."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)
