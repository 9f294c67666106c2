"""Reads and writes the components of recipes: building blocks with options, such as a task or a policy loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from outrider.errors import UserError, nearest
from outrider.importing import is_import_path
from outrider.plugins import load_component, plugins, written_name


class ComponentOf:
    """Annotates a field that contains a component: ``Annotated[Stage, ComponentOf(STAGES, "stage", Stage)]``.

    A recipe writes a component as a mapping with one key, such as ``{uniform: {n: 8}}``, or as a bare name, such as
    ``uniform``, which means the component with its defaults. The name identifies a shipped component or a component in
    an installed package (:mod:`outrider.plugins`). It may also be an import path such as ``my_methods.py:Retry``. In
    Python, a component may also be an instance, which the recipe copies. A component is parsed to an instance of its
    class, and dumped as a mapping with all defaults filled in. With ``bare``, a component whose class has no options is
    dumped as its name. The location of an error in an option includes the component's name: ``explore.0.uniform.n``.

    Args:
        table: the shipped components, by name.
        noun: the noun for a component in error messages.
        base: the base class that third-party components must have, or a union of such classes; None: only shipped
            components are allowed.
        old_keys: mapping from component names of older versions to present names, as in
            :attr:`outrider.options.Options.old_keys`.

    >>> from typing import Annotated
    >>> from outrider.explore import STAGES, Stage
    >>> stage = TypeAdapter(Annotated[Stage, ComponentOf(STAGES, "stage", Stage)])
    >>> stage.validate_python("uniform")
    Uniform(n=8)
    >>> stage.dump_python(stage.validate_python({"uniform": {"n": 4}}))
    {'uniform': {'n': 4}}
    """

    def __init__(
        self,
        table: Mapping[str, type[BaseModel]],
        noun: str,
        base: Any = None,
        bare: bool = False,
        old_keys: Mapping[str, str] | None = None,
    ) -> None:
        self.table, self.noun, self.base, self.bare = table, noun, base, bare
        self.old_keys = old_keys or {}

    def find(self, name: str) -> type[BaseModel] | None:
        """Return the class with this name; None if the class does not exist or cannot be loaded."""
        if name in self.table:
            return self.table[name]
        try:
            return self._foreign(name)
        except PydanticCustomError:
            return None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(component), required=False)
            for name, component in self.table.items()
        }
        shipped = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        return core_schema.no_info_wrap_validator_function(
            self._validated, shipped, serialization=core_schema.plain_serializer_function_ser_schema(self._dumped)
        )

    def _validated(self, value: Any, shipped: ValidatorFunctionWrapHandler) -> BaseModel:
        if isinstance(value, BaseModel):
            return self._instance(value)
        name, options = self._spelled_out(value)
        if name in self.table and not self._shadowed(name):
            parsed: dict[str, BaseModel] = shipped({name: options})
            return parsed[name]
        found = self._foreign(name)
        # validate a mapping, so that the location of an error contains the component's name
        one: TypeAdapter[dict[str, BaseModel]] = TypeAdapter(dict[str, found])  # type: ignore[valid-type]
        return one.validate_python({name: options})[name]

    def _instance(self, value: BaseModel) -> BaseModel:
        if not isinstance(value, (*self.table.values(), *([] if self.base is None else [self.base]))):
            raise self._error(f"{type(value).__name__!r} is not {self._a_noun}")
        # copy the instance, since two recipes would otherwise share its state; omit caches, since some cannot be
        # copied
        copied = value.model_copy()
        for key in copied.__dict__.keys() - type(value).model_fields.keys():
            del copied.__dict__[key]
        return copied.model_copy(deep=True)

    def _spelled_out(self, value: Any) -> tuple[str, Any]:
        if isinstance(value, type):
            raise self._error(f"{value.__name__} is a class: make an instance, {value.__name__}()")
        if isinstance(value, str):
            value = {value: {}}
        if not isinstance(value, dict) or len(value) != 1:
            raise self._error(f"{self._a_noun} is a name, or one name with its options")
        [(name, options)] = value.items()
        return str(name), {} if options is None else options

    def _foreign(self, name: str) -> type[BaseModel]:
        if self.base is None or not (is_import_path(name) or name in plugins()):
            known = [*self.table, *([] if self.base is None else plugins())]
            raise self._error(f"{name!r} is not {self._a_noun} ({nearest(name, known)})")
        try:
            return load_component(name, self.base, self._a_noun)
        except UserError as error:
            raise self._error(str(error)) from None

    def _shadowed(self, name: str) -> bool:
        """Raise an error if both Outrider and an installed package have a component of this kind (such as a stage)
        called ``name``. Otherwise return False."""
        if self.base is None or name not in plugins():
            return False
        try:
            load_component(name, self.base, self._a_noun)
        except UserError:  # the plug-in's component is of another kind
            return False
        raise self._error(
            f"{name!r} is shipped with Outrider, and {plugins()[name].origin} has {self._a_noun} of that name"
        )

    def _dumped(self, component: BaseModel) -> Any:
        # before 2.14, pydantic builds no serializer for a class that is only validated as a part of the recipe
        type(component).model_rebuild()
        bare = self.bare and not type(component).model_fields
        return self._name(component) if bare else {self._name(component): component}

    @staticmethod
    def _error(sentence: str) -> PydanticCustomError:
        return PydanticCustomError("component", "{sentence}", {"sentence": sentence})

    @property
    def _a_noun(self) -> str:
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def _name(self, component: BaseModel) -> str:
        shipped = (name for name, known in self.table.items() if type(component) is known)
        return next(shipped, None) or written_name(type(component))
