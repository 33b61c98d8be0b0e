"""Crash a slave and cut off a file within its old bytes: it must notice the damage and copy everything again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.corruption import Harm, Kind
from nemesis._losses import OldBytes, check

ALIASES: Mapping[str, Mapping[str, object]] = {"truncate-file": {}, "truncate-file-chunks": {}}  # Jepsen


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``wipe``. One of the files whose names match ``files`` (such as ``log/*``) is cut at a random
    place that has not changed for ``age_s`` seconds."""

    target: str = "slave"
    files: str = "*"
    age_s: float = 3.0

    def __post_init__(self) -> None:
        check(self.target, self.age_s)


def create(options: Options) -> OldBytes:
    return OldBytes(target=options.target, age_s=options.age_s, harm=Harm(kind=Kind.CUT, draw=0, files=options.files))
