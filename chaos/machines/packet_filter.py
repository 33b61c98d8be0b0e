"""The link rules of a run in the packet filters of its machines, wherever these are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from chaos.effects.links import PASS, Action, LinkRule
from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.machines import iptables
from chaos.machines.dials import Address
from chaos.machines.iptables import FILTER, Endpoint, Table
from chaos.tasks import gather

#: Runs a command as root on a machine, with a text on its standard input: its exit code and what it printed. Raises
#: :class:`chaos.errors.HostLost` when the machine can't be reached: then rules stand on the others alone.
Run = Callable[[str, Sequence[str], str], Awaitable[tuple[int, str]]]
Write = Callable[[str, str, iptables.Place, Action], str]
#: How often the filter is asked for its counts before that is an error.
TRIES = 5


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule that is up. ``hits``: those of rules that stood in its place before."""

    chain: str
    places: Sequence[iptables.Place]
    action: Action
    hits: int = 0


_NONE = _Rule("", (), PASS)


class PacketFilter:
    """Puts rules up and takes them down by their id, on all machines that it takes, at the same time.

    ``write`` makes the batch that puts up a part of a rule in its ``table``: of the run's stem, the rule's chain, the
    place, and the action.
    """

    def __init__(self, run_id: str, run: Run, table: Table = FILTER, write: Write = iptables.put_up) -> None:
        self._stem = iptables.run_chain(run_id)
        self._run = run
        self._table = table
        self._write = write
        self._endpoints: Mapping[str, Endpoint] = {}
        self._flavours: dict[str, str] = {}
        self._count = 0
        self._rules: dict[str, _Rule] = {}
        self._lock = asyncio.Lock()

    async def begin(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Make the run's chains on the machine of every node (by name); also for more of them, later: rules that are
        put up from then on hold for these too.

        Raises :class:`MachineError` when a kernel there filters no packets.
        """
        self._endpoints = {**self._endpoints, **endpoints}
        machines = sorted({found.machine for found in endpoints.values()} - self._flavours.keys())
        await gather(*(self._begin(machine) for machine in machines))

    async def begin_again(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Make the run's chains again, where these machines have lost all that stood there."""
        self._endpoints = {**self._endpoints, **endpoints}
        await gather(*(self._begin(machine) for machine in sorted({found.machine for found in endpoints.values()})))

    async def _begin(self, machine: str) -> None:
        complaints = []
        for flavour in iptables.FLAVOURS:
            batch = iptables.setup(self._stem, self._table)
            code, output = await self._run(machine, iptables.restore(flavour), batch)
            if code == 0:
                self._flavours[machine] = flavour
                return
            complaints.append(f"{flavour}: {output}")
        raise MachineError(
            f"the kernel of {machine} filters no packets, so links can't be cut: load its modules nf_tables or"
            f" ip_tables, or run `--on process` ({'; '.join(complaints)})"
        )

    def takes(self, rule: LinkRule) -> bool:
        """Return whether the rule holds between any two nodes."""
        return bool(iptables.places(rule, self._endpoints, self._table))

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        """Put up a rule, in the place of one with the same id, whose hits it keeps. Raises :class:`DeploymentError` for
        an action that the filter doesn't know, :class:`HostLost` when no machine that it takes can be reached."""
        places = iptables.places(rule, self._endpoints, self._table)
        async with self._lock:
            hits = await self._hits(rule_id)
            await self._clear(rule_id)
            self._count += 1
            chain = f"{self._stem}-{self._count}"
            self._rules[rule_id] = _Rule(chain, places, rule.action, hits)
            batches = [self._write(self._stem, chain, place, rule.action) for place in places]
            failures = await gather(
                *(_failure(self._do(place.machine, batch)) for place, batch in zip(places, batches, strict=True))
            )
            up = [place for place, failure in zip(places, failures, strict=True) if failure is None]
            self._rules[rule_id] = _Rule(chain, up, rule.action, hits)
            for failure in failures:
                if failure is not None and not (up and isinstance(failure, HostLost)):
                    raise failure

    async def clear(self, rule_id: str) -> None:
        """Take down a rule, if it is up. Raises :class:`HostLost` when that must be done again, for a machine that
        can't be reached; on all others it is down."""
        async with self._lock:
            await self._clear(rule_id)

    async def hits(self, rule_id: str) -> int:
        """Return how many packets the rule has decided; 0 for one that is gone."""
        async with self._lock:
            return await self._hits(rule_id)

    async def stopped(self, source: str, target: Address) -> Mapping[object, int]:
        """Return how many packets between a node and the one at this address, either way, each rule has stopped that
        stops all of them; by chain and machine. It waits for no rule that is just put up or taken down."""
        here = self._endpoints.get(source)
        ways = {way for peer in self._endpoints.values() if peer.is_at(target) for way in ((here, peer), (peer, here))}
        asked = [
            (rule, place)
            for rule in self._rules.values()
            for place in rule.places
            if iptables.stops_all(rule.action) and not ways.isdisjoint(place.ways)
        ]
        counts = await gather(*(self._stopped(rule, place) for rule, place in asked))
        return {
            (rule.chain, place.machine, place.inward): sum(count for way, count in by_way.items() if way in ways)
            for (rule, place), by_way in zip(asked, counts, strict=True)
        }

    async def _stopped(self, rule: _Rule, place: iptables.Place) -> Mapping[iptables.Way, int]:
        try:
            listed = await self._list(place.machine, rule.chain)
        except HostLost:
            return {}
        return iptables.stopped(listed, place) if listed else {}

    async def _hits(self, rule_id: str) -> int:
        rule = self._rules.get(rule_id, _NONE)
        return rule.hits + sum(await gather(*(self._packets(place.machine, rule) for place in rule.places)))

    async def _packets(self, machine: str, rule: _Rule) -> int:
        for _ in range(TRIES):
            try:
                listed = await self._list(machine, rule.chain)
            except HostLost:
                return 0
            if listed is None:
                return 0
            if listed:  # otherwise the output was lost on its way here
                return iptables.packets(listed, rule.action)
        raise DeploymentError(f"the packet filter of {machine} does not say how many packets it has dropped")

    async def _list(self, machine: str, chain: str) -> str | None:
        """Return what the filter lists of this chain; None if it is not there, as after a restart of the machine."""
        code, output = await self._run(machine, iptables.listing(self._flavours[machine], chain, self._table), "")
        return None if code else output

    async def _clear(self, rule_id: str) -> None:
        rule = self._rules.get(rule_id, _NONE)
        failures = await gather(*(_failure(self._take_down(rule, place)) for place in rule.places))
        left = [place for place, failure in zip(rule.places, failures, strict=True) if failure is not None]
        for failure in failures:
            if failure is not None:
                self._rules[rule_id] = replace(rule, places=left)
                raise failure
        self._rules.pop(rule_id, None)

    async def _take_down(self, rule: _Rule, place: iptables.Place) -> None:
        batch = iptables.take_down(self._stem, rule.chain, place, rule.action, self._table)
        try:
            await self._do(place.machine, batch)
        except HostLost:
            raise
        except DeploymentError:
            if await self._list(place.machine, rule.chain) is not None:
                raise

    async def _do(self, machine: str, batch: str) -> None:
        code, output = await self._run(machine, iptables.restore(self._flavours[machine]), batch)
        if code:
            raise DeploymentError(f"the packet filter of {machine} refused: {output}")


async def _failure(work: Awaitable[None]) -> DeploymentError | None:
    """Await it; what went wrong, so that the same is still tried elsewhere."""
    try:
        await work
    except DeploymentError as error:
        return error
    return None
