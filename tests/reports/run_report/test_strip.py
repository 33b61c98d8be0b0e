"""The way of one message as a picture: what it shows, in which order, and that it is safe and stands by itself."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from chaos.history.history import History
from reports.run_report import strip_svg
from reports.run_report.causes import group
from reports.run_report.strip import EVENTS, Strip, strip
from tests.reports.run_report.histories import ISOLATED, MadeRun, anomaly, stale_master

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert(1)</script>\u202e"


def drawn(history: MadeRun, name: str = "lost", *, rows: tuple[int, ...], message: int = 1) -> Strip:
    told, story = history.close()
    offset = 1 if message >= 0 else -1
    finding = anomaly("durability", name, rows, queue=0, offset=offset, message=message)
    return one(told, story.faults, finding)


def one(told: History, faults: object, finding: object) -> Strip:
    (cause,) = group(told, faults, [finding])  # type: ignore[arg-type, list-item]
    shown = strip(cause, told)
    assert shown is not None
    return shown


def test_a_strip_shows_the_way_of_a_lost_message(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    shown = drawn(history, rows=(found["lost"], found["drain"]))
    assert [(round(event.at_s, 1), event.lane, event.text) for event in shown.events] == [
        (1.0, "faults", "partition of broker-0"),
        (2.0, "producer-0", "sends 0/1"),
        (2.0, "broker-0", "stored"),
        (2.1, "producer-0", "acknowledged by broker-0"),
        (3.0, "broker-1", "becomes master of epoch 2"),
        (4.0, "broker-1", "stores 0/2 at this offset"),
        (4.1, "producer-0", "0/2 acknowledged at this offset"),
        (5.0, "faults", "partition ends"),
        (5.0, "broker-0", "loses the role"),
        (5.0, "broker-0", "cuts it off its log"),
        (5.5, "broker-0", "stores 0/2 at this offset"),
        (7.0, "final read", "reads 0/2 there"),
        (7.5, "final read", "ends without 0/1"),
    ]
    assert [name for _, name in shown.lanes] == ["faults", "producer-0", "broker-0", "broker-1", "final read"]
    assert [event.drops for event in shown.events].count(True) == 1


def test_without_a_message_the_rows_of_the_violation_are_shown(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    shown = drawn(history, "odd", rows=(found["drain"],), message=-1)
    assert [(event.lane, event.text) for event in shown.events] == [("drain-0", "drain offset 2")]


def test_the_picture_is_one_svg_with_title_and_words(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    root = ElementTree.fromstring(strip_svg.draw(drawn(history, rows=(found["lost"], found["drain"])), 3))
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and words is not None
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", f"{title.get('id')} {words.get('id')}")
    assert title.text == "The way of message 0/1"
    assert "5.000 s broker-0: cuts it off its log" in (words.text or "")
    assert len(list(root.iter(f"{SVG}circle"))) + len(list(root.iter(f"{SVG}path"))) <= EVENTS


def test_names_from_the_system_stay_text(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.fault(1.0, 5.0, name=HOSTILE, proven={"isolates": [HOSTILE]})
    sent = history.send(2.0, 1, 1, HOSTILE, 1, process=HOSTILE)
    text = strip_svg.draw(drawn(history, rows=(sent,)), 1)
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script")) and "<script" not in text
    assert "\u202e" not in text


def test_a_strip_keeps_the_most_telling_events(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.fault(1.0, 5.0, proven=ISOLATED)
    sent = history.send(2.0, 1, 1, "broker-0", 1)
    for number in range(2 * EVENTS):
        history.append(3.0 + number / 100, f"broker-{number}", 2, 1, 100, 2)
    shown = drawn(history, rows=(sent,))
    assert len(shown.events) == EVENTS
    assert {"sends 0/1", "acknowledged by broker-0"} <= {event.text for event in shown.events}
