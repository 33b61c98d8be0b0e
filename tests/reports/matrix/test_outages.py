"""From when a client waits for service until it has it: what counts as a time without, and for which fault."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from chaos.experiment.reader import load
from chaos.history.history import History
from reports.matrix.outages import gaps, longest_s, outages
from tests.stormproof.small_runs import EXPERIMENT

Op = tuple[float, float, str]


def rows(sends: list[Op], faults: list[tuple[str, float, float]] = [], end_s: float = 20.0) -> History:  # noqa: B006
    """Sends to one queue: when each was asked for and answered, and how; faults with their begin and end."""
    told: list[tuple[float, str, str, str, str, dict[str, object]]] = [
        (0.0, "harness", "", "phase", "", {"phase": "load"}),
        (end_s, "harness", "", "phase", "", {"phase": "heal"}),
        (end_s + 1, "harness", "", "recovered", "", {}),
    ]
    for at_s, until_s, how in sends:
        told += [(at_s, "op", "invoke", "send", "p-0", {}), (until_s, "op", how, "send", "p-0", {})]
    for number, (name, at_s, until_s) in enumerate(faults):
        process = f"fault-{number}"
        told.append((at_s, "fault", "invoke", name, process, {"targets": ["b"], "effects": {}}))
        told.append((at_s, "fault", "ok", name, process, {"phase": "inject", "proof": {}, "proven": {}}))
        told.append((until_s, "fault", "ok", name, process, {"phase": "undo", "effective": True}))
    told.sort(key=lambda row: row[0])
    columns = {
        "index": list(range(len(told))),
        "time_ns": [round(row[0] * 1e9) for row in told],
        **{name: [row[place] for row in told] for place, name in ((1, "kind"), (2, "type"), (3, "f"), (4, "process"))},
        "queue": [0 if row[1] == "op" else -1 for row in told],
        "node": ["" for _ in told],
        "value": [json.dumps(row[5]) for row in told],
    }
    return History.of(pa.table(columns))


def test_nobody_waits_while_nobody_asks() -> None:
    idle = rows([(1.0, 1.1, "ok"), (11.0, 11.2, "ok")])
    assert gaps(idle) == [pytest.approx((1.0, 1.1)), pytest.approx((11.0, 11.2))]
    assert longest_s(idle) == pytest.approx(0.2)


def test_what_fails_was_waiting_and_what_never_ends_waits_to_the_end() -> None:
    assert longest_s(rows([(1.0, 1.1, "ok"), (2.0, 5.0, "fail"), (6.0, 6.5, "info"), (7.0, 7.5, "ok")])) == 5.5
    assert longest_s(rows([(1.0, 1.1, "ok"), (2.0, 5.0, "fail")])) == 18.0
    assert longest_s(rows([])) == 0.0


def test_one_who_waits_already_waits_from_the_last_acknowledgement_on() -> None:
    assert longest_s(rows([(1.0, 4.0, "ok"), (1.5, 9.0, "ok")])) == pytest.approx(5.0)


def test_a_fault_answers_for_what_begins_before_the_next() -> None:
    sends = [(1.0, 1.1, "ok"), (3.0, 7.0, "ok"), (12.0, 12.5, "ok"), (19.0, 20.5, "fail")]
    found = outages(rows(sends, [("kill", 2.0, 4.0), ("pause", 6.0, 8.0), ("kill", 11.0, 12.0)]))
    assert [(one.fault, one.without_s) for one in found] == [("kill", 4.0), ("pause", 1.0), ("kill", 1.0)]


def test_faults_are_called_as_the_experiment_has_them(tmp_path: Path) -> None:
    faults = (
        "  - kill: {target: master}\n    at: 2s\n    for: 1s\n  - kill: {target: slave}\n    at: 3s\n    for: 500ms\n"
    )
    partition = (
        "  - partition: {shape: apart, target: master, away_from: [brokers, controllers]}\n    at: 1s\n    for: 2s\n"
    )
    text = EXPERIMENT.partition("faults:\n")[0] + "faults:\n" + faults + partition
    (tmp_path / "it.yaml").write_text(text)
    experiment = load(tmp_path / "it.yaml", deployment="sim")
    told = rows([(0.5, 0.6, "ok")], [("partition", 1.0, 3.0), ("kill", 2.01, 3.0), ("kill", 3.02, 3.5)])
    assert [one.fault for one in outages(told, experiment)] == [
        *("partition master (shape apart, away_from brokers and controllers)", "kill master", "kill slave")
    ]
    assert [one.fault for one in outages(told)] == ["partition", "kill", "kill"]
