"""The link rules of a run that need the traffic control of its machines, wherever these are."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from chaos.effects.links import Action, LinkRule, Pass
from chaos.errors import DeploymentError, HostLost, KernelLacks, MachineError
from chaos.machines import iptables, netem
from chaos.machines.iptables import MANGLE, Endpoint, Place, Way
from chaos.machines.packet_filter import PacketFilter, Run
from chaos.tasks import gather


class Shaper:
    """Puts rules up and takes them down by their id. What ends with the machines' devices, or is given back with
    :func:`chaos.machines.netem.end`, is not taken down before: classes into which nothing is sorted any more."""

    def __init__(self, run_id: str, run: Run) -> None:
        self._major = netem.major(run_id)
        self._run = run
        self._filter = PacketFilter(run_id, run, MANGLE, self._write)
        self._endpoints: dict[str, Endpoint] = {}
        self._numbers: dict[Way, int] = {}
        self._devices: dict[Way, str] = {}
        self._taken: dict[str, set[str]] = defaultdict(set)
        self._rules: dict[str, LinkRule] = {}
        self._actions: dict[str, Action] = {}
        self._lock = asyncio.Lock()

    async def begin(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Take over the devices between these nodes (by name); also for more of them, later.

        Raises :class:`MachineError` when a kernel there has no netem, or somebody else controls a device's traffic.
        """
        fresh = {name: found for name, found in endpoints.items() if name not in self._endpoints}
        self._endpoints.update(endpoints)
        machines = sorted({found.machine for found in self._endpoints.values()})
        await gather(*(self._take(machine) for machine in machines))
        await self._filter.begin(fresh)

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        """Put up a rule, in the place of one with the same id, whose hits it keeps. Raises :class:`HostLost` when no
        machine that it takes can be reached."""
        async with self._lock:
            before = self._rules.pop(rule_id, None)
            self._rules[rule_id] = rule
            if not isinstance(rule.action, Pass):
                self._actions[rule_id] = rule.action
            await self._shape(self._ways(rule))
            await self._filter.put_up(rule_id, rule)
            await self._shape(self._ways(before) if before else ())

    async def clear(self, rule_id: str) -> None:
        """Take down a rule, if it is up. Raises :class:`HostLost` when that must be done again."""
        async with self._lock:
            await self._filter.clear(rule_id)
            rule = self._rules.pop(rule_id, None)
            self._actions.pop(rule_id, None)
            await self._shape(self._ways(rule) if rule else ())

    async def hits(self, rule_id: str) -> int:
        """Return how many packets the rule has struck; 0 for one that is gone."""
        action = self._actions.get(rule_id)
        return netem.hits(action, await self._filter.hits(rule_id)) if action else 0

    # One machine

    async def _take(self, machine: str) -> None:
        fresh = [way for way in self._all_ways() if way[0].machine == machine and way not in self._devices]
        if not fresh:
            return
        listed = await self._ask(machine, netem.ROUTES, netem.routes(peer.address for _, peer in fresh))
        found = netem.devices(listed)
        if len(found) != len(fresh):
            raise DeploymentError(f"{machine} does not say how it gets to the other nodes: {listed}")
        for way, device in zip(fresh, found, strict=True):
            self._devices[way] = device
            self._numbers[way] = len(self._numbers) + 1
        shown = dict(netem.taken(await self._ask(machine, netem.SHOW, ""), self._major))
        for device in sorted({*found} - self._taken[machine]):
            if shown.get(device):
                raise MachineError(
                    f"the traffic of device {device} of {machine} is controlled by others ({shown[device]}), who would"
                    " lose that: take it away, or leave out what needs netem between nodes (`on: [sim, process]`)"
                )
            self._taken[machine].add(device)
            lines = [netem.end(device)] if device in shown else []
            code, output = await self._run(machine, netem.BATCH, _text(lines + netem.begin(device, self._major)))
            if code:
                raise no_netem(machine, output.partition("\n")[0])

    async def _shape(self, ways: Iterable[Way]) -> None:
        """Have the classes of these links do what all rules together ask. A machine that can't be reached is left to
        the packet filter to report."""
        lines: dict[str, list[str]] = defaultdict(list)
        for way in ways:
            asked = [rule.action for rule in self._rules.values() if way in self._ways(rule)]
            actions = [action for action in asked if not isinstance(action, Pass)]
            if actions:
                lines[way[0].machine] += netem.shape(self._devices[way], self._major, self._numbers[way], actions)
        await gather(*(self._try(machine, _text(batch)) for machine, batch in lines.items()))

    async def _try(self, machine: str, batch: str) -> None:
        try:
            await self._ask(machine, netem.BATCH, batch)
        except HostLost:
            pass

    async def _ask(self, machine: str, command: list[str], given: str) -> str:
        code, output = await self._run(machine, command, given)
        if code:
            raise DeploymentError(f"the traffic control of {machine} refused: {output}")
        return output

    # Ways: from a node to its peer

    def _all_ways(self) -> list[Way]:
        known = self._endpoints.values()
        return [(here, peer) for here in known for peer in known if peer is not here]

    def _ways(self, rule: LinkRule) -> list[Way]:
        return [way for place in iptables.places(rule, self._endpoints, MANGLE) for way in place.ways]

    def _write(self, stem: str, chain: str, place: Place, action: Action) -> str:
        sorts = place if not isinstance(action, Pass) else replace(place, ways=())
        classes = {way: netem.class_id(self._major, self._numbers[way]) for way in sorts.ways}
        return iptables.classify(stem, chain, sorts, classes)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def no_netem(machine: str, said: str) -> KernelLacks:
    """Return the error of a machine whose kernel can't shape traffic; ``said``: its words."""
    return KernelLacks(
        f"the kernel of {machine} has no netem, so packets between nodes can't be delayed, reordered or corrupted"
        f" ({said}): load its module sch_netem; or say `target: client`, for which a proxy does it; or `on: [sim,"
        " process]`. Cuts, loss, resets, rate limits and duplicates work without it",
        netem.ACTIONS,
    )
