"""Pieces: the parts that a recipe names, such as a stage with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from outrider.errors import nearest


class PieceOf:
    """Annotates a field that holds one piece of a table: ``Annotated[Stage, PieceOf(STAGES, "stage")]``.

    In a recipe a piece is a mapping with one key, ``{uniform: {n: 8}}``, or a bare name, ``uniform``, which means its
    defaults. It parses to an instance of the named class and is dumped as the mapping, with every default filled in.
    With ``bare`` a piece that has no options is dumped as its name.
    Errors inside carry the name in their location: ``explore.0.uniform.n``.

    >>> from typing import Annotated
    >>> from outrider.explore import STAGES, Stage
    >>> from pydantic import TypeAdapter
    >>> stage = TypeAdapter(Annotated[Stage, PieceOf(STAGES, "stage")])
    >>> stage.validate_python("uniform")
    Uniform(n=8)
    >>> stage.dump_python(stage.validate_python({"uniform": {"n": 4}}))
    {'uniform': {'n': 4}}
    """

    def __init__(self, table: Mapping[str, type[BaseModel]], noun: str, bare: bool = False) -> None:
        self.table = table
        self.noun = noun
        self.bare = bare

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(piece), required=False)
            for name, piece in self.table.items()
        }
        one_key = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        spelled_out = core_schema.no_info_before_validator_function(self._spell_out, one_key)
        return core_schema.no_info_after_validator_function(
            lambda mapping: next(iter(mapping.values())),
            spelled_out,
            serialization=core_schema.plain_serializer_function_ser_schema(self._dumped),
        )

    def _dumped(self, piece: BaseModel) -> Any:
        # its validator is a part of the recipe's, so pydantic before 2.14 has not yet made its serializer
        type(piece).model_rebuild()
        bare = self.bare and not type(piece).model_fields
        return self._name(piece) if bare else {self._name(piece): piece}

    def _spell_out(self, value: Any) -> dict[str, Any]:
        if isinstance(value, BaseModel):
            value = {self._name(value): value}
        elif isinstance(value, str):
            value = {value: {}}
        if not isinstance(value, dict) or len(value) != 1:
            raise PydanticCustomError("piece", "{noun} is a name, or one name with its options", {"noun": self._a_noun})
        [(name, options)] = value.items()
        if name not in self.table:
            raise PydanticCustomError(
                "piece",
                "{name} is not {noun} ({hint})",
                {"name": repr(name), "noun": self._a_noun, "hint": nearest(str(name), self.table)},
            )
        return {name: {} if options is None else options}

    @property
    def _a_noun(self) -> str:
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def _name(self, piece: BaseModel) -> str:
        return next((name for name, known in self.table.items() if type(piece) is known), type(piece).__name__)
