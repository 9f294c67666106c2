r"""Converts names without a backslash, and programming-language operators, to LaTeX.

Names such as ``pi`` in ``2*pi*r``, ``sqrt`` in ``sqrt(140)*t`` and ``oo`` in ``(-oo, 3]`` are not products of letters,
and ``x**2 >= 4`` contains two programming-language operators. A run of letters outside ``\text{…}``, commands and
indices is read as the first of these forms that fits:

1. a known name (``pi``, ``theta``, ``oo``, ``arctan``), with its arguments if it has any (``binomial(n,k)``);
2. functions with their arguments in the same run, possibly with letters before them: ``sinpi``, ``xlnx``,
   ``mgsin(theta)``;
3. a constant with one letter before it, one letter after it, or both: ``kpi``, ``2pir``;
4. a product of letters, if the run has at most three letters (``mgh``), has a capital after the first letter
   (``ABCD``), has no vowel after the first letter, or consists of neighbouring letters of the alphabet in order, with
   at most one missing (``abce``);
5. one symbol, for any other word (``base*height/2``). Such a word directly before a bracket, as in ``area(x)``, is an
   unknown function, which makes the answer unreadable.

A text that consists only of words, such as ``even`` or ``no solution``, does not change. The code is pure Python and
never raises an exception.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern
from outrider.verify.symbols import letter

LONGEST = 1000  # maximum characters of a text that is converted; a longer text is not an answer

_COMMANDS = "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot ln log exp"
_FUNCTIONS = {name: rf"\{name}" for name in _COMMANDS.split(" ")} | {
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "lg": r"\log_{10}",
    "tg": r"\tan",
    "ctg": r"\cot",
    "arctg": r"\arctan",
    "cosec": r"\csc",
    **{
        f"{arc}{name}h": rf"\operatorname{{arc{name}h}}" for arc in ("a", "ar", "arc") for name in ("sin", "cos", "tan")
    },
}
_GREEK = """alpha beta gamma delta epsilon varepsilon zeta theta vartheta iota kappa lambda sigma upsilon omega varphi
    Gamma Delta Theta Lambda Sigma Upsilon Omega"""
_SHORT_GREEK = "eta mu nu rho tau phi chi psi Phi Psi"  # but not xi, which may be x times i
_INFINITE = ("oo", "inf", "infty", "infinity", "Infinity", "Inf")
_CONSTANTS = {name: rf"\{name}" for name in _GREEK.split()} | dict.fromkeys(("pi", "Pi", "PI"), r"\pi")
_ALONE = {
    **_CONSTANTS,
    **{name: rf"\{name}" for name in _SHORT_GREEK.split()},
    **dict.fromkeys(_INFINITE, r"\infty"),
    **{name: rf"\{name}" for name in ("cdot", "leq", "geq", "neq", "pm", "emptyset")},
    "mod": r"\mod",
    "hbar": r"\hbar",
    "varepsilon": r"\epsilon",
    "varphi": r"\phi",
    "gamma": r"\hat{g}",  # another letter, since the parser reads \gamma as Euler's constant
}
_OF_LISTS = {"max": r"\max", "min": r"\min", "gcd": r"\gcd", "lcm": r"\operatorname{lcm}"}
_WITH_ARGUMENTS: dict[tuple[str, int], str] = {
    ("sqrt", 1): r"\sqrt{{{0}}}",
    ("cbrt", 1): r"\sqrt[3]{{{0}}}",
    ("root", 2): r"\sqrt[{1}]{{{0}}}",
    ("exp", 1): r"e^{{{0}}}",
    ("abs", 1): r"\lvert {0}\rvert ",
    ("floor", 1): r"\lfloor {0}\rfloor ",
    ("ceil", 1): r"\lceil {0}\rceil ",
    ("ceiling", 1): r"\lceil {0}\rceil ",
    ("factorial", 1): r"({0})!",
    ("binomial", 2): r"\binom{{{0}}}{{{1}}}",
    ("binom", 2): r"\binom{{{0}}}{{{1}}}",
    ("comb", 2): r"\binom{{{0}}}{{{1}}}",
    ("ncr", 2): r"\binom{{{0}}}{{{1}}}",
    ("rational", 2): r"\frac{{{0}}}{{{1}}}",
    ("fraction", 2): r"\frac{{{0}}}{{{1}}}",
    ("pow", 2): r"({0})^{{{1}}}",
    ("mod", 2): r"(({0})\mod({1}))",
    ("log", 2): r"\log_{{{1}}}({0})",
}
_TAKING = frozenset(name for name, _ in _WITH_ARGUMENTS)
_LATEX = "frac dfrac tfrac cfrac sqrt binom dbinom overline text mathrm mathbf boxed sum prod"
_LOST_BACKSLASH = frozenset(_LATEX.split(" "))

_TOKEN = late_pattern(  # text that does not change, or a run of letters
    r"\\(?:text\w*|mbox|hbox|emph|operatorname\*?|begin|end|math[a-z]+)\s*\{[^{}]*\}|\\{1,2}[A-Za-z]+|\\.|_\s*\{[^{}]*\}|_\w"
    r"|([A-Za-z]+)",
    re.DOTALL,
)
_TO_READ = late_pattern(r"[A-Za-z]{2}|(?<![A-Za-z0-9])[A-Za-z][0-9]|\^\s*-|\*\*|[<>=!]=|[\])]\s*U\s*[\[(]")
_WORDS = late_pattern(r"[(]?[A-Za-z]{2,}(?:[\s-]+[A-Za-z]+)*[)]?")
_POWER = late_pattern(r"\*\*\s*(?:([-+]?\s*(?:[0-9.]+|[A-Za-z]+(?![A-Za-z(]))(?![0-9A-Za-z]))|(?=\())?")
_COEFFICIENT = late_pattern(  # matches 4/3 pi r^3, but not 4/3x
    r"(?<![\w.^/)}])([0-9]+)/([0-9]+)\s+(?=[A-Za-z(]|\\(?:pi|sqrt|ln|log|sin|cos|tan|theta|alpha|beta|rho|mu|omega)\b)"
)
_UNION = late_pattern(r"(?<=[\])])\s*(?:U|u|union)\s*(?=[\[(])")
_MEMBER = late_pattern(r"(?<![A-Za-z\\])([A-Za-z])\s+in\s*(?=[\[({\\])")
_NEGATIVE = late_pattern(r"\^\s*(-\s*(?:[0-9.]*[0-9]|[A-Za-z](?![A-Za-z])))")
_NUMBER = r"(?:[0-9.]+|\\frac\{[0-9]+\}\{[0-9]+\}|[0-9]*\\sqrt\{[0-9]+\})"
_RATIO = late_pattern(rf"^\s*({_NUMBER})\s*(?:\\text\s*\{{\s*to\s*\}}|\bto\b)\s*({_NUMBER})\s*$")
_CHOOSE = late_pattern(r"(?<![A-Za-z0-9])([0-9]+|[A-Za-z])\s+choose\s+([0-9]+|[A-Za-z])(?![A-Za-z0-9])")
_RELATIONS = ((">=", r"\ge "), ("<=", r"\le "), (" !=", r"\ne "), ("==", "="))  # n!=6 is a factorial

_ANY_FUNCTION = "|".join(sorted(_FUNCTIONS, key=len, reverse=True))
_ANY_CONSTANT = "|".join(sorted(_CONSTANTS, key=len, reverse=True))
_IN_A_ROW = late_pattern(rf"([A-Za-z]?)((?:(?:{_ANY_FUNCTION})(?:{_ANY_CONSTANT}|[A-Za-z]))+)")
_ONE = late_pattern(rf"({_ANY_FUNCTION})({_ANY_CONSTANT}|[A-Za-z])")
_LAST = late_pattern(rf"([A-Za-z]{{1,3}}?)({_ANY_FUNCTION}|sqrt|abs)")
_BESIDE = late_pattern(rf"([A-Za-z]?)({_ANY_CONSTANT})([A-Za-z]?)")
_INDEXED = late_pattern(r"[0-9]{1,2}(?=$|[-+*/=,;)\]}\s<>])")  # x1, which is x_1 in code; but n2^n is a product
_REMARK = late_pattern(r"\(([A-Za-z][a-z]{2,}|e?s)\b")  # solution(s), Paris(France)
_MULTIPLE = late_pattern(r"[kmnrtx]pi")
_BETWEEN_DIGITS = late_pattern(r"pi([A-Za-z]{2})")


def latex(text: str) -> str:
    r"""Convert the names and operators of a text to LaTeX.

    >>> latex("2*pi*sqrt(L/g)"), latex("x**2 >= sinpi"), latex("(-oo,3]"), latex("mgh")
    ('2*\\pi *\\sqrt{L/g}', 'x^{2} \\ge  \\sin(\\pi)', '(-\\infty ,3]', 'mgh')
    >>> latex("even"), latex(r"\text{pi}"), latex("theta")
    ('even', '\\text{pi}', '\\theta ')
    """
    if len(text) > LONGEST:
        return text
    text = _COEFFICIENT.sub(r"\\frac{\1}{\2} ", text)
    if not _TO_READ.search(text):
        return text
    if _WORDS.fullmatch(text) and not _all_names(text):
        return text
    text = _POWER.sub(lambda m: f"^{{{m[1]}}}" if m[1] else "^", text)
    for written, command in _RELATIONS:
        text = text.replace(written, command)
    text = _RATIO.sub(r"\1:\2", _NEGATIVE.sub(r"^{\1}", text))
    text = _MEMBER.sub(r"\1\\in ", _UNION.sub(r"\\cup ", text))
    return _translated(_CHOOSE.sub(r"\\binom{\1}{\2}", text))


def unreadable(text: str) -> str:
    r"""Return the first unreadable function name in a text; empty if all function names can be read.

    >>> unreadable("erf(x)+1"), unreadable("abc(a+b+c)"), unreadable("sin(x)"), unreadable("Area(ABC) = 5")
    ('erf', '', '', '')
    """
    if len(text) > LONGEST or "(" not in text:
        return ""
    text = text.rpartition("=")[2]
    for token in _TOKEN.finditer(text):
        if token[1] and text[token.end() : token.end() + 1] == "(":
            read, _ = _name(text, token[1], token.start(), token.end())
            words = _REMARK.match(text, token.end())
            if read == letter(token[1]) and (words is None or _known(words[1])):
                return token[1]
    return ""


def _all_names(text: str) -> bool:
    """Return whether a text consists of known names and single letters, possibly without spaces: ``pi``, ``sin x``,
    ``xlnx``, but not ``cost``."""
    words = re.findall("[A-Za-z]+", text)
    names = [word for word in words if _known(word) or _MULTIPLE.fullmatch(word) or _is_row(word)]
    others = [word for word in words if word not in names]
    return (
        bool(names) and all(len(word) == 1 for word in others) and words[-1] not in {*_FUNCTIONS, *_OF_LISTS, *_TAKING}
    )


def _is_row(word: str) -> bool:
    """Return whether a word is a sequence of functions, each applied to x, to a constant, or to the letter before the
    sequence: ``sinxcosx``, ``nlogn``."""
    row = _IN_A_ROW.fullmatch(word)
    return row is not None and all(one[2] in ("x", row[1]) or one[2] in _CONSTANTS for one in _ONE.finditer(row[2]))


def _known(word: str) -> bool:
    return word in _ALONE or word in _FUNCTIONS or word in _OF_LISTS or word.casefold() in _TAKING


def _translated(text: str) -> str:
    parts: list[str] = []
    place = 0
    for token in _TOKEN.finditer(text):
        if token.start() < place:
            continue  # this token is inside arguments that have already been read
        parts.append(text[place : token.start()])
        place = token.end()
        if token[1] is None:
            parts.append(token[0])
            continue
        read, place = _name(text, token[1], token.start(), place)
        parts.append(read)
    return "".join([*parts, text[place:]])


def _name(text: str, run: str, start: int, end: int) -> tuple[str, int]:
    """Read a run of letters with its arguments. Return its LaTeX and its end offset."""
    following = text[end : end + 1]
    if len(run) == 1 and run not in "eEi" and (number := _INDEXED.match(text, end)) and not text[:start][-1:].isdigit():
        return f"{run}_{{{number[0]}}}", number.end()
    if following in ("{", "_", "[") and run in _LOST_BACKSLASH:
        return f"\\{run}", end
    if (prefix := _LAST.fullmatch(run)) and following == "(" and not _known(run):
        head, run = " ".join(prefix[1]) + " ", prefix[2]
    else:
        head = ""
    if following == "(" and (found := _arguments(text, end)) is not None:
        arguments, after = found
        if shape := _WITH_ARGUMENTS.get((run.casefold(), len(arguments))):
            return head + shape.format(*map(_translated, arguments)), after
    if run.casefold() == "sqrt" and (under := re.match(r"\s*([0-9.]+|[A-Za-z](?![A-Za-z])|\\?pi)", text[end:])):
        return rf"\sqrt{{{_translated(under[1])}}}", end + under.end()
    if run == "log" and (base := re.match(r"(2|10)\(", text[end:])):
        return rf"{head}\log_{{{base[1]}}}", end + len(base[1])
    if text[max(start - 1, 0) : start].isdigit() and (beside := _BETWEEN_DIGITS.fullmatch(run)):
        return rf"\pi {' '.join(beside[1])}", end
    return head + _run(run, following), end


def _run(run: str, following: str) -> str:
    """Return the LaTeX of a run of letters that has no arguments in brackets."""
    lowered = run[0].lower() + run[1:]
    if run in _ALONE:
        return _ALONE[run] + ("" if following == "(" else " ")
    for names in (_FUNCTIONS, _OF_LISTS):
        if (name := run if run in names else lowered if following == "(" else "") in names:
            return names[name] + ("" if following in ("(", "_", "^", "{") else " ")
    if row := _IN_A_ROW.fullmatch(run):
        # with brackets, since sinx/x is not sin(x/x); but sinx^2 is sin(x^2)
        shape = "{} {} " if following == "^" else "{}({}) "
        read = (shape.format(_FUNCTIONS[one[1]], _CONSTANTS.get(one[2], one[2])) for one in _ONE.finditer(row[2]))
        return " ".join([*row[1], *read]).rstrip()
    if beside := _BESIDE.fullmatch(run):
        return f"{beside[1]}{_CONSTANTS[beside[2]]} {beside[3]}"
    return run if _is_product(run, following == "(") else letter(run)


def _is_product(run: str, before_bracket: bool) -> bool:
    """Return whether a run's letters are separate factors, not one symbol."""
    neighbours = list(run) == sorted(set(run)) and ord(run[-1]) - ord(run[0]) <= len(run)
    if len(run) < 3 or run.isupper() or neighbours:
        return True
    if before_bracket:
        return False
    return len(run) == 3 or not re.search("[aeiou]", run[1:].lower()) or not (run.islower() or run.istitle())


def _arguments(text: str, opening: int) -> tuple[list[str], int] | None:
    """Return the arguments in the brackets that open at ``opening``, and the end offset; None if the brackets are not
    closed."""
    depth, start, found = 0, opening + 1, []
    for place in range(opening, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 1 and text[place] == ",":
            found.append(text[start:place].strip())
            start = place + 1
        elif depth == 0:
            found.append(text[start:place].strip())
            return (found, place + 1) if all(found) else None
    return None
