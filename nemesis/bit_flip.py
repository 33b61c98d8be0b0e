"""Crash a slave and flip bits in old bytes on its disk: it must notice the damage and copy everything again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.corruption import Harm, Kind
from nemesis._losses import OldBytes, check

ALIASES: Mapping[str, Mapping[str, object]] = {
    "bitflip": {},  # Jepsen, as the next two
    "bitflip-file-chunks": {"flips": 64},
    "file-corruption": {"flips": 16},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``wipe``. One bit is flipped in each of ``flips`` bytes, at random places that have not changed
    for ``age_s`` seconds, in files whose names match ``files`` (such as ``log/*``)."""

    target: str = "slave"
    flips: int = 1
    files: str = "*"
    age_s: float = 3.0

    def __post_init__(self) -> None:
        check(self.target, self.age_s)
        if self.flips < 1:
            raise ValueError("flips must be 1 or more")


def create(options: Options) -> OldBytes:
    harm = Harm(kind=Kind.FLIP, draw=0, files=options.files, count=options.flips)
    return OldBytes(target=options.target, age_s=options.age_s, harm=harm)
