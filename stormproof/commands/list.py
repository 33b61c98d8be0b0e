"""``stormproof list``: what there is to put into an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind
from stormproof.commands import _console
from stormproof.commands._options import json_option

MUTANTS, FAULTS = "mutants", "faults"
KINDS: Mapping[str, PluginKind] = {f"{kind}s": kind for kind in PluginKind}


@click.command(name="list")
@click.argument("kind", required=False, type=click.Choice([*KINDS, MUTANTS]), metavar="[KIND]")
@json_option
def list_plugins(kind: str | None, as_json: bool) -> None:
    """List faults, workloads, laws, drivers, deployments, goals or mutants; all of them without KIND."""
    found = {name: _entries(name) for name in ([kind] if kind else [*KINDS, MUTANTS])}
    if as_json:
        _console.print_json(found[kind] if kind else found)
        return
    console = _console.out()
    for name, entries in found.items():
        if kind is None:
            console.print(f"[bold]{name}[/]")
        console.print(_faults_table(entries) if name == FAULTS else _table(name, entries))


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == MUTANTS:
        return [
            {"system": driver, **dataclasses.asdict(mutant)}
            for driver in plugins.names(PluginKind.DRIVER)
            for mutant in _mutants(driver)
        ]
    descriptions = plugins.describe(KINDS[kind])
    if KINDS[kind] is PluginKind.LAW:
        from chaos.judging.registry import registry

        broken = registry().broken  # also what loads, but makes no law, or one that another plug-in has already
        descriptions = [dataclasses.replace(one, error=broken.get(one.name, one.error)) for one in descriptions]
    return [_entry(description) for description in descriptions]


def _mutants(driver: str) -> tuple[Any, ...]:
    try:
        return tuple(plugins.mutants(driver))
    except BadInput as error:
        _console.err().print(str(error), markup=False)
        return ()


def _entry(description: plugins.Description) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": description.name, "summary": description.summary}
    if description.error:
        return {**entry, "error": description.error}
    options = [{**dataclasses.asdict(option), "default": _jsonable(option.default)} for option in description.options]
    if description.kind is PluginKind.FAULT:
        return {**entry, **_of_fault(description.name, options)}
    return {**entry, "options": options}


def _of_fault(name: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    """What the catalogue says of a fault; ``deployments`` maps where it can be done to the option that it takes there
    ("" for none)."""
    from stormproof import catalogue  # late: it reads all deployments and drivers

    try:
        one = catalogue.entry(name)
    except BadInput as error:
        return {"error": str(error)}
    units = {option.name: {"unit": option.unit, "values": list(option.values)} for option in one.options}
    return {
        "options": [{**option, **units[option["name"]]} for option in options],
        "deployments": dict(one.deployments),
        "target": one.target,
        "aliases": {
            alias: {key: _jsonable(value) for key, value in given.items()} for alias, given in one.aliases.items()
        },
        "undo": list(one.undo),
        "proof": list(one.proof),
        "effects": list(one.effects),
    }


def _jsonable(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _table(kind: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    columns = ("name", "law", "stands_for", "scenario") if kind == MUTANTS else ("name", "summary", "options")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "name")
    for entry in entries:
        if "error" in entry:
            table.add_row(entry["name"], f"[red]broken[/]: {escape(entry['error'])}", "")
        elif kind == MUTANTS:
            table.add_row(*(escape(str(entry[column])) for column in columns))
        else:
            words = " ".join(
                option["name"] if option["required"] else f"{option['name']}={option['default']}"
                for option in entry["options"]
            )
            table.add_row(entry["name"], escape(entry["summary"]), escape(words))
    return table


def _faults_table(entries: list[dict[str, Any]]) -> Table:
    """A line of its own for each part of what there is to say of a fault: as columns they would be a finger wide."""
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for entry in entries:
        if "error" in entry:
            table.add_row(entry["name"], f"[red]broken[/]: {escape(entry['error'])}")
            continue
        table.add_row(f"[bold]{entry['name']}[/]", escape(entry["summary"]))
        on = [f"{name} ({words})" if words else name for name, words in entry["deployments"].items()]
        parts = {
            "on": ", ".join(on) or "nothing here",
            "target": entry["target"] or "it chooses by itself",
            "options": ", ".join(_option_words(option) for option in entry["options"] if option["name"] != "target"),
            "aliases": ", ".join(sorted(entry["aliases"])),
            "effects": ", ".join(entry["effects"]),
            "proof": "; ".join(entry["proof"]),
            "undo": ", ".join(entry["undo"]) or "nothing to undo",
        }
        for name, words in parts.items():
            if words:
                table.add_row("", f"[dim]{name}:[/] {escape(words)}")
    return table


def _option_words(option: Mapping[str, Any]) -> str:
    """``jitter_ms=100 (ms)``, ``mode=stall (stall, reset)``: its default, and in brackets the unit or the choices."""
    words = option["name"] if option["required"] else f"{option['name']}={option['default']}"
    about = ", ".join(filter(None, [option["unit"], *(str(value) for value in option["values"])]))
    return f"{words} ({about})" if about else words
