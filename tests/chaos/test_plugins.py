"""One file is one plug-in: found without imports, described, and shown as broken when it is."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind

ROOT = Path(__file__).parents[2]
PACKAGES = [(kind, plugins.PACKAGES[kind]) for kind in PluginKind]


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Put one new file into a plug-in package, for this test only."""

    def adder(kind: PluginKind, name: str, text: str) -> None:
        package = importlib.import_module(plugins.PACKAGES[kind])
        folder = tmp_path / kind
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{package.__name__}.{name}", raising=False)

    yield adder
    for name in [name for name in sys.modules if name.endswith((".coffee_machine", "._shared"))]:
        del sys.modules[name]


GOOD = '''
    """Make coffee.

    And more."""
    from dataclasses import dataclass

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        strength_count: int
        wait_s: float = 2.0

    def create(options):
        return ("made", options)
'''


@pytest.mark.parametrize("kind", list(PluginKind))
def test_a_new_file_is_found_without_being_imported(add, kind):
    add(kind, "coffee_machine", "raise AssertionError('imported')")
    assert "coffee_machine" in plugins.names(kind)
    assert f"{plugins.PACKAGES[kind]}.coffee_machine" not in sys.modules


@pytest.mark.parametrize("kind", [kind for kind in PluginKind if kind is not PluginKind.DEPLOYMENT])
def test_a_new_file_is_described_and_built(add, kind):
    add(kind, "coffee_machine", GOOD)
    found = next(one for one in plugins.describe(kind) if one.name == "coffee_machine")
    assert found.summary == "Make coffee." and not found.error
    assert [(option.name, option.type, option.required, option.default) for option in found.options] == [
        ("strength_count", "int", True, None),
        ("wait_s", "float", False, 2.0),
    ]
    options = plugins.options_class(plugins.load(kind, "coffee_machine"))(strength_count=3)
    assert plugins.build(kind, "coffee_machine", options) == ("made", options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("def create(", "SyntaxError"),
        ("raise SystemError('no')", "SystemError: no"),
        ("x = 1", "no module with a function create"),
    ],
)
def test_a_broken_file_is_shown_as_broken_and_stops_nobody_else(add, text, reason):
    add(PluginKind.FAULT, "coffee_machine", text)
    described = {one.name: one for one in plugins.describe(PluginKind.FAULT)}
    assert reason in described["coffee_machine"].error
    assert described["kill"].summary and not described["kill"].error
    with pytest.raises(BadInput, match="broken"):
        plugins.load(PluginKind.FAULT, "coffee_machine")


def test_files_that_begin_with_an_underscore_are_no_plugins(add):
    add(PluginKind.FAULT, "_shared", GOOD)
    assert "_shared" not in plugins.names(PluginKind.FAULT)


def test_an_unknown_name_brings_the_nearest_known_one():
    with pytest.raises(BadInput, match="did you mean 'partition'"):
        plugins.load(PluginKind.FAULT, "partitoin")
    assert plugins.nearest("xyzzy", ["a", "b"]) == "known: a, b"
    assert plugins.nearest("xyzzy", []) == ""


def test_plugins_of_other_packages_come_through_entry_points(tmp_path, monkeypatch):
    (tmp_path / "elsewhere_storm.py").write_text(textwrap.dedent(GOOD))
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[stormproof.faults]\ncoffee = elsewhere_storm\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "coffee" in plugins.names(PluginKind.FAULT)
    assert plugins.summary(plugins.load(PluginKind.FAULT, "coffee")) == "Make coffee."


@pytest.mark.parametrize("kind", list(PluginKind))
def test_everything_that_ships_is_sound(kind):
    described = plugins.describe(kind)
    assert described
    assert [one.error for one in described if one.error] == []
    assert all(one.summary.endswith(".") for one in described)


def test_another_name_stands_for_a_plug_in_and_its_options():
    meant = plugins.resolve(PluginKind.FAULT, "minor-kill")
    assert (meant.plugin, meant.options) == ("kill", {"target": "minority"})
    assert plugins.resolve(PluginKind.FAULT, "kill") == plugins.Alias(plugin="kill", options={})


def test_a_misspelt_alias_is_hinted_at():
    with pytest.raises(BadInput, match="did you mean 'minor-kill'"):
        plugins.load(PluginKind.FAULT, "minr-kill")


def test_entry_points_that_nothing_reads_are_told(tmp_path, monkeypatch):
    info = tmp_path / "lost-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[stormproof.law]\nmine = lost\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (told,) = plugins.unknown_groups()
    assert told.startswith("lost: nothing reads the entry points 'stormproof.law'; did you mean 'stormproof.laws'?")


@pytest.mark.parametrize("package", ["workloads", "drivers", "nemesis", "checkers"])
def test_a_folder_in_front_of_ours_is_told_and_never_silently_empty(tmp_path, package):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    script = "from chaos import plugins; print([plugins.names(kind) for kind in plugins.PluginKind])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "BadInput" in done.stderr
    assert f"the folder {tmp_path / package} is imported as {package!r}" in done.stderr
    assert f"Stormproof's own {ROOT / package}" in done.stderr


def test_a_file_that_is_added_is_found_though_the_folder_was_listed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nemesis = importlib.import_module("nemesis")
    monkeypatch.setattr(nemesis, "__path__", [*nemesis.__path__, str(tmp_path)])
    os.utime(tmp_path, ns=(1, 1))  # clocks of file systems may stand still for some milliseconds
    before = {*plugins.names(PluginKind.FAULT)}
    (tmp_path / "added.py").touch()
    assert {*plugins.names(PluginKind.FAULT)} - before == {"added"}
