"""A signal in the middle of the imports of a command."""

from __future__ import annotations

import signal
import sys

import pytest

from outrider.cli import main


class _Interrupted:
    """A finder that is asked for a module, and sends a signal before anybody finds it."""

    def __init__(self, module: str, number: signal.Signals) -> None:
        self.module, self.number, self.sent = module, number, 0

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.module:
            self.sent += 1
            signal.raise_signal(self.number)


def waits_for_the_end_of_the_import(
    monkeypatch: pytest.MonkeyPatch, command: list[str], module: str, number: signal.Signals = signal.SIGINT
) -> None:
    """Assert it of a command that imports torch by a module: C++ calls Python there, and must not be raised in."""
    finder = _Interrupted(module, number)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell put into the background
    try:
        assert main(command) == 128 + number
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert finder.sent == 1
    assert module in sys.modules
