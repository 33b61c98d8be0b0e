"""The catalogue of faults: every name that other tools use is known."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from chaos import plugins
from chaos.driver import ALIASES
from chaos.errors import BadInput
from chaos.experiment.capabilities import deployment_class
from chaos.experiment.powers import starts
from chaos.experiment.reader import load
from chaos.plugins import PluginKind
from stormproof import catalogue, cli

ENTRIES = {entry.name: entry for entry in catalogue.entries()}

#: What OpenChaos accepts for `--fault`.
WHOM = ("minor", "major", "random", "fixed")
WHAT = ("kill", "suspend", "loss", "delay", "cpu-high", "mem-high", "disk-error", "io-hang")
OPENCHAOS = (
    "noop",
    *(f"{whom}-{what}" for whom in WHOM for what in WHAT),
    *(f"leader-{what}" for what in ("kill", "suspend", "partition")),
    "random-partition",
    "fixed-partition",
    "partition-majorities-ring",
    "bridge",
)
#: Jepsen's packages, the operations of theirs that begin a fault, and its nemeses.
JEPSEN = (
    *("partition", "packet", "kill", "pause", "clock", "file-corruption"),
    *("start-partition", "start-packet", "bump-clock", "strobe-clock", "bitflip", "truncate"),
    *("noop", "partition-halves", "partition-random-halves", "partition-random-node", "partition-majorities-ring"),
    *("bridge", "clock-scrambler", "node-start-stopper", "hammer-time", "truncate-file"),
    *(
        "bitflip-file-chunks",
        "copy-file-chunks",
        "restore-file-chunks",
        "charybdefs",
        "membership",
        "lazyfs",
        "faketime",
    ),
    *("grow", "shrink", "join", "leave"),
)


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(BadInput, match="no part between"):
        catalogue.write("# Faults\n")


def test_openchaos_accepts_forty_names() -> None:
    assert len(set(OPENCHAOS)) == 40


@pytest.mark.parametrize("name", sorted({*OPENCHAOS, *JEPSEN}))
def test_names_of_other_tools_are_faults_that_can_be_done_somewhere(name: str, tmp_path: Path) -> None:
    meant = plugins.resolve(PluginKind.FAULT, name)
    assert meant.plugin in ENTRIES, f"nothing is called {name}"
    able = {one: how for one, how in ENTRIES[meant.plugin].deployments.items() if starts(deployment_class(one))}
    where = min(able, key=lambda deployment: (able[deployment] != "", deployment))  # as it is, where that is possible
    text = f"system: reference\nduration: 9s\nworkloads: [queue]\nfaults:\n  - {name}: {{}}\n    at: 1s\n"
    (tmp_path / "it.yaml").write_text(text)
    (fault,) = load(tmp_path / "it.yaml", deployment=where).faults
    assert fault.name == meant.plugin and fault.use.build()
    assert all(hasattr(fault.use.options, option) for option in meant.options)


def test_no_name_stands_for_two_faults() -> None:
    declared: Counter[str] = Counter(list(ENTRIES))
    for name in ENTRIES:
        declared.update(list(getattr(plugins.load(PluginKind.FAULT, name), ALIASES, {})))
    assert [name for name, count in declared.items() if count > 1] == []


def test_every_fault_can_be_done_somewhere_and_the_page_says_how_it_is_proven_and_undone() -> None:
    for entry in ENTRIES.values():
        assert entry.summary and entry.deployments, entry.name
        assert entry.proof or entry.name == "noop", entry.name


def test_a_kill_is_proven_by_its_process_and_by_its_silence() -> None:
    kill = ENTRIES["kill"]
    assert (kill.target, kill.undo, set(kill.deployments.values())) == ("master", ("start",), {""})
    assert kill.proof == ("process id and start time are gone", "no answer to a ping, then one again")
    assert kill.aliases["minor-kill"] == {"target": "minority"}


def test_what_only_some_options_can_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment whose links can only be reset does the loss of packets only by resets."""
    from chaos.deployments.sim import SimDeployment
    from chaos.effects.links import Reset

    monkeypatch.setattr(SimDeployment, "LINK_ACTIONS", frozenset({Reset}))
    found = {entry.name: entry.deployments.get("sim") for entry in catalogue.entries()}
    assert (found["loss"], found["partition"], found["kill"]) == ("mode: reset", None, "")


def test_units_and_choices_of_options_are_told() -> None:
    slow = {option.name: option for option in ENTRIES["slow_link"].options}
    assert (slow["delay_ms"].unit, slow["delay_ms"].values) == ("ms", ())
    shapes = {option.name: option for option in ENTRIES["partition"].options}
    assert "majorities_ring" in shapes["shape"].values and "controllers" in shapes["away_from"].values
    limit = {option.name: option for option in ENTRIES["rate_limit"].options}
    assert limit["bytes_per_s"].unit == "per second"


def test_list_tells_of_every_fault_where_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["list", "faults", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(found) == set(ENTRIES)
    assert found["kill"]["undo"] == ["start"] and found["kill"]["aliases"]["leader-kill"] == {"target": "master"}
    assert found["loss"]["options"][1] == {
        "name": "mode",
        "type": "Mode",
        "required": False,
        "default": "stall",
        "unit": "",
        "values": ["stall", "reset"],
    }
    assert cli._run(["list", "faults"]) == 0
    told = capsys.readouterr().out
    assert "leader-kill" in told and "undo: clear_rule" in told and "stall_ms=300 (ms, 1 to 600000)" in told
