"""The picture of the real-time order."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Sequence

from reports.timeline import order_graph
from reports.timeline.model import CallBar
from reports.timeline.order_graph import MOST

#: The number of the call that can't be placed.
BLOCKED = 1


def operation(label: str, call: int, ret: int | None, *, blocked: bool = False) -> CallBar:
    return CallBar(number=BLOCKED if blocked else 0, process="c", label=label, call=call, ret=ret)


def draw(calls: Sequence[CallBar]) -> str:
    return order_graph.draw(calls, BLOCKED, "order")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in Xml.fromstring(svg).iter() if element.tag.endswith("}text")]


def test_only_direct_precedence_is_drawn() -> None:
    a, b, c = operation("a", 0, 1), operation("b", 2, 3), operation("c", 4, 5)
    at_the_same_time = operation("d", 0, 6)
    assert order_graph._edges([a, b, c]) == [(0, 1), (1, 2)]
    assert order_graph._edges([a, at_the_same_time, b]) == [(0, 2)]
    assert order_graph._edges([operation("crashed", 0, None), b]) == []


def test_columns_follow_real_time() -> None:
    spans = [(0, 1), (0, 9), (2, 3), (4, None), (5, 6)]
    places = order_graph._places([operation("x", call, ret) for call, ret in spans])
    assert [column for column, _ in places] == [0, 0, 1, 2, 2]
    assert len(set(places)) == len(places), "no two boxes on one place"


def test_labels_are_text_whatever_they_say() -> None:
    hostile = '</svg><script>alert("$x^2$")</script>&\x41'
    svg = draw([operation(hostile, 0, 1), operation("read 1", 2, 3, blocked=True)])
    assert "<script" not in svg
    assert "".join(hostile.split()) in "".join("".join(texts(svg)).split())


def test_blocked_and_crashed_are_said_in_words_too() -> None:
    svg = draw([operation("write 1", 0, None), operation("read 2", 1, 2, blocked=True)])
    assert "(never returned)" in texts(svg)
    assert "(can't be placed)" in texts(svg)


def test_equal_operations_give_equal_bytes() -> None:
    operations = [operation("write 1", 0, 1), operation("read 2", 2, 3, blocked=True)]
    assert draw(operations) == draw(list(reversed(operations)))


def test_a_long_story_is_cut_to_its_end_and_says_so() -> None:
    svg = draw([operation(f"write {i}", 2 * i, 2 * i + 1) for i in range(MOST + 7)])
    assert "7 earlier calls are not drawn" in texts(svg)
    assert f"c: write {MOST + 6}" in texts(svg)
    assert "c: write 0" not in texts(svg)


def test_nothing_to_draw_is_an_empty_picture() -> None:
    assert draw([]).startswith("<svg")
