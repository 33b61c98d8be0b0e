"""Links of nodes that stand on their own network: the kernel's packet filter, and its traffic control, between nodes; a
proxy in front of clients.

One set of rules holds for all. Clients stand behind a proxy in the harness, which knows them apart, so that a rule can
hold for some of them, and can do more to them than a packet filter can.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from chaos.effects.links import ACTIONS, Duplicate, LinkRule, Pass, Reach
from chaos.errors import BadInput, DeploymentError, HostLost, KernelLacks
from chaos.frames import Framing
from chaos.machines import iptables, netem
from chaos.machines.client import NO_CODEC, ProcessConnection, dial
from chaos.machines.dials import Opener
from chaos.machines.iptables import Endpoint
from chaos.machines.machine import Dial, Streams
from chaos.machines.packet_filter import PacketFilter
from chaos.machines.proxy import HOST, Proxy, try_link
from chaos.machines.traffic_control import Shaper
from chaos.node import Codec

#: What rules can do to links between nodes, for which part of it the kernel must know netem, and what to those of
#: clients.
LINK_ACTIONS = iptables.ACTIONS | netem.ACTIONS
NETEM_ACTIONS = netem.ACTIONS
CLIENT_LINK_ACTIONS = frozenset(ACTIONS.values())
#: The id of the rule with which it is tried what the filter can do.
TRIAL = "trial"


class RealLinks:
    """The links of one run. ``token``: the secret by which its nodes know one another, and clients that come by our
    proxy. ``run_as_root(machine, command, input)`` runs a command where packets are filtered. ``opener``: by what the
    harness reaches addresses of nodes that it can't dial itself."""

    def __init__(
        self,
        tag: str,
        seed: int,
        run_as_root: Callable[[str, Sequence[str], str], Awaitable[tuple[int, str]]],
        opener: Opener | None = None,
    ) -> None:
        self.token = secrets.token_hex(16)
        self.opener = opener
        self._proxy = Proxy(seed, lambda hello, transport: transport.abort(), self.token, opener)
        self._port = 0
        self._filter = PacketFilter(tag, run_as_root)
        self._shaper = Shaper(tag, run_as_root)
        self._shapes = False
        self._doubles = False
        self._holders: dict[str, Shaper] = {}
        self._rules: dict[str, LinkRule] = {}
        self._parts: dict[str, list[str]] = {}  # by rule: what was put up besides, for nodes that came later
        self._lock = asyncio.Lock()
        self._codec: Codec | None = None
        self._connections: dict[tuple[str, str], ProcessConnection] = {}
        self._rules_expected = False

    def expect(self, actions: frozenset[type]) -> None:
        """Say, before ``begin``, what will be asked for between nodes: devices are taken over only if they must be."""
        self._shapes = bool(actions & netem.ACTIONS)
        self._rules_expected = bool(actions)
        self._doubles = Duplicate in actions

    async def begin(
        self, codec: Codec | None, addresses: Mapping[str, tuple[str, int]], endpoints: Mapping[str, Endpoint]
    ) -> None:
        """Begin. ``addresses``: where the harness reaches each node; ``endpoints``: where nodes stand for one another.
        Raises :class:`MachineError` when a kernel there can't do what is expected."""
        self._codec = codec
        if self._rules_expected:
            _check_apart(endpoints)
        self._proxy.addresses = dict(addresses)
        self._port = await self._proxy.listen()
        await self._filter.begin(endpoints)
        if self._doubles:
            await self._try_duplicates()
        if self._shapes:
            await self._shaper.begin(endpoints)

    async def _try_duplicates(self) -> None:
        """Put up, for a moment, a rule that duplicates: not every kernel that filters can do that."""
        try:
            await self._filter.put_up(TRIAL, LinkRule(frozenset({"*"}), frozenset({"*"}), Duplicate(1, 0)))
            await self._filter.clear(TRIAL)
        except HostLost:
            raise
        except DeploymentError as error:
            raise no_duplicates(str(error)) from error

    async def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        self._proxy.read_requests(framing, ruled=ruled)

    async def know(self, node: str, addresses: Mapping[str, str]) -> None:
        self._proxy.endpoints.book.enter(node, addresses)

    async def unknown(self) -> Sequence[str]:
        return list(self._proxy.endpoints.unknown)

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        return self._proxy.addresses

    async def address(self, node: str) -> tuple[str, int] | None:
        """Return where the harness reaches a node."""
        return self._proxy.addresses.get(node)

    async def admit(self, node: str, address: tuple[str, int] | None, endpoint: Endpoint | None) -> None:
        """Take in one node more; the rules that stand hold for it from now on, and hold for all others meanwhile."""
        assert address is not None and endpoint is not None, "it stands on a network"
        async with self._lock:
            await self._filter.begin({node: endpoint})
            await self._hold_for(node, address, endpoint)

    async def move(self, node: str, address: tuple[str, int], endpoint: Endpoint | None) -> None:
        """Follow a node whose machine has another network now, with nothing of ours in it; the rules that stand hold
        for it again. Without an endpoint no rule ever does."""
        async with self._lock:
            if endpoint is None:
                self._proxy.addresses[node] = address
                return
            await self._filter.begin_again({node: endpoint})
            await self._hold_for(node, address, endpoint)

    async def _hold_for(self, node: str, address: tuple[str, int], endpoint: Endpoint) -> None:
        """Put the rules that stand up for one node more."""
        if self._shapes:
            await self._shaper.begin({node: endpoint})
        for rule_id, rule in list(self._rules.items()):
            for number, part in enumerate(_parts_for(node, rule)):
                part_id = f"{rule_id}+{node}+{number}"
                self._parts.setdefault(rule_id, []).append(part_id)
                with suppress(HostLost):  # there it holds for nobody now
                    await self._holder(rule_id).put_up(part_id, part)
        self._proxy.addresses[node] = address

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        """Put up a rule, in the place of one with the same id. Raises :class:`DeploymentError` for what can't be done
        between nodes, or was not expected."""
        async with self._lock:
            if isinstance(rule.action, tuple(netem.ACTIONS)) and self._shapes:
                self._holders[rule_id] = self._shaper
            elif not isinstance(rule.action, (Pass, *iptables.ACTIONS)) and self._filter.takes(rule):
                raise DeploymentError(f"links between nodes can't carry out {rule.action} here")
            self._rules[rule_id] = rule
            await self._holder(rule_id).put_up(rule_id, rule)
            self._proxy.set_rule(rule_id, rule)
            await self._clear_all(rule_id, self._parts.get(rule_id, ()))  # the rule as it is now holds for all nodes

    async def clear(self, rule_id: str) -> None:
        async with self._lock:
            self._rules.pop(rule_id, None)
            self._proxy.clear_rule(rule_id)
            await self._clear_all(rule_id, (*self._parts.get(rule_id, ()), rule_id))

    async def hits(self, rule_id: str) -> int:
        ids = (rule_id, *self._parts.get(rule_id, ()))
        return self._proxy.hits.get(rule_id, 0) + sum([await self._holder(rule_id).hits(one) for one in ids])

    async def ends(self, rule_id: str) -> frozenset[str]:
        return frozenset(self._proxy.ends.get(rule_id, ()))

    async def _clear_all(self, rule_id: str, ids: Sequence[str]) -> None:
        """Take down these of a rule's parts, each of them whatever became of the others."""
        failure: DeploymentError | None = None
        for one in ids:
            try:
                await self._holder(rule_id).clear(one)
            except DeploymentError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        self._parts.pop(rule_id, None)

    def _holder(self, rule_id: str) -> PacketFilter | Shaper:
        """Return who carries the rule out between nodes; a rule that comes and goes keeps its place."""
        return self._holders.get(rule_id, self._filter)

    async def serve(self, node: str, ports: Mapping[str, tuple[str, int]]) -> None:
        """Take a node for a program of others."""
        self._proxy.programs[node] = dict(ports)

    async def try_client(self, client: str, node: str, within_s: float, port: str = "") -> Reach:
        return await try_link(self._port, client, node, within_s, port)

    async def stopped(self, dial: Dial) -> Mapping[object, int]:
        return await self._filter.stopped(dial.source, dial.target)

    async def dial(self, client: str, node: str, port: str) -> Streams:
        return await dial(self._port, client, node, port)

    async def endpoint(self, client: str, node: str, port: str) -> tuple[str, int]:
        return HOST, self._proxy.endpoints.port(client, node, port)

    def connect(self, client: str, node: str) -> ProcessConnection:
        """Return the connection of this client with this node; raises :class:`DeploymentError` for a client named like
        one."""
        if client in self._proxy.addresses:
            raise DeploymentError(f"client {client!r} has the name of a node")
        known = self._connections.get((client, node))
        if known is None:
            if self._codec is None:
                raise DeploymentError(NO_CODEC)
            known = ProcessConnection(client, node, self._port, self._codec)
            self._connections[client, node] = known
        return known

    def expose(self, client: str, node: str) -> tuple[str, int]:
        """Return where a client that knows nothing of us reaches this node."""
        return self._proxy.addresses[node]

    def close(self) -> None:
        """End the clients' connections. What stands in the packet filter goes with its machine, or is taken down."""
        for connection in self._connections.values():
            connection.close()
        self._proxy.close()


def _parts_for(node: str, rule: LinkRule) -> list[LinkRule]:
    """Return what a rule says of the links of this one node."""
    one = frozenset({node})
    sends = [replace(rule, sources=one)] if rule.holds(node, rule.sources) else []
    return [*sends, replace(rule, targets=one)] if rule.holds(node, rule.targets) else sends


def _check_apart(endpoints: Mapping[str, Endpoint]) -> None:
    """Raise :class:`BadInput` for a program that shares its address with another node: it dials from any port, so that
    it would be unknown whose packets are whose."""
    for node, endpoint in endpoints.items():
        shared = [other for other, its in endpoints.items() if other != node and its.address == endpoint.address]
        if shared and not endpoint.ports:
            raise BadInput(
                f"node {node} is a program, and shares host {endpoint.machine} with {', '.join(shared)}: faults on"
                " links between nodes need a host of its own for each program; list more hosts, or take them out"
            )


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of nodes. Raises :class:`DeploymentError` when two are one."""
    if len(set(names)) < len(names):
        raise DeploymentError(f"two nodes have one name; every node needs a name of its own: {', '.join(names)}")
    return tuple(names)


def no_duplicates(said: str) -> KernelLacks:
    """Return the error of a machine whose kernel can't send packets twice; ``said``: its words."""
    return KernelLacks(
        f"packets between nodes can't be duplicated, for which kernels need their module xt_TEE ({said}): load it; or"
        " say `target: client`, for which a proxy does it; or `on: [sim, process]`",
        frozenset({Duplicate}),
    )
