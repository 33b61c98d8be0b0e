"""What a check may cost, where it runs, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass

#: Where a search runs; ``auto`` is the JVM unless there is no Java.
ENGINES = ("auto", "jvm", "python")
TIME_LIMIT_S = 60.0
MEMORY_MIB = 1024
LEAST_MEMORY_MIB = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one history may cost, and what is to be reported of it. ``threads``: 0 means all cores. ``every_key``: go on
    after a violation, until each object has a verdict. ``orders``: report a linearization of each object."""

    time_limit_s: float = TIME_LIMIT_S
    memory_mib: int = MEMORY_MIB
    threads: int = 0
    every_key: bool = False
    orders: bool = False
