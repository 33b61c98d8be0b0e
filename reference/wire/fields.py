"""Header fields and JSON bodies: written without a space, read strictly.

Whatever a message holds is read here, and what can't be understood raises :class:`chaos.node.Malformed`: never does a
node look into a field or a body by itself. So nothing that anybody sends looks like an error of the node's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from chaos.node import Malformed
from reference.wire.codes import Response

T = TypeVar("T")

#: The code of most answers to what can't be understood.
_USUAL = Response.INVALID_PARAMETER

#: So many lives of a node, requests of each, and parts that ask the same nodes have numbers of their own.
_LIVES, _REQUESTS, _PARTS = 1 << 11, 1 << 19, 2
_COMPACT = json.JSONEncoder(separators=(",", ":"))
#: Names of groups, clusters, nodes and the like; RocketMQ's limit.
MAX_NAME_BYTES = 255
#: So deep may the values in a body be nested; what goes deeper might not be written again.
MAX_DEPTH = 64
_SHOWN = 80


def request_number(incarnation: int, count: int, part: int = 0) -> int:
    """Return the ``opaque`` of a life's request. An answer to an earlier life may come late, on this life's connection:
    it must find nobody. ``part``: 1 for what follows the metadata, which asks controllers, as the membership does."""
    return ((incarnation % _LIVES) * _PARTS + part) * _REQUESTS + count % _REQUESTS


def to_json(value: object) -> bytes:
    return _COMPACT.encode(value).encode()


# Header fields. All raise :class:`chaos.node.Malformed`.


def text(fields: Mapping[str, str], key: str, code: int = _USUAL) -> str:
    """Return a name that must be there."""
    value = fields.get(key, "")
    if not value:
        raise Malformed(f"the request needs {key}", code)
    if len(value.encode()) > MAX_NAME_BYTES:
        raise Malformed(f"{key} is longer than {MAX_NAME_BYTES} bytes", code)
    return value


def optional_text(fields: Mapping[str, str], key: str, default: str = "", code: int = _USUAL) -> str:
    """Return a name that may be missing."""
    return text(fields, key, code) if fields.get(key) else default


def whole(
    fields: Mapping[str, str],
    key: str,
    default: int | None = None,
    *,
    bits: int = 64,
    code: int = _USUAL,
) -> int:
    """Return a whole number of so many bits, its sign included. Without a default it must be there."""
    value = fields.get(key)
    if not value:
        if default is None:
            raise Malformed(f"the request needs {key}", code)
        return default
    try:
        number = int(value)
    except ValueError:
        number = 1 << bits
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise Malformed(f"{key} must be a whole number of {bits} bits, not {value[:_SHOWN]!r}", code)
    return number


# Bodies


def read_json(body: bytes, code: int = _USUAL) -> Any:
    """Return the JSON value in a body: numbers are finite and fit into 64 bits, texts are text, and nothing is nested
    deeper than :data:`MAX_DEPTH`. Raises :class:`chaos.node.Malformed`."""
    try:
        value = _DECODER.decode(body.decode())
        if b"\\u" in body:
            _UNESCAPED.encode(value).encode()  # halves of characters can't be written again
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}", code) from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _is_deep(value):
        raise Malformed(f"the body is nested deeper than {MAX_DEPTH} levels", code)
    return value


def read_object(body: bytes, code: int = _USUAL) -> dict[str, Any]:
    """Return the JSON object in a body. Raises :class:`chaos.node.Malformed`."""
    return as_object(read_json(body, code), code)


def as_object(value: object, code: int = _USUAL) -> dict[str, Any]:
    """Return a JSON object. Raises :class:`chaos.node.Malformed` for any other JSON value."""
    if not isinstance(value, dict):
        raise Malformed(f"expected a JSON object, not {type(value).__name__}", code)
    return value


def item(value: Mapping[str, Any], key: str, kind: type[T], default: T | None = None, code: int = _USUAL) -> T:
    """Return a member of an object, which has exactly this type. Raises :class:`chaos.node.Malformed`."""
    found = value.get(key, default)
    if type(found) is not kind:
        raise Malformed(f"{key} must be {kind.__name__}, not {type(found).__name__}", code)
    return found


def listed(value: Mapping[str, Any], key: str, *kinds: type, code: int = _USUAL) -> list[Any]:
    """Return a member that is a list of values of one type, or of lists that hold one value of each of these types, in
    order. Raises :class:`chaos.node.Malformed`."""
    found = item(value, key, list, code=code)
    for row in found:
        types = [type(part) for part in row] if type(row) is list and len(kinds) > 1 else [type(row)]
        if types != list(kinds):
            raise Malformed(f"{key} must be a list of {', '.join(kind.__name__ for kind in kinds)}", code)
    return found


def _whole_number(digits: str) -> int:
    number = int(digits)
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(f"{digits[:_SHOWN]} does not fit into 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:_SHOWN]} is no finite number")
    return number


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        level = inner
    return bool(level)


_DECODER = json.JSONDecoder(parse_int=_whole_number, parse_float=_finite, parse_constant=_finite)
_UNESCAPED = json.JSONEncoder(ensure_ascii=False)
