"""What the time axis is drawn from: lags behind the newest master, states of nodes, clients without service."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.merged_moments import moments_of
from chaos.verdict import Anomaly, Validity, Verdict
from reports.parts import Parts
from reports.run_report import labels
from reports.run_report.acts import act_s, acts
from reports.run_report.axis import STROKES, Axis
from reports.run_report.axis import line as draw_line
from reports.run_report.fates import Fate
from reports.run_report.figure import DOTS, Figure, axis_of, draw
from reports.run_report.lags import Lag, lags
from reports.run_report.master_terms import master_terms
from reports.run_report.master_terms import two_masters as both_at_once
from reports.run_report.states import as_json, states
from reports.run_report.story import environment
from reports.summary import Bar, Story, summarise
from tests.reports.run_report.histories import START, MadeRun

HOSTILE = "</svg><script>alert(1)</script>\u202e"


def poll(history: MadeRun, at: float, node: str, end: int, confirm: int) -> None:
    state = {"end": end, "confirm": confirm, "first": 0}
    history.recorder.record("poll", time_ns=round((START + at) * 1e9), type="ok", f="state", node=node, value=state)


def two_masters(history: MadeRun) -> tuple[History, Story]:
    """broker-0 is master until broker-1 is, at 3 s, and goes on alone until 5 s."""
    history.role(0.0, "broker-0", "master", 1)
    history.role(3.0, "broker-1", "master", 2)
    history.role(5.0, "broker-0", "slave", 2)
    for at, first, second in ((1.0, 1000, 400), (2.0, 2000, 1000), (4.0, 5000, 1500), (6.0, 3000, 3000)):
        poll(history, at, "broker-0", first, 900)
        poll(history, at, "broker-1", second, 400)
    return history.close()


def test_a_replica_is_behind_the_newest_master_and_an_old_master_ahead_of_it(tmp_path: Path) -> None:
    rows, story = two_masters(MadeRun(tmp_path))
    found = {
        lag.label: dict(zip(lag.at_s, lag.behind, strict=True)) for lag in lags(rows, master_terms(rows, story.faults))
    }
    assert found["broker-0"] == {1.0: 0.0, 2.0: 0.0, 4.0: -3500.0, 6.0: 0.0}
    assert found["broker-1"] == {1.0: 600.0, 2.0: 1000.0, 4.0: 0.0, 6.0: 0.0}
    assert found["confirmed"][1.0] == 100.0


def test_two_masters_at_once_have_a_lane_of_their_own(tmp_path: Path) -> None:
    rows, story = two_masters(MadeRun(tmp_path))
    both = both_at_once(master_terms(rows, story.faults))
    assert both == [(3.0, 5.0)]
    page = draw(story, Figure(marks=[], two_masters=both))
    assert "2 masters for 2.0 s, 3.00 s to 5.00 s" in page


def test_a_loss_happens_when_the_message_was_acknowledged_not_when_it_was_missed(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    sent = history.send(2.0, 1, 0, "broker-0", 1)
    history.phase(5.0, "drain")
    read = history.drain(6.0, 0, 0)
    lost = Anomaly(law="durability", name="lost", explanation="gone", rows=(sent, read))
    story = summarise(history.close()[0], lost.rows)
    assert act_s(lost, story) == pytest.approx(2.1)
    assert act_s(replace(lost, rows=(read,)), story) == pytest.approx(6.0)


def test_all_violations_of_a_kind_are_drawn_where_it_is_known_when_they_were_done(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    shown = history.send(2.0, 1, 0, "broker-0", 1)
    one = Anomaly(law="order", name="reorder", explanation="it came late", rows=(shown,))
    rest = replace(one, rows=(), count=99)
    story = summarise(history.close()[0], one.rows)
    later = moments_of(np.array([4, 6]) * 10**9, whole=True)
    laws = [Verdict(law="order", validity=Validity.INVALID, anomalies=(one, rest), moments={"reorder": later})]
    (drawn,) = acts(laws, story, [], Parts(0.0, 10.0))
    assert (drawn.count, drawn.known, [round(at, 1) for at in drawn.acted_s]) == (100, 100, [2.1, 4.0, 6.0])
    assert drawn.proven_s is None
    laws = [replace(laws[0], moments={"reorder": replace(later, whole=False)})]
    assert acts(laws, story, [], Parts(0.0, 10.0))[0].known == 1


@pytest.mark.parametrize(("read_at", "proven_s"), [(5.1, 5.1), (2.2, None)])
def test_a_hollow_tick_stands_where_a_violation_was_proven_long_after_the_act(
    tmp_path: Path, read_at: float, proven_s: float | None
) -> None:
    history = MadeRun(tmp_path)
    sent = history.send(2.0, 1, 0, "broker-0", 1)
    history.phase(read_at - 0.1, "drain")
    lost = Anomaly(law="durability", name="lost", explanation="gone", rows=(sent, history.drain(read_at, 0, 0)))
    story = summarise(history.close()[0], lost.rows)
    laws = [Verdict(law="durability", validity=Validity.INVALID, anomalies=(lost, lost))]
    (drawn,) = acts(laws, story, [], Parts(0.0, 10.0))
    assert drawn.proven_s == (proven_s and pytest.approx(proven_s))
    page = draw(story, Figure(marks=[], acts=[replace(drawn, name=HOSTILE)]))
    assert page.count("proven here: ") == page.count('class="key proof"') == bool(proven_s)
    assert "<script" not in page


def test_without_a_master_nothing_is_behind(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    poll(history, 1.0, "broker-0", 10, 5)
    rows, _ = history.close()
    assert lags(rows, []) == []


def test_the_state_of_each_node_can_be_told_at_each_event(tmp_path: Path) -> None:
    rows, story = two_masters(MadeRun(tmp_path))
    told = json.loads(as_json(states(rows, story, axis_of(story), [(1, 3.0)])))
    assert [words for _, words in told["events"]] == [
        "broker-0: master 1",
        "broker-1: master 2",
        "cause 1",
        "broker-0: slave 2",
    ]
    first = told["nodes"][0]
    assert first["roles"][0] == [0.0, 5.0, "master", "1"]
    assert first["polls"][:2] == [[1000, 1000, 2000, 2000], [1000, 1000, 3000, -2000]]


def test_what_a_fault_does_to_links_is_in_the_state(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    value = {"targets": ["a"], "detail": {"shape": "isolate", "cuts": [[["a"], ["b", "c"]], "no cut"]}, "effects": {}}
    for type, told in (("invoke", value), ("ok", {"phase": "inject", "proof": {}, "proven": {"isolates": ["a"]}})):
        history.recorder.record("fault", time_ns=START * 10**9, type=type, f="partition", process="f", value=told)
    history.fault(2.0, 3.0, name="loss", proven={"cuts": ["b"]})
    rows, story = history.close()
    cut, loss = json.loads(as_json(states(rows, story, axis_of(story), [])))["faults"]
    assert cut[3:] == [["a"], [[["a"], ["b", "c"]]], []]
    assert loss[3:] == [["b"], [], [["b", "disturbed"]]]


@pytest.mark.parametrize(("count", "dots", "strokes"), [(DOTS, DOTS, 0), (DOTS + 1, 0, STROKES)])
def test_each_message_has_a_dot_until_there_are_too_many(count: int, dots: int, strokes: int) -> None:
    story = Story(
        duration_s=20.0, phases=[], faults=[], roles=[], terms=[], outages=[], throughput=[], latency=[], counts={}
    )
    fate = Fate(label="in the final read", sent_s=[20.0 * place / count for place in range(count)])
    page = draw(story, Figure(marks=[], fates=[fate]))
    (path,) = re.findall(r'<path class="dots kept" d="([^"]*)"', page)
    assert path.count("h0") == dots
    assert abs(path.count("v-") - strokes) <= 0.05 * STROKES


def test_a_line_is_drawn_by_steps_and_has_a_gap_where_there_is_no_data() -> None:
    axis = Axis(left_s=0.0, right_s=10.0)
    page = draw_line(axis, [0.0, 1.0, 2.0, 8.0, 9.0], [0.0, 1.0, 0.5, 0.5, 0.25], "k1", gap_s=3.0)
    assert re.findall(r'd="([^"]*)"', page) == ["M0,1000l1000,-1000 1000,500M8000,500l1000,250"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.role(0.0, HOSTILE, HOSTILE, 1)
    history.fault(1.0, 2.0, name=HOSTILE, proven={"isolates": [HOSTILE]})
    rows, story = history.close()
    page = draw(story, Figure(marks=[], lags=[Lag(label=HOSTILE, at_s=[0.0], behind=[1.0])]))
    assert "<script" not in page
    assert "<" not in as_json(states(rows, story, axis_of(story), []))


@pytest.mark.parametrize(("left", "right"), [(-1.0, 20.0), (0.0, 0.4), (-2.5, 3_700.0)])
def test_an_axis_has_about_ten_round_ticks_inside(left: float, right: float) -> None:
    ticks = Axis(left_s=left, right_s=right).ticks()
    assert 4 <= len(ticks) <= 12
    assert all(left <= tick <= right for tick in ticks)
    assert 0.0 in ticks


def test_a_client_that_waits_for_an_acknowledgement_is_without_service(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    op = history.op(1.0, "producer-0.0", "send", "invoke", queue=0, message=1)
    history.op(2.0, "producer-0.0", "send", "info", queue=0, message=1, op=op)
    history.send(2.9, 2, 0, "broker-0", 1, process="producer-0.1")
    history.send(1.0, 3, 1, "broker-0", 1, process="producer-1.0")
    _, story = history.close()
    assert [(bar.lane, bar.start_s, round(bar.end_s, 3)) for bar in story.outages if bar.lane != "queue 0"] == [
        ("producer-0", 1.0, 3.0)
    ]


def test_the_environment_is_one_line() -> None:
    meta = {"versions": {"python": "3.11.7"}, "machine": {"os": "Linux", "cores": 1, "java": "17", "commit": "abc"}}
    assert environment(RunMeta.of(meta)) == "python 3.11.7, Linux, 1 core, Java 17, commit abc"
    assert environment(RunMeta()) == ""


def test_a_bar_without_room_has_a_shorter_label() -> None:
    told = labels.of_targets("controller-1, broker-2", ["broker-0", "broker-2"])
    assert told == ("controller-1, broker-2", "controller-1 +1", "c1, b2", "c1 +1")
    assert [labels.chosen(told, room) for room in (22, 21, 14, 5, 4)] == [*told, ""]
    role = Bar(lane="broker-0", start_s=0.0, end_s=1.0, label="master 2", kind="master")
    assert labels.of_role(role) == ("master 2", "2")


def test_initials_that_two_nodes_share_are_no_label() -> None:
    assert labels.of_targets("broker-1", ["backup-1"]) == ("broker-1",)
    assert labels.of_targets("primary", []) == ("primary",)


def test_no_label_of_a_bar_is_cut(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.fault(1.0, 2.0, proven={"isolates": ["controller-1", "broker-2"]})
    history.role(0.0, "broker-2", "master", 1)
    history.phase(20.0, "drain")
    _, story = history.close()
    page = draw(story, Figure(marks=[(1, 1.0), (2, 1.01), (3, 1.02)]))
    written = re.findall(r'<text x="4" y="12" data-labels="([^"]*)">([^<]*)</text>', page)
    assert all(shown in [*offered.split("\n"), ""] for offered, shown in written)
    assert written[0][1] == "b2, c1"
    assert re.findall(r'dx="(-?\d+)"', page) == ["0", "15", "29"]
