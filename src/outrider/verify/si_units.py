"""Recognises SI units with prefixes: mW and milliwatts are the same unit, but MW is a different unit."""

from __future__ import annotations

from functools import cache

_PREFIXES = {
    "giga": "G",
    "mega": "M",
    "kilo": "k",
    "hecto": "h",
    "deci": "d",
    "centi": "c",
    "milli": "m",
    "micro": "u",
    "nano": "n",
    "pico": "p",
    "femto": "f",
    "tera": "T",
    "peta": "P",
}
_BASES = {
    "watt": "W",
    "volt": "V",
    "ampere": "A",
    "amp": "A",
    "hertz": "Hz",
    "joule": "J",
    "newton": "N",
    "pascal": "Pa",
    "farad": "F",
    "henry": "H",
    "coulomb": "C",
    "tesla": "T",
    "weber": "Wb",
    "kelvin": "K",
    "mole": "mol",
    "lumen": "lm",
    "becquerel": "Bq",
    "sievert": "Sv",
    "ohm": "ohm",
    "electronvolt": "eV",
    "calorie": "cal",
    "byte": "B",
    "bar": "bar",
    "parsec": "pc",
    "gram": "g",
    "meter": "m",
    "metre": "m",
    "second": "s",
    "liter": "l",
    "litre": "l",
}


def symbol(word: str) -> str | None:
    """Return the symbol of a unit, given its name in any case or its symbol in the correct case; None for other words.

    >>> symbol("mW"), symbol("MW"), symbol("Milliwatts"), symbol("kilohertz"), symbol("apples")
    ('mW', 'MW', 'mW', 'kHz', None)
    """
    known = _symbols()
    return known.get(word) or known.get(word.casefold()) or known.get(word.casefold().removesuffix("s"))


@cache
def _symbols() -> dict[str, str]:
    """Map all names and symbols of units, with each prefix, to the symbol. Symbols keep their case: mw is not a
    unit."""
    found: dict[str, str] = {}
    for name, base in _BASES.items():
        found |= {name: base, base: base}
        found |= {long + name: short + base for long, short in _PREFIXES.items()}
        found |= {short + base: short + base for short in _PREFIXES.values()}
        found |= {sign + base: "u" + base for sign in "\u00b5\u03bc"}
    for taken in ("min", "ft", "pt", "cd", "ha", "h", "d"):
        found.pop(taken, None)
    return found | {"L": "l", "mL": "ml", "Nm": "Nm"}  # Nm is not nm
