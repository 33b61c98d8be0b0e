"""Small durable files, and what follows a sync.

A small file has two slots: the slot that is written is not the one that holds the last durable version, so one sync
makes a new version durable and a crash at any moment leaves the old or the new one. (A temporary file and a rename
would need two syncs, since a rename may survive a crash without the bytes.) A version that lasts is copied into the
other slot too: when one of them is damaged later, the file doesn't fall back to an older version without a word.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from chaos.node import Disk, DiskFull, Env
from reference.wire.fields import to_json

Then = Callable[[Env], None]

_HEAD = struct.Struct(">QII")


class Completions:
    """What to do when a sync ends, by its token."""

    def __init__(self) -> None:
        self._then: dict[int, Then] = {}

    def sync(self, env: Env, paths: Iterable[str], then: Then) -> int:
        """Start to make the paths durable; ``then`` runs in the step in which they are. Returns the token."""
        token = env.disk.sync(paths)
        self._then[token] = then
        return token

    def done(self, env: Env, token: int) -> None:
        then = self._then.pop(token, None)
        if then is not None:
            then(env)


class SmallFile:
    """A JSON value that is replaced as a whole. One write is under way at a time; of those that wait, the last wins."""

    def __init__(self, path: str, completions: Completions) -> None:
        self._path = path
        self._completions = completions
        self._number = 0
        self._content = b""
        self._slot = 0  # which one holds the last durable version
        self._copied = True
        self._writing = False
        self._next: bytes | None = None
        self._waiting: list[Then] = []
        self.is_lost = False  # both slots are there and neither is whole, which no crash leaves behind

    def load(self, disk: Disk) -> Any:
        """Return the last whole version, or None when there is none."""
        found = [self._read(disk, slot) for slot in (0, 1)]
        numbers = [0 if version is None else version[0] for version in found]
        self._slot = numbers.index(max(numbers))
        self._copied = numbers[0] == numbers[1]
        best = found[self._slot]
        if best is None:
            self.is_lost = all(disk.size(self._name(slot)) >= 0 for slot in (0, 1))
            return None
        self._number, self._content = best
        return json.loads(self._content)

    def save(self, env: Env, value: object, then: Then) -> None:
        """Replace the value; ``then`` runs once this or a later value is durable."""
        self._next = to_json(value)
        self._waiting.append(then)
        if not self._writing:
            self._write(env)

    def copy(self, env: Env) -> None:
        """Have both slots hold the last version, if there is room. Nobody waits for that; a later :meth:`save` may
        overtake it."""
        if self._copied or self._writing:
            return
        try:
            path = self._put(env, 1 - self._slot)
        except DiskFull:
            return
        self._copied = True
        self._completions.sync(env, [path], lambda env: None)

    def _name(self, slot: int) -> str:
        return f"{self._path}.{slot}"

    def _read(self, disk: Disk, slot: int) -> tuple[int, bytes] | None:
        path = self._name(slot)
        if disk.size(path) < _HEAD.size:
            return None
        data = disk.read(path)
        number, size, checksum = _HEAD.unpack_from(data)
        content = data[_HEAD.size : _HEAD.size + size]
        if len(content) != size or _sum(number, content) != checksum:
            return None
        return number, content

    def _write(self, env: Env) -> None:
        assert self._next is not None
        self._content, self._next = self._next, None
        waiting, self._waiting = self._waiting, []
        self._writing = True
        self._number += 1
        path = self._put(env, 1 - self._slot)
        self._completions.sync(env, [path], lambda env: self._written(env, waiting))

    def _put(self, env: Env, slot: int) -> str:
        """Write the present version into a slot; returns the path to sync."""
        content, path = self._content, self._name(slot)
        head = _HEAD.pack(self._number, len(content), _sum(self._number, content))
        env.disk.write(path, 0, head + content)
        return path

    def _written(self, env: Env, waiting: list[Then]) -> None:
        self._writing = False
        self._slot = 1 - self._slot
        self._copied = False
        if self._next is not None:
            self._write(env)
        for then in waiting:
            then(env)


def _sum(number: int, content: bytes) -> int:
    """Return the checksum of a version. It covers all of its number: an older version must not look newer."""
    return crc32(content, crc32(number.to_bytes(8, "big")))
