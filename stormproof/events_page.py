"""What nodes trace, as tables that are read from the classes of the events.

``python -m stormproof.events_page docs/history.md`` writes the tables of that page again, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from chaos import events
from chaos.errors import BadInput
from chaos.events import COLUMNS, Event, meanings
from drivers.reference.events import EVENTS
from stormproof.catalogue import fill

#: How the names of the object store's events begin; and who traces the other ones.
STORE = ("store_", "tier_fault")
CONTROLLERS = ("raft", "vote", "term_raised", "applied", "members", "entries_cut", "metadata")
NAME_SERVERS = ("route",)
STORAGE_CLUSTERS = (
    *(events.GroupFenced, events.GroupAppended, events.GroupSynced, events.Sealed, events.Uploaded),
    *(events.SegmentHeld, events.SegmentDropped, events.Trimmed, events.SliceOpened, events.SliceClosed),
    *(events.GroupAcked, events.MapView),
)
#: What fields mean where a table names them without a meaning; the page says it once, above its tables.
USUAL = {
    "epoch": ("master epoch",),
    "queue": ("index of the queue", "index of the queue; -1 where it knows none"),
    "caller": ("who asked",),
    "key": ("of the object",),
    "request": ("the caller's id of the request",),
    "recovered": ("true: it was durable before a restart, and may have been traced already",),
}


def write(page: str) -> str:
    """Return the page with its tables made again. Raises :class:`chaos.errors.BadInput` when a mark is missing."""
    by_others = {name for name in EVENTS if name.startswith(STORE) or name in (*CONTROLLERS, *NAME_SERVERS)}
    parts = {
        "events of brokers": [event for name, event in EVENTS.items() if name not in by_others],
        "events of controllers": [EVENTS[name] for name in CONTROLLERS],
        "events of storage clusters": [*STORAGE_CLUSTERS],
        "events of name servers": [EVENTS[name] for name in NAME_SERVERS],
        "events of object stores": [event for name, event in EVENTS.items() if name.startswith(STORE)],
        "events of any node": [events.Crash, events.MalformedMessage],
    }
    return fill(page, {name: _table(of) for name, of in parts.items()})


def _table(of: list[type[Event]]) -> Iterator[str]:
    yield "| `f` | when | columns | `value` |"
    yield "|---|---|---|---|"
    for event in of:
        fields = meanings(event)
        columns, value = ([name for name in fields if (name in COLUMNS) is own] for own in (True, False))
        yield f"| `{event.f}` | {_when(event)} | {_words(fields, columns)} | {_words(fields, value)} |"


def _when(event: type[Event]) -> str:
    return " ".join((event.__doc__ or "").split()).replace(":class:`Bootstrap`", "`bootstrap`").rstrip(".")


def _words(fields: dict[str, str], names: list[str]) -> str:
    said = (f"`{name}`" if fields[name] in USUAL.get(name, ()) else f"`{name}`: {fields[name]}" for name in names)
    return "; ".join(said).replace("|", "\\|")


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        try:
            path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")
        except BadInput as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
