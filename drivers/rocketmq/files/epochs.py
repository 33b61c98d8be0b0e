"""A broker's epoch file, ``epochFileCheckpoint``: in which master's epoch each part of the commit log was written.

It is text: the number of entries, the CRC of all lines that follow (31 bits; 0: not checked), then ``EPOCH-START`` for
each epoch, where ``START`` is the position at which it began. Both grow from line to line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from chaos.scrub import Damage, Kind
from drivers.rocketmq.files.mapped import LAST

NAME = "epochFileCheckpoint"
#: Much more than any broker writes; a larger file isn't read.
MAX_BYTES = 16 * 1024 * 1024
_ENTRY = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_NUMBER = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A master's epoch and the position of its first record."""

    epoch: int
    start: int


def read(path: Path, name: str = NAME) -> tuple[list[Epoch], list[Damage]]:
    """Return the epochs in the order of the file. Raises ``OSError``."""
    if path.stat().st_size > MAX_BYTES:
        return [], [Damage(file=name, kind=Kind.UNREADABLE, text=f"more than {MAX_BYTES} bytes")]
    lines = path.read_bytes().decode("ascii", "replace").splitlines()
    if len(lines) < 2 or not _NUMBER.fullmatch(lines[0]) or not _NUMBER.fullmatch(lines[1]):
        return [], [Damage(file=name, kind=Kind.UNREADABLE, text="it doesn't begin with a number of entries and a CRC")]
    entries, wrong = lines[2:], []
    if int(lines[0]) != len(entries):
        text = f"it announces {int(lines[0])} entries and has {len(entries)}"
        wrong.append(Damage(file=name, kind=Kind.TORN_END, text=text))
    block = "".join(f"{line}\n" for line in entries).encode("ascii", "replace")
    if int(lines[1]) not in (0, crc32(block) & 0x7FFFFFFF):
        wrong.append(Damage(file=name, kind=Kind.CHECKSUM, text="its entries don't match its CRC"))
    found: list[Epoch] = []
    for number, line in enumerate(entries, 1):
        match = _ENTRY.fullmatch(line)
        if match is None or int(match[2]) > LAST:
            wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=f"entry {number} is not EPOCH-START"))
            continue
        entry = Epoch(epoch=int(match[1]), start=int(match[2]))
        if found and (entry.epoch <= found[-1].epoch or entry.start <= found[-1].start):
            text = f"entry {number} ({line}) doesn't come after the one before ({found[-1].epoch}-{found[-1].start})"
            wrong.append(Damage(file=name, kind=Kind.CONTRADICTION, text=text))
        found.append(entry)
    return found, wrong
