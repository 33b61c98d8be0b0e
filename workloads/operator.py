"""An operator switches masters with the system's own tool, and looks before and afterwards who is the master.

It is for runs in which nothing else elects: what came of a switch can't be distinguished from an election by the system
itself, so the law *roles* judges a switch only where no fault was near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.services import CanBeOperated, Operator
from chaos.workload import Load, Outcome, Use, Worker

NAME = "operator"
LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A switch is asked for every ``every_s`` seconds, to a replica that is in sync, in each group in turn; it is then
    looked for as long as ``looks_s``, or until the replica is the master."""

    every_s: float = 15.0
    looks_s: float = 5.0

    def __post_init__(self) -> None:
        for name in ("every_s", "looks_s"):
            value = getattr(self, name)
            if not 0.1 <= value <= 3600:
                raise ValueError(f"{name}: expected seconds from 0.1 to 3600, got {value:g}")


@dataclass(slots=True)
class Switches:
    options: Options
    uses: Sequence[Use] = (Use.SWITCHES,)
    needs: Sequence[type] = (CanBeOperated,)

    async def run(self, load: Load) -> None:
        operator, worker, rng = load.operator(NAME), Worker(load, NAME), load.rng(NAME)
        turn = 0
        while not load.stopping:
            await _pause(load, self.options.every_s * (0.75 + rng.random() / 2))
            group = operator.groups[turn % len(operator.groups)]
            found = await _look(operator, worker, group) if not load.stopping else None
            if found is None or not found.ok:
                continue
            seen: Mapping[str, Any] = found.answer.value
            able = sorted(set(seen["in_sync"]) - {seen["master"]})
            if able and seen["master"] and not load.stopping:
                await self._switch(load, operator, worker, group, rng.choice(able))
                turn += 1

    async def _switch(self, load: Load, operator: Operator, worker: Worker, group: str, target: str) -> None:
        asked: dict[str, Any] = {"group": group, "target": target}
        await worker.do("elect", lambda: operator.elect(group, target), **asked)
        deadline_ns = load.now_ns() + round(self.options.looks_s * 1e9)
        while True:
            is_last = load.now_ns() >= deadline_ns
            found = await _look(operator, worker, group)
            if is_last or load.stopping or (found.ok and found.answer.value["master"] == target):
                return
            await load.sleep(LOOK_S)

    async def drain(self, load: Load) -> None:
        """Do nothing: each switch was looked for when it was asked for."""


async def _pause(load: Load, seconds: float) -> None:
    """Pause for so long, or shorter where the load ends before."""
    deadline_ns = load.now_ns() + round(seconds * 1e9)
    while not load.stopping and (left_ns := deadline_ns - load.now_ns()) > 0:
        await load.sleep(min(LOOK_S, left_ns / 1e9))


async def _look(operator: Operator, worker: Worker, group: str) -> Outcome:
    return await worker.do("find_master", lambda: operator.find_master(group), group=group)


def create(options: Options) -> Switches:
    return Switches(options)
