"""etcd under test: its servers as programs, their key-value store and locks, and who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from chaos.driver import Client, ClusterSpec, ClusterView, Dials, Network, Profile, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.program import Installation, Program
from chaos.services import Locks, Objects
from drivers.etcd import members
from drivers.etcd.api import call, look
from drivers.etcd.frames import FRAMING
from drivers.etcd.locks import EtcdLocks
from drivers.etcd.objects import EtcdObjects
from drivers.etcd.recipe import PROGRAM, RECIPES, recipe

GROUP = "etcd"
CHANGE_S = 2.0
#: How long a change of the leader or the members may take until it is seen, and a pause between two looks.
SEEN_S = 10.0
LOOK_S = 0.1
#: Starts a server; ``$0`` is its data. Only in its first life does it found the cluster. A member that was removed
#: finds that out and ends with 0; then it joins again, without its old data.
_START = """\
[ -e begun ] || { : >begun; exec "$@" --initial-cluster-state new; }
trap : TERM INT
"$@" --initial-cluster-state existing
code=$?
[ $code = 0 ] || exit $code
rm -rf "$0"
exec "$@" --initial-cluster-state existing
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A cluster of ``members`` (1, 3 or 5) servers of etcd ``version``, which ``stormproof install`` has built. With
    ``serializable``, clients read what the server that they ask has itself, which may be old. ``heartbeat_ms`` and
    ``election_ms`` are etcd's own options; a lease lasts at least 1.5 elections."""

    members: int = field(default=3, metadata={"within": range(1, 6, 2)})
    version: str = RECIPES[0].version
    serializable: bool = False
    heartbeat_ms: int = field(default=100, metadata={"within": range(10, 1_001)})
    election_ms: int = field(default=1_000, metadata={"within": range(50, 10_001)})

    def __post_init__(self) -> None:
        recipe(self.version)
        if self.election_ms < 5 * self.heartbeat_ms:
            raise ValueError(f"election_ms: expected at least 5 times heartbeat_ms, got {self.election_ms}")


@dataclass(slots=True)
class Etcd:
    """``_term``: the highest that was seen so far; a server that was started again names an older one for a while."""

    options: Options
    _term: int = field(default=-1, init=False)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"etcd-{number}" for number in range(self.options.members))

    # What runs

    def cluster(self, mutant: str) -> ClusterSpec:
        program = self._program(recipe(self.options.version))
        return ClusterSpec(nodes=[NodeSpec(name=node, role="member", program=program) for node in self.nodes])

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """See :class:`chaos.driver.CanUpgrade`."""
        other = Etcd(replace(self.options, version=version))
        return {spec.name: spec for spec in other.cluster("").nodes}

    def _program(self, installed: Installation) -> Program:
        peer, client = "http://{ip}:{port:peer}", "http://{ip}:{port:client}"
        cluster = ",".join(f"{node}=http://{{ip:{node}}}:{{port:{node}.peer}}" for node in self.nodes)
        words = {
            "--name": "{name}",
            "--data-dir": "{disk}/data",
            "--listen-peer-urls": peer,
            "--initial-advertise-peer-urls": peer,
            "--listen-client-urls": client,
            "--advertise-client-urls": client,
            "--initial-cluster": cluster,
            "--initial-cluster-token": "stormproof",
            "--heartbeat-interval": str(self.options.heartbeat_ms),
            "--election-timeout": str(self.options.election_ms),
        }
        options = [word for pair in words.items() for word in pair]
        return Program(
            argv=("/bin/sh", "-c", _START, "{disk}/data", f"{{installed}}/{PROGRAM}", *options),
            ports={"client": 0, "peer": 0},
            orderly_s=10.0,
            memory_mb=512,
            recipe=installed,
        )

    def queues(self) -> tuple[QueueRef, ...]:
        return ()

    def system_version(self) -> str:
        return self.options.version

    def profile(self) -> Profile:
        """Return the strictest profile: a write is on most members' disks when acknowledged, and only who has it can
        lead."""
        return Profile()

    # Clients

    def client(self, network: Network, name: str) -> Client:
        raise BadInput("etcd has no queues: use workloads on objects or locks (register, lock, lease_lock)")

    def objects(self, network: Network, name: str) -> Objects:
        return EtcdObjects(cast(Dials, network), name, self.nodes, serializable=self.options.serializable)

    def locks(self, network: Network, name: str) -> Locks:
        return EtcdLocks(cast(Dials, network), name, self.nodes)

    def framing(self) -> Framing:
        return FRAMING

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        found = await members.ask(cast(Dials, network), self.nodes)
        self._term = max(self._term, found.term)
        in_sync = found.in_sync
        group = ReplicaGroup(name=GROUP, replicas=self.nodes, leader=found.leader, epoch=self._term, in_sync=in_sync)
        return ClusterView(groups=(group,), settled=bool(found.leader) and len(in_sync) == len(self.nodes))

    async def collect(self, network: Network, record: Record) -> None:
        """Record only who could be read at all; contents are read by the workloads, through every server."""
        for node in self.nodes:
            try:
                await look(cast(Dials, network), HARNESS, node, "kv/range", {"key": "AA=="}, CHANGE_S)
            except Failed:
                continue
            record("final", f="complete", node=node)

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Have the leader hand over to ``target``. Whether it did has to be observed: the answer is empty."""
        dials = cast(Dials, network)
        found = await members.ask(dials, self.nodes)
        old, new = found.leader, found.of.get(target)
        if not old or new is None:
            raise Failed(f"no server leads, or {target} doesn't answer")
        with suppress(Unknown):
            await call(dials, HARNESS, old, "maintenance/transfer-leadership", {"targetID": str(new.member)}, CHANGE_S)
        deadline_ns = network.now_ns() + round(SEEN_S * 1e9)
        while network.now_ns() < deadline_ns:
            if (now := await members.ask(dials, self.nodes)).leader == target:
                return {"from": old, "to": target, "epoch": now.term}
            await asyncio.sleep(LOOK_S)
        raise Unknown(f"{old} was asked to hand over to {target}, which did not lead within {SEEN_S:g} s")

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        """Take a member out, and announce its successor at the same address, which joins once the node is started.
        etcd refuses as long as the others were not connected with one another for five seconds."""
        dials = cast(Dials, network)
        leader = (await members.ask(dials, self.nodes)).leader
        if not leader or leader == node:
            raise Failed(f"{node} leads" if leader else "no server leads")
        listed = await look(dials, HARNESS, leader, "cluster/member/list", {}, CHANGE_S)
        try:
            (old,) = (member for member in listed["members"] if member["name"] == node and member["ID"])
        except (LookupError, TypeError, ValueError):
            raise Failed(f"{node} is no member") from None
        await self._insist(dials, leader, "cluster/member/remove", {"ID": old["ID"]})
        await self._insist(dials, leader, "cluster/member/add", {"peerURLs": old.get("peerURLs")})
        return {"removed": old["ID"]}

    async def _insist(self, network: Dials, leader: str, path: str, asked: Mapping[str, Any]) -> object:
        """Ask again while etcd refuses for now."""
        deadline_ns = network.now_ns() + round(SEEN_S * 1e9)
        while True:
            try:
                return await call(network, HARNESS, leader, path, asked, CHANGE_S)
            except (Failed, Unknown) as error:
                if "unhealthy cluster" not in error.reason or network.now_ns() >= deadline_ns:
                    raise
            await asyncio.sleep(LOOK_S)


def create(options: Options) -> Etcd:
    return Etcd(options)
