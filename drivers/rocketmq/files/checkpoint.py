"""A broker's ``checkpoint``: how far it had come when it wrote this, as numbers of eight bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from chaos.scrub import Damage, Kind

NAME = "checkpoint"
_NUMBERS = struct.Struct(">6q")
#: Times after the year 2200 are none.
_LATEST_MS = 7_258_118_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Times in ms since 1970 up to which the parts of the store are on the disk, and positions in the commit log:
    ``confirmed`` is the confirm offset, up to which all replicas in sync hold the log; ``queued``: up to which consume
    queues are on the disk. 0: not known yet."""

    log_ms: int
    queues_ms: int
    index_ms: int
    master_flushed: int
    confirmed: int
    queued: int


def read(path: Path, name: str = NAME) -> tuple[Checkpoint | None, list[Damage]]:
    """Read the checkpoint; None when it is too short for a checkpoint. Raises ``OSError``."""
    with path.open("rb") as file:
        data = file.read(_NUMBERS.size)
    if len(data) < _NUMBERS.size:
        return None, [Damage(file=name, kind=Kind.TORN_END, text=f"it ends after {len(data)} bytes", at=len(data))]
    numbers = _NUMBERS.unpack(data)
    found = Checkpoint(
        **dict(zip(("log_ms", "queues_ms", "index_ms", "master_flushed", "confirmed", "queued"), numbers, strict=True))
    )
    wrong = []
    for place, number in enumerate(numbers):
        time = place < 3
        if number < (0 if time or place == 4 else -1) or (time and number > _LATEST_MS):
            what = "time" if time else "position"
            text = f"impossible {what} {number}"
            wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=text, at=8 * place))
    return found, wrong
