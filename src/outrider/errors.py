"""Exceptions for mistakes that the user can fix."""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in a recipe, a file or a command. The exception's message is one sentence for the user.

    The command line prints only this sentence, without a traceback, and exits with status 2. Any other uncaught
    exception is a bug and keeps its traceback.
    """


class EngineLostError(UserError):
    """Raised if no engine is left for sampling or training. The run can be resumed from its last checkpoint."""


def portable(error: Exception) -> Exception:
    """Return the exception if another process can unpickle it, otherwise a RuntimeError with its message.

    >>> portable(UserError("no such file"))
    UserError('no such file')
    >>> class Own(Exception):  # of a module that the other process cannot import
    ...     pass
    >>> Own.__module__ = "gone"
    >>> portable(Own("lost"))
    RuntimeError('Own: lost')
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - copying a third-party exception may raise any error
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for the end of an error message about an unknown name.

    >>> nearest("uniforn", ["uniform", "refill"])
    "did you mean 'uniform'?"
    >>> nearest("zzz", ["uniform", "refill"])
    'known: refill, uniform'
    >>> nearest("gpro", ["gspo", "grpo"])
    "did you mean 'grpo'?"
    """
    names = sorted(known)
    # two swapped letters are a single mistake, although difflib counts two edits
    close = [name for name in names if sorted(name) == sorted(word)] or difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
