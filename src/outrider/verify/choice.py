r"""The multiple-choice verifier, which reads the letter of an option in any formatting, or the text of an option.

The verifier reads the last of these parts in a response:

- a complete ``\boxed{…}``
- a line with a label ("Answer:", ``####``), or the paragraph below this line
- a sentence that says which option is right

If a response has none of these parts, the verifier reads the last line, provided that this line contains only an
option. In a truncated response, only a complete ``\boxed{…}`` is read. The code is pure Python, runs in linear time,
and never raises an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from outrider.errors import nearest
from outrider.record import Problem, Verdict, correct, incorrect, unparseable
from outrider.texts import box_spans
from outrider.verify.answer_lines import last_answer_line
from outrider.verify.answers import last_boxes, normalise, number, shown
from outrider.verify.choice_letter import LONGEST, bare, read_choice
from outrider.verify.choice_sentences import LONGEST_LINE, stating_sentences
from outrider.verify.verifier import Verifier, text_of

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class MultipleChoice(Verifier):
    r"""Accepts a response if it states the right option.

    A row contains its options in several fields or in one field. One field may contain a list, an object with option
    labels as keys, or an object with the lists ``label`` and ``text``. If ``options`` is not set, only letters are
    read. A response is unparseable if it states two different options, or the letter of one option and the text of
    another.
    """

    options: str | list[str] | None = Field(
        None,
        description=(
            "table field with the answer options, as a list such as [cat, dog] or an object such as {A: cat, B: dog}; "
            "or several table fields, each with one answer option; null: accept only letters"
        ),
    )
    index: Literal[0, 1] | None = Field(
        None,
        description=(
            "number (0 or 1) of the first option if gold answers are option numbers; null: gold answers are option "
            "letters or option texts"
        ),
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> dict[str, Any]:
        """Return the label of the right option, and all options keyed by label (None if ``options`` is not set)."""
        options = None if self.options is None else options_of(fields, self.options)
        labels = list(LETTERS) if options is None else list(options)
        gold = text_of(fields, answer).strip()
        if not gold:
            raise ValueError(f"the field {answer!r} holds no answer")
        label = label_of(gold, options) if self.index is None else self._at(gold, labels, answer)
        if label is None:
            known = "a letter" if options is None else f"one of {', '.join(labels)} or the text of an option"
            hint = "; index: 0 or 1 reads positions" if gold.isdigit() else ""
            raise ValueError(f"the answer {gold[:80]!r} is not {known}{hint}")
        return {"label": label, "options": options}

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        gold, options = problem.answer["label"], problem.answer["options"]
        stated = stated_choice(text, finished, options)
        if stated is None:
            return unparseable("no option is stated" if finished else "truncated before an option was stated")
        if len(stated) > LONGEST:
            return unparseable(f"{len(stated)} characters, at most {LONGEST} are read")
        given, other = _read(stated, options)
        if given is None:
            return unparseable(f"no letter or text of an option: {shown(stated)[:80]}")
        if other:
            return unparseable(f"two options: {given} and {other}")
        return correct(given) if given == gold else incorrect(given)

    def right(self, problem: Problem) -> str:
        return f"\\boxed{{{problem.answer['label']}}}"

    def _at(self, gold: str, labels: list[str], answer: str) -> str:
        first = self.index or 0
        if not re.fullmatch("[0-9]{1,4}", gold) or not 0 <= int(gold) - first < len(labels):
            raise ValueError(
                f"the field {answer!r} holds {gold[:40]!r}, no position from {first} to {first + len(labels) - 1}"
            )
        return labels[int(gold) - first]


def options_of(fields: Mapping[str, Any], names: str | list[str]) -> dict[str, str]:
    """Return the options of a row, keyed by label.

    Raises:
        ValueError: there are fewer than two options, or the field with the options has an unknown format.

    >>> options_of({"choices": {"label": ["A", "B"], "text": ["cat", "dog"]}}, "choices")
    {'A': 'cat', 'B': 'dog'}
    >>> options_of({"choices": ["cat", "dog"]}, "choices"), options_of({"a": "cat", "b": 2}, ["a", "b"])
    ({'A': 'cat', 'B': 'dog'}, {'A': 'cat', 'B': '2'})
    """
    if isinstance(names, list):
        return _labelled([text_of(fields, name) for name in names], "options")
    if names not in fields:
        raise ValueError(f"no field {names!r} ({nearest(names, fields)})")
    held = fields[names]
    if isinstance(held, Mapping) and isinstance(held.get("label"), list) and isinstance(held.get("text"), list):
        if len(held["label"]) != len(held["text"]):
            raise ValueError(f"the field {names!r} has {len(held['label'])} labels and {len(held['text'])} texts")
        pairs = zip(held["label"], held["text"], strict=True)
        held = {str(label): text for label, text in pairs}
    if isinstance(held, Mapping):
        return _enough({str(label).strip(): text_of(held, label) for label in held}, names)
    if isinstance(held, list) and all(isinstance(one, Mapping) and {"label", "text"} <= set(one) for one in held):
        return _enough({str(one["label"]).strip(): text_of(one, "text") for one in held}, names)
    if isinstance(held, list):
        return _labelled([text_of({names: one}, names) for one in held], names)
    raise ValueError(f"the field {names!r} holds {json.dumps(held, default=str)[:40]}, no list or object of options")


def _labelled(texts: list[str], name: str) -> dict[str, str]:
    """Label options by letters. A label at the start of a text is removed: ``A. cat`` becomes ``cat``."""
    if len(texts) > len(LETTERS):
        raise ValueError(f"{name!r} has {len(texts)} options, at most {len(LETTERS)} have letters")
    own = [read_choice(text) for text in texts]
    if all(one is not None and one.label == letter and one.text for one, letter in zip(own, LETTERS, strict=False)):
        texts = [one.text for one in own if one is not None]
    return _enough(dict(zip(LETTERS, texts, strict=False)), name)


def _enough(options: dict[str, str], name: str) -> dict[str, str]:
    if len(options) < 2:
        raise ValueError(f"{name!r} has {len(options)} options, and a choice needs two")
    return options


def label_of(gold: str, options: Mapping[str, str] | None) -> str | None:
    """Return the label of the option that a gold answer names by its label, its text, or both; None if it names no
    option.

    >>> label_of("(b)", None), label_of("C. 12", None), label_of("dog", {"A": "cat", "B": "dog"}), label_of("dog", None)
    ('B', 'C', 'B', None)
    """
    if options is not None and (by_text := _by_text(gold, options)):
        return by_text
    choice = read_choice(gold, list(options or ()))
    if choice is None or choice.other or (options is not None and choice.label not in options):
        return None
    return choice.label


def stated_choice(text: str, finished: bool, options: Mapping[str, str] | None = None) -> str | None:
    r"""Return the part of a response that states an option; None if no part does.

    >>> stated_choice("Since \\boxed{D} seems right, look again.\n\nAnswer: B", True)
    'B'
    >>> stated_choice("A train leaves at noon. The answer is (C), since it is late.", True)
    '(C), since it is late'
    """
    stated: list[tuple[int, str]] = []
    if boxes := [begin for begin, _ in box_spans(text)]:
        contents = [content for content in last_boxes(text) if content.strip()]
        stated += [(max(boxes), ", ".join(contents))] if contents else []
    if finished:
        line, paragraph = last_answer_line(text), last_answer_line(text, below=True)
        if paragraph != line and paragraph is not None and _read(paragraph[1], options)[0] is not None:
            line = paragraph
        stated += [line] if line is not None else []
        stated += stating_sentences(text, lambda said: _read(said, options)[0] is not None)
    if stated:
        return max(stated, key=lambda found: found[0])[1]
    return _last_line(text, options) if finished else None


def _last_line(text: str, options: Mapping[str, str] | None) -> str | None:
    """Return the last line that is not blank, if this line is an option; otherwise None."""
    lines = text.rstrip()[-LONGEST_LINE:].splitlines()
    last = lines[-1].strip().removeprefix(">").strip() if lines else ""  # Markdown quotations begin with >
    return last if last and _read(last, options)[0] is not None else None


def _read(stated: str, options: Mapping[str, str] | None) -> tuple[str | None, str]:
    """Return the stated label, or None if there is no label. Also return the second label if the text states two,
    otherwise an empty text."""
    known = options or {}
    if by_text := _by_text(stated, known):
        return by_text, ""
    choice = read_choice(stated, [label for label in known if label not in LETTERS])
    if choice is None:
        return None, ""
    of_text = _by_text(choice.text, known) if choice.text else ""
    return choice.label, choice.other or (of_text if of_text and of_text != choice.label else "")


def _by_text(text: str, options: Mapping[str, str]) -> str:
    """Return the label of the option with this text; empty if no option or several options have this text."""
    found = [label for label, option in options.items() if _same_text(text, option)]
    return found[0] if len(found) == 1 else ""


def _same_text(one: str, other: str) -> bool:
    first, second = bare(one).casefold().rstrip("."), bare(other).casefold().rstrip(".")
    if first == second != "" or normalise(first) == normalise(second) != "":
        return True
    value = number(other)
    return value is not None and number(one) == value
