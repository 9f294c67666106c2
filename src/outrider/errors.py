"""The exceptions that mean "the user can fix this"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in a recipe, a file or a command; its text is the one sentence the user is shown.

    The command line prints it without a traceback and exits with status 2. Anything else that escapes is a bug
    and keeps its traceback.
    """


class EngineLostError(UserError):
    """Nothing is left that could go on sampling or training; what was saved can be resumed."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint that ends a sentence about an unknown name.

    >>> nearest("uniforn", ["uniform", "refill"])
    "did you mean 'uniform'?"
    >>> nearest("zzz", ["uniform", "refill"])
    'known: refill, uniform'
    >>> nearest("gpro", ["gspo", "grpo"])
    "did you mean 'grpo'?"
    """
    names = sorted(known)
    # letters that changed places are one slip of the fingers, and two edits
    close = [name for name in names if sorted(name) == sorted(word)] or difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
