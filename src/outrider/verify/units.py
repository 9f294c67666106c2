r"""Splits a quantity from the words after it, unless these words change the value of the quantity.

Text in ``\text{…}``, the known names of units such as ``cm``, and other nouns are units, so "7 apples" has the value 7.
Words that change the value are not units: 4 factorial, 3 in base 5, 4:30 p.m., 30° N, 5 million, 5 or more. The code is
pure Python and runs in linear time.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern
from outrider.verify import si_units, unit_products
from outrider.verify.changing_words import is_no_noun
from outrider.verify.typography import TEXT

_DIRECTIONS = """
    N S E W NE NW SE SW north south east west northeast northwest southeast southwest left right up down above below
    forward backward upward downward inward outward clockwise counterclockwise anticlockwise
    odd even prime composite positive negative rational irrational real
"""  # only as the last word: 3 units left, n even, but not 3 right angles
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
degree degrees deg
rad radian radians
ml milliliter milliliters millilitre millilitres
l liter liters litre litres
mph
kph
celsius
fahrenheit
"""
_CAPITALS = set("ACFJKLNTVW")  # units of one capital letter; other letters are variables, as in 2i and 3x
_TOWARDS = frozenset(_DIRECTIONS.split())
_KNOWN = {word: line.split()[0] for line in _SAME.strip().splitlines() for word in line.split()}
_ALONE = "|".join(sorted((w for w in _KNOWN if len(w) > 2 or w in ("cm", "mm", "km", "kg", "mi", "ft", "in")), key=len))
_WORDS = rf"(?:(?:square|cubic|sq\.?|cu\.?)\s+)?(?:{_ALONE}|units?|points?|[a-z]*[aeiou][a-z]{{2,}}s|people|children)"
_POWER = r"(?:\s*\^\s*\{?([23])\}?)?"
_FONTED = late_pattern(rf"\s*(?:{TEXT}|\\mathrm)\s*\{{([^{{}}]*)\}}{_POWER}[.\s]*$")
_BARE = late_pattern(rf"(?<=[0-9}}\s])\s*({_WORDS}){_POWER}$", re.IGNORECASE)
_RATE = late_pattern(r"([-+]?[0-9][0-9.,]*) +([A-Za-z]+(?:\^[23])?/[A-Za-z]+(?:\^[23])?)")  # 9.8 m/s^2, without a font
_SCALE = late_pattern(r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*([CF])\s*$")
_DEGREES = late_pattern(r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*$")
_SIGNS = {"Omega": "ohm", "mu": "u"}
_SIGNED = late_pattern(r"\\(Omega|mu)(?![A-Za-z])\s*")
_SCALES = {"C": "celsius", "F": "fahrenheit"}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_HOURLY = late_pattern(r"\b[mk]ph\b", re.IGNORECASE)
_PER = late_pattern(r"\s*(?:/|\bper\b)\s*")


def split(text: str) -> tuple[str, str]:
    r"""Split a text into a quantity and its unit, which is empty if the quantity has no unit.

    >>> split(r"440\text{ square centimeters}"), split("7 apples"), split(r"45^\circ")
    (('440', 'square centimeters'), ('7', 'apples'), ('45', 'degree'))
    >>> split(r"4\text{ factorial}"), split(r"\text{Evelyn}"), split("2x")
    (('4\\text{ factorial}', ''), ('\\text{Evelyn}', ''), ('2x', ''))
    """
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and text.count("(") == 1 and "," not in text:
        inside = split(text[1:-1])
        return inside if inside[1] else (text, "")
    if degrees := _DEGREES.search(text):
        return text[: degrees.start()].strip(), "degree"
    if scaled := _SCALE.search(text):
        return text[: scaled.start()].strip(), _SCALES[scaled[1]]
    if "\\" in text and (product := unit_products.compound(text, _name)):
        return product
    if (bare := _RATE.fullmatch(text)) and unit_products.canonical(bare[2], _name):
        return bare[1], bare[2]
    match = _FONTED.search(text) or _BARE.search(text)
    words = _SIGNED.sub(lambda sign: _SIGNS[sign[1]], match[1]) if match else ""
    if match is None or not text[: match.start()].strip() or not is_unit(words):
        return text, ""
    quantity, unit = text[: match.start()].strip(), " ".join(words.split()) + (f"^{match[2]}" if match[2] else "")
    if degrees := _DEGREES.search(quantity):
        scale = _SCALES.get(unit.strip("."))
        return (quantity[: degrees.start()].strip(), scale) if scale else (text, "")
    return quantity, unit


def is_unit(words: str) -> bool:
    """Return whether words only name what is counted, without changing the value of the number.

    >>> is_unit(" cm"), is_unit("p.m."), is_unit(" in base 5"), is_unit("")
    (True, False, False, True)
    """
    if re.search(r"[0-9,;=<>\\]", words):
        return False
    every = [word.strip(".()-") for word in words.split()]
    if every and {every[-1], every[-1].casefold()} & _TOWARDS:
        return False
    if any(len(word) == 1 and word.isascii() and word not in _KNOWN and word not in _CAPITALS for word in every):
        return False
    if every and every[0].casefold() not in ("squared", "cubed"):  # the power of a unit, as in cm squared
        every = [word for word in every if word.casefold() not in ("squared", "cubed")]
    return not is_no_noun(" ".join(every))


def agree(one: str, other: str) -> bool:
    """Return whether two units may be the same. An empty unit matches every unit, and either unit may have additional
    words.

    >>> agree("cm", "centimeters"), agree("cm^2", "square centimeters"), agree("", "m"), agree("marbles", "red marbles")
    (True, True, True, True)
    >>> agree("cm", "m"), agree("in^2", "in^3"), agree("boys", "girls"), agree("mW", "MW")
    (False, False, False, False)
    """
    first, second = _product(one), _product(other)
    if first is not None and second is not None:
        return first == second
    if len({power for unit in (one, other) if (power := _power(unit))}) > 1:
        return False
    words, others = _words(one), _words(other)
    return words <= others or others <= words


def _product(unit: str) -> str | None:
    """Return a unit, or a product of units, in canonical form; None if a unit is unknown."""
    simple = _canonical(unit)  # this includes square cm, mph and degrees Celsius
    if simple is None:
        return unit_products.canonical(unit, _name)
    return unit_products.canonical(re.sub(r"(?<=[A-Za-z])(?=-?[0-9])", "^", simple), str)


def _words(unit: str) -> set[str]:
    """Return the words of a unit in canonical form, without powers and without the word "unit", which matches every
    unit."""
    words = {word.strip(".,()") for word in unit.casefold().partition("^")[0].replace("/", " per ").split()}
    known = {_KNOWN.get(word, word.removesuffix("s")) for word in words - set(_POWERS)}
    return known - {"unit", "of", "the", "a", ""}


def _canonical(unit: str) -> str | None:
    """Return a unit, or a quotient of two units, in canonical form; None if the text is empty or not a known unit."""
    unit = _HOURLY.sub(lambda match: {"m": "mi/h", "k": "km/h"}[match[0][0].casefold()], unit)
    parts = [_simple(part) for part in _PER.split(unit)]
    return None if None in parts else "/".join(map(str, parts))


def _simple(unit: str) -> str | None:
    """Return a single unit with its power. The case of letters distinguishes mW from MW."""
    words = [word.strip(".") for word in unit.partition("^")[0].split()]
    known = [word for word in words if word.casefold() not in _POWERS]
    if len(known) == 2 and known[0].casefold() in ("degree", "degrees") and _name(known[1]) in _SCALES.values():
        del known[0]
    name = _name(known[0]) if len(known) == 1 else None
    return None if name is None else name + _power(unit)


def _name(word: str) -> str | None:
    return si_units.symbol(word) or _KNOWN.get(word.casefold())


def _power(unit: str) -> str:
    """Return the power of a unit, read from an exponent or from a word such as "square"; empty if the unit has no
    power."""
    words, _, power = unit.casefold().partition("^")
    return power or next((_POWERS[word] for word in words.replace(".", " ").split() if word in _POWERS), "")
