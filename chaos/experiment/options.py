"""Plug-ins and their options, as an experiment writes them: ``NAME``, or ``{NAME: {OPTION: VALUE}}``.

Options are frozen dataclasses in the plug-ins' own files. How a field is read follows from its type, its name
(``_s``: a duration or a number of seconds; ``_per_s``: more than 0) and its metadata (``within``: the ``range`` of what
it takes; ``signed``: it may be negative).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from chaos import plugins
from chaos.errors import BadInput
from chaos.experiment.durations import Seconds
from chaos.experiment.forms import LARGEST, Within, at
from chaos.plugins import PluginKind

#: Where an option says in its metadata which numbers it takes, as a ``range``; and that it takes negative ones.
WITHIN, SIGNED = "within", "signed"
#: Said in a JSON Schema.
ONE_KEY = {"type": "object", "minProperties": 1, "maxProperties": 1}
#: In the place of a value: each seed draws one of these.
ONE_OF = "one_of"
#: Where in the options a value stands that is drawn.
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginUse:
    """A plug-in with its validated options (an instance of its options dataclass).

    ``given`` are the options as they were written, where some of them are drawn: ``options`` has the first choice of
    each."""

    kind: PluginKind
    name: str
    options: Any
    given: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Any:
        return plugins.build(self.kind, self.name, self.options)

    def variations(self) -> Iterator[PluginUse]:
        """Yield this with its first choices, and with each other choice alone."""
        yield self
        for path, choices in draws(self.given):
            for other in choices[1:]:
                yield self._with({path: other})

    def drawn(self, seed: int, place: str) -> tuple[PluginUse, Mapping[str, Any]]:
        """Return what the seed draws, and the values that it drew, by dotted path. ``place`` distinguishes the uses of
        one experiment; each value has a draw of its own, so that one more in the file changes no other. Raises
        :class:`BadInput` when what was drawn doesn't go together."""
        found = draw(self.given, seed, place)
        if not found:
            return self, {}
        values = dotted(found)
        try:
            return self._with(found), values
        except (ValueError, BadInput) as error:
            raise BadInput(f"seed {seed} draws {values} for {self.name}, which do not go together: {error}") from error

    def _with(self, picks: Mapping[Path, Any]) -> PluginUse:
        use = dataclasses.replace(self, options=fill(type(self.options), picked(self.given, picks)), given={})
        use.build()
        return use


def is_drawn(value: object) -> bool:
    return isinstance(value, dict) and ONE_OF in value


def draws(given: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """All values that are drawn, in the order of the file, each with its choices. Raises ``ValueError`` for a draw
    that is none."""
    for name, value in given.items():
        if is_drawn(value):
            choices = value[ONE_OF]
            if len(value) > 1 or not isinstance(choices, list) or not choices:
                raise ValueError(f"{name}: {ONE_OF} expects a list with at least one value, and nothing beside it")
            yield (*path, name), choices
        elif isinstance(value, dict):
            yield from draws(value, (*path, name))


def draw(given: Mapping[str, Any], seed: int, place: str) -> dict[Path, Any]:
    """Return what the seed draws at this place of an experiment."""
    return {path: Random(f"{seed}/drawn/{place}/{'.'.join(path)}").choice(choices) for path, choices in draws(given)}


def dotted(values: Mapping[Path, Any]) -> dict[str, Any]:
    return {".".join(path): value for path, value in values.items()}


def picked(given: Mapping[str, Any], picks: Mapping[Path, Any], path: Path = ()) -> dict[str, Any]:
    """Return the options with a value for each draw: the one of ``picks``, else the first one."""
    return {
        name: picks.get((*path, name), value[ONE_OF][0])
        if is_drawn(value)
        else picked(value, picks, (*path, name))
        if isinstance(value, dict)
        else value
        for name, value in given.items()
    }


@dataclass(frozen=True)
class Plugin:
    """A :class:`PluginUse` of this kind, in the annotation of a field. ``bare``: its name alone will do. ``draws``:
    each seed may draw values of its options."""

    kind: PluginKind
    bare: bool = True
    draws: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = {name: handler(form(cls).core_schema) for name, cls in self.classes()}
        if self.draws:
            found = {name: or_drawn(handler.resolve_ref_schema(described)) for name, described in found.items()}
        options = {name: {"anyOf": [described, {"type": "null"}]} for name, described in found.items()}
        named = {**ONE_KEY, "properties": options, "additionalProperties": False}
        return {"anyOf": [{"enum": sorted(found)}, named]} if self.bare else named

    def classes(self) -> Iterator[tuple[str, type]]:
        """Yield the options of every plug-in, by each of its names; a broken plug-in is left out."""
        for name in (*plugins.names(self.kind), *plugins.aliases(self.kind)):
            try:
                yield name, plugins.options_class(plugins.load(self.kind, plugins.resolve(self.kind, name).plugin))
            except BadInput:
                continue

    def read(self, given: object) -> PluginUse:
        if isinstance(given, str):
            given = {given: None}
        if not isinstance(given, dict) or len(given) != 1:
            came = sorted(given) if isinstance(given, dict) else given
            raise ValueError(f"expected exactly one {self.kind}, got {came!r}")
        ((name, options),) = given.items()
        meant = plugins.resolve(self.kind, name)
        with at(name):
            cls = plugins.options_class(plugins.load(self.kind, meant.plugin))
            whole = {**meant.options, **(options or {})} if isinstance(options, dict | None) else options
            drawn = self.draws and isinstance(whole, dict) and any(draws(whole))
            filled = fill(cls, picked(whole, {}) if drawn else whole)
            use = PluginUse(kind=self.kind, name=meant.plugin, options=filled, given=whole if drawn else {})
            for variation in use.variations():
                variation.build()  # options that don't go together are a mistake here
        return use


def or_drawn(described: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of options of which each may be drawn."""
    return {**described, "properties": {name: either(value) for name, value in described["properties"].items()}}


def either(value: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be drawn."""
    choices = {"type": "array", "items": value, "minItems": 1}
    drawn = {"type": "object", "properties": {ONE_OF: choices}, "required": [ONE_OF], "additionalProperties": False}
    return {"anyOf": [value, drawn]}


def fill(cls: type, given: object) -> Any:
    """Make the dataclass of a mapping. Raises ``ValidationError`` with all that is wrong."""
    names = [field.name for field in plugins.fields(cls)]
    with at(known=names):
        read = form(cls).validate_json(json.dumps({} if given is None else given), strict=True)
        return cls(**{name: getattr(read, name) for name in names})


@cache
def form(cls: Any) -> TypeAdapter[Any]:
    """Return the dataclass as a form, with the rules that follow from names and metadata."""
    hints = plugins.hints(cls)
    fields = [(field.name, _annotated(hints[field.name], field), _like(field)) for field in plugins.fields(cls)]
    spoken = "" if (cls.__doc__ or "").startswith(f"{cls.__name__}(") else " ".join((cls.__doc__ or "").split())
    namespace = {
        "__doc__": spoken or None,
        "__module__": cls.__module__,
        "__pydantic_config__": ConfigDict(extra="forbid"),
    }
    return TypeAdapter(dataclasses.make_dataclass(cls.__name__, fields, namespace=namespace, kw_only=True))


def _like(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field(default=field.default)


def _annotated(hint: Any, field: dataclasses.Field[Any]) -> Any:
    rate = field.name.endswith("_per_s")
    if field.name.endswith("_s") and not rate:
        return Seconds
    checks = [AfterValidator(partial(_number, rate, bool(field.metadata.get(SIGNED))))]
    ranges = [Within(field.metadata[WITHIN])] if WITHIN in field.metadata else []
    return Annotated[(hint, *checks, *ranges)]


def _number(rate: bool, signed: bool, value: Any) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if not abs(value) <= LARGEST:
        raise ValueError(f"expected a number up to {LARGEST:.0e}, got {value!r}")
    if rate and value <= 0:
        raise ValueError(f"must be more than 0, got {value!r}")
    if value < 0 and not signed:
        raise ValueError(f"can't be negative, got {value!r}")
    return value
