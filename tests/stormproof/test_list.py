"""What ``stormproof list`` names: plug-ins alone. Support that slips into a plug-in folder shows here."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from chaos import plugins
from chaos.judging.registry import registry
from chaos.plugins import PluginKind
from stormproof import cli
from stormproof.commands import _console
from stormproof.commands.list import _lines

NAMES = {kind: plugins.names(kind) for kind in PluginKind}
#: Promises have one spelling: in lists, in experiments (`laws`) and in verdicts.
PROMISES = tuple(promise.name for promise in registry().promises)


@pytest.mark.parametrize("kind", list(PluginKind))
def test_plugin_folders_hold_plugins_alone(kind: PluginKind) -> None:
    assert NAMES[kind]
    for name in NAMES[kind]:
        module = plugins.load(kind, name)
        assert module.__doc__ and callable(getattr(module, "create", None)), f"{name}: support begins with _"


def test_the_overview_names_every_plugin_and_says_what_it_is() -> None:
    for kind in PluginKind:
        told = plugins.summaries(kind)
        assert tuple(told) == plugins.names(kind)
        assert dict(told) == {one.name: one.summary for one in plugins.describe(kind)}


@pytest.mark.parametrize("kind", ["", "workloads", "faults", "laws", "bugs"])
def test_a_list_is_readable_at_60_columns(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each name whole, on one line with nothing but the summary."""
    monkeypatch.setattr(_console, "out", lambda: Console(width=60))
    assert cli._run(["list", *filter(None, [kind])]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 60
    if kind == "bugs":
        known = [mutant.name for driver in NAMES[PluginKind.DRIVER] for mutant in plugins.mutants(driver)]
    else:
        shown = {**NAMES, PluginKind.LAW: PROMISES}
        known = [name for one, names in shown.items() if kind in ("", f"{one}s") for name in names]
    assert set(known) <= {line.split()[0] for line in lines if line}


def test_laws_are_listed_as_experiments_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["list", "laws", "--json"]) == 0
    assert {one["name"] for one in json.loads(capsys.readouterr().out)} == set(PROMISES)


def test_defaults_are_shown_as_a_file_says_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["list", "faults"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "away_from=[brokers]" in told and "Peers." not in told
    assert cli._run(["list", "faults", "--json"]) == 0
    (partition,) = (one for one in json.loads(capsys.readouterr().out) if one["name"] == "partition")
    assert next(one["default"] for one in partition["options"] if one["name"] == "away_from") == ["brokers"]


def test_a_broken_plugin_says_once_that_it_is_broken() -> None:
    entry = {"name": "kafka", "error": "driver 'kafka' is broken: kafka.py: KeyError: 'x is broken: y'"}
    assert _lines("drivers", entry) == ["[red]broken[/]: kafka.py: KeyError: 'x is broken: y'"]
    assert _lines("drivers", {"name": "kafka", "error": "nobody knows"}) == ["[red]broken[/]: nobody knows"]
