"""What a report shows of objects whose calls no order explains: rebuilt from the run's rows and its verdict alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.verdict import Anomaly, DeadEnd, RunVerdict, Validity, Verdict
from reports.summary import summarise
from reports.timeline.from_run import background, timelines
from reports.timeline.model import CallBar, ObjectTimeline
from reports.timeline.static import draw
from tests.checkers.names import A, L
from tests.reports.timeline.test_page import HOSTILE, STALE, Page

MS = 1_000_000
WRITABLE = HOSTILE.replace("\ud800", "")  # what a history can hold
SET = {"object": "register-0", "model": "replica-info"}
ADDRESS = {"object": "register-0", "model": "register"}


class Run:
    """A recorded run: each operation with its invocation and completion at given milliseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorder = Recorder(path, lambda: 0)
        self.recorder.record("harness", f="phase", time_ns=1_000 * MS, value={"phase": "load"})

    def invoke(self, at: int, process: str, f: str, **value: Any) -> int:
        return self.recorder.record("op", type="invoke", time_ns=(1_000 + at) * MS, process=process, f=f, value=value)

    def end(self, op: int, at: int, process: str, f: str, kind: str = "ok", **value: Any) -> int:
        value = {"node": "controller-1", "value": value}
        return self.recorder.record("op", type=kind, op=op, time_ns=(1_000 + at) * MS, process=process, f=f, **value)

    def fault(self) -> None:
        common = {"f": "partition", "process": "fault-0", "time_ns": 1_010 * MS}
        self.recorder.record("fault", type="invoke", value={"targets": ["controller-0"]}, **common)
        self.recorder.record("fault", type="ok", value={"phase": "inject", "proof": {}}, **common)

    def led(self, node: str, at: int, role: str, term: int) -> None:
        row = {"node": node, "f": "raft", "epoch": term, "value": {"role": role}, "time_ns": (1_000 + at) * MS}
        self.recorder.record_trace({"incarnation": 1, "step": at, **row})


def record(path: Path) -> tuple[Anomaly, dict[str, int]]:
    """c-1 reads epoch 1 after c-0's change to epoch 2 was acknowledged; beside it all that must not be drawn."""
    run = Run(path)
    rows = {}
    run.led("controller-0", 0, "leader", 3)
    run.fault()
    rows["change"] = run.invoke(20, "c-0.0", "cas", **SET, expected=1, members=[1, 3])
    other = run.invoke(21, "c-2.0", "write", **ADDRESS, address=WRITABLE)
    rows["changed"] = run.end(rows["change"], 25, "c-0.0", "cas", **SET, expected=1, members=[1, 3], epoch=2)
    run.end(other, 26, "c-2.0", "write", **ADDRESS, address=WRITABLE)
    for number, (kind, told) in enumerate([("fail", {"refused": True}), ("fail", {}), ("info", {"reason": "timeout"})]):
        op = run.invoke(30 + number, f"c-3.{number}", "cas", **SET, expected=7, members=[1])
        run.end(op, 33 + number, f"c-3.{number}", "cas", kind, **SET, expected=7, members=[1], **told)
    lost = run.invoke(38, "c-4.0", "read", **SET, to="controller-0")
    run.end(lost, 39, "c-4.0", "read", "info", **SET)
    rows["read"] = run.invoke(40, "c-1.0", "read", **SET)
    rows["saw"] = run.end(rows["read"], 45, "c-1.0", "read", **SET, epoch=1, members=[1])
    run.recorder.close()
    anomaly = Anomaly(
        law=L.LINEARIZABLE,
        name=A.NOT_LINEARIZABLE,
        explanation="c-1 read what c-0 had changed",
        rows=tuple(rows.values()),
        dead_ends=(
            DeadEnd(
                order=(rows["change"],), states=("epoch 2 {1, 3}",), state="epoch 2 {1, 3}",
                illegal=((rows["read"], "it read epoch 1 {1}"),),
            ),
            DeadEnd(order=(rows["change"],), state="epoch 2 {1, 3}", illegal=((rows["read"], "alone"),), alone=True),
        ),
    )  # fmt: skip
    return anomaly, rows


def drawn(path: Path) -> ObjectTimeline:
    anomaly, _ = record(path)
    return timelines(History.open(path), [anomaly])[0]


def test_the_calls_of_the_object_are_those_that_may_have_happened(tmp_path: Path) -> None:
    timeline = drawn(tmp_path)
    assert timeline.key == "register-0 (replica-info)"
    assert [(call.process, call.label, call.ret is None) for call in timeline.calls] == [
        ("c-0", "cas epoch 1 → 2 {1, 3}", False),
        ("c-3", "cas epoch 7 → refused", False),
        ("c-3", "cas epoch 7 → ? {1}", True),
        ("c-1", "read → epoch 1 {1}", False),
    ]
    assert (timeline.calls[0].call_s, timeline.calls[0].ret_s) == (0.020, 0.025), "seconds since the load began"
    assert timeline.calls[2].detail.endswith("answered by controller-1, timeout")


@pytest.mark.parametrize(
    ("f", "kind", "told", "label"),
    [
        ("acquire", "ok", {"holder": 2, "token": 18}, "acquire as 2 → token 18"),
        ("acquire", "info", {"holder": 2}, "acquire as 2 → ?"),
        ("release", "ok", {"holder": 2, "token": 18}, "release as 2 token 18"),
        ("write", "info", {"address": "a-1"}, "write a-1"),
        ("read", "ok", {"address": "a-1"}, "read → a-1"),
    ],
)
def test_labels_say_what_was_asked_and_what_came_back(
    tmp_path: Path, f: str, kind: str, told: dict[str, Any], label: str
) -> None:
    run = Run(tmp_path)
    op = run.invoke(1, "c-0.0", f, **SET)
    rows = (op, run.end(op, 2, "c-0.0", f, kind, **SET, **told))
    run.recorder.close()
    anomaly = Anomaly(law=L.LINEARIZABLE, name=A.NOT_LINEARIZABLE, explanation="", rows=rows)
    assert [call.label for call in timelines(History.open(tmp_path), [anomaly])[0].calls] == [label]


def test_dead_ends_of_the_verdict_name_the_calls(tmp_path: Path) -> None:
    timeline = drawn(tmp_path)
    assert (timeline.minimal, timeline.blocked) == ([0, 3], 3)
    assert (timeline.orders[0].order, timeline.orders[0].illegal) == ([0], {3: "it read epoch 1 {1}"})
    assert timeline.minimal_orders[0].illegal == {3: "alone"}


def test_faults_and_leaders_stand_behind(tmp_path: Path) -> None:
    record(tmp_path)
    table, _ = History.open(tmp_path).recorded()
    bands = background(summarise(History.of(table), ()))
    assert [(band.lane, band.kind, band.label) for band in bands] == [
        ("partition", "fault", "controller-0"),
        ("controller-0", "leader", "leader 3"),
    ]


def report(path: Path, anomaly: Anomaly) -> str:
    law = Verdict(law=L.LINEARIZABLE, validity=Validity.INVALID, anomalies=(anomaly,))
    verdict = RunVerdict(
        run="r", seed=1, validity=Validity.INVALID, laws=[law], digest="0" * 64, engine="local", seconds=0.1
    )
    write_meta(path, {"run": "r", "seed": 1, "state": "finished"})
    write_verdict(path, verdict)
    return reports.render(path).read_text("utf-8")


def test_the_report_holds_the_timeline_and_stays_one_safe_page(tmp_path: Path) -> None:
    anomaly, _ = record(tmp_path)
    text = report(tmp_path, anomaly)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 4
    assert json.loads(page.scripts[1])["objects"][0]["reason"] == "c-1 read what c-0 had changed"
    assert "script-src 'sha256-" in text
    assert not {"img", "iframe", "object", "link"} & {tag for tag, _ in page.tags}
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    assert 'href="#key=register-0%20%28replica-info%29"' in text
    assert 'class="static-timeline"' in text


def test_an_anomaly_whose_rows_are_gone_still_gives_a_report(tmp_path: Path) -> None:
    record(tmp_path)
    gone = Anomaly(law=L.LINEARIZABLE, name=A.NOT_LINEARIZABLE, explanation="no order explains it", rows=(9_999,))
    text = report(tmp_path, gone)
    assert "no order explains it" in text
    assert "timeline-data" not in text


def test_the_still_picture_shows_the_minimal_calls_and_escapes_them(tmp_path: Path) -> None:
    svg = str(draw(STALE, "calls"))
    for shown in ("write 1", "write 2", "read → 2", "✕ read → 1"):
        assert f">{shown}<" in svg
    assert "write 3" not in svg, "not part of the witness"
    hostile = ObjectTimeline(key=None, verdict="invalid", minimal=[0], calls=[_renamed(HOSTILE)])
    tags = {tag for tag, _ in Page(str(draw(hostile, "calls"))).tags}
    assert tags <= {"svg", "title", "text", "line", "rect", "polyline", "circle"}


@pytest.mark.parametrize("minimal", [(), range(200)])
def test_nothing_small_to_show_is_no_picture(minimal: range) -> None:
    calls = [_renamed(f"c-{number}", number) for number in range(200)]
    assert draw(ObjectTimeline(key=None, verdict="invalid", calls=calls, minimal=minimal), "calls") is None


def _renamed(text: str, number: int = 0) -> CallBar:
    return CallBar(number=number, process=text, label=text, call=2 * number, ret=2 * number + 1, detail=text)
