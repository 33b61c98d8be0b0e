"""What each number of a recorded row becomes in a later copy of the load: in its columns, and in its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Value = dict[str, Any]

#: Rows whose hash is that of a manifest; it differs from copy to copy.
HASHED = ("tier_view", "store_cas", "view", "manifest")
_KEY = re.compile(r"^queues/(\d+)/data/(\d{20})-")
_NUMBER = re.compile(r"\d+$")


@dataclass(slots=True)
class Moves:
    """By how much the numbers of a copy exceed those of the copy before. ``offsets``, ``messages``, ``versions`` and
    ``segments`` are by queue, ``steps`` by node; ``newest``: the hash of each queue's last manifest in a copy."""

    time_ns: int = 0
    position: int = 0
    requests: int = 0
    offsets: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    newest: list[int] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)

    def columns(self, numbers: Mapping[str, Ints], hashed: npt.NDArray[np.bool_], copy: int) -> dict[str, Ints]:
        """Return the columns of rows in this copy, but for those that number rows and steps."""
        queue = numbers["queue"]
        found = {"time_ns": numbers["time_ns"] + copy * self.time_ns}
        found["position"] = np.where(numbers["position"] >= 0, numbers["position"] + copy * self.position, -1)
        for name, moves in (("offset", self.offsets), ("message", self.messages)):
            by = np.where((numbers[name] >= 0) & (queue >= 0), np.array([*moves, 0])[queue], 0)
            found[name] = numbers[name] + copy * by
        found["hash"] = np.where(hashed, numbers["hash"] ^ copy, numbers["hash"])
        return found

    def value(self, f: str, value: Value, queue: int, copy: int) -> Value:
        return {name: self._moved(f, name, one, queue, copy) for name, one in value.items()}

    def is_moved(self, f: str, name: str) -> bool:
        return (f, name) in _RULES

    def _moved(self, f: str, name: str, value: Any, queue: int, copy: int) -> Any:
        rule = _RULES.get((f, name))
        return value if rule is None else rule(self, value, queue, copy)


def _position(moves: Moves, value: int, queue: int, copy: int) -> int:
    return value + copy * moves.position


def _positions(moves: Moves, value: Mapping[str, int], queue: int, copy: int) -> Value:
    return {name: one + copy * moves.position for name, one in value.items()}


def _offset(moves: Moves, value: int, queue: int, copy: int) -> int:
    return value + copy * moves.offsets[queue]


def _minimum(moves: Moves, value: int, queue: int, copy: int) -> int:
    return _offset(moves, value, queue, copy) if value else 0


def _offsets(moves: Moves, value: Mapping[str, int], queue: int, copy: int) -> Value:
    return {name: one + copy * moves.offsets[int(name)] for name, one in value.items()}


def _groups(moves: Moves, value: Mapping[str, Mapping[str, int]], queue: int, copy: int) -> Value:
    return {group: _offsets(moves, one, queue, copy) for group, one in value.items()}


def _version(moves: Moves, value: int, queue: int, copy: int) -> int:
    return value + copy * moves.versions[queue] if value >= 0 else value


def _request(moves: Moves, value: str, queue: int, copy: int) -> str:
    return _NUMBER.sub(lambda found: str(int(found[0]) + copy * moves.requests), value)


def _key(moves: Moves, value: str, queue: int, copy: int) -> str:
    return _KEY.sub(
        lambda found: f"queues/{found[1]}/data/{int(found[2]) + copy * moves.offsets[int(found[1])]:020}-", value
    )


def _file(moves: Moves, value: str, queue: int, copy: int) -> str:
    return _NUMBER.sub(lambda found: f"{int(found[0]) + copy * moves.position:020}", value)


def _inputs(moves: Moves, value: Value, queue: int, copy: int) -> Value:
    found = dict(value)
    for name in ("end", "confirm", "dispatched", "covered", "pinned"):
        found[name] = value[name] + copy * moves.position
    return found | {"views": _offsets(moves, value["views"], queue, copy)}


def segment(moves: Moves, value: Value, queue: int, copy: int) -> Value:
    return value | {"key": _key(moves, value["key"], queue, copy), "base": _offset(moves, value["base"], queue, copy)}


def content(moves: Moves, value: Value, queue: int, copy: int) -> Value:
    """Move a manifest, whose beginning stays where it is."""
    return value | {
        "version": _version(moves, value["version"], queue, copy),
        "end": _offset(moves, value["end"], queue, copy),
        "position": _position(moves, value["position"], queue, copy),
        "confirm": _position(moves, value["confirm"], queue, copy),
        "segments": [segment(moves, one, queue, copy) for one in value["segments"]],
    }


def _changes(moves: Moves, value: Value, queue: int, copy: int) -> Value:
    first, many = value["kept"]
    return {
        "since": value["since"] ^ copy,
        "kept": [first, many + copy * moves.segments[queue]],
        "content": content(moves, value["content"], queue, copy),
    }


def goes_on(moves: Moves, value: Value, queue: int, copy: int) -> Value:
    """Return the first version of a later copy, which the first copy has whole: what it adds to the copy before."""
    row = {name: one for name, one in moves.value("store_cas", value, queue, copy).items() if name != "content"}
    changes = {
        "since": moves.newest[queue] ^ (copy - 1),
        "kept": [0, copy * moves.segments[queue]],
        "content": content(moves, value["content"], queue, copy),
    }
    return row | {"changes": changes}


_Rule = Callable[[Moves, Any, int, int], Any]
_RULES: Mapping[tuple[str, str], _Rule] = {
    **{("state", name): _position for name in ("first", "end", "synced", "confirm")},
    ("state", "tier"): _offsets,
    **{("pull", name): _offset for name in ("maximum", "following", "asked")},
    ("bounds", "maximum"): _offset,
    **{(f, "minimum"): _minimum for f in ("pull", "bounds")},
    ("commit", "asked"): _offset,
    ("acked", "confirm"): _position,
    ("confirm", "acks"): _positions,
    ("synced", "file"): _file,
    ("retention", "inputs"): _inputs,
    ("retention", "minimums"): _offsets,
    ("retention", "wall_ns"): lambda moves, value, queue, copy: value + copy * moves.time_ns,
    ("tier_view", "version"): _version,
    ("tier_commit", "version"): _version,
    ("tier_commit", "confirm"): _position,
    **{(f, "request"): _request for f in ("tier_request", "tier_commit")},
    ("tier_request", "key"): _key,
    **{(f"store_{f}", "request"): _request for f in ("cas", "put", "get", "delete", "list")},
    **{(f"store_{f}", "key"): _key for f in ("put", "get", "delete", "list")},
    **{("store_cas", name): _version for name in ("expected", "version")},
    ("store_cas", "content"): content,
    ("store_cas", "changes"): _changes,
    **{("node", name): _position for name in ("first", "end", "confirm")},
    **{("node", name): _offsets for name in ("minimums", "maximums")},
    ("view", "version"): _version,
    ("offsets", "groups"): _groups,
    ("manifest", "version"): _version,
    ("tiered", "key"): _key,
}
