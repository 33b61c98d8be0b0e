"""Trials from outside: silence that something explains is believed at once, and nothing else is taken for a cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from chaos.effects.links import Reach
from chaos.errors import HostLost
from chaos.machines.lifecycle import trials
from chaos.machines.lifecycle.trials import GLANCE_S, REACH_S, Dialling, answered
from chaos.machines.machine import Dial, Life
from chaos.tasks import gather

A, B = (Dial(source="n", target=("10.0.0.1", port)) for port in (1, 2))
ALIVE = Life(incarnation=1, pid=1, started=1, state="S", paused=False, exit_code=None, of_a_fault=False)


class Net:
    """A machine whose dials come about as ``works`` says of the time that they have, and one rule. Whatever is dialled
    in vain counts as ``counts`` says, before and after."""

    name = "m"

    def __init__(self, works: Callable[[Dial, float], bool], *, counts: Mapping[int, int] | None = None) -> None:
        self._works = works
        self._counts = counts or {}
        self.rules: dict[str, int] = {"r": 3}
        self.dialled: list[tuple[Sequence[Dial], float]] = []

    async def off(self, call: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return call(*arguments)

    async def stopped(self, dial: Dial) -> Mapping[object, int]:
        return {**self.rules}

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        self.dialled.append((dials, within_s))
        self.rules["r"] += self._counts.get(len(self.dialled), 0)
        return [self._works(dial, within_s) for dial in dials]

    def try_all(self, *dials: Dial) -> list[Reach]:
        async def main() -> list[Reach]:
            dialling = Dialling(self.off, self.stopped)
            return await gather(*(dialling.reach(cast(Any, self), dial) for dial in dials))

        return asyncio.run(main())

    @property
    def waited_s(self) -> list[float]:
        return [within_s for _, within_s in self.dialled]


def test_a_rule_that_stops_something_meanwhile_shows_the_cut_at_once() -> None:
    net = Net(lambda dial, within_s: False, counts={1: 1})
    assert net.try_all(A) == [Reach.CUT] and net.waited_s == [GLANCE_S]


def test_what_was_stopped_before_shows_nothing() -> None:
    net = Net(lambda dial, within_s: False)
    assert net.try_all(A) == [Reach.FAILS] and net.waited_s == [GLANCE_S, REACH_S]


def test_a_rule_that_is_gone_or_counts_anew_shows_nothing() -> None:
    for left in ({}, {"r": 2}):
        net = Net(lambda dial, within_s: False)

        def dial_in_vain(dials: Sequence[Dial], within_s: float, net: Net = net, left: Any = left) -> list[bool]:
            net.rules = dict(left)
            return [False] * len(dials)

        net.reach = dial_in_vain  # type: ignore[method-assign]
        assert net.try_all(A) == [Reach.FAILS]


def test_what_works_is_not_cut_whatever_is_counted() -> None:
    assert Net(lambda dial, within_s: True, counts={1: 9}).try_all(A) == [Reach.WORKS]


def test_a_late_one_is_waited_for_and_one_that_is_stopped_later_is_cut() -> None:
    late = Net(lambda dial, within_s: within_s > GLANCE_S)
    assert late.try_all(A) == [Reach.WORKS] and late.waited_s == [GLANCE_S, REACH_S]
    assert Net(lambda dial, within_s: False, counts={2: 1}).try_all(A) == [Reach.CUT]


def test_those_of_one_machine_are_dialled_at_once_and_only_the_late_ones_again() -> None:
    net = Net(lambda dial, within_s: dial is A)
    assert net.try_all(A, B) == [Reach.WORKS, Reach.FAILS]
    assert [dials for dials, _ in net.dialled] == [[A, B], [B]]


def test_a_machine_that_is_gone_reaches_nobody_and_that_is_no_cut() -> None:
    def gone(dial: Dial, within_s: float) -> bool:
        raise HostLost("m is lost")

    assert Net(gone, counts={1: 1}).try_all(A, B) == [Reach.CUT] * 2, "its rule has stopped something"
    assert Net(gone).try_all(A, B) == [Reach.FAILS] * 2


async def _answers(within_s: float, *, late_s: float) -> bool:
    await asyncio.sleep(min(late_s, within_s))
    return late_s <= within_s


@pytest.mark.parametrize(
    ("life", "late_s", "expected", "within_s"),
    [
        (ALIVE, 0.2, True, 5.0),
        (replace(ALIVE, paused=True, state="T"), 60, False, 0.4),
        (replace(ALIVE, state=""), 60, False, 0.4),
        (replace(ALIVE, starved=True), 60, False, 0.45),
        (replace(ALIVE, starved=True), 0.1, True, 5.0),
        (replace(ALIVE, paused=True, state="T"), 0.0, True, 5.0),
    ],
)
def test_a_node_that_can_not_answer_is_not_waited_for(
    life: Life, late_s: float, expected: bool, within_s: float
) -> None:
    async def main() -> float:
        async def look() -> Life:
            return life

        began_s = asyncio.get_running_loop().time()
        assert await answered(_answers(REACH_S, late_s=late_s), look) is expected
        return asyncio.get_running_loop().time() - began_s

    assert asyncio.run(main()) < within_s


def test_a_node_of_which_nothing_is_known_is_waited_for() -> None:
    async def main() -> None:
        async def look() -> Life:
            raise HostLost("m is lost")

        assert await answered(_answers(1.0, late_s=0.2), look)
        assert not await answered(_answers(0.2, late_s=0.3), look)

    asyncio.run(main())


def test_one_that_lives_is_given_all_its_time() -> None:
    assert trials.GLANCE_S < trials.STARVED_S < trials.REACH_S == 0.5

    async def main() -> None:
        async def look() -> Life:
            return ALIVE

        assert not await answered(_answers(0.3, late_s=1.0), look)

    asyncio.run(main())
