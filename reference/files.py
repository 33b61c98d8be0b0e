"""Small durable files, and what follows a sync.

A small file has two slots that are written in turn: the slot that is written never holds the last durable version, so
one sync makes a new version durable and a crash at any moment leaves the old or the new one. (A temporary file and a
rename would need two syncs, since a rename may survive a crash without the bytes.)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from chaos.node import Disk, Env

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
        self._writing = False
        self._next: bytes | None = None
        self._waiting: list[Then] = []

    def load(self, disk: Disk) -> Any:
        """The last whole version, or None when there is none."""
        best: bytes | None = None
        for slot in (0, 1):
            found = self._read(disk, slot)
            if found is not None and found[0] > self._number:
                self._number, best = found
        return None if best is None else json.loads(best)

    def save(self, env: Env, value: object, then: Then) -> None:
        """Replace the value; ``then`` runs once this or a later value is durable."""
        self._next = json.dumps(value, separators=(",", ":")).encode()
        self._waiting.append(then)
        if not self._writing:
            self._write(env)

    def _slot(self, number: int) -> str:
        return f"{self._path}.{number % 2}"

    def _read(self, disk: Disk, slot: int) -> tuple[int, bytes] | None:
        path = self._slot(slot)
        if disk.size(path) < _HEAD.size:
            return None
        data = disk.read(path)
        number, size, checksum = _HEAD.unpack_from(data)
        content = data[_HEAD.size : _HEAD.size + size]
        if len(content) != size or crc32(content, number & 0xFFFFFFFF) != checksum:
            return None
        return number, content

    def _write(self, env: Env) -> None:
        assert self._next is not None
        content, self._next = self._next, None
        waiting, self._waiting = self._waiting, []
        self._writing = True
        self._number += 1
        path = self._slot(self._number)
        head = _HEAD.pack(self._number, len(content), crc32(content, self._number & 0xFFFFFFFF))
        env.disk.write(path, 0, head + content)
        self._completions.sync(env, [path], lambda env: self._written(env, waiting))

    def _written(self, env: Env, waiting: list[Then]) -> None:
        self._writing = False
        if self._next is not None:
            self._write(env)
        for then in waiting:
            then(env)
