r"""The words behind a quantity: a unit, which is not part of its value, or words that are. Pure Python, linear time.

``\text{…}`` and a few words in plain letters are units, and so is any other noun (7 apples are 7), but not words that
change the value: 4 factorial, 3 in base 5, 4:30 p.m., 30° N, 5 million, 5 or more.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern
from outrider.verify.typography import TEXT

_SAYS_MORE = """
    hundred hundreds thousand thousands million millions billion billions trillion trillions dozen dozens half halves
    third thirds fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths
    hundredth hundredths thousandth thousandths millionth millionths twice double triple
    or and more less fewer than not no none nor but least most about almost over under between except
    unless rather percent percentage pct
    tens ones elevenths twelfths twentieths thirtieths billionth billionths trillionth trillionths
    factorial base mod modulo squared cubed root power plus minus times to pi if when where for remainder
    is are be was were has have
    am pm a.m p.m noon midnight bc bce ad ce zero one two three four five six seven eight nine ten eleven twelve
"""
_DIRECTIONS = """
    N S E W NE NW SE SW north south east west northeast northwest southeast southwest left right up down above below
    forward backward upward downward inward outward clockwise counterclockwise anticlockwise
    odd even prime composite positive negative rational irrational real
"""  # at the end: 3 units left, n even, but not 3 right angles
_SAME = """
mm millimeter millimeters millimetre millimetres
cm centimeter centimeters centimetre centimetres
m meter meters metre metres
km kilometer kilometers kilometre kilometres
in inch inches
ft foot feet
yd yard yards
mi mile miles
mg milligram milligrams
g gram grams
kg kilogram kilograms
lb lbs pound pounds
oz ounce ounces
s sec secs second seconds
min mins minute minutes
h hr hrs hour hours
day days
week weeks
month months
yr yrs year years
dollar dollars
cent cents
degree degrees
rad radian radians
ml milliliter milliliters millilitre millilitres
l liter liters litre litres
mph
kph
celsius
fahrenheit
"""
_CAPITALS = set("ACFJKLNTVW")  # units of one letter; others are letters, as in 2i and 3x
_MORE, _TOWARDS = frozenset(_SAYS_MORE.split()), frozenset(_DIRECTIONS.split())
_KNOWN = {word: line.split()[0] for line in _SAME.strip().splitlines() for word in line.split()}
_ALONE = "|".join(sorted((w for w in _KNOWN if len(w) > 2 or w in ("cm", "mm", "km", "kg", "mi", "ft", "in")), key=len))
_WORDS = rf"(?:(?:square|cubic|sq\.?|cu\.?)\s+)?(?:{_ALONE}|units?|points?|[a-z]*[aeiou][a-z]{{2,}}s|people|children)"
_POWER = r"(?:\s*\^\s*\{?([23])\}?)?"
_FONTED = late_pattern(rf"\s*(?:{TEXT}|\\mathrm)\s*\{{([^{{}}]*)\}}{_POWER}[.\s]*$")
_BARE = late_pattern(rf"(?<=[0-9}}\s])\s*({_WORDS}){_POWER}$", re.IGNORECASE)
_DEGREES = late_pattern(r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*$")
_TEENTHS = late_pattern(r"[a-z]+teenths?|[a-z]+tieths?", re.IGNORECASE)  # a numerator's other half
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_PER = late_pattern(r"\s*(?:/|\bper\b)\s*")


def split(text: str) -> tuple[str, str]:
    r"""A quantity and its unit, which is empty where there is none.

    >>> split(r"440\text{ square centimeters}"), split("7 apples"), split(r"45^\circ")
    (('440', 'square centimeters'), ('7', 'apples'), ('45', 'degree'))
    >>> split(r"4\text{ factorial}"), split(r"\text{Evelyn}"), split("2x")
    (('4\\text{ factorial}', ''), ('\\text{Evelyn}', ''), ('2x', ''))
    """
    text = text.strip()
    if degrees := _DEGREES.search(text):
        return text[: degrees.start()].strip(), "degree"
    match = _FONTED.search(text) or _BARE.search(text)
    if match is None or not text[: match.start()].strip() or not is_unit(match[1]):
        return text, ""
    quantity, unit = text[: match.start()].strip(), " ".join(match[1].split()) + (f"^{match[2]}" if match[2] else "")
    if degrees := _DEGREES.search(quantity):
        scale = {"C": "celsius", "F": "fahrenheit"}.get(unit.strip("."))
        return (quantity[: degrees.start()].strip(), f"degree {scale}") if scale else (text, "")
    return quantity, unit


def is_unit(words: str) -> bool:
    """Whether words only name what is counted.

    >>> is_unit(" cm"), is_unit("p.m."), is_unit(" in base 5"), is_unit("")
    (True, False, False, True)
    """
    if re.search(r"[0-9,;=<>\\]", words):
        return False
    every = [word.strip(".()-") for word in words.split()]
    if every and {every[-1], every[-1].casefold()} & _TOWARDS:
        return False
    if any(len(word) == 1 and word not in _KNOWN and word not in _CAPITALS for word in every):
        return False
    if every and every[0].casefold() not in ("squared", "cubed"):  # of a unit, as in cm squared
        every = [word for word in every if word.casefold() not in ("squared", "cubed")]
    return not any(word.casefold() in _MORE or _TEENTHS.fullmatch(word) for word in every)


def agree(one: str, other: str) -> bool:
    """Whether two units may be the same: no unit fits any, and one of fewer words one of more.

    >>> agree("cm", "centimeters"), agree("cm^2", "square centimeters"), agree("", "m"), agree("marbles", "red marbles")
    (True, True, True, True)
    >>> agree("cm", "m"), agree("in^2", "in^3"), agree("boys", "girls"), agree("degree", "radians")
    (False, False, False, False)
    """
    first, second = _canonical(one), _canonical(other)
    if first is not None and second is not None:
        return first == second
    if len({power for unit in (one, other) if (power := _power(unit))}) > 1:
        return False
    words, others = _words(one), _words(other)
    return words <= others or others <= words


def _words(unit: str) -> set[str]:
    """The words of a unit in one form each, without powers and the word unit, which fits any."""
    words = {word.strip(".,()") for word in unit.casefold().partition("^")[0].replace("/", " per ").split()}
    known = {_KNOWN.get(word, word.removesuffix("s")) for word in words - set(_POWERS)}
    return known - {"unit", "of", "the", "a", ""}


def _canonical(unit: str) -> str | None:
    """A unit in one form; None where there is none, or an unknown one."""
    unit = unit.casefold().replace("mph", "mi/h").replace("kph", "km/h")
    parts = [_simple(part) for part in _PER.split(unit)]
    return None if None in parts else "/".join(map(str, parts))


def _simple(unit: str) -> str | None:
    words = [word.strip(".") for word in unit.partition("^")[0].split()]
    known = [word for word in words if word not in _POWERS]
    if len(known) != 1 or known[0] not in _KNOWN:
        return None
    return _KNOWN[known[0]] + _power(unit)


def _power(unit: str) -> str:
    """The power of a unit, from a word or a sign; empty for none."""
    words, _, power = unit.casefold().partition("^")
    return power or next((_POWERS[word] for word in words.replace(".", " ").split() if word in _POWERS), "")
