"""Detects stop texts in sampled tokens without decoding the tokens, with an automaton that reads the bytes of each
token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from outrider.model.load import Policy
from outrider.record import Ids

StateTable = NDArray[np.int16]

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece's fallback token for a single byte
_MOST_STATES = np.iinfo(np.int16).max


class StopTable:
    r"""A search for stop texts, stored as a state-transition table. ``next_SV`` (int16) has the next state for every
    state and token.

    The search is an Aho-Corasick automaton over the UTF-8 bytes of the stop texts. It finds a stop text at any
    position, within one token or across several tokens. State 0 is the initial state. ``matched`` is the accepting
    state, which is absorbing. Special tokens add no text, so they do not change the state.

    >>> table = StopTable(["</a>"], [b"x</", b"a", b"a> and", b""])
    >>> state = table.after([0, 3])
    >>> [int(token) for token in (table.next_SV[state] == table.matched).nonzero()[0]]
    [2]
    """

    def __init__(self, stops: Sequence[str], token_bytes: Sequence[bytes]) -> None:
        step_SB = _automaton([stop.encode() for stop in stops])
        self.matched = len(step_SB) - 1
        self.next_SV = _per_token(step_SB, token_bytes)

    def after(self, ids: Iterable[int]) -> int:
        """Return the state of the stop-text search after the first tokens ``ids`` of a response. Stop texts that end
        within these tokens are ignored."""
        state = 0
        for token in ids:
            state = int(self.next_SV[state, token])
            # a branch may continue after a stop text; the accepting state would end the branch at its first token
            state = 0 if state == self.matched else state
        return state


class Stops:
    """What ends a response: the end tokens' ids, and a table for the stop texts if there are any. Both are stored on
    the sampling device."""

    def __init__(self, ids: Sequence[int], texts: StopTable | None, device: torch.device) -> None:
        self.ids = torch.tensor(ids, device=device)
        self._texts = texts
        self.table = None if texts is None else torch.from_numpy(texts.next_SV).to(device)
        self.matched = -1 if texts is None else texts.matched

    def after(self, prefix: Ids) -> int:
        """Return the state of the stop-text search after ``prefix``, the first tokens of a response, copied from
        another rollout."""
        return 0 if self._texts is None else self._texts.after(prefix)

    def ends(self, response: Ids) -> bool:
        """Whether the last token of a response is an end token or completes a stop text."""
        last = int(response[-1])
        matched = (
            self._texts is not None and self._texts.next_SV[self._texts.after(response[:-1]), last] == self.matched
        )
        return last in self.ids.tolist() or bool(matched)

    def step(self, states_A: Tensor, ids_A: Tensor) -> Tensor:
        """Advance the stop-text search of each row by one token, and return the new states."""
        assert self.table is not None
        return self.table[states_A, ids_A].long()


class Ends(NamedTuple):
    """The end tokens and stop texts of a response."""

    ids: list[int]
    texts: list[str]


def ends_of(policy: Policy, texts: Sequence[str] = ()) -> Ends:
    """Collect the end tokens of the tokenizer and of the model's generation config, and the stop texts ``texts``.

    A stop text that is a special token becomes an end token, since decoded responses exclude special tokens.
    """
    configured = getattr(policy.model.generation_config, "eos_token_id", None)
    more = configured if isinstance(configured, list) else [configured]
    special = special_tokens(policy.tokenizer) if texts else {}
    tokens = [policy.tokenizer.eos_token_id, *more, *(special[text] for text in texts if text in special)]
    return Ends(sorted({int(i) for i in tokens if i is not None}), [text for text in texts if text not in special])


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the special tokens, which decoded responses exclude, with their ids."""
    return {str(t): i for i, t in tokenizer.added_tokens_decoder.items() if t.special}


def token_bytes(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> list[bytes]:
    """Return the UTF-8 bytes that each token id adds to a response's text. Special tokens and unused ids add no
    bytes."""
    bytes_V = [b""] * vocabulary
    added = tokenizer.added_tokens_decoder
    as_bytes = _byte_level() if "ByteLevel" in tokenizer.backend_tokenizer.to_str().partition('"model":')[0] else None
    for token, index in tokenizer.get_vocab().items():
        if index >= vocabulary:
            continue
        if index not in added:
            bytes_V[index] = _bytes_of(token, as_bytes)
        elif not added[index].special:
            bytes_V[index] = token.encode()
    return bytes_V


def _bytes_of(token: str, as_bytes: Mapping[str, int] | None) -> bytes:
    if as_bytes is not None:
        return bytes(as_bytes[c] for c in token if c in as_bytes)
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()


def _byte_level() -> dict[str, int]:
    """Return the byte for each character of a byte-level vocabulary.

    A printable Latin-1 character represents its own byte. The other bytes are represented by the characters from U+0100
    on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (b for b in range(256) if b not in printable)
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def _automaton(stops: Sequence[bytes]) -> NDArray[np.int16]:
    """Return the next state for each state and byte, ``[S, 256]``.

    There is one state per prefix of a stop text. The last state is accepting and absorbing.
    """
    starts = {stop[:n] for stop in stops for n in range(len(stop))}
    # the empty prefix sorts first and is state 0; if one stop text begins with another, the search ends at the shorter
    # text
    prefixes = sorted(starts - set(stops), key=lambda prefix: (len(prefix), prefix))
    state_of = {prefix: i for i, prefix in enumerate(prefixes)}
    if len(prefixes) >= _MOST_STATES:
        raise ValueError(f"the stop texts have {len(prefixes)} beginnings, more than {_MOST_STATES}")
    matched = len(prefixes)
    step = np.zeros((matched + 1, 256), np.int16)
    step[matched] = matched
    for prefix, state in state_of.items():
        # any byte outside the stop texts leads back to state 0, which is already in the table
        for byte in set(b"".join(stops)):
            seen = prefix + bytes([byte])
            ended = any(seen.endswith(stop) for stop in stops)
            longest = next((seen[i:] for i in range(len(seen) + 1) if seen[i:] in state_of), b"")
            step[state, byte] = matched if ended else state_of[longest]
    return step


def _per_token(step_SB: NDArray[np.int16], token_bytes: Sequence[bytes]) -> StateTable:
    """Run the automaton from every state through every token's bytes. Each iteration handles one byte position, for all
    tokens at once.
    """
    lengths_V = np.array([len(b) for b in token_bytes])
    # longest tokens first, so that the tokens that have a further byte form one slice, and the loop runs over byte
    # positions instead of the vocabulary
    order = np.argsort(-lengths_V, kind="stable")
    width = int(lengths_V.max(initial=0))
    bytes_VL = np.frombuffer(b"".join(token_bytes[i].ljust(width, b"\0") for i in order), np.uint8).reshape(-1, width)
    states_SV = np.repeat(np.arange(len(step_SB), dtype=np.int16)[:, None], len(token_bytes), 1)
    for at in range(width):
        still = int(np.searchsorted(-lengths_V[order], -at, "left"))  # tokens longer than ``at``
        states_SV[:, :still] = step_SB[states_SV[:, :still], bytes_VL[:still, at]]
    table = np.empty_like(states_SV)
    table[:, order] = states_SV
    return table
