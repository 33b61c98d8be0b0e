"""What the tables of events in ``docs/history.md`` are made from."""

from __future__ import annotations

import pytest

from chaos.events import COLUMNS, Event, event, meanings
from drivers.reference.events import EVENTS


@pytest.mark.parametrize("name", EVENTS)
def test_every_field_has_a_meaning(name: str) -> None:
    assert all(meanings(EVENTS[name]).values()) and EVENTS[name].__doc__


def test_a_field_is_a_column_or_stands_in_the_value_unless_it_is_left_out() -> None:
    @event("moved")
    class Moved(Event):
        position: int
        size: int
        by: str | None = None
        offset: int = -1
        last: int

    row = Moved(position=3, size=4, last=5).row(1, "a", 2, 6)
    assert {name: row[name] for name in COLUMNS} == {**dict.fromkeys(COLUMNS, -1), "position": 3}
    assert (row["f"], row["node"], row["incarnation"], row["step"], row["time_ns"]) == ("moved", "a", 2, 6, 1)
    assert list(row["value"].items()) == [("size", 4), ("last", 5)]
    assert list(Moved(position=3, size=4, by="b", last=5).row(1, "a", 2, 6)["value"]) == ["size", "by", "last"]
    with pytest.raises(TypeError, match="sizes"):
        Moved(position=3, sizes=4, last=5)
