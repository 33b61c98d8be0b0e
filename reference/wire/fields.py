"""Header fields and JSON bodies: written without a space, read strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: So many lives of a node, and requests of each, have numbers of their own.
_LIVES, _REQUESTS = 1 << 11, 1 << 20
_COMPACT = json.JSONEncoder(separators=(",", ":"))


class Malformed(ValueError):
    """A request that can't be understood; the text goes back in the answer's remark."""


def request_number(incarnation: int, count: int) -> int:
    """The ``opaque`` of a life's request. An answer to an earlier life may come late, on this life's connection: it
    must find nobody."""
    return (incarnation % _LIVES) * _REQUESTS + count % _REQUESTS


def to_json(value: object) -> bytes:
    return _COMPACT.encode(value).encode()


def as_object(value: object) -> dict[str, Any]:
    """Raises :class:`Malformed` for any other JSON value."""
    if not isinstance(value, dict):
        raise Malformed(f"expected a JSON object, not {type(value).__name__}")
    return value


def text(fields: Mapping[str, str], key: str) -> str:
    """A field that must be there. Raises :class:`Malformed`."""
    if not fields.get(key):
        raise Malformed(f"the request needs {key}")
    return fields[key]


def whole(fields: Mapping[str, str], key: str, default: int = -1) -> int:
    """A field that is a whole number, or isn't there. Raises :class:`Malformed`."""
    value = fields.get(key, "")
    try:
        return int(value) if value else default
    except ValueError:
        raise Malformed(f"{key} must be a whole number, not {value!r}") from None
