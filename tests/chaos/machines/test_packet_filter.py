"""Rules of a run on several machines, of which some can't be reached: they hold on the others, and no undo is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from chaos.effects.links import Drop, LinkRule
from chaos.errors import DeploymentError, HostLost, MachineError
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

    async def run(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        await asyncio.sleep(0)
        if machine in self.lost:
            raise HostLost(f"{machine} is lost")
        if not command[0].startswith(self.flavours[machine]):
            return 1, "no such flavour"
        chains = self.chains[machine]
        if "-L" in command:
            return (0, "Chain\n pkts\n 3 180 DROP") if command[-1] in chains else (1, "No chain")
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
