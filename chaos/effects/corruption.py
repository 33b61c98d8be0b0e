"""Damage to what a disk has held for a while: bits that flip, files that are cut, sectors that are written to a wrong
place, a whole disk that goes back in time.

Only *old* bytes are harmed: the beginning of a file, as far as it went when the disk was marked, and only where it is
still the same. So nobody can take the damage for what a crash does to bytes that were not synced, and a system that
writes down now and then what its disk must hold is able to notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Protocol
from zlib import crc32

#: So many changes are named one by one.
MOST_NAMED = 16
#: A disk writes sectors of so many bytes, to the right place or to a wrong one.
SECTOR = 512


class Files(Protocol):
    """All files of a disk by their names, relative and with ``/``, as they are durable."""

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""

    def read(self, name: str) -> bytes: ...

    def put(self, name: str, content: bytes) -> None:
        """Replace a file's content, or make the file."""

    def remove(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a disk held at one moment of a life of its node: size and CRC32 of each file."""

    incarnation: int
    files: Mapping[str, tuple[int, int]]


class Kind(StrEnum):
    FLIP = "flip"  # ``count`` bits, each in a byte of its own
    CUT = "cut"  # one file ends where it did not
    MISDIRECT = "misdirect"  # ``count`` sectors hold what stands in other ones of their file


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """What is done to one disk. ``files``: to those whose names match, as ``log/*``. ``draw`` decides where: each old
    byte (of sectors: each that is old as a whole) is hit with the same probability."""

    kind: Kind
    draw: int
    files: str = "*"
    count: int = 1


def mark(files: Files) -> dict[str, tuple[int, int]]:
    """Return the ``files`` of a :class:`Mark`. A file that is filled ahead ends where its zeros begin: what is written
    over them later makes the rest no younger."""
    found = {}
    for name in files.names():
        content = files.read(name).rstrip(b"\0")
        found[name] = (len(content), crc32(content))
    return found


def do_harm(files: Files, marked: Mapping[str, tuple[int, int]], harm: Harm) -> list[dict[str, object]]:
    """Do it; returns what was changed, nothing where nothing is old enough. Nobody else may write meanwhile."""
    old = _old(files, marked, harm.files)
    rng = Random(harm.draw)
    if harm.kind == Kind.MISDIRECT:
        return _misdirect(files, old, harm.count, rng)
    total = sum(old.values())
    done: list[dict[str, object]] = []
    for at in rng.sample(range(total), min(total, harm.count if harm.kind == Kind.FLIP else 1)):
        name, offset = _locate(old, at)
        content = bytearray(files.read(name))
        if harm.kind == Kind.FLIP:
            before = content[offset]
            content[offset] ^= 1 << rng.randrange(8)
            done.append({"file": name, "offset": offset, "before": before, "after": content[offset]})
        else:
            done.append({"file": name, "size_before": len(content), "size_after": offset})
            del content[offset:]
        files.put(name, bytes(content))
    return done


def _misdirect(files: Files, old: Mapping[str, int], count: int, rng: Random) -> list[dict[str, object]]:
    """Let sectors hold what other sectors of their file held, each another content than before."""
    sectors = {name: size // SECTOR for name, size in old.items()}
    total = sum(sectors.values())
    done: list[dict[str, object]] = []
    for at in rng.sample(range(total), total):
        name, place = _locate(sectors, at)
        content = bytearray(files.read(name))
        source = SECTOR * rng.randrange(sectors[name])
        written, target = content[source : source + SECTOR], slice(SECTOR * place, SECTOR * (place + 1))
        if content[target] == written:  # the same sector, or an equal one: no harm
            continue
        content[target] = written
        files.put(name, bytes(content))
        done.append({"file": name, "offset": target.start, "from": source})
        if len(done) == count:
            break
    return done


def _old(files: Files, marked: Mapping[str, tuple[int, int]], pattern: str) -> dict[str, int]:
    """Return, by file, how many bytes at its beginning are as they were."""
    found = {}
    for name in files.names():
        size, checksum = marked.get(name, (0, 0))
        if size and fnmatchcase(name, pattern) and crc32(files.read(name)[:size]) == checksum:
            found[name] = size
    return found


def _locate(sizes: Mapping[str, int], at: int) -> tuple[str, int]:
    """Return file and offset of one byte of all, counted through."""
    for name, size in sizes.items():
        if at < size:
            return name, at
        at -= size
    raise AssertionError(f"there are {at} bytes fewer")


def transfer(source: Files, target: Files) -> dict[str, object]:
    """Make the target hold what the source holds and nothing else; return which files that changed."""
    changed = []
    there = {name: source.read(name) for name in source.names()}
    for name in target.names():
        if name not in there:
            target.remove(name)
            changed.append(name)
    known = set(target.names())
    for name, content in there.items():
        if name not in known or target.read(name) != content:
            target.put(name, content)
            changed.append(name)
    return {"files": len(there), "changed": len(changed), "names": sorted(changed)[:MOST_NAMED]}


class AtDisk(StrEnum):
    MARK = "mark"
    HARM = "harm"
    COPY = "copy"
    PUT_BACK = "put_back"


def at_disk(files: Files, copy: Files, do: str, arguments: Mapping[str, Any]) -> Any:
    """Do one thing at a disk; ``copy`` is where its copy is. ``arguments`` and what is returned travel as JSON."""
    match AtDisk(do):
        case AtDisk.MARK:
            return mark(files)
        case AtDisk.HARM:
            harm = Harm(**{**arguments["harm"], "kind": Kind(arguments["harm"]["kind"])})
            return do_harm(files, arguments["marked"], harm)
        case AtDisk.COPY:
            return transfer(files, copy)
        case AtDisk.PUT_BACK:
            return transfer(copy, files)
