"""Reads Inspect's logs: ``.eval`` (a ZIP with a file per sample) and ``.json`` (one object).

The format is that of inspect_ai 0.3.285, log version 2: a header with ``eval`` (``task``, ``model``) and, for each
sample and epoch, ``id``, ``epoch``, ``input``, ``target``, ``messages``, ``output``, ``scores``, ``model_usage``,
``error``, ``limit``, ``attachments``. Samples in the ZIP are compressed with deflate or, in newer versions, with
Zstandard.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from outrider.importers.apart import EvaluationSource, kept_apart, labels
from outrider.importers.archive import entries
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.jsonobject import CutOffError, members
from outrider.importers.lines import in_form, opened
from outrider.importers.notes import Notes
from outrider.importers.success import outcome_of
from outrider.importers.table import ImportedRow
from outrider.record.verdict import Outcome

STOPS = {"stop": "stop", "max_tokens": "length", "model_length": "context"}
OF_THE_MODEL = ("invalid_response_format", "refusal", "no_response")  # no score because of the model
_SAMPLE = re.compile(r"samples/.*_epoch_\d+\.json", re.DOTALL)
_HEADERS = ("header.json", "_journal/start.json")


def recognises(head: Head) -> bool:
    """Whether a file is a ZIP with a log's header, or an object with ``version``, ``status`` and ``eval``."""
    if head.kind == "zip":
        return not head.names.isdisjoint(_HEADERS)
    return head.kind == "json" and {"version", "status", "eval"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield Inspect's samples, one row per epoch (one of several responses to the same sample). The epochs of a sample
    form a group. A problem is identified by the sample's task (the test set) and the sample's id.

    If there is only one scorer, its score determines the outcome: C or 1 means correct, I or 0 means incorrect, and N
    means unparseable. Partial credit and other numbers do not determine an outcome. If the scorer failed (score NaN),
    the outcome is ``unparseable`` if the response was the cause, such as a refusal, and ``error`` otherwise. Logs of
    several models, and several logs of one task, are kept separate.
    """
    apart = labels({path: _source(path) for path in paths}, notes)
    for path in paths:
        header: dict[str, Any] = {}
        for key, value, where in _members(path, notes):
            with in_form(where, "Inspect"):
                if key != "samples":
                    header = value
                    continue
                row = _row(value, header, where, notes)
            yield row._replace(values=kept_apart(row.values, apart[path]))


def _members(path: Path, notes: Notes) -> Iterator[tuple[str, Any, str]]:
    """Yield the header, then the samples, each with its location in the file for error messages."""
    with opened(path) as file:
        start = file.read(2)
    return (_archive if start == b"PK" else _object)(path, notes)


def _source(path: Path) -> EvaluationSource:
    """Return the model and the task of a log from its header."""
    # separate notes, which are discarded: rows() reads the log again and counts truncated logs
    header = next((value for key, value, _ in _members(path, Notes()) if key == "eval"), None)
    known = header if isinstance(header, Mapping) else {}
    return EvaluationSource(str(known.get("model") or ""), str(known.get("task") or ""), path.stem)


def _archive(path: Path, notes: Notes) -> Iterator[tuple[str, Any, str]]:
    """Yield the header, then the samples; if a sample was logged twice, only its last record is yielded."""
    names = dict.fromkeys(name for name in _HEADERS)
    samples = []
    for name, data in entries(path, lambda name: name in names or name.startswith("samples/")):
        if name in _HEADERS:
            names[name] = data
        else:
            samples.append((name, data))
    # header.json is written when a log is finished; an interrupted log has only _journal/start.json
    start = next((read for read in names.values() if read is not None), None)
    if start is not None:
        yield "eval", json.loads(start())["eval"], str(path)
    chunked = [name for name, _ in samples if name.count("/") > 1 and name.endswith("/sample.json")]
    if chunked:
        notes.count("sample was skipped, as it is chunked", "samples were skipped, as they are chunked", len(chunked))
    for name, read in samples:
        if _SAMPLE.fullmatch(name):  # a sample's id may contain slashes
            with in_form(f"{path}, {name}", "Inspect"):
                sample = json.loads(read())
            yield "samples", sample, f"{path}, {name}"


def _object(path: Path, notes: Notes) -> Iterator[tuple[str, Any, str]]:
    number = 0
    with opened(path) as file, TextIOWrapper(file, encoding="utf-8") as text, in_form(str(path), "Inspect"):
        try:
            for key, value in members(text, each="samples"):
                number += key == "samples"
                if key in ("eval", "samples"):
                    yield key, value, f"{path}, sample {number}" if number else str(path)
        except CutOffError:
            notes.count("log was read up to where it is truncated", "logs were read up to where they are truncated")


def _row(sample: Mapping[str, Any], header: Mapping[str, Any], where: str, notes: Notes) -> ImportedRow:
    resolved = _resolved(sample)
    prompt, response = _parts(resolved)
    output = resolved.get("output") or {}
    choice = (output.get("choices") or [{}])[0]
    error = sample.get("error") or {}
    scores = {name: score for name, score in (resolved.get("scores") or {}).items() if isinstance(score, Mapping)}
    values = {
        "split": "evaluate",
        "problem": sample["id"],
        "test_set": header.get("task"),
        "prompt": resolved.get("input") or prompt,
        "text": response or output.get("completion"),
        "tokens": _tokens(response, output, sample, header),
        "stop": STOPS.get(choice.get("stop_reason", "")),
        "detail": error.get("message"),
        **_verified(scores, notes),
    }
    if error:
        notes.count("sample ended in an error and was not verified", "samples ended in an error and were not verified")
    named = {name: score.get("value") for name, score in scores.items()}
    return ImportedRow(values, {**sample, **named}, where)


def _parts(sample: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the messages before the model's first message, and all later messages."""
    messages = sample.get("messages") or []
    own = (i for i, m in enumerate(messages) if m.get("role") == "assistant" and m.get("source") != "input")
    first = next(own, len(messages))
    return messages[:first], messages[first:]


def _verified(scores: Mapping[str, Mapping[str, Any]], notes: Notes) -> dict[str, Any]:
    if not scores:
        return {}
    if len(scores) > 1:
        notes.say(f"There are several scorers, and none is used as success: {', '.join(scores)}.")
        return {}
    ((name, score),) = scores.items()
    value = score.get("value")
    results = {"answer": score.get("answer")}
    if isinstance(value, float) and math.isnan(value):
        model = score.get("reason") in OF_THE_MODEL
        return {**results, "outcome": (Outcome.UNPARSEABLE if model else Outcome.ERROR).value}
    outcome = outcome_of(value)
    notes.say(f"Success is the score {name}.")
    if outcome is None:
        notes.count("score states neither success nor failure", "scores state neither success nor failure")
    return {**results, "outcome": outcome}


def _tokens(response: Sequence[Any], output: Mapping[str, Any], sample: Mapping[str, Any], header: Any) -> int | None:
    """Return the number of output tokens of a sample; None if unknown. If the response has several assistant messages,
    the number covers all calls to the model, because the log has no other count. This includes calls in which the model
    served as an LLM judge.
    """
    if sum(message.get("role") == "assistant" for message in response) > 1:
        usage = (sample.get("model_usage") or {}).get(header.get("model")) or {}
    else:
        usage = output.get("usage") or {}
    tokens = usage.get("output_tokens")
    return tokens if isinstance(tokens, int) else None


def _resolved(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sample with attachments inserted into its texts."""
    attachments = sample.get("attachments") or {}
    if not attachments:
        return sample
    return {key: _attached(sample.get(key), attachments) for key in ("input", "messages", "output", "scores")}


def _attached(value: Any, attachments: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        _, mark, name = value.partition("attachment://")
        return attachments.get(name, value) if mark and value.startswith(mark) else value
    if isinstance(value, Mapping):
        return {key: _attached(item, attachments) for key, item in value.items()}
    return [_attached(item, attachments) for item in value] if isinstance(value, list) else value
