"""A small split system, for tests of faults that a system without stores does not know."""

from __future__ import annotations

from chaos.driver import Driver
from drivers.split import Options, create


def cluster() -> Driver:
    return create(Options(groups=2, slices=2, stores=4, queues=2, zones=2))
