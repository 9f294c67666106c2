"""Words that change the value beside which they stand, by kind: ``7 dozen``, ``7 short`` and ``7 or more`` are not 7.

Every other word behind a number is taken for what is counted (:mod:`outrider.verify.units`), so a kind that is missing
here is a false accept. Words that name things as well are nouns here: quarters (coins), pairs (but not "pairs of"),
seconds, degrees.
"""

from __future__ import annotations

from outrider.texts import late_pattern

_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred hundreds thousand thousands million millions billion billions trillion trillions quadrillion quadrillions
    mln bln mn bn lakh lakhs crore crores myriad myriads googol grand tens ones
"""
_COLLECTIONS = """
    dozen dozens score scores gross grosses couple couples brace trio trios quartet quartets quintet sextet octet
    decade decades century centuries millennium millennia millenniums fortnight fortnights
"""  # each is a number of things
_MULTIPLES = """
    once twice thrice times double doubled doubles doubling triple tripled triples trebled treble quadruple quadrupled
    quintuple quintupled sextuple multiplied multiple multiples each apiece every
    half halves halved halving third thirds fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
    ninth ninths tenth tenths elevenths twelfths twentieths hundredth hundredths thousandth thousandths millionth
    millionths billionth billionths trillionth trillionths quartered divided split percent percentage pct
    permille permil
"""
_OPERATIONS = """
    factorial base mod modulo squared cubed root roots power powers plus minus inverse inverted reciprocal reciprocals
    negated reversed rounded truncated log logarithm remainder to pi
"""
_NEGATIONS = """
    not no none nor never neither without non isn't aren't wasn't cannot can't don't doesn't
    wrong incorrect false untrue invalid mistaken impossible undefined
    short off missing lacking absent lost owed owing overdrawn debt deficit loss shortfall behind ago late early overdue
"""
_BOUNDS = """
    or and more less fewer than many much few too least most about almost nearly over under between except unless rather
    but approximately approx roughly around circa maximum minimum max min beyond within exceeding below above
    maybe perhaps possibly probably unknown
"""
_CLOCK = "am pm a.m p.m noon midnight bc bce ad ce"
_SENTENCES = "is are be was were has have if when where for"
_SUFFIXES = late_pattern(  # a numerator's other half, numbers, and multiples
    r"[a-z]+teenths?|[a-z]+tieths?|[a-z]+illions?|[a-z]+illionths?|[a-z]*fold|(?:twen|thir|for|fif|six|seven|eigh|nine)ty-\w+"
    r"|half-\w+|non-\w+",
)
_OF = late_pattern(r"\b(?:pairs?|sets?|groups?|couples?|lots|teams?|packs?|rows?|boxes|bags) of\b")
CHANGING = frozenset(" ".join((_NUMBERS, _COLLECTIONS, _MULTIPLES, _OPERATIONS, _NEGATIONS, _BOUNDS, _CLOCK)).split())
_NO_NOUNS = CHANGING | frozenset(_SENTENCES.split())


def changes_value(words: str) -> bool:
    """Whether any word of a phrase changes the value beside it.

    >>> [changes_value(words) for words in ("too many", "Dozen eggs", "pairs of socks", "apples", "ordered pairs")]
    [True, True, True, False, False]
    """
    return _any_of(words, CHANGING)


def is_no_noun(words: str) -> bool:
    """The same of what stands behind a number, where parts of a sentence are no nouns either."""
    return _any_of(words, _NO_NOUNS)


def _any_of(words: str, listed: frozenset[str]) -> bool:
    words = words.casefold()
    every = (word.strip(".,;:()-") for word in words.split())
    return bool(_OF.search(words)) or any(word in listed or _SUFFIXES.fullmatch(word) for word in every)
