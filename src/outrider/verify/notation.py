r"""Rewrites a formula in the other notation: LaTeX as code, or code as LaTeX.

Gold answers use both notations. If the verifier cannot read a gold answer, it still accepts responses with the same
text. To find such gold answers, ``outrider validate`` also verifies each gold answer in the other notation.
"""

from __future__ import annotations

import re

_FUNCTIONS = ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec", "csc", "ln")
_LETTERS = (*("alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "rho", "sigma", "tau", "phi", "omega", "pi"),)
_SIGNS = {r"\cdot": "*", r"\times": "*", r"\infty": "oo", r"\le": "<=", r"\ge": ">=", r"\leq": "<=", r"\geq": ">="}
_CODE = {"**": "^", "*": r"\cdot ", "<=": r"\le ", ">=": r"\ge "}
_COMMAND = re.compile(r"\\[a-zA-Z]+|\\.")
_WORD = re.compile(r"[a-zA-Z]{2,}")
_OTHERWISE = re.compile(
    r"\d\s*\\frac|\\frac\s*\{\s*(?:d|\\partial)(?![a-zA-Z])|\\frac\s*\{\s*d\s*[a-zA-Z]|_|\^\s*\\circ"
)
"""Mixed numbers, derivatives, indices and degrees. In a formula with one of these, a fraction or a sign may have
another meaning."""
_KNOWN = frozenset({*_FUNCTIONS, *_LETTERS, "sqrt", "exp", "oo"})


def in_other_notation(formula: str) -> str | None:
    r"""Rewrite LaTeX as code, or code as LaTeX. Return None if the formula is the same in both notations.

    The result is also None if the formula contains anything except fractions, roots, powers, common functions and Greek
    letters, since rewriting could change its meaning. The function runs in linear time.

    >>> in_other_notation(r"\frac{\pi}{6}+2\cdot\sqrt{3}"), in_other_notation("3*cos(2*t)")
    ('(( pi )/(6))+2*sqrt(3)', '3\\cdot \\cos(2\\cdot t)')
    >>> in_other_notation("17"), in_other_notation(r"\text{yes}"), in_other_notation("perhaps")
    (None, None, None)
    """
    text = formula.strip().strip("$").replace(r"\left", "").replace(r"\right", "").replace(r"\,", "")
    return _as_code(text) if "\\" in text else _as_latex(text)


def _as_code(text: str) -> str | None:
    text = re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", text)
    text = text.replace(r"\ ", " ")
    commands = set(_COMMAND.findall(text))
    known = {rf"\{name}" for name in (*_FUNCTIONS, *_LETTERS)} | {r"\frac", r"\sqrt", *_SIGNS}
    if not commands or commands - known or _WORD.search(_COMMAND.sub(" ", text)) or _OTHERWISE.search(text):
        return None
    return _written(text)


def _written(text: str) -> str | None:
    """Rewrite commands as names and braces as brackets; return None if this is not possible."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith(r"\frac", at):
            above = _group(text, at + 5)
            below = None if above is None else _group(text, above[1])
            if above is None or below is None or (inner := _both(above[0], below[0])) is None:
                return None
            parts.append("(({})/({}))".format(*inner))
            at = below[1]
        elif text.startswith(r"\sqrt", at):
            under = _group(text, at + 5)
            if under is None or (root := _written(under[0])) is None:
                return None
            parts.append(f"sqrt({root})")
            at = under[1]
        elif text[at] == "{":
            found = _group(text, at)
            if found is None or (inside := _written(found[0])) is None:
                return None
            # an exponent keeps its braces, which both notations allow
            parts.append(f"{{{inside}}}" if text[:at].rstrip().endswith("^") else f"({inside})")
            at = found[1]
        elif command := _COMMAND.match(text, at):
            name, at = command[0][1:], command.end()
            if name in _FUNCTIONS and not text[at:].lstrip().startswith(("(", "{")):
                return None  # without brackets, the end of the argument is ambiguous
            parts.append(f" {name} " if name in _LETTERS else _SIGNS.get(command[0], f" {name}"))
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)


def _both(first: str, second: str) -> tuple[str, str] | None:
    one, two = _written(first), _written(second)
    return None if one is None or two is None else (one, two)


def _group(text: str, at: int) -> tuple[str, int] | None:
    """Return the content of the braces that open at ``at``, and the end offset; None if the braces are not closed."""
    if at >= len(text) or text[at] != "{":
        return None
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1 : end], end + 1
    return None


def _as_latex(text: str) -> str | None:
    words = set(_WORD.findall(text))
    if words - _KNOWN or not (words or any(sign in text for sign in _CODE)):
        return None
    if (roots := _roots(text)) is None:
        return None
    for sign, command in _CODE.items():
        roots = roots.replace(sign, command)
    return _WORD.sub(_named, roots)


def _named(word: re.Match[str]) -> str:
    before = word.string[word.start() - 1 : word.start()]
    name = {"oo": "infty"}.get(word[0], word[0])
    return word[0] if before == "\\" else f"\\{name}"


def _roots(text: str) -> str | None:
    """Replace the brackets of roots with braces; return None if the brackets do not close."""
    while (at := text.find("sqrt(")) >= 0:
        depth = 0
        for end in range(at + 4, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                text = f"{text[:at]}\\SQRT{{{text[at + 5 : end]}}}{text[end + 1 :]}"
                break
        else:
            return None
    return text.replace(r"\SQRT", r"\sqrt")
