r"""Reads products of units, as written in LaTeX: ``9.8\,\mathrm{m/s^2}``, ``5\ \text{N}\cdot\text{m}``.

Only known units are read, so ``2\mathrm{e}^{x}`` and ``\text{if}`` do not change. The code is pure Python and runs in
linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from outrider.texts import late_pattern
from outrider.verify.typography import TEXT

LONGEST = 120  # maximum characters of a unit with its typesetting

_FONT = rf"(?:{TEXT}|\\mathrm|\\operatorname|\\rm(?![A-Za-z]))"
_BEGIN = late_pattern(
    rf"(?<=[0-9}}) ])(?:\\mu\s*)?{_FONT}|(?<=[0-9] )\\Omega(?![A-Za-z])|(?<=[0-9])\\Omega(?![A-Za-z])"
)
_TIMES = late_pattern(r"\\(?:cdot|times|ast)(?![A-Za-z])|\*")
_POWER = late_pattern(r"\s*\^\s*\{?\s*(-?\s*[1-9])\s*\}?")
_LETTERS = ((r"\mu", "u"), (r"\Omega", "ohm"), (r"\AA", "angstrom"))
_DEGREE = ("\\circ", "\\circ}")
_PREFIXED = re.compile(rf"{_FONT}\s*\{{\s*([kMGmun])\s*\}}\s*\\Omega(?![A-Za-z])")
_FACTORS = {"Nm": ("N", "m")}
_WORD = re.compile(r"([A-Za-z]+)((?:\^-?[1-9])?)")
_PER = re.compile(r"\s*(?:/|\bper\b)\s*")


def compound(text: str, known: Callable[[str], object]) -> tuple[str, str] | None:
    r"""Split a quantity from the product of units after it. Return None if there are no units, or if a word is not a
    unit.

    Args:
        known: function that returns whether a word is a unit.

    >>> compound(r"9.8\mathrm{m/s^2}", "m s kg".split().count), compound(r"5\text{ kg} \cdot \text{m}", "m kg".count)
    (('9.8', 'm/s^2'), ('5', 'kg m'))
    """
    begin = _BEGIN.search(text)
    if begin is None or len(text) - begin.start() > LONGEST:
        return None
    quantity = text[: begin.start()].strip()
    tail = _PREFIXED.sub(r"\\text{\1ohm}", text[begin.start() :])
    tail = re.sub(_FONT, " ", _POWER.sub(lambda power: f"^{power[1].replace(' ', '')} ", tail))
    for command, letter in _LETTERS:
        tail = re.sub(rf"\{command}(?![A-Za-z])\s*[{{ ]*", letter, tail)
    tail = " ".join(_TIMES.sub(" ", re.sub(r"[{}()~]|\\[ ,;:]", " ", tail)).replace(" ^", "^").split()).rstrip(". ")
    tail = tail.replace(" /", "/").replace("/ ", "/")
    words = [_WORD.fullmatch(word) for part in _PER.split(tail) for word in part.split()]
    if not quantity or quantity.endswith(_DEGREE) or not words or not all(word and known(word[1]) for word in words):
        return None
    if re.fullmatch("[A-Za-z]+", tail) and not any(command in text for command, _ in _LETTERS):
        return None  # the module units reads a single unit in the same way as any other noun
    return quantity, tail


def canonical(unit: str, name: Callable[[str], str | None]) -> str | None:
    """Convert a product of units to a canonical order and form; return None if a word is not a unit.

    >>> canonical("m/s^2", str), canonical("s^-2 m", str), canonical("kg m per s", str)
    ('m^1 s^-2', 'm^1 s^-2', 'kg^1 m^1 s^-1')
    """
    powers: Counter[str] = Counter()
    for place, part in enumerate(_PER.split(unit)):
        for word in part.split():
            found = _WORD.fullmatch(word)
            known = name(found[1]) if found else None
            if found is None or known is None:
                return None
            for factor in _FACTORS.get(known, (known,)):
                powers[factor] += int(found[2][1:] or 1) * (-1 if place else 1)
    return " ".join(f"{known}^{power}" for known, power in sorted(powers.items()) if power) or None
