"""Rules on real links hold for a node that comes later, without a moment in which they don't hold for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from chaos.effects.links import PASS, Drop, Duplicate, LinkRule
from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.machines.real_links import RealLinks
from reference.wire.codec import RemotingCodec
from tests.chaos.machines.test_packet_filter import ENDPOINTS, Machines

ALL = frozenset({"*"})
NOTHING = dict.fromkeys(ENDPOINTS, 0)
ADDRESSES = {name: ("127.0.0.1", number) for number, name in enumerate(ENDPOINTS, 1)}


class Watched(Machines):
    """Remembers every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[str, str]] = []

    async def run(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        self.batches.append((machine, given))
        return await super().run(machine, command, given)


def play(script: Callable[[Watched, RealLinks], Awaitable[None]]) -> None:
    """Begin with the nodes a and b."""

    async def main() -> None:
        machines = Watched()
        links = RealLinks("run", 1, machines.run)
        old = {name: ENDPOINTS[name] for name in "ab"}
        await links.begin(RemotingCodec(), {name: ADDRESSES[name] for name in "ab"}, old)
        try:
            await script(machines, links)
        finally:
            links.close()

    asyncio.run(main())


async def admit(links: RealLinks) -> None:
    await links.admit("c", ADDRESSES["c"], ENDPOINTS["c"])


def test_rules_that_stand_hold_for_a_newcomer_and_are_taken_down_with_it() -> None:
    async def script(machines: Watched, links: RealLinks) -> None:
        await links.put_up("all", LinkRule(frozenset("a"), ALL, Drop()))
        await links.put_up("pair", LinkRule(frozenset("a"), frozenset("b"), Drop()))
        before = machines.rules()
        machines.batches.clear()
        await admit(links)
        told = "".join(given for _, given in machines.batches)
        assert {machine for machine, _ in machines.batches} == {"c"}, "nothing is taken down meanwhile"
        assert ENDPOINTS["a"].address in told and ENDPOINTS["b"].address not in told
        assert (before["a"] + before["b"], sum(machines.rules().values())) == (2, 3)
        assert links.addresses["c"] == ADDRESSES["c"] and await links.hits("all") == 2 * 3
        for _ in range(2):
            await links.clear("all")
        await links.clear("pair")
        assert machines.rules() == NOTHING and await links.hits("all") == 0

    play(script)


def test_a_rule_that_is_put_up_again_holds_for_the_newcomer_by_itself() -> None:
    async def script(machines: Watched, links: RealLinks) -> None:
        rule = LinkRule(ALL, frozenset("a"), Drop())
        await links.put_up("r", rule)
        await admit(links)
        for again in (LinkRule(ALL, frozenset("a"), PASS), rule):
            await links.put_up("r", again)
        assert sum(machines.rules().values()) == 1
        assert ENDPOINTS["c"].address in machines.batches[-1][1]
        await links.clear("r")
        assert machines.rules() == NOTHING

    play(script)


def test_a_part_of_a_rule_on_a_machine_that_is_lost_is_taken_down_later() -> None:
    async def script(machines: Watched, links: RealLinks) -> None:
        await links.put_up("r", LinkRule(frozenset("a"), ALL, Drop()))
        await admit(links)
        machines.lost = {"c"}
        with pytest.raises(HostLost):
            await links.clear("r")
        machines.lost = set()
        await links.clear("r")
        assert machines.rules() == NOTHING

    play(script)


def test_a_machine_that_is_lost_keeps_no_newcomer_out() -> None:
    async def script(machines: Watched, links: RealLinks) -> None:
        await links.put_up("r", LinkRule(ALL, frozenset("a"), Drop()))
        machines.lost = {"a"}
        await admit(links)
        assert links.addresses["c"] == ADDRESSES["c"]
        machines.lost = set()
        await links.clear("r")
        assert machines.rules() == NOTHING

    play(script)


def test_clients_know_a_newcomer_as_a_node() -> None:
    async def script(machines: Watched, links: RealLinks) -> None:
        assert links.connect("c-client", "a")
        await admit(links)
        with pytest.raises(DeploymentError, match="has the name of a node"):
            links.connect("c", "a")

    play(script)


def test_a_filter_that_can_not_duplicate_is_told_of_before_anything_runs() -> None:
    class Poor(Machines):
        async def run(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
            return (4, "no TEE") if "TEE" in given else await super().run(machine, command, given)

    async def begin(machines: Machines, *actions: type) -> None:
        links = RealLinks("run", 1, machines.run)
        links.expect(frozenset(actions))
        try:
            await links.begin(RemotingCodec(), ADDRESSES, ENDPOINTS)
        finally:
            links.close()

    poor, able = Poor(), Machines()
    with pytest.raises(MachineError, match=r"xt_TEE \(.*no TEE.*target: client"):
        asyncio.run(begin(poor, Duplicate))
    asyncio.run(begin(poor, Drop))
    asyncio.run(begin(able, Duplicate))
    assert able.rules() == NOTHING
