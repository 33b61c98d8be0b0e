"""Runs for other programs: the trace holds to the documented fields of its format, and shows what happened."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput
from chaos.history.directory import write_meta
from chaos.history.recorder import Recorder
from reports import exports
from reports.exports import perfetto
from stormproof import cli
from tests.reports.run_report.histories import MadeRun
from tests.stormproof import small_runs

Event = dict[str, Any]
#: Phase → the fields that the Trace Event Format demands of it, with their types.
COMMON = {"name": str, "pid": int, "tid": int}
TIMED = {**COMMON, "ts": int, "cat": str}
FIELDS: dict[str, dict[str, type]] = {
    "M": {**COMMON, "args": dict},
    "X": {**TIMED, "dur": int, "args": dict},
    "b": {**TIMED, "id": str, "args": dict},
    "e": {**TIMED, "id": str, "args": dict},
    "i": {**TIMED, "s": str, "args": dict},
    "C": {**COMMON, "ts": int, "args": dict},
    **{phase: {**TIMED, "id": int, "bp": str, "args": dict} for phase in "stf"},
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a planted bug: two masters, of which the old one has answered too much."""
    return small_runs.planted(tmp_path_factory.mktemp("planted")).directory


@pytest.fixture(scope="module")
def trace(planted: Path) -> dict[str, Any]:
    path = exports.write(planted, "perfetto")
    assert path == planted / "perfetto.json"
    told: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return told


def by_phase(trace: dict[str, Any], phase: str) -> list[Event]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def tracks(trace: dict[str, Any]) -> dict[str, int]:
    named = (event for event in by_phase(trace, "M") if event["name"] == "process_name")
    return {event["args"]["name"]: event["pid"] for event in named}


def test_every_event_has_the_fields_of_its_phase_and_no_others(trace: dict[str, Any]) -> None:
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] == "ms"
    assert {event["ph"] for event in trace["traceEvents"]} == set(FIELDS)
    for event in trace["traceEvents"]:
        fields = FIELDS[event["ph"]]
        assert {"ph", *fields} == set(event), event
        assert all(type(event[name]) is type_ for name, type_ in fields.items()), event
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
    assert {event["s"] for event in by_phase(trace, "i")} <= {"g", "p", "t"}
    assert all(all(type(value) is int for value in event["args"].values()) for event in by_phase(trace, "C"))


def test_slices_of_a_thread_nest_or_stand_apart(trace: dict[str, Any]) -> None:
    """Perfetto drops slices that overlap otherwise."""
    threads = defaultdict(list)
    for event in by_phase(trace, "X"):
        threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["ts"] + event["dur"]))
    for slices in threads.values():
        open_ends: list[int] = []
        for start, _, end in sorted(slices):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (start, end, open_ends)
            open_ends.append(end)


def test_nodes_are_tracks_with_their_roles_and_offsets(trace: dict[str, Any]) -> None:
    pids = tracks(trace)
    assert {"run", "faults", "clients", "broker-0", "broker-1", "broker-2", "controller-0"} <= set(pids)
    masters = {(event["pid"], event["name"]) for event in by_phase(trace, "X") if event["name"].startswith("master ")}
    assert masters == {(pids["broker-0"], "master 1"), (pids["broker-1"], "master 2")}
    counters = {(event["pid"], event["name"]) for event in by_phase(trace, "C")}
    assert {(pids["broker-0"], name) for name in ("end", "confirm", "first")} <= counters


def test_nodes_of_a_storage_cluster_have_their_slices_and_groups(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.trace(1.0, "broker-0", "opened", epoch=1, value={"slice": "slice-0", "life": 5, "ends": {}})
    history.trace(2.0, "store-0", "raft", epoch=3, value={"role": "leader", "leader": "store-0#1", "group": 4})
    history.trace(3.0, "store-0", "group_append", epoch=1, position=0, value={"group": 4, "end": 100})
    history.close()
    write_meta(tmp_path, {"run": "r"})
    shown = json.loads(perfetto.export(tmp_path))
    names = {number: name for name, number in tracks(shown).items()}
    found = [(names[event["pid"]], event["name"]) for event in by_phase(shown, "X") if event["cat"] == "role"]
    assert found == [("broker-0", "owner slice-0: 1"), ("store-0", "leader groups 4")]
    assert not [event for event in by_phase(shown, "i") if event["name"].startswith("group_append")]


def test_a_fault_is_a_slice_from_its_request_to_its_undo(trace: dict[str, Any]) -> None:
    (begin,), (end,) = by_phase(trace, "b"), by_phase(trace, "e")
    assert [begin[name] for name in ("name", "cat", "id", "pid")] == [
        end[name] for name in ("name", "cat", "id", "pid")
    ]
    assert begin["name"] == "partition" and begin["args"]["targets"] == "broker-0"
    zero = trace["otherData"]["load_began_us"]
    assert begin["ts"] - zero == pytest.approx(1_000_000, abs=50_000)
    assert end["ts"] - begin["ts"] == pytest.approx(2_000_000, abs=200_000)


def test_a_message_flows_from_its_client_through_the_replicas_to_its_reader(trace: dict[str, Any]) -> None:
    pids, flows = tracks(trace), defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "stf":
            flows[event["id"]].append(event)
    spans = defaultdict(list)
    for one in by_phase(trace, "X"):
        spans[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for steps in flows.values():
        assert [step["ph"] for step in steps] == ["s", *["t"] * (len(steps) - 2), "f"]
        assert [step["ts"] for step in steps] == sorted(step["ts"] for step in steps)
        for step in steps:
            assert any(start <= step["ts"] <= end for start, end in spans[step["pid"], step["tid"]]), step
    whole = [{step["pid"] for step in steps} for steps in flows.values()]
    assert {pids["clients"], pids["broker-0"], pids["broker-1"], pids["broker-2"]} in whole


def test_violations_are_instants_with_their_explanation(trace: dict[str, Any]) -> None:
    (found,) = (event for event in by_phase(trace, "i") if event["cat"] == "finding")
    assert found["name"] == small_runs.ANOMALY and found["args"]["law"] == small_runs.LAW
    assert "broker-0 (epoch 1)" in found["args"]["explanation"]


def test_the_command_names_its_formats_and_refuses_others(planted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["export", str(planted), "--to", "perfetto"]) == 0
    assert capfd.readouterr().out.strip() == str(planted / perfetto.FILE)
    assert cli._run(["export", str(planted), "--to", "nothing"]) == 3
    assert "'nothing' is none of perfetto" in capfd.readouterr().err
    cli._run(["report", "--help"])
    assert exports.about("perfetto")[:40] in capfd.readouterr().out


def test_a_run_without_rows_is_one_sentence(tmp_path: Path) -> None:
    Recorder(tmp_path, lambda: 0).close()
    write_meta(tmp_path, {"run": "r", "seed": 1, "state": "failed"})
    with pytest.raises(BadInput, match="nothing was recorded"):
        exports.write(tmp_path, "perfetto")
    assert not (tmp_path / perfetto.FILE).exists()


def test_the_same_run_gives_the_same_bytes(planted: Path, trace: dict[str, Any]) -> None:
    assert perfetto.export(planted) == (planted / perfetto.FILE).read_bytes()
