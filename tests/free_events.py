"""Events for nodes of tests, and events as tests look at them."""

from __future__ import annotations

import dataclasses
from typing import Any

from chaos.events import COLUMNS, Event


class Free(Event):
    """An event with whatever fields a test likes."""

    def __init__(self, f: str, **fields: Any) -> None:
        self.name, self.fields = f, fields

    def row(self, time_ns: int, node: str, incarnation: int, step: int) -> dict[str, Any]:
        columns = {name: self.fields.get(name, -1) for name in COLUMNS}
        value = {name: told for name, told in self.fields.items() if name not in COLUMNS}
        whose = {"kind": "trace", "time_ns": time_ns, "node": node, "incarnation": incarnation, "step": step}
        return {**whose, "f": self.name, **columns, "value": value}


def fields_of(event: Event) -> dict[str, Any]:
    """What an event says, columns and value alike, without what it leaves out."""
    if isinstance(event, Free):
        return dict(event.fields)
    told = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}  # type: ignore[arg-type]
    return {name: one for name, one in told.items() if one is not None}


def name_of(event: Event) -> str:
    return event.name if isinstance(event, Free) else event.f
