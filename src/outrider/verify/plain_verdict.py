"""A verdict of other people's code, which goes to another process and to disk: its fields made plain."""

from __future__ import annotations

from outrider.record import Outcome, Verdict


def plain_verdict(said: object) -> Verdict:
    """A verdict of other people's code, its fields made plain.

    Raises:
        TypeError, ValueError: it is none, or a field is of another kind.
    """
    if not isinstance(said, Verdict):
        raise TypeError(f"its verdict is {type(said).__name__}, not a Verdict")
    texts = writable(said.answer), writable(said.detail)
    return Verdict(Outcome(said.outcome), float(said.score), float(said.seconds), *texts)


def writable(text: str) -> str:
    """A plain string without lone surrogates, which UTF-8 cannot hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")
