"""What is told of a run while it runs."""

from __future__ import annotations

from stormproof.commands._progress import FAULTS, LiveRun, PhaseLines

SECOND = 1_000_000_000


def test_elsewhere_each_phase_is_a_line_when_it_begins() -> None:
    told: list[str] = []
    lines = PhaseLines(45.0, told.append)
    for phase, seconds in [("setup", 0.0), ("setup", 0.5), ("load", 2.25), ("load", 3.0), ("heal", 47.5)]:
        lines.phase(phase, seconds)
    assert told == ["    0.0 s  setup", "    2.2 s  load, 45 s", "   47.5 s  heal"]


def test_on_a_terminal_faults_in_force_are_shown_and_operations_are_counted() -> None:
    told: list[str] = []
    shown: list[tuple[str, float, float]] = []
    live = LiveRun(told.append, lambda *words: shown.append(words))

    def row(at_s: float, kind: str, **columns: object) -> None:
        live.row(kind, columns, lambda: int(at_s * SECOND))

    live.phase("setup", 0.0)
    row(2.0, "harness", f="phase", value={"phase": "load"})
    live.phase("load", 2.0)
    for kind in ("invoke", "ok", "ok", "fail"):
        row(2.1, "op", f="send", type=kind)
    row(2.2, "op", f="delivered", type="ok")
    row(3.0, "fault", f="kill", process="kill-0", type="invoke", value={"targets": ["broker-0", "broker-1"]})
    assert told == []
    row(3.5, "fault", f="kill", process="kill-0", type="ok", value={"phase": "inject"})
    live.phase("load", 3.0)
    row(7.0, "fault", f="kill", process="kill-0", type="ok", value={"phase": "undo"})
    row(7.5, "fault", f="pause", process="pause-3", type="invoke", value={"targets": ["broker-1"]})
    row(7.6, "fault", f="pause", process="pause-3", type="ok", value={"phase": "undo", "effective": False})
    row(8.0, "fault", f="switch", process="switch-1", type="invoke", value={"targets": []})
    row(8.0, "fault", f="switch", process="switch-1", type="fail", value={"reason": "refused"})
    assert told == [
        "    5.6 s  pause broker-1 has no effect",
        "    6.0 s  switch has no effect: refused",
    ]
    assert shown == [("setup", 0.0, 0.0), ("load", 0.0, 0.0), ("load: kill broker-0 broker-1", 1.0, 2.0)]
    assert live.faults() == "1 fault: kill 1.0–5.0"
    for number in range(60):
        row(10.0 + number, "fault", f="clock", process=str(number), type="invoke", value={"targets": []})
        row(10.0 + number, "fault", f="clock", process=str(number), type="ok", value={"phase": "undo"})
    assert live.faults().startswith("61 faults: kill 1.0–5.0; clock 8.0, 9.0, ") and live.faults().endswith(", …")
    assert len(live.faults()) <= FAULTS
