"""The JSON Schema of experiment files, for editors; built from the same dataclasses that the reader fills."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import TypeAdapter

from chaos import plugins
from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.experiment.inventory import Host
from chaos.experiment.model import Bounds, Trigger
from chaos.experiment.reader import is_duration
from chaos.plugins import PluginKind

_DURATION = {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h))+$", "examples": ["30s", "200ms", "1m30s"]}
_SECONDS = {"anyOf": [{"type": "number", "minimum": 0}, _DURATION]}


def schema() -> dict[str, Any]:
    """Describe the whole file, with the options of every plug-in that can be imported."""
    named = _plugins(PluginKind.FAULT)
    for alias, meant in plugins.aliases(PluginKind.FAULT).items():
        named[alias] = {key: value for key, value in named[meant.plugin].items() if key != "required"}
    faults = [_fault(name, described) for name, described in named.items()]
    faults.append(_sequence(named))
    drawn = {"type": "array", "minItems": 1, "items": {"anyOf": list(faults)}}
    faults.append(_only({"swarm": drawn}, ["swarm"]))
    properties = {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$"},
        "system": {"anyOf": _choice(PluginKind.DRIVER)},
        "profile": of_class(Profile),
        "duration": _DURATION,
        "quiet": _DURATION,
        "bounds": of_class(Bounds),
        "workloads": {"type": "array", "minItems": 1, "items": {"anyOf": _choice(PluginKind.WORKLOAD)}},
        "faults": {"type": "array", "items": {"anyOf": faults}},
        "hosts": {"type": "array", "minItems": 1, "items": of_class(Host)},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stormproof experiment",
        "type": "object",
        "properties": properties,
        "required": ["system", "duration", "workloads"],
        "additionalProperties": False,
    }


def of_class(cls: type) -> dict[str, Any]:
    """An options dataclass as an object: its fields, which of them must be given, and nothing else."""
    properties = {field.name: _field(cls, field) for field in plugins.fields(cls)}
    required = [option.name for option in plugins.options_of(cls) if option.required]
    described: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):
        described["description"] = " ".join(cls.__doc__.split())
    return {**described, "required": required} if required else described


def _field(cls: type, field: dataclasses.Field[Any]) -> dict[str, Any]:
    hint = plugins.hints(cls)[field.name]
    described: dict[str, Any] = dict(_SECONDS) if is_duration(field.name) else _inlined(TypeAdapter(hint).json_schema())
    if isinstance(field.default, str | int | float | bool):
        described["default"] = field.default
    return described


def _inlined(described: dict[str, Any]) -> dict[str, Any]:
    """Put definitions where they are used: names of different plug-ins' types would clash in one document."""
    definitions = described.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolve(definitions[node["$ref"].rpartition("/")[2]])
            return {key: resolve(value) for key, value in node.items()}
        return [resolve(value) for value in node] if isinstance(node, list) else node

    resolved: dict[str, Any] = resolve(described)
    return resolved


def _plugins(kind: PluginKind) -> dict[str, dict[str, Any]]:
    """Options by name; a broken plug-in is left out."""
    found = {}
    for name in plugins.names(kind):
        try:
            module = plugins.load(kind, name)
            options = of_class(plugins.options_class(module))
        except BadInput:
            continue
        found[name] = {"description": plugins.summary(module), **options, "type": ["object", "null"]}
    return found


def _choice(kind: PluginKind) -> list[dict[str, Any]]:
    """``NAME`` alone, or ``{NAME: options}``."""
    found = _plugins(kind)
    named = [_only({name: described}, [name]) for name, described in found.items()]
    return [{"enum": sorted(found)}, *named] if found else [{"type": ["string", "object"]}]


def _only(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _when() -> dict[str, Any]:
    mean = _only({"mean": _DURATION}, ["mean"])
    moments = {"anyOf": [_DURATION, {"type": "array", "items": _DURATION}]}
    return {"at": moments, "every": _DURATION, "random": mean, "when": of_class(Trigger)}


def _lasting() -> dict[str, Any]:
    where = {"type": "array", "items": {"enum": list(plugins.names(PluginKind.DEPLOYMENT))}}
    return {"for": _DURATION, "on": where}


def _one_moment(described: dict[str, Any]) -> dict[str, Any]:
    return {**described, "oneOf": [{"required": [key]} for key in _when()]}


def _fault(name: str, described: dict[str, Any]) -> dict[str, Any]:
    return _one_moment(_only({name: described, **_when(), **_lasting()}, [name]))


def _sequence(named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Faults one after another; a step is a fault without a moment of its own."""
    lasting = {**_lasting(), "rest": _DURATION}
    steps = [_only({name: described, **lasting}, [name]) for name, described in named.items()]
    listed = {"type": "array", "minItems": 1, "items": {"anyOf": [{"enum": sorted(named)}, *steps]}}
    return _one_moment(_only({"sequence": listed, **_when(), **lasting}, ["sequence"]))
