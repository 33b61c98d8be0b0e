"""``stormproof list``, ``schema``, ``init``, ``clean`` and ``doctor``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.history import directory as store
from chaos.plugins import PluginKind
from stormproof.commands import _console
from stormproof.commands._options import hosts_of, json_option, out_option
from stormproof.launch import SSH

MUTANTS, FAULTS = "mutants", "faults"
KINDS: Mapping[str, PluginKind] = {f"{kind}s": kind for kind in PluginKind}


@click.command(name="list")
@click.argument("kind", required=False, type=click.Choice([*KINDS, MUTANTS]), metavar="[KIND]")
@json_option
def list_command(kind: str | None, as_json: bool) -> None:
    """List what there is: faults, workloads, checkers, drivers, deployments, mutants; all without KIND."""
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
    return [_entry(description) for description in plugins.describe(KINDS[kind])]


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


@click.command()
def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    from chaos.experiment.schema import schema as describe

    _console.print_json(describe())


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def init(directory: Path) -> None:
    """Copy the examples to DIRECTORY, to start from; files that exist are never overwritten."""
    sources = sorted(
        (entry for entry in resources.files("stormproof.examples").iterdir() if entry.name.endswith(".yaml")),
        key=lambda entry: entry.name,
    )
    present = [source.name for source in sources if (directory / source.name).exists()]
    if present:
        raise BadInput(f"{directory} already has {', '.join(present)}; choose another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source in sources:
            (directory / source.name).write_bytes(source.read_bytes())
            click.echo(directory / source.name)
    except OSError as error:
        raise MachineError(f"cannot write to {directory}: {error.strerror or error}") from error


@click.command()
@click.option("--keep", type=click.Choice(["failed"]), help="Keep runs that weren't judged VALID.")
@out_option
def clean(keep: str | None, out: Path) -> None:
    """Remove runs, but never one that may be going on still, or have left something on hosts."""
    gone = store.clean(out, keep_failed=keep == "failed")
    click.echo(f"{len(gone)} runs removed, {len(store.runs(out))} kept")


@click.command()
@click.option("--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Try these hosts too.")
@json_option
@out_option
def doctor(inventory: Path | None, as_json: bool, out: Path) -> None:
    """Say what this machine can and can't do, and how to mend it; exit 3 if something is missing."""
    from stormproof.doctor import examine

    findings = list(examine(out, hosts_of(inventory, SSH)))
    if as_json:
        _console.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        console = _console.out()
        for finding in findings:
            lacking = "[yellow]absent[/] " if finding.optional else "[red]missing[/]"
            mark = "[green]ok[/]     " if finding.ok else lacking
            console.print(f"{mark} {finding.what}: {escape(finding.found)}")
            if not finding.ok:
                console.print(f"        {escape(finding.mend)}")
    click.get_current_context().exit(0 if all(finding.ok or finding.optional for finding in findings) else 3)
