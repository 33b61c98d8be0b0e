"""A broker's commit log: records of all queues, one after the other, in files of one fixed size.

A file that has no room for the next record ends with a filler of eight bytes or more (``size | BLANK``). What follows
the last record is zeros. After a truncation RocketMQ leaves whole records standing behind the end of its log, which no
file says; so they are read as part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.scrub import Damage, Kind
from drivers._remoting import records
from drivers._remoting.records import BLANK, FIRST, SECOND, BadRecord, Buffer, Record
from drivers.rocketmq.files import mapped
from drivers.rocketmq.files.mapped import Part

#: After damage, the bytes of candidates that are checked until the next record is found: so many times the file.
SEARCH = 4
_MAGIC = re.compile(b"|".join(re.escape(one.to_bytes(4, "big")) for one in (FIRST, SECOND, BLANK)))


@dataclass(slots=True, kw_only=True)
class CommitLog:
    """``begin``: the position of the first file; ``end``: after the last whole record, or ``begin``. Both are complete,
    as is ``damage``, when :meth:`read` has come to its end."""

    folder: Path
    name: str = "commitlog"
    begin: int = 0
    end: int = 0
    damage: list[Damage] = field(default_factory=list)

    def read(self) -> Iterator[Record]:
        """Yield all whole records in the order of their positions, over damaged places too. Raises ``OSError``."""
        found, self.damage = mapped.parts(self.folder, self.name)
        self.begin = self.end = found[0].base if found else 0
        self.damage += mapped.seams(found)
        for part in found:
            if part.size != found[0].size:
                text = f"it has {part.size} bytes, the first file {found[0].size}"
                self.damage.append(Damage(file=part.name, kind=Kind.CONTRADICTION, text=text))
        filled = mapped.last_with_data(found)
        for part in found:
            if part.base > filled:
                return
            with mapped.opened(part.path) as data:
                yield from self._records(part, data, last=part.base == filled)

    def _records(self, part: Part, data: Buffer, *, last: bool) -> Iterator[Record]:
        at, full, filled = 0, len(data), mapped.end_of_data(data)
        budget = SEARCH * full
        while at < full:
            if full - at >= records.START.size:
                size, magic = records.START.unpack_from(data, at)
                if magic == BLANK and size == full - at:
                    self.end = part.base + full
                    return
            if at >= filled:
                if not last:
                    text = f"only zeros from here to the end of the file ({full - at} bytes), but the log goes on"
                    self._add(part, at, Kind.GAP, text)
                return
            try:
                record = records.decode(data, at)
                if record.position != part.base + at:
                    self._add(part, at, Kind.MISPLACED, f"the record says that it is at position {record.position}")
                self.end = part.base + at + record.size
                yield record
                at += record.size
            except BadRecord as error:
                following, budget = _search(data, at + 1, part.base, budget)
                self._bad(part, at, following, (full, filled), error, last=last)
                at = following

    def _bad(self, part: Part, at: int, following: int, ends: tuple[int, int], error: BadRecord, *, last: bool) -> None:
        """Note damage: only what nothing whole follows can be what a crash left. ``ends``: of the file, and of its
        data."""
        full, filled = ends
        if following < full:
            self._add(part, at, _kind(error), f"{error}; the next whole record begins {following - at} bytes later")
        elif last:
            self._add(part, at, Kind.TORN_END, f"{error}; {filled - at} bytes from here on are no whole record")
        else:
            self._add(part, at, _kind(error), f"{error}; nothing whole follows in this file")

    def _add(self, part: Part, at: int, kind: Kind, text: str) -> None:
        self.damage.append(Damage(file=part.name, kind=kind, text=text, at=at))


def _kind(error: BadRecord) -> Kind:
    return Kind.CHECKSUM if "CRC" in str(error) else Kind.UNREADABLE


def _search(data: Buffer, start: int, base: int, budget: int) -> tuple[int, int]:
    """Return where the next whole record or filler begins, and what is left of the budget; the end of the data without
    one."""
    full = len(data)
    for match in _MAGIC.finditer(data, start + 4):
        at = match.start() - 4
        try:
            size, magic = records.START.unpack_from(data, at)
            if magic == BLANK:
                if size == full - at:
                    return at, budget
                continue
            size, position = records.outline(data, at)
            if position == base + at:
                budget -= size
                records.decode(data, at)
                return at, budget
        except BadRecord:
            if budget <= 0:
                break
    return full, budget
