"""Faults on clocks: a node that is down for a while doesn't end them, and they end where they began."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, cast

from chaos.fault import Acts, Effect, Injection, NotNow, Undo, Verb, World
from nemesis import strobe
from tests.views import one_group

VIEW = one_group(brokers=("broker-0",), master="broker-0", in_sync=("broker-0",), settled=True)


class Machine:
    """One node's clock; it doesn't tell what it shows while it is ``down``, but is set all the same."""

    def __init__(self) -> None:
        self.jumps: list[int] = []
        self.down = False

    @property
    def deployment(self) -> Machine:
        return self

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        assert {*proof} == {*injection.targets}

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        self.jumps.append(jump_ns)
        if self.down:
            raise NotNow("it does not report its clocks")
        return {"node": node}


def test_a_strobe_goes_on_when_its_node_is_down_and_jumps_there_and_back() -> None:
    machine = Machine()
    fault: Any = strobe.create(strobe.Options(jump_s=2.0))
    assert isinstance(fault, Acts)
    left = 4

    async def rest(seconds: float) -> bool:
        nonlocal left
        left -= 1
        machine.down = left % 2 == 1
        return left >= 0

    async def main() -> None:
        world = cast(World, machine)
        injection = fault.plan(VIEW, Random(0), "fault-0")
        assert injection.undo == (Undo(verb=Verb.RESET_CLOCK, subject="broker-0"),)
        await fault.inject(world, injection)
        await fault.act(world, injection, rest)

    asyncio.run(main())
    assert len(machine.jumps) == 5 and {abs(jump) for jump in machine.jumps} == {2_000_000_000}
    assert [sum(machine.jumps[: end + 1]) for end in range(5)] == [machine.jumps[0], 0] * 2 + [machine.jumps[0]]
