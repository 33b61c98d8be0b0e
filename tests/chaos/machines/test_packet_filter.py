"""Rules of a run on several machines, of which some can't be reached: they hold on the others, and no undo is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from chaos.effects.links import PASS, Action, Drop, Duplicate, LinkRule, Reset, Stall, Throttle
from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.machines import iptables
from chaos.machines.iptables import Endpoint
from chaos.machines.packet_filter import PacketFilter

ENDPOINTS = {name: Endpoint(name, f"10.0.0.{number}") for number, name in enumerate("abc")}
#: Takes a machine for each of its targets.
RULE = LinkRule(frozenset("abc"), frozenset("abc"), Drop())


class Machines:
    """Filters that know just enough: which chains there are, and which machines can't be reached."""

    def __init__(self, flavours: dict[str, str] | None = None) -> None:
        self.chains: dict[str, set[str]] = {name: set() for name in ENDPOINTS}
        self.lost: set[str] = set()
        self.flavours = flavours or dict.fromkeys(ENDPOINTS, "iptables-nft")
        self.listed: dict[str, str] = {}  # what is in each chain of a machine, if it isn't one line

    async def run(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        await asyncio.sleep(0)
        if machine in self.lost:
            raise HostLost(f"{machine} is lost")
        if not command[0].startswith(self.flavours[machine]):
            return 1, "no such flavour"
        chains = self.chains[machine]
        if "-L" in command:
            listed = self.listed.get(machine, "Chain\n pkts\n 3 180 DROP")
            return (0, listed) if command[-1] in chains else (1, "No chain")
        for line in given.splitlines():
            words = line.split()
            if line.startswith(":"):
                chains.add(words[0][1:])
            elif words[0] == "-X":
                if words[1] not in chains:
                    return 1, "No chain"
                chains.remove(words[1])
        return 0, ""

    def rules(self) -> dict[str, int]:
        """How many rules are up on each machine."""
        return {name: len(chains) - 4 for name, chains in self.chains.items()}


def play(script: Coroutine[Any, Any, None]) -> None:
    asyncio.run(script)


async def begun(machines: Machines) -> PacketFilter:
    found = PacketFilter("run", machines.run)
    await found.begin(ENDPOINTS)
    return found


def test_a_rule_that_could_not_be_taken_down_everywhere_is_taken_down_later() -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        await it.put_up("r", RULE)
        assert machines.rules() == {"a": 1, "b": 1, "c": 1} and await it.hits("r") == 9
        machines.lost = {"b"}
        assert await it.hits("r") == 6
        with pytest.raises(HostLost):
            await it.clear("r")
        assert machines.rules() == {"a": 0, "b": 1, "c": 0}
        machines.lost = set()
        await it.clear("r")
        await it.clear("r")
        assert machines.rules() == {"a": 0, "b": 0, "c": 0} and await it.hits("r") == 0

    play(script())


def test_a_rule_holds_on_the_machines_that_can_be_reached() -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        machines.lost = {"b"}
        await it.put_up("r", RULE)
        assert machines.rules() == {"a": 1, "b": 0, "c": 1}
        machines.lost = set(ENDPOINTS)
        with pytest.raises(HostLost):
            await it.put_up("other", RULE)
        machines.lost = set()
        await it.clear("other")
        await it.clear("r")
        assert machines.rules() == {"a": 0, "b": 0, "c": 0}

    play(script())


def test_a_machine_that_began_anew_has_no_rules_and_that_is_fine() -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        await it.put_up("r", RULE)
        machines.chains["b"].clear()
        assert await it.hits("r") == 6
        await it.clear("r")
        assert not machines.chains["b"]

    play(script())


def test_each_machine_may_have_a_flavour_of_its_own_but_needs_one() -> None:
    async def script() -> None:
        machines = Machines({"a": "iptables-nft", "b": "iptables-legacy", "c": "iptables-nft"})
        it = await begun(machines)
        await it.put_up("r", RULE)
        assert machines.rules() == {"a": 1, "b": 1, "c": 1}
        with pytest.raises(MachineError, match="the kernel of c filters no packets"):
            await begun(Machines({"a": "iptables-nft", "b": "iptables-nft", "c": "none"}))

    play(script())


def test_a_filter_that_refuses_is_an_error() -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        machines.flavours["b"] = "none"
        with pytest.raises(DeploymentError, match="the packet filter of b refused: no such flavour"):
            await it.put_up("r", RULE)

    play(script())


def listed(*counts: int, verdict: str = "DROP") -> str:
    return "\n".join(("Chain", "pkts bytes target", *(f"{count} 60 {verdict} all" for count in counts)))


def test_what_a_rule_has_stopped_is_told_of_each_way_by_itself() -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        await it.put_up("r", LinkRule(frozenset("a"), frozenset("bc"), Drop()))
        machines.listed["a"] = listed(4, 7)
        assert [*(await it.stopped("a", ("10.0.0.1", 80))).values()] == [4]
        assert [*(await it.stopped("c", ("10.0.0.0", 80))).values()] == [7], "what stops the answers stops the dial"
        assert await it.stopped("b", ("10.0.0.2", 80)) == {} == await it.stopped("a", ("10.9.9.9", 80))
        assert await it.stopped("nobody", ("10.0.0.0", 80)) == {}

    play(script())


@pytest.mark.parametrize("others", ["", listed(4), listed(4, 7, 9), listed(4, 7, verdict="ACCEPT")])
def test_a_rule_that_is_not_as_it_was_put_up_proves_nothing(others: str) -> None:
    async def script() -> None:
        machines = Machines()
        it = await begun(machines)
        await it.put_up("r", LinkRule(frozenset("a"), frozenset("bc"), Drop()))
        machines.listed["a"] = others
        assert sum((await it.stopped("a", ("10.0.0.1", 80))).values()) == 0
        machines.chains["a"].clear()
        assert sum((await it.stopped("a", ("10.0.0.1", 80))).values()) == 0
        machines.lost = {"a"}
        assert sum((await it.stopped("a", ("10.0.0.1", 80))).values()) == 0

    play(script())


@pytest.mark.parametrize("action", [Stall(999, 1), Reset(999), Throttle(1000), Duplicate(1000, 1), PASS])
def test_a_rule_that_lets_some_packets_pass_never_shows_that_one_was_stopped(action: Action) -> None:
    async def script() -> None:
        it = await begun(Machines())
        await it.put_up("r", LinkRule(frozenset("a"), frozenset("b"), action))
        assert await it.stopped("a", ("10.0.0.1", 80)) == {}
        await it.put_up("r", LinkRule(frozenset("a"), frozenset("b"), Reset()))
        assert [*(await it.stopped("a", ("10.0.0.1", 80))).values()] == [3]

    play(script())


def test_a_node_with_several_addresses_has_a_line_for_each() -> None:
    here, there, other = Endpoint("a", "10.0.0.1"), Endpoint("b", "10.0.0.2,10.1.0.2"), Endpoint("c", "10.0.0.3")
    place = iptables.Place("a", inward=False, ways=((here, there), (here, other)))
    assert iptables.stopped(listed(1, 2, 4), place) == {(here, there): 3, (here, other): 4}
    assert iptables.stopped(listed(1, 2), place) == {}


def test_nodes_that_share_an_address_are_told_apart_by_their_ports() -> None:
    here, there = Endpoint("m", "10.0.0.1", "100:199"), Endpoint("m", "10.0.0.1", "200:299")
    assert here.is_at(("10.0.0.1", 199)) and not here.is_at(("10.0.0.1", 200)) and there.is_at(("10.0.0.1", 200))
    assert Endpoint("m", "10.0.0.1").is_at(("10.0.0.1", 1)) and not here.is_at(("10.0.0.2", 100))
    many = Endpoint("m", "10.0.0.1,10.1.0.1")
    assert many.is_at(("10.0.0.1", 1)) and many.is_at(("10.1.0.1", 1)) and not many.is_at(("10.2.0.1", 1))
