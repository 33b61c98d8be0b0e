"""Finds workloads, faults, laws, drivers, deployments and goals: one file each, or an entry point of another package.

Listing names imports nothing. A plug-in that can't be imported is listed as broken, with the reason, and stops nobody
who doesn't use it.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import pkgutil
import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from chaos.driver import ALIASES, CREATE, DECIDED_BY, OPTIONS, Mutant, NoOptions
from chaos.errors import BadInput, meant
from chaos.packages import hidden


class PluginKind(StrEnum):
    WORKLOAD = "workload"
    FAULT = "fault"
    LAW = "law"
    DRIVER = "driver"
    DEPLOYMENT = "deployment"
    GOAL = "goal"


#: What the entry-point groups of other packages begin with; the plural of the kind follows.
GROUP = "stormproof."
#: In which package each kind lives.
PACKAGES: Mapping[PluginKind, str] = {
    PluginKind.WORKLOAD: "workloads",
    PluginKind.FAULT: "nemesis",
    PluginKind.LAW: "checkers",
    PluginKind.DRIVER: "drivers",
    PluginKind.DEPLOYMENT: "chaos.deployments",
    PluginKind.GOAL: "checkers._goals",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a plug-in: its type in words, and its default (``None`` with ``required`` when it has none)."""

    name: str
    type: str
    required: bool
    default: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What ``stormproof list`` shows of a plug-in; ``error`` is filled in when its file is broken."""

    kind: PluginKind
    name: str
    summary: str = ""
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    error: str = ""


def _entry_points(kind: PluginKind) -> Mapping[str, importlib.metadata.EntryPoint]:
    return _entry_points_on(kind, tuple(sys.path))


@cache
def _entry_points_on(kind: PluginKind, path: tuple[str, ...]) -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a kind, looked up once for each search path: a run loads plug-ins a dozen times."""
    found = _all_entry_points_on(path).get(f"{GROUP}{kind}s", ())
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


@cache
def _all_entry_points_on(path: tuple[str, ...]) -> Mapping[str, tuple[importlib.metadata.EntryPoint, ...]]:
    """By group, all of ours at once: every folder of the search path is read, whatever is asked for."""
    found = importlib.metadata.entry_points()
    return {group: tuple(found.select(group=group)) for group in found.groups if group.startswith(GROUP)}


def unknown_groups() -> list[str]:
    """One sentence for each entry-point group that looks like ours and isn't: its plug-ins would never be found."""
    known = [f"{GROUP}{kind}s" for kind in PluginKind]
    wrong = [
        group
        for group in sorted(importlib.metadata.entry_points().groups)
        if group.startswith(GROUP) and group not in known
    ]
    return [
        f"{_packages_in(group)}: nothing reads the entry points {group!r}; {nearest(group, known)}" for group in wrong
    ]


def _packages_in(group: str) -> str:
    found = importlib.metadata.entry_points(group=group)
    return ", ".join(sorted({entry.dist.name for entry in found if entry.dist})) or "an installed package"


def names(kind: PluginKind) -> tuple[str, ...]:
    """Return the names of all plug-ins of this kind, sorted; imports none of them. Modules that begin with ``_`` are
    none. Raises :class:`BadInput` when a folder of the user's stands in the place of our package."""
    package = PACKAGES[kind]
    if wrong := hidden(package.partition(".")[0]):
        raise BadInput(wrong)
    folders = tuple(importlib.import_module(package).__path__)
    return tuple(sorted(_built_in(folders, tuple(map(_changed_ns, folders))) | set(_entry_points(kind))))


@lru_cache(maxsize=64)
def _built_in(folders: tuple[str, ...], changed_ns: tuple[int, ...]) -> frozenset[str]:
    """Return the modules in these folders, listed again when one has changed: an experiment is read with dozens of
    names."""
    return frozenset(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_"))


def _changed_ns(folder: str) -> int:
    """When something was added or removed there; 0 for what is no folder, as a part of a zip file, which is loaded
    once."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another name of a plug-in, with the options that it stands for."""

    plugin: str
    options: Mapping[str, object]


def aliases(kind: PluginKind) -> Mapping[str, Alias]:
    """All other names by which plug-ins of this kind are known, from the ``ALIASES`` of their modules; imports them
    all, but for those that are broken. A plug-in's own name is never an alias."""
    return _aliases_of(kind, names(kind))


@cache
def _aliases_of(kind: PluginKind, known: tuple[str, ...]) -> Mapping[str, Alias]:
    found: dict[str, Alias] = {}
    for name in known:
        try:
            module = load(kind, name)
        except BadInput:
            continue
        for alias, options in getattr(module, ALIASES, {}).items():
            found.setdefault(alias, Alias(plugin=name, options=options))
    return {alias: found[alias] for alias in sorted(found) if alias not in known}


def resolve(kind: PluginKind, name: str) -> Alias:
    """Return the plug-in that is meant by a name, and the options that the name stands for; an unknown name is left as
    it is, for :func:`load` to refuse."""
    if name in names(kind):
        return Alias(plugin=name, options={})
    return aliases(kind).get(name, Alias(plugin=name, options={}))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name: the nearest known one, else all of them; "" when none is known."""
    candidates = sorted(known)
    return meant(name, candidates) or (f"known: {', '.join(candidates)}" if candidates else "")


def load(kind: PluginKind, name: str) -> ModuleType:
    """Import one plug-in. Raises :class:`BadInput` for an unknown name and for a module that can't be imported or has
    no ``create``."""
    if name not in names(kind):
        raise BadInput(f"unknown {kind} {name!r}; {_hint(kind, name)}")
    entry = _entry_points(kind).get(name)
    path = entry.value if entry else f"{PACKAGES[kind]}.{name}"
    try:
        module = entry.load() if entry else importlib.import_module(path)
    except Exception as error:  # a foreign file may raise anything at all
        raise BadInput(f"{kind} {name!r} is broken: {path}: {type(error).__name__}: {error}") from error
    if not isinstance(module, ModuleType) or not callable(getattr(module, CREATE, None)):
        raise BadInput(f"{kind} {name!r} is broken: {path} is no module with a function {CREATE}(options)")
    return module


def _hint(kind: PluginKind, name: str) -> str:
    """Return the nearest name or alias; without a near one, all names, but not the many aliases."""
    return meant(name, (*names(kind), *aliases(kind))) or nearest(name, names(kind))


def options_class(module: ModuleType) -> type:
    """Return the module's ``Options`` dataclass, or :class:`chaos.driver.NoOptions`."""
    found = getattr(module, OPTIONS, NoOptions)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise BadInput(f"{module.__name__}.{OPTIONS} is no dataclass")
    return found


def build(kind: PluginKind, name: str, options: object | None = None) -> Any:
    """Make the plug-in's object; without ``options``, with the defaults of its options class."""
    module = load(kind, name)
    return getattr(module, CREATE)(options_class(module)() if options is None else options)


def spoken(name: str) -> str:
    """Return the name of a goal as experiments and verdicts have it, from that of its plug-in: ``tail_truncated`` →
    ``tail truncated``."""
    return name.replace("_", " ")


def unspoken(name: str) -> str:
    """Return the inverse of :func:`spoken`; underscores are taken too."""
    return name.replace(" ", "_")


def summary(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


@cache
def hints(cls: type) -> Mapping[str, Any]:
    """Return the resolved types of a dataclass's fields."""
    return typing.get_type_hints(cls)


def fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields that a user may set."""
    return tuple(field for field in dataclasses.fields(cls) if field.init)


def options_of(cls: type) -> tuple[Option, ...]:
    return tuple(_option(field, hints(cls)[field.name]) for field in fields(cls))


def _option(field: dataclasses.Field[Any], hint: Any) -> Option:
    if field.default_factory is not dataclasses.MISSING:
        default, required = field.default_factory(), False
    else:
        required = field.default is dataclasses.MISSING
        default = None if required else field.default
    words = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return Option(name=field.name, type=words, required=required, default=default)


def summaries(kind: PluginKind) -> Mapping[str, str]:
    """Return what each plug-in of a kind is, by name, from the beginning of its file; of ours none is imported, so a
    broken one is not noticed."""
    found = {one.name: one.summary or one.error for one in (_describe(kind, name) for name in _entry_points(kind))}
    for folder in importlib.import_module(PACKAGES[kind]).__path__:
        for name in names(kind):
            for path in (Path(folder, f"{name}.py"), Path(folder, name, "__init__.py")):
                if name not in found and path.is_file():
                    found[name] = _first_line(path)
    return {name: found.get(name, "") for name in names(kind)}


def _first_line(path: Path) -> str:
    """Of a module's docstring; "" where the file doesn't begin with one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        match = re.match(r'r?"""\s*([^\n]*?)\s*("""|\n|$)', file.read(1024))
    return match[1] if match else ""


def describe(kind: PluginKind) -> list[Description]:
    """Import all plug-ins of a kind and say what they are; a broken one is described by its error."""
    return [_describe(kind, name) for name in names(kind)]


def _describe(kind: PluginKind, name: str) -> Description:
    try:
        module = load(kind, name)
        cls = NoOptions if kind is PluginKind.DEPLOYMENT else options_class(module)
        known = tuple(sorted(getattr(module, ALIASES, {})))
        return Description(kind=kind, name=name, summary=summary(module), options=options_of(cls), aliases=known)
    except BadInput as error:
        return Description(kind=kind, name=name, error=str(error))


def mutants(driver: str) -> Sequence[Mutant]:
    """Return the planted bugs that a driver offers; empty when it has none. A module may make them when they are asked
    for; raises :class:`BadInput` when that fails."""
    module = load(PluginKind.DRIVER, driver)
    try:
        return tuple(getattr(module, "MUTANTS", ()))
    except Exception as error:  # a foreign file may raise anything at all
        raise BadInput(f"driver {driver!r}: its mutants are broken: {type(error).__name__}: {error}") from error


def decided_by(driver: str) -> Mapping[str, Sequence[str]]:
    """Return what a driver says about who decided what (:data:`chaos.driver.DECIDED_BY`); empty when it says nothing,
    or isn't there."""
    try:
        decided = getattr(load(PluginKind.DRIVER, driver), DECIDED_BY, {})
    except BadInput:
        return {}
    return {str(row): [str(method) for method in methods] for row, methods in decided.items()}
