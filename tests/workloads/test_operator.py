"""The workload that switches masters: it looks, asks for a replica that is in sync, and looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Failed, Unknown
from chaos.services import CanBeOperated
from chaos.workload import Use, uses_of
from tests.workloads.test_workloads import FakeLoad, System
from workloads import operator


@dataclass
class Controllers:
    """Two groups. ``trouble`` may raise for a switch, before it is done."""

    groups: tuple[str, ...] = ("a", "b")
    masters: dict[str, str] = field(default_factory=lambda: {"a": "broker-0", "b": "broker-3"})
    in_sync: dict[str, list[str]] = field(
        default_factory=lambda: {"a": ["broker-0", "broker-1"], "b": ["broker-3", "broker-4", "broker-5"]}
    )
    trouble: Callable[[], Exception | None] = lambda: None
    epoch: int = 1

    async def elect(self, group: str, target: str) -> Answer:
        await asyncio.sleep(0.1)
        assert target in self.in_sync[group] and target != self.masters[group]
        if (error := self.trouble()) is not None:
            raise error
        self.epoch += 1
        self.masters[group] = target
        return Answer(node="controller-0")

    async def find_master(self, group: str) -> Answer:
        await asyncio.sleep(0.01)
        told = {"master": self.masters[group], "epoch": self.epoch, "in_sync": self.in_sync[group]}
        return Answer(node="controller-0", value=told)


def play(controllers: Controllers, seconds: float = 30.0) -> FakeLoad:
    loop = VirtualLoop()
    load = FakeLoad(loop, System())
    load.operator = lambda name: controllers  # type: ignore[attr-defined]
    made = operator.create(operator.Options(every_s=5, looks_s=2))
    assert uses_of(made) == (Use.SWITCHES,) and tuple(made.needs) == (CanBeOperated,)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await asyncio.gather(made.run(load), stop())  # type: ignore[arg-type]
        return 0

    loop.run_until_complete(main())
    return load


def test_each_group_is_switched_in_turn_and_looked_at_before_and_after() -> None:
    load = play(Controllers())
    asked = load.where(f="elect", type="invoke")
    assert [row["value"]["group"] for row in asked[:4]] == ["a", "b", "a", "b"]
    told = [(row["f"], row["value"].get("master")) for row in load.where(type="ok")]
    assert told[:3] == [("find_master", "broker-0"), ("elect", None), ("find_master", "broker-1")]


@pytest.mark.parametrize(("error", "ended"), [(Failed("no"), "fail"), (Unknown("who knows"), "info")])
def test_what_did_not_end_well_is_looked_for_as_long_as_was_asked(error: Exception, ended: str) -> None:
    load = play(Controllers(trouble=lambda: error), seconds=10)
    (switch,) = load.where(f="elect", type=ended)[:1]
    looks = [row["time_ns"] for row in load.where(f="find_master", type="ok") if row["time_ns"] > switch["time_ns"]]
    assert 2.0 <= (looks[4] - switch["time_ns"]) / 1e9 < 2.2


def test_where_nobody_else_is_in_sync_no_switch_is_asked_for() -> None:
    load = play(Controllers(groups=("a",), in_sync={"a": ["broker-0"]}))
    assert load.where(f="find_master", type="ok") and not load.where(f="elect")


@pytest.mark.parametrize("options", [{"every_s": 0}, {"looks_s": 1e9}, {"every_s": float("nan")}])
def test_times_have_bounds(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected seconds from 0\.1 to 3600"):
        operator.Options(**options)
