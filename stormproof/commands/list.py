"""``stormproof list``: what there is to put into an experiment."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind
from stormproof.commands import _console
from stormproof.commands._options import json_option
from stormproof.shipped import experiments

BUGS, FAULTS, EXPERIMENTS = "bugs", "faults", "experiments"
#: The older name of planted bugs, which commands still know, and ``--json``.
MUTANTS = "mutants"
#: The scenario of the bugs that name none.
QUICKSTART = "quickstart"
#: Columns beside one another need so many characters.
WIDE = 100
INDENTED = (0, 0, 0, 2)
KINDS: Mapping[str, PluginKind] = {f"{kind}s": kind for kind in PluginKind}
ALL = (*KINDS, EXPERIMENTS, BUGS)


class Kind(click.ParamType):
    """One of the kinds that can be listed."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in (*ALL, MUTANTS):
            self.fail(f"{value!r} can't be listed; {plugins.nearest(value, ALL)}", param, ctx)
        return BUGS if value == MUTANTS else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(kind) for kind in ALL if kind.startswith(incomplete)]


@click.command(name="list")
@click.argument("kind", required=False, type=Kind())
@json_option
def list_plugins(kind: str | None, as_json: bool) -> None:
    """List faults, workloads, laws, drivers, deployments, goals, bugs to plant or the experiments
    that come with Stormproof, with their options. Without KIND: what
    there is of each, in a line; with --json everything.
    """
    if as_json:
        found = {MUTANTS if name == BUGS else name: _entries(name) for name in ALL} if kind is None else _entries(kind)
        _console.print_json(found)
        return
    console = _console.out()
    if kind is None:
        _print_overview(console)
        return
    entries = _entries(kind)
    for part in [_table(kind, entries)] if console.width >= WIDE else _blocks(kind, entries):
        console.print(part)
    if kind == BUGS and console.width >= WIDE:
        others = "".join(f", {one['name']} with --seed {one['seed']}" for one in entries if one["seed"] != 1)
        words = "`stormproof run SCENARIO --on sim --seed 1 --bug NAME` shows each"
        console.print()
        console.print(f"{words}{others}", style="dim", markup=False)


def _print_overview(console: Console) -> None:
    """Print the name and the summary of every plug-in. None of ours is imported for it, which would take a second."""
    for name, kind in KINDS.items():
        console.print(f"[bold]{name}[/] (options: `stormproof list {name}`)")
        for plugin, summary in plugins.summaries(kind).items():
            name_shown = plugin.replace("_", "-") if kind is PluginKind.LAW else plugin  # as promises are written
            words = f"{escape(name_shown)}  [dim]{escape(summary)}[/]"
            console.print(Padding(words, INDENTED, expand=False))
    console.print(f"[bold]{EXPERIMENTS}[/]: `stormproof list {EXPERIMENTS}` names those that `stormproof run` knows")
    console.print(f"[bold]{BUGS}[/]: `stormproof list {BUGS}` names the bugs that can be planted")


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == BUGS:
        return [
            {"system": driver, **dataclasses.asdict(mutant), "command": shown_by(mutant)}
            for driver in plugins.names(PluginKind.DRIVER)
            for mutant in _mutants(driver)
        ]
    if kind == EXPERIMENTS:
        return [{"name": name, "summary": _purpose(file), "file": str(file)} for name, file in experiments().items()]
    descriptions = plugins.describe(KINDS[kind])
    if KINDS[kind] is PluginKind.LAW:
        from chaos.judging.registry import registry

        broken = registry().broken  # also what loads, but makes no law, or one that another plug-in has already
        descriptions = [
            dataclasses.replace(one, name=promise, error=broken.get(one.name, one.error))
            for one in descriptions
            for promise in _promises(one.name) or (one.name,)
        ]
    return [_entry(description) for description in descriptions]


def _promises(plugin: str) -> list[str]:
    """Return the names of what a plug-in judges, as experiments and verdicts have them."""
    from chaos.judging.registry import registry

    return list(dict.fromkeys(law.promise.name for (name, _), law in registry().kernels.items() if name == plugin))


def shown_by(mutant: Any) -> str:
    """Return the command of a run in which this planted bug breaks its promise."""
    return f"stormproof run {mutant.scenario or QUICKSTART} --on sim --seed {mutant.seed} --bug {mutant.name}"


def _purpose(file: Path) -> str:
    """Return the first sentence of the comment that an experiment begins with."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), file.read_text("utf-8").splitlines())
    text = " ".join(line.lstrip("# ") for line in lines)
    return re.split(r"(?<=[.:]) ", text, maxsplit=1)[0].rstrip(".:")


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
    """Return what the catalogue says of a fault; ``deployments`` maps where it can be done to the option that it takes
    there ("" for none)."""
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
    if isinstance(value, Enum):
        return _jsonable(value.value)
    if isinstance(value, list | tuple):
        return [_jsonable(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _in_yaml(value: object) -> str:
    """Return it as a file says it."""
    return f"[{', '.join(map(_in_yaml, value))}]" if isinstance(value, list) else str(value)


def _lines(kind: str, entry: Mapping[str, Any]) -> list[str]:
    """Return what there is to say of a plug-in or mutant, a line for each part."""
    if "error" in entry:
        _, _, why = entry["error"].partition(" is broken: ")  # which plug-in that is stands beside it
        return [f"[red]broken[/]: {escape(why or entry['error'])}"]
    if kind == BUGS:
        parts = {"law": entry["law"], "shown by": entry["command"]}
        return [escape(entry["stands_for"]), *_parts(parts)]
    if kind == EXPERIMENTS:
        return [escape(entry["summary"])]
    if kind != FAULTS:
        return [escape(entry["summary"]), *_parts({"options": _options(entry)})]
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
    return [escape(entry["summary"]), *_parts(parts)]


def _parts(parts: Mapping[str, str]) -> list[str]:
    return [f"[dim]{name}:[/] {escape(words)}" for name, words in parts.items() if words]


def _options(entry: Mapping[str, Any]) -> str:
    return " ".join(_with_default(option) for option in entry["options"])


def _with_default(option: Mapping[str, Any]) -> str:
    return str(option["name"]) if option["required"] else f"{option['name']}={_in_yaml(option['default'])}"


def _blocks(kind: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yield lines for narrow terminals: names on lines of their own, all else indented below."""
    for entry in entries:
        yield f"[bold]{escape(entry['name'])}[/]"
        for line in _lines(kind, entry):
            yield Padding(line, INDENTED, expand=False)


def _table(kind: str, entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table; for faults, with much to say of each, one with a single column of lines."""
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=kind != FAULTS)
    columns = {
        BUGS: ("name", "law", "stands_for", "scenario"),
        FAULTS: ("name", ""),
        EXPERIMENTS: ("name", "summary"),
    }
    for column in columns.get(kind, ("name", "summary", "options")):
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "name")
    for entry in entries:
        if kind == FAULTS:
            first, *more = _lines(kind, entry)
            table.add_row(f"[bold]{escape(entry['name'])}[/]", first)
            for line in more:
                table.add_row("", line)
        elif "error" in entry:
            table.add_row(entry["name"], *_lines(kind, entry))
        elif kind == BUGS:
            shown = {**entry, "scenario": entry["scenario"] or QUICKSTART}
            table.add_row(*(escape(str(shown[column])) for column in columns[BUGS]))
        elif kind == EXPERIMENTS:
            table.add_row(entry["name"], escape(entry["summary"]))
        else:
            table.add_row(entry["name"], escape(entry["summary"]), escape(_options(entry)))
    return table


def _option_words(option: Mapping[str, Any]) -> str:
    """Return ``jitter_ms=100 (ms)``, ``mode=stall (stall, reset)``: its default, and in brackets the unit or the
    choices."""
    words = _with_default(option)
    about = ", ".join(filter(None, [option["unit"], *(str(value) for value in option["values"])]))
    return f"{words} ({about})" if about else words
