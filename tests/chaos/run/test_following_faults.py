"""Faults that follow others: after their effect, while they last, or with a gap between events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.experiment.model import After, FaultSpec, Schedule, Trigger
from chaos.fault import Undo, Verb
from tests.chaos.run.toy_faults import NODES, Hold, Machine, Shy, runner, spec


class Clocked(Machine):
    """Remembers when each node was killed, paused, and let go again."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, float]] = []

    def note(self, what: str) -> None:
        self.told.append((what, round(asyncio.get_running_loop().time(), 3)))

    async def kill(self, node: str) -> Mapping[str, object]:
        found = await super().kill(node)
        self.note("kill")
        return found

    async def pause(self, node: str) -> Mapping[str, object]:
        found = await super().pause(node)
        self.note("pause")
        return found

    async def undo(self, step: Undo) -> None:
        self.note(step.verb)
        await super().undo(step)


def played(directory: Path, specs: list[FaultSpec], seconds: float) -> list[tuple[str, float]]:
    machine = Clocked()

    async def play() -> None:
        await runner(machine, specs, directory).run(seconds)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    return machine.told


def test_a_fault_follows_each_effect_of_the_one_that_it_waits_for(tmp_path: Path) -> None:
    """It waits for the effect, not for the attempt; and what would come after the load does not come."""
    follows = Schedule(after=After(fault="hold", delay_s=0.2))
    last = Schedule(after=After(fault="follower", delay_s=0.1))
    told = played(
        tmp_path,
        [
            spec(Hold(Verb.RESUME, NODES[1:]), "last", schedule=last, for_s=0.1),
            spec(Hold(Verb.RESUME, NODES[1:]), "follower", schedule=follows, for_s=0.05),
            spec(Hold(Verb.START, NODES[:1]), schedule=Schedule(at_s=(1.0, 3.0, 4.9)), for_s=0.5),
        ],
        5.0,
    )
    assert [(what, when) for what, when in told if when < 3.0] == [
        ("kill", 1.0),
        ("pause", 1.2),
        (Verb.RESUME, 1.25),
        ("pause", 1.3),
        (Verb.RESUME, 1.4),
        (Verb.START, 1.5),
    ]
    assert [when for what, when in told if what == "pause"] == [1.2, 1.3, 3.2, 3.3]


def test_nothing_follows_a_fault_without_effect(tmp_path: Path) -> None:
    follower = spec(Hold(Verb.RESUME, NODES[1:]), "follower", schedule=Schedule(after=After(fault="shy")))
    assert played(tmp_path, [spec(Shy(Verb.START, NODES[:1]), "shy"), follower], 30.0) == []


@pytest.mark.parametrize("for_s", [3.0, 0.1, 0.0], ids=["overlapping", "over before", "until the end"])
def test_a_step_may_begin_while_the_one_before_lasts(tmp_path: Path, for_s: float) -> None:
    third = spec(Hold(Verb.RESUME, NODES[:1]), schedule=Schedule(), for_s=0.5)
    second = spec(Hold(Verb.RESUME, NODES[1:]), schedule=Schedule(), for_s=0.5, after_s=1.0, then=third)
    told = played(tmp_path, [spec(Hold(Verb.START, NODES[:1]), for_s=for_s, rest_s=9.0, then=second)], 5.0)
    assert ("kill", 0.0) in told and ("pause", 1.0) in told and (Verb.RESUME, 1.5) in told
    assert [when for what, when in told if what is Verb.START] == ([for_s] if for_s else [])


def test_a_trigger_with_a_gap_fires_again_only_after_it(tmp_path: Path) -> None:
    machine = Clocked()
    when = Trigger(event="role", times=2, gap_s=1.0)

    async def play() -> None:
        made = runner(machine, [spec(Hold(Verb.START, NODES[:1]), schedule=Schedule(when=when), for_s=0.1)], tmp_path)
        running = asyncio.create_task(made.run(5.0))
        for _ in range(10):
            await asyncio.sleep(0.4)
            made.on_trace({"f": "role", "node": NODES[0]})
        await running

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    assert [when for what, when in machine.told if what == "kill"] == [0.4, 1.6]
