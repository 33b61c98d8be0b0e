"""What each workload does when it has nothing to do, and when nobody answers: a table, workload by question.

* *idle*: may it do nothing for a long time, and does the run go on to its end without being cut off?
* *ends*: does it end with the load, at once where it has long to wait, and where nobody answers?
* *goes on*: does it ask again and again while it is given no ok, and is the run then no good run?

Each cell names a test of this file, or says why the question does not apply.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos import plugins
from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.plugins import PluginKind
from chaos.workload import LONG_WAIT_S
from stormproof.launch import SIM, Launch, start

IDLE, UNANSWERED = "test_a_workload_may_be_idle_for_long", "test_a_workload_goes_on_without_an_ok_and_ends"
PROGRAM = "the pace is the program's own; the end of the load is the end of its input, after that it has 5 s: "
READERS = "tests/checkers/test_told_to_readers.py"
LENT = "the reference system lends no locks; a holder looks at the end of the load after each wait: "
#: Workload → question → the test, or why there is none. A new workload needs no line: its own test asks.
TABLE: dict[str, dict[str, str]] = {
    name: {"idle": IDLE, "ends": IDLE, "goes on": UNANSWERED}
    for name in ("queue", "tier_read", "register", "lock", "metadata", "topics", "limits", "operator")
}
TABLE["tail"] = dict.fromkeys(("idle", "ends"), "it waits at the nodes, and its reads end by themselves: " + READERS)
TABLE["tail"]["goes on"] = "a read without an answer is followed by the next one: " + READERS
TABLE["lease_lock"] = dict.fromkeys(("idle", "ends", "goes on"), LENT + "tests/workloads/test_lease_lock.py")
TABLE["program"] = dict.fromkeys(("idle", "ends", "goes on"), PROGRAM + "tests/workloads/test_program.py")
TABLE["library"] = dict.fromkeys(("idle", "ends", "goes on"), PROGRAM + "tests/workloads/test_library.py")

QUEUE: dict[str, Any] = {"queue": {"producers": 1, "consumers": 1, "rate_per_s": 2}}
#: Each with so little to do that it waits for much longer than the load lasts.
QUIET: dict[str, dict[str, Any]] = {
    "queue": {"producers": 2, "consumers": 1, "rate_per_s": 0.001},
    "tier_read": {"readers": 2, "rate_per_s": 0.001},
    "register": {"clients": 2, "objects": 1, "rate_per_s": 0.001},
    "lock": {"clients": 2, "locks": 1, "gap_s": 1000},
    "metadata": {"clients": 2, "entries": 1, "rate_per_s": 0.001},
    "topics": {"rate_per_s": 0.001},
    "limits": {"rate_per_s": 0.001},
    "operator": {"every_s": 1000},
}
#: Each with enough to do.
BUSY: dict[str, dict[str, Any]] = {
    "queue": {"producers": 2, "consumers": 1, "rate_per_s": 20},
    "tier_read": {"readers": 2, "rate_per_s": 10},
    "register": {"clients": 4, "objects": 1, "rate_per_s": 20},
    "lock": {"clients": 3, "locks": 1},
    "metadata": {"clients": 4, "entries": 1, "rate_per_s": 20},
    "topics": {"rate_per_s": 5},
    "limits": {"rate_per_s": 10},
    "operator": {"every_s": 1, "looks_s": 1},
}
#: What a workload asks for that is not its own: the final read, and the harness's probes.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "queue": ("send", "committed"),
    "tier_read": ("pull", "bounds"),
    "register": ("read", "write", "cas"),
    "lock": ("acquire",),
    "metadata": ("read", "write", "cas", "view"),
    "topics": ("create_topic",),
    "limits": ("question",),
    "operator": ("find_master",),
}
DURATION_S = 12.0
#: So many nodes of each role a test stops, all at once.
EVERYBODY = (
    "store-0",
    "broker-0",
    "broker-1",
    "broker-2",
    "controller-0",
    "controller-1",
    "controller-2",
    "nameserver-0",
)


def rows_of(
    folder: Path, workload: dict[str, Any], faults: Sequence[dict[str, Any]] = (), duration_s: float = DURATION_S
) -> list[dict[str, Any]]:
    """The rows of a simulated run of this workload."""
    name = next(iter(workload))
    system = {"queues": 2, "metadata": True} if name == "metadata" else {"queues": 2}
    used = [workload] if name == "queue" else [workload, QUEUE]
    told = {"name": "idle", "system": {"reference": system}, "duration": f"{duration_s:g}s", "workloads": used}
    file = folder / "idle.yaml"
    file.write_text(json.dumps({**told, "faults": list(faults)}), "utf-8")
    experiment = load(file, deployment=SIM, mutant="")
    run = start(Launch(experiment=experiment, file=file, deployment=SIM, seed=1, mutant="", out=folder / "runs"))
    table, damage = History.open(run).recorded()
    assert not damage
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def phase_s(rows: Sequence[dict[str, Any]], phase: str) -> float:
    """When a phase began."""
    began = (row for row in rows if row["f"] == "phase" and json.loads(row["value"])["phase"] == phase)
    return float(next(began)["time_ns"] / 1e9)


def test_each_line_of_the_table_is_about_a_workload() -> None:
    assert {*TABLE} <= {*plugins.names(PluginKind.WORKLOAD)}
    for cells in TABLE.values():
        for said in cells.values():
            file = Path(__file__).parents[2] / said.rpartition(" ")[2]
            assert said in globals() or file.is_file(), said


@pytest.mark.parametrize("name", [*QUIET])
def test_a_workload_may_be_idle_for_long(name: str, tmp_path: Path) -> None:
    """It waits for longer than the load lasts, and ends with it: neither cut off, nor by one last operation."""
    rows = rows_of(tmp_path, {name: QUIET[name]})
    assert not [row for row in rows if row["f"] == "overrun"]
    assert phase_s(rows, "heal") - phase_s(rows, "load") < DURATION_S + 0.5 < DURATION_S + LONG_WAIT_S
    begun_ns, over_ns = (1e9 * phase_s(rows, phase) for phase in ("load", "heal"))
    own = [row for row in rows if row["kind"] == "op" and row["type"] == "invoke" and row["f"] in OPERATIONS[name]]
    late = [row for row in own if begun_ns + 3e9 < row["time_ns"] < over_ns and not row["process"].startswith("group-")]
    late = [row for row in late if name == "queue" or row["f"] not in ("send", "pull", "committed")]
    assert not late


@pytest.mark.parametrize("name", [*BUSY])
def test_a_workload_goes_on_without_an_ok_and_ends(name: str, tmp_path: Path) -> None:
    """From the third second on nobody answers, to the end of the load and beyond."""
    faults = [{"pause": {"target": node}, "at": "3s"} for node in EVERYBODY]
    # Some questions are conversations, of which each part waits for its own answer.
    duration_s = DURATION_S * (3 if name == "limits" else 1)
    rows = rows_of(tmp_path, {name: BUSY[name]}, faults, duration_s)
    assert not [row for row in rows if row["f"] == "overrun"]
    begun_ns = 1e9 * phase_s(rows, "load")
    own = [row for row in rows if row["kind"] == "op" and row["f"] in OPERATIONS[name]]
    last = [row for row in own if begun_ns + 6e9 < row["time_ns"] < begun_ns + duration_s * 1e9]
    oks = [row for row in last if row["type"] == "ok"]
    # Of frames that nobody can understand it is documented that their connection ends, as it does where nobody answers.
    assert not [row for row in oks if name != "limits" or row["value"].count("the connection is closed") < 2]
    assert len([row for row in last if row["type"] == "invoke"]) >= 2
