"""Crash a slave and copy sectors of its files over others: it must notice the damage and copy everything again.

A disk that writes to a wrong address does the same: the data is whole and may have a valid checksum, but it is in the
wrong place (Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack, FAST 2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.corruption import Harm, Kind
from nemesis._losses import OldBytes, check

ALIASES: Mapping[str, Mapping[str, object]] = {"copy-file-chunks": {"sectors": 8}}  # Jepsen


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``wipe``. ``sectors`` of 512 bytes are replaced by others of the same file, at random places
    that have not changed for ``age_s`` seconds, in files whose names match ``files`` (such as ``log/*``)."""

    target: str = "slave"
    sectors: int = 1
    files: str = "*"
    age_s: float = 3.0

    def __post_init__(self) -> None:
        check(self.target, self.age_s)
        if self.sectors < 1:
            raise ValueError("sectors must be 1 or more")


def create(options: Options) -> OldBytes:
    harm = Harm(kind=Kind.MISDIRECT, draw=0, files=options.files, count=options.sectors)
    return OldBytes(target=options.target, age_s=options.age_s, harm=harm)
