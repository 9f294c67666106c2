"""Turns pydantic's errors into sentences that a user can act on."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from outrider.config.merge import Origin, Origins, Path, dotted, old_key
from outrider.config.places import keys_at
from outrider.config.renamed import with_present_keys
from outrider.errors import UserError, nearest

Model = TypeVar("Model", bound=BaseModel)

_KINDS = {
    "int": "be a whole number",
    "float": "be a number",
    "finite": "be a finite number",
    "bool": "be true or false",
    "string": "be text",
    "list": "be a list",
    "tuple": "be a list",
    "dict": "be a mapping",
    "model": "be a mapping",
}


_AUTO = ("literal['auto']",)
"""In the location of an error, pydantic's name for the alternative ``Auto`` of a type ``Auto | …``."""


def parse(cls: type[Model], data: dict[str, Any], file: str, origins: Origins) -> Model:
    """Parse data that was read from ``file``, with all overrides applied.

    ``origins`` lists where each value of the data was written (a file or an override), in the order of writing. Text is
    never accepted as a number, and true and false are never accepted as 1 and 0.

    Raises:
        UserError: the data has a mistake. The message names the first mistake, its origin, and the number of other
            mistakes.
    """
    if old := with_present_keys(cls, data)[1]:
        raise UserError(old_key(old[0], _origin(old[0].old, origins) or Origin(file)))
    try:
        parsed = cls.model_validate(data)
        # pydantic accepts "1" and true as 1, but a YAML file distinguishes these values
        wrong = _mistyped(data, parsed.model_dump(mode="json"))
    except ValidationError as error:
        wrong = mistakes(error, cls)
    if not wrong:
        return parsed
    path, sentence = wrong[0]
    origin = _origin(path, origins) or Origin(file)
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    raise UserError(f"{origin.where}: {origin.prefix if path else ''}{sentence}{more}")


def mistakes(error: ValidationError, cls: type[BaseModel]) -> list[tuple[Path, str]]:
    """Return the place of each mistake and a sentence that describes the mistake. Missing keys come last, since a
    mistyped key may be their cause."""
    errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] == "missing")
    # for a field of type Auto | X, pydantic reports one mistake as one error per alternative
    either = {one["loc"][:-1] for one in errors if one["loc"][-1:] == _AUTO}
    found: list[tuple[Path, str]] = []
    for one in errors:
        if one["loc"][:-1] not in either:
            found.append((one["loc"], _sentence(one, cls)))
        elif one["loc"][-1:] != _AUTO:
            place = one["loc"][:-1]
            found.append((place, f"{_sentence({**one, 'loc': place}, cls)}, or auto"))
    return found


def _origin(path: Path, origins: Origins) -> Origin | None:
    """Return where the value at ``path`` was last written. If overrides changed parts of the value later, return these
    overrides instead."""
    around = [origin for written, origin in origins if path[: len(written)] == written]
    inside = [origin for written, origin in origins if path and written[: len(path)] == path]
    typed = dict.fromkeys(origin.where for origin in inside if origin.typed)
    if typed and not (around and around[-1].typed):
        return Origin(" ".join(typed))
    return next(reversed(around or inside), None)


def _sentence(error: ErrorDetails, cls: type[BaseModel]) -> str:
    path, kind, message = error["loc"], error["type"], error["msg"].replace(" after validation", "")
    key = dotted(path)
    if kind == "extra_forbidden":
        return f"{key} is not a key{_hint(cls, path)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "component":
        return f"{key}: {message}" if key else message
    if kind == "value_error":
        return f"{key}: {error['ctx']['error']}" if key else str(error["ctx"]["error"])
    _, should, wanted = message.partition(" should ")
    if not should:
        return f"{key}: {message[0].lower()}{message[1:]}"
    given = json.dumps(error["input"], default=str)
    given = given if len(given) <= 60 else f"{given[:57]}..."
    wanted = _KINDS.get(kind.partition("_")[0], wanted)
    wanted = wanted.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    return f"{key} is {given}, but should {wanted}{_quoting(error['input']) if wanted == 'be text' else ''}"


def _quoting(given: Any) -> str:
    """Return a hint to use quotes if YAML read a text as a mapping or list, such as the prompt template ``{question}``.
    Otherwise return ""."""
    if isinstance(given, dict) and given and all(value is None for value in given.values()):
        written = "{" + ", ".join(map(str, given)) + "}"
    elif isinstance(given, list) and all(isinstance(each, str) for each in given):
        written = "[" + ", ".join(given) + "]"
    else:
        return ""
    return f"; YAML reads {written} as data: put it in quotes, '\"{written}\"' in a shell"


def _mistyped(given: Any, parsed: Any, path: Path = ()) -> list[tuple[Path, str]]:
    """Return the places where a value was silently converted between text, boolean and number."""
    if isinstance(given, dict) and isinstance(parsed, dict):
        return [w for key in given if key in parsed for w in _mistyped(given[key], parsed[key], (*path, key))]
    if isinstance(given, list) and isinstance(parsed, list):
        return [w for i, pair in enumerate(zip(given, parsed, strict=False)) for w in _mistyped(*pair, (*path, i))]
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text"}
    was, wanted = kinds.get(type(given)), kinds.get(type(parsed))
    if was is None or wanted is None or was == wanted:
        return []
    return [(path, f"{dotted(path)} is {json.dumps(given)}, but should be {wanted}")]


def _hint(cls: type[BaseModel], path: Path) -> str:
    """Return a hint for an unknown key: the dotted key if the key belongs in a section, otherwise the most similar
    key."""
    *above, last = path
    key, known = str(last), keys_at(cls, (*above,))
    sections = [f"{name}.{key}" for name in cls.model_fields if not above and key in keys_at(cls, (name,))]
    if sections:
        return f" (did you mean {sections[0]!r}?)"
    return f" ({nearest(key, known)})" if known else ""
