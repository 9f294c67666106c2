"""Reads and writes the YAML of recipes, with YAML 1.2's scalars and without duplicate keys."""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

import yaml

from outrider.errors import UserError


class _Loader(yaml.SafeLoader):
    """Safe loader that rejects invalid keys and avoids YAML 1.1's pitfalls (``1e-4`` as text, ``no`` as false, octal
    numbers)."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML expects a class attribute

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # rejected, since overriding a shared value would change two places
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"write the value of *{event.anchor} out, aliases are not read", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise yaml.constructor.ConstructorError(None, None, "a key must be a name", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


class _Dumper(yaml.SafeDumper):
    """Writes YAML that ``_Loader`` can read, with each list of plain values on one line."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - as above

    def ignore_aliases(self, data: Any) -> bool:
        return True


_SCALARS = [
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9][0-9_]*", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
]
for _class in (_Loader, _Dumper):
    for _name, _pattern, _first in _SCALARS:
        _firsts: list[Any] = [*_first, *([""] if _name == "null" else [])]
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), _firsts)

_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value.replace("_", "")))
_Dumper.add_representer(
    str,
    lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", data, style='"' if "\n" in data else None),
)
_Dumper.add_representer(
    list,
    lambda dumper, data: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", data, flow_style=not any(isinstance(x, (dict, list)) for x in data)
    ),
)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """Parse a text. The result is cached, since parsing a file takes 4 ms and many recipes extend the same files."""
    return yaml.load(text, Loader=_Loader)


def read_yaml(text: str, where: str) -> Any:
    """Return the data of one YAML document; ``where`` names the source in error messages.

    Raises:
        UserError: the text is not YAML, or a key is repeated, empty, a list or a mapping. The message includes the line
            number.

    >>> read_yaml("lr: 1e-4\\ntokens: 1_600_000\\nanswer: no", "x.yaml")
    {'lr': 0.0001, 'tokens': 1600000, 'answer': 'no'}
    """
    try:
        return copy.deepcopy(_parsed(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark and "\n" in text else ""
        raise UserError(f"{where}{line}: {error.problem or 'not valid YAML'}") from None
    except (yaml.YAMLError, ValueError) as error:  # a forbidden character, or a tag that does not fit its text
        raise UserError(f"{where}: {' '.join(str(error).split())}") from None


def dump_yaml(data: Any) -> str:
    """Return plain data as YAML, from which :func:`read_yaml` reads the same data. Keys keep their order.

    >>> print(dump_yaml({"lr": 1e-06, "clip": [0.2, 0.2], "note": "1e-4"}), end="")
    lr: 1.0e-06
    clip: [0.2, 0.2]
    note: '1e-4'
    """
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120)
    return text


def flow(data: Any) -> str:
    """Return plain data as YAML on one line, as a user would write the data on the command line.

    >>> flow({"gym": {"dataset": "chain_sum", "config": {"max_terms": 3}}})
    '{gym: {dataset: chain_sum, config: {max_terms: 3}}}'
    """
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=float("inf"))
    return text.strip()
