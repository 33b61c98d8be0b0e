"""The link rules of a run in the packet filters of its machines, wherever these are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.deployments import _iptables
from chaos.errors import DeploymentError, MachineError
from chaos.links import LinkRule, Pass
from chaos.tasks import gather

#: Runs a command as root on a node's machine, with a text on its standard input: its exit code and what it printed.
Run = Callable[[str, Sequence[str], str], Awaitable[tuple[int, str]]]


#: How often the filter is asked for its counts before that is an error.
TRIES = 5


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule that is up. ``hits``: those of rules that stood in its place before."""

    chain: str
    places: Sequence[_iptables.Place]
    hits: int = 0


_NONE = _Rule("", ())


class PacketFilter:
    """Puts rules up and takes them down by their id, on all machines that it takes, at the same time."""

    def __init__(self, run_id: str, run: Run) -> None:
        self._stem = _iptables.run_chain(run_id)
        self._run = run
        self._addresses: Mapping[str, str] = {}
        self._flavour = ""
        self._count = 0
        self._rules: dict[str, _Rule] = {}
        self._lock = asyncio.Lock()

    async def begin(self, addresses: Mapping[str, str]) -> None:
        """Make the run's chains on the machine of every node (name → address).

        Raises :class:`MachineError` when a kernel there filters no packets.
        """
        self._addresses = addresses
        first, *others = addresses
        complaints = []
        for flavour in _iptables.FLAVOURS:
            code, output = await self._run(first, _iptables.restore(flavour), _iptables.setup(self._stem))
            if code == 0:
                self._flavour = flavour
                break
            complaints.append(f"{flavour}: {output}")
        else:
            raise MachineError(
                f"the kernel of {first} filters no packets, so links can't be cut: load its modules nf_tables or"
                f" ip_tables, or run `--on process` ({'; '.join(complaints)})"
            )
        await gather(*(self._do(name, _iptables.setup(self._stem)) for name in others))

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        """Put up a rule, in the place of one with the same id, whose hits it keeps. Raises :class:`DeploymentError` for
        an action that the filter doesn't know."""
        places = _iptables.places(rule, self._addresses)
        if places and not isinstance(rule.action, (Pass, *_iptables.ACTIONS)):
            raise DeploymentError(f"the packet filter can't carry out {rule.action} between nodes")
        async with self._lock:
            hits = await self._hits(rule_id)
            await self._clear(rule_id)
            self._count += 1
            chain = f"{self._stem}-{self._count}"
            self._rules[rule_id] = _Rule(chain, places, hits)
            await self._do_all(places, [_iptables.put_up(self._stem, chain, place, rule.action) for place in places])

    async def clear(self, rule_id: str) -> None:
        """Take down a rule, if it is up."""
        async with self._lock:
            await self._clear(rule_id)

    async def hits(self, rule_id: str) -> int:
        """How many packets the rule has decided; 0 for one that is gone."""
        async with self._lock:
            return await self._hits(rule_id)

    async def _hits(self, rule_id: str) -> int:
        rule = self._rules.get(rule_id, _NONE)
        return rule.hits + sum(await gather(*(self._packets(place.node, rule.chain) for place in rule.places)))

    async def _packets(self, node: str, chain: str) -> int:
        for _ in range(TRIES):
            listed = await self._ask(node, _iptables.listing(self._flavour, chain))
            if listed:  # otherwise the output was lost on its way here
                return _iptables.packets(listed)
        raise DeploymentError(f"the packet filter of {node} does not say how many packets it has dropped")

    async def _clear(self, rule_id: str) -> None:
        rule = self._rules.get(rule_id, _NONE)
        batches = [_iptables.take_down(self._stem, rule.chain, place) for place in rule.places]
        await self._do_all(rule.places, batches)
        self._rules.pop(rule_id, None)

    async def _do_all(self, places: Sequence[_iptables.Place], batches: Sequence[str]) -> None:
        await gather(*(self._do(place.node, batch) for place, batch in zip(places, batches, strict=True)))

    async def _do(self, node: str, batch: str) -> None:
        await self._ask(node, _iptables.restore(self._flavour), batch)

    async def _ask(self, node: str, command: Sequence[str], given: str = "") -> str:
        code, output = await self._run(node, command, given)
        if code:
            raise DeploymentError(f"the packet filter of {node} refused: {output}")
        return output
