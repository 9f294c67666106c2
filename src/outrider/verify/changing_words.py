"""Lists words that change the value of a number beside them: ``7 dozen``, ``7 short`` and ``7 or more`` are not 7.

Any other word after a number is read as a noun for what is counted (:mod:`outrider.verify.units`). Therefore, if a word
that changes the value is missing from these lists, the verifier accepts wrong answers. Words that can also name things
are read as nouns: quarters (coins), pairs (but not "pairs of"), seconds, degrees.
"""

from __future__ import annotations

from outrider.texts import late_pattern

_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred hundreds thousand thousands thou million millions billion billions trillion trillions quadrillion
    mln bln mn bn mil lakh lakhs lac lacs crore crores myriad myriads googol grand
    tens ones twos threes fours fives sixes sevens eights nines
"""
_COLLECTIONS = """
    dozen dozens doz score scores gross grosses couple couples brace trio trios quartet quartets quintet sextet octet
    ream reams twins triplets quadruplets decade decades century centuries millennium millennia millenniums fortnight
    fortnights
"""  # each word means a fixed number of things
_SHARES = """
    half halves halved halving twice thrice double doubled doubles doubling triple tripled triples trebled treble
    quadruple quadrupled quintuple quintupled sextuple
"""
_MULTIPLES = """
    once times multiplied multiple third thirds fourth fourths fifth fifths sixth sixths seventh
    sevenths eighth eighths ninth ninths tenth tenths elevenths twelfths twentieths hundredth hundredths thousandth
    thousandths millionth millionths billionth billionths trillionth trillionths
    quartered divided split percent percentage pct permille permil bps ppm ppb
"""
_OPERATIONS = """
    factorial base mod modulo squared cubed root power plus minus inverse inverted reciprocal negated reversed rounded
    truncated log logarithm remainder to pi binary octal hexadecimal
"""
_DENIALS = """
    not no none nor never neither without isn't aren't wasn't weren't cannot can't don't doesn't
    wrong incorrect false untrue invalid mistaken impossible
"""
_SHORTFALLS = """
    short shy off lacking owing overdrawn deficit shortfall behind ago overdue
"""
_STATES = """
    missing absent lost owed debt loss late early undefined nonzero
    reduced increased decreased removed subtracted deducted
"""  # only as the last word: "7 minutes late" is not 7, but "7 missing tiles" is 7
_ESTIMATES = """
    more less fewer than many much few too least most about almost nearly approximately approx roughly around circa
    maybe perhaps possibly probably exceeding
"""
_BOUNDS = """
    or and over under between except unless rather but maximum minimum max min beyond within below above unknown
"""
_CLOCK = "am pm a.m p.m noon midnight bc bce ad ce"
_SENTENCES = "is are be was were has have if when where for"
_SUFFIXES = late_pattern(  # denominators, numbers and multiples
    r"[a-z]+teenths?|[a-z]+tieths?|[a-z]+illions?|[a-z]+illionths?|[a-z]*fold|(?:twen|thir|for|fif|six|seven|eigh|nine)ty-\w+"
    r"|half-\w+",
)
_PHRASES = late_pattern(r"\b(?:pairs?|couples?) of\b|\bbasis points?\b")
_LEADING = frozenset(" ".join((_DENIALS, _ESTIMATES, _SHARES)).split())
_AT_THE_END = frozenset(_STATES.split())
_BEHIND = _LEADING | frozenset(
    " ".join((_NUMBERS, _COLLECTIONS, _MULTIPLES, _OPERATIONS, _SHORTFALLS, _BOUNDS, _CLOCK, _SENTENCES)).split()
)


def changes_value(words: str) -> bool:
    """Return whether the words before a value negate or change it, as in "the answer is not" and "half of it is".

    >>> [changes_value(words) for words in ("the answer is not", "at most", "the remainder of 9 and 2 is")]
    [True, True, False]
    """
    return _any_of(words, _LEADING)


def is_no_noun(words: str) -> bool:
    """Return whether the words after a number change its value instead of naming what is counted.

    >>> [is_no_noun(words) for words in ("too many", "Dozen eggs", "pairs of socks", "apples", "ordered pairs")]
    [True, True, True, False, False]
    """
    if _PHRASES.search(words.casefold()) or _any_of(words, _BEHIND) or any(map(_is_number, words.split())):
        return True
    return bool(words.strip()) and _any_of(words.split()[-1], _AT_THE_END)


def _is_number(word: str) -> bool:
    return _SUFFIXES.fullmatch(word.casefold().strip(".,;:()-")) is not None


def _any_of(words: str, listed: frozenset[str]) -> bool:
    return any(word.strip(".,;:()-") in listed for word in words.casefold().split())
