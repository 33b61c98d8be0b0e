"""Which rows contradict a promise by themselves, and which ones beside them do not."""

from __future__ import annotations

import pytest

from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly
from reports.explanation.decisions import decisions
from reports.explanation.sequence import Arrow, sequence
from tests.checkers.histories import SIZE, m
from tests.checkers.histories import History as MadeHistory


def of(history: MadeHistory, *rows: int, name: str = "replica-divergence", decided_by: str = "") -> list[Arrow]:
    """Return the arrows of a violation that names these rows."""
    found = Anomaly(law="agreement", name=name, explanation="", rows=rows, queue=0, offset=1, message=m(1))
    meta = RunMeta(deployment="sim", decided_by={decided_by: ("Class.method",)} if decided_by else {})
    recorded = History.of(history.recorded(), meta)
    return sequence(found, recorded, decisions([found], recorded))[0]


def whys(arrows: list[Arrow]) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(arrow.rows[0], arrow.text.partition(", ")[2], arrow.decided) for arrow in arrows if arrow.why]


@pytest.mark.parametrize(
    ("acks", "why"),
    [
        ({"broker-0": 2 * SIZE, "broker-1": SIZE}, f"though broker-1, in its set, has reported only {SIZE} to it"),
        ({"broker-0": 2 * SIZE}, "though broker-1, in its set, has reported nothing to it"),
        ({"broker-0": 2 * SIZE, "broker-1": 2 * SIZE}, ""),
    ],
)
def test_a_confirm_offset_contradicts_what_a_member_of_its_set_has_reported(acks: dict[str, int], why: str) -> None:
    history = MadeHistory()
    stored = history.append("broker-0", 1)
    value = {"acks": acks, "set": ["broker-0", "broker-1"], "proposed": []}
    confirm = history.confirm("broker-0", 2 * SIZE, value=value)
    other = history.append("broker-1", 2, 1, epoch=2)
    found = whys(of(history, stored, other, decided_by="confirm unreported"))
    assert found == ([(confirm, f"set broker-0, broker-1, {why}", ("Class.method",))] if why else [])


def rejoined(history: MadeHistory, start: int) -> tuple[int, int, int]:
    """broker-0 stores a record in epoch 1 and follows broker-1 in epoch 2, whose log had reached ``start``; return the
    record, another one that stands there, and what broker-0 stores next."""
    record = history.append("broker-0", 1)
    history.master("broker-1", 2, start=start)
    other = history.append("broker-1", 2, 1, epoch=2)
    history.trace("broker-0", "role", epoch=2, value={"role": "slave", "master": "broker-1"})
    return record, other, history.append("broker-0", 3, epoch=2)


def test_a_slave_contradicts_its_master_by_what_it_keeps() -> None:
    history = MadeHistory()
    record, other, later = rejoined(history, SIZE)
    kept = f"though the log of its master broker-1 ended at {SIZE}"
    (found,) = whys(of(history, record, other, decided_by="append uncut"))
    assert found[0] == later and found[1].endswith(kept) and found[2] == ("Class.method",)


def test_what_the_master_has_or_what_was_cut_off_is_no_contradiction() -> None:
    history = MadeHistory()
    record, other, _ = rejoined(history, 2 * SIZE)
    assert not whys(of(history, record, other))
    history = MadeHistory()
    record = history.append("broker-0", 1)
    history.master("broker-1", 2, start=SIZE)
    history.trace("broker-0", "role", epoch=2, value={"role": "slave", "master": "broker-1"})
    history.trace("broker-0", "truncate", epoch=2, position=SIZE, value={"old_end": 2 * SIZE})
    history.append("broker-0", 3, epoch=2)
    assert not whys(of(history, record, history.append("broker-1", 2, 1, epoch=2)))


def test_an_offset_is_used_twice_only_while_the_first_record_is_there() -> None:
    history = MadeHistory()
    first = history.append("broker-0", 1)
    again = history.append("broker-0", 2, 1, position=2 * SIZE)
    ((row, text, decided),) = whys(of(history, first, again, decided_by="append reused"))
    assert (row, decided) == (again, ("Class.method",)) and text.endswith("where it has stored 0/1")
    history = MadeHistory()
    first = history.append("broker-0", 1)
    history.trace("broker-0", "truncate", epoch=1, position=SIZE, value={"old_end": 2 * SIZE})
    assert not whys(of(history, first, history.append("broker-0", 2, 1)))


@pytest.mark.parametrize(("types", "wrong"), [(["ok"], True), (["info", "ok"], False), (["fail", "ok"], True)])
def test_a_message_is_stored_as_often_as_it_may_have_been_sent(types: list[str], wrong: bool) -> None:
    history = MadeHistory()
    for type in types:
        history.send(1, 1, type=type)
    first = history.append("broker-0", 1)
    again = history.append("broker-0", 1, 1, position=2 * SIZE)
    found = whys(of(history, first, again, name="duplicate-append"))
    assert [row for row, _, _ in found] == [again] * wrong


def test_a_message_has_the_content_that_was_sent() -> None:
    history = MadeHistory()
    history.send(1, 1)
    stored = history.append("broker-0", 1)
    history.rows[stored]["hash"] = 7
    found = whys(of(history, stored, name="corrupt"))
    assert [row for row, _, _ in found] == [stored] and found[0][1].endswith("with another content than was sent")


def went_back(history: MadeHistory, *offsets: int) -> tuple[int, int]:
    """A client commits offset 5, of which broker-0 reports these as taken effect; return what the law names."""
    call = history.invoke("commit", queue=0, offset=5, value={"group": "g"})
    for position, offset in enumerate(offsets):
        history.trace("broker-0", "commit", queue=0, offset=offset, position=position, value={"group": "g"})
    history.trace("broker-1", "commit", queue=0, offset=1, position=0, value={"group": "g"})
    done = history.complete(call, offset=5, node="broker-0", epoch=1)
    return done, history.committed(2)


@pytest.mark.parametrize(("offsets", "early"), [([5], False), ([7], False), ([4], True), ([], True)])
def test_an_offset_has_taken_effect_when_it_is_called_stored(offsets: list[int], early: bool) -> None:
    history = MadeHistory()
    history.trace("broker-0", "commit", queue=0, offset=0, position=0, value={"group": "g"})
    done, asked = went_back(history, *offsets)
    found = whys(of(history, done, asked, name="commit-regression", decided_by="commit early"))
    assert found == [(done, "though it had not taken effect on broker-0", ("Class.method",))] * early


def test_a_later_record_takes_no_group_back() -> None:
    history = MadeHistory()
    done, asked = went_back(history, 5, 2)
    ((_, text, decided),) = whys(of(history, done, asked, name="commit-regression", decided_by="commit lowered"))
    assert (text, decided) == ("though 5 had taken effect", ("Class.method",))


@pytest.mark.parametrize(("applied", "behind"), [([1], True), ([1, 2], False), ([], False)])
def test_a_read_shows_what_was_applied_before_it_was_asked_for(applied: list[int], behind: bool) -> None:
    history = MadeHistory()
    first = history.complete(history.invoke("read", value={"object": "o"}), node="controller-1")
    for node, positions in (("controller-1", [1, 2]), ("controller-0", applied)):
        for position in positions:
            entry = {"type": "alter", "group": "o", "broker": f"a-{position}"}
            history.trace(node, "applied", position=position, epoch=1, value={"entry": entry})
    asked = history.invoke("read", value={"object": "o"})
    read = history.complete(asked, node="controller-0")
    found = whys(of(history, first, read, name="not-linearizable", decided_by="read behind"))
    assert [(row, decided) for row, _, decided in found] == [(read, ("Class.method",))] * behind


def vote_twice(history: MadeHistory) -> tuple[int, int]:
    first, second = (history.trace("controller-0", "vote", epoch=3, value={"candidate": f"c-{n}"}) for n in (1, 2))
    return first, second


def test_the_last_row_of_the_class_that_a_law_declares_is_the_decision() -> None:
    history = MadeHistory()
    rows = vote_twice(history)
    late = history.row("poll", f="state", node="controller-0")
    found = Anomaly(law="controllers", name="two-votes", explanation="It voted twice.", rows=(*rows, late))
    known = History.of(history.recorded(), RunMeta(decided_by={"two-votes": ("Class.method",)}))
    arrows, _ = sequence(found, known, decisions([found], known))
    found = [(arrow.rows, arrow.why, arrow.decided) for arrow in arrows if arrow.why]
    assert found == [((rows[1],), "It voted twice.", ("Class.method",))]


def test_the_decision_of_one_violation_is_why_another_one_came_about() -> None:
    history = MadeHistory()
    stored = history.append("broker-0", 1)
    synced = history.trace("broker-0", "synced", position=2 * SIZE)
    final = history.row("final", f="log", node="broker-0", queue=0, offset=1, position=SIZE, message=m(1), epoch=1)
    other = Anomaly(law="in-sync", name="false-sync", explanation="The disk lacked it.", rows=(synced,))
    found = Anomaly(law="agreement", name="replica-divergence", explanation="", rows=(stored, final), queue=0, offset=1)
    known = History.of(history.recorded(), RunMeta())
    arrows, _ = sequence(found, known, decisions([found, other], known))
    assert [arrow.why for arrow in arrows if arrow.why] == ["The disk lacked it."]
    assert not any(arrow.why for arrow in sequence(found, known, decisions([found], known))[0])
