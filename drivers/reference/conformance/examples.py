"""Requests that can be understood, made from the tables of the wire."""

from __future__ import annotations

import json
from typing import Any

from reference.wire.requests import Field, Form, Json, Listed, Object, Pattern, Shape, Table, Text, Topic, Whole, Word

#: What every field holds that may be any text.
NAME = "limits"


def right_fields(form: Form, topic: str) -> dict[str, str]:
    """Return the header fields that such a request needs. ``topic``: one that is there."""
    return {key: _text(kind, topic) for key, kind in form.fields.items() if kind.needed}


def _text(kind: Field, topic: str) -> str:
    match kind:
        case Whole(least=least):
            return str(max(0, least or 0))
        case Topic():
            return topic
        case Word(words=words):
            return words[0]
        case Pattern(example=text):
            return text
        case Json(shape=shape):
            return json.dumps(example(shape))
        case Text():
            return NAME
    raise ValueError(f"{kind} is never needed")


def example(shape: Shape) -> Any:
    """Return a JSON value of this shape, with all members that it may have."""
    match shape:
        case Listed(shape=inner):
            return [example(inner)]
        case Table(shape=inner):
            return {NAME: example(inner)}
        case Object(members=members):
            return {key: example(inner) for key, inner in members.items()}
    return NAME if shape is str else 1
