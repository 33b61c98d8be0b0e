"""What the nodes of a split cluster say of themselves, and what follows from it for groups and slices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Network, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from chaos.tasks import gather
from drivers._remoting.requests import ask
from reference.wire.codes import Request, Response
from reference.wire.command import Command

DESCRIBE_S = 0.5
#: What a node says of itself; {} when it did not answer.
Snapshot = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """One of each node that was asked."""

    of: Mapping[str, Snapshot]

    def revision(self, nodes: Sequence[str]) -> int:
        """Return up to which of meta's changes all of these nodes know; -1 where one doesn't answer."""
        return min((int(self.of[name].get("revision", -1)) for name in nodes), default=-1)

    # Meta

    def meta_leader(self, metas: Sequence[str]) -> str:
        """Return meta's leader of the highest term, "" without one."""
        leaders = [(self.of[name]["term"], name) for name in metas if self.of[name].get("role") == "leader"]
        return max(leaders, default=(-1, ""))[1]

    def at_rest(self, metas: Sequence[str]) -> bool:
        """Return whether meta's leader counts on the votes of all, each knows all that it committed, and each group has
        the members that it is to have."""
        leader = self.of.get(self.meta_leader(metas), {})
        return (
            sorted(leader.get("voters", ())) == sorted(metas)
            and all(self.of[name].get("commit", -1) >= leader["commit"] for name in metas)
            and not leader.get("moving")
        )

    # Groups

    def group(self, number: int, stores: Sequence[str], committed: int) -> ReplicaGroup:
        """Return a group as its leader of the highest term shows it; without one, as all who belong to it do.
        ``committed``: the index that its log had committed a while ago; a replica that has applied that is in sync."""
        shown = {name: self._of_group(name, number) for name in stores}
        leaders = [(its["term"], name) for name, its in shown.items() if its.get("role") == "leader"]
        term, leader = max(leaders, default=(-1, ""))
        believed = [shown[leader]] if leader else [its for its in shown.values() if its]
        voters = [one for its in believed for one in its["voters"]]
        members = sorted({*voters, *(one for its in believed for one in its["learners"])})
        nodes = tuple(dict.fromkeys(map(_node, members))) or tuple(stores)
        able = {one for one in voters if self._has(one, number, committed)}
        in_sync = tuple(node for node in nodes if members and all(one in able for one in members if _node(one) == node))
        return ReplicaGroup(name=group_name(number), replicas=nodes, leader=leader, epoch=term, in_sync=in_sync)

    def committed(self, number: int, stores: Sequence[str]) -> int:
        """Return the highest index that a group is known to have committed; -1 while nothing is known of it."""
        return max((self._of_group(name, number).get("commit", -1) for name in stores), default=-1)

    def lacks_segments(self, stores: Sequence[str]) -> bool:
        """Return whether a replica lacks a sealed segment that it is to hold."""
        return any(its.get("missing", 0) for name in stores for its in self.of[name].get("groups", {}).values())

    def _of_group(self, store: str, number: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.of[store].get("groups", {}).get(str(number), {})
        return found

    def _has(self, replica: str, number: int, committed: int) -> bool:
        node, _, disk = replica.rpartition("#")
        snapshot = self.of.get(node, {})
        its = self._of_group(node, number) if node in self.of else {}
        return str(snapshot.get("disk")) == disk and its.get("applied", -1) >= committed

    # Slices

    def slice(self, name: str, brokers: Sequence[str]) -> ReplicaGroup:
        """Return a slice: any broker may own it, and whichever has it open in the highest epoch does."""
        shown = {broker: self.of[broker].get("slices", {}).get(name, {}) for broker in brokers}
        owners = [(its["epoch"], broker) for broker, its in shown.items() if its.get("state") == "open"]
        epoch, owner = max(owners, default=(-1, ""))
        up = tuple(broker for broker in brokers if self.of[broker])
        return ReplicaGroup(name=name, replicas=tuple(brokers), leader=owner, epoch=epoch, in_sync=up, holds_data=False)

    def routed(self, slices: Sequence[ReplicaGroup], nameservers: Sequence[str]) -> bool:
        """Return whether all name servers lead to the owners of all slices."""
        return all(
            (route.get("master"), route.get("epoch")) == (one.leader, one.epoch)
            for one in slices
            for name in nameservers
            for route in [self.of[name].get("routes", {}).get(one.name, {})]
        )


def group_name(number: int) -> str:
    """Return how views call a group of stores."""
    return f"group-{number}"


async def take(network: Network, nodes: Sequence[str], record: Record | None = None) -> Snapshots:
    """Ask all these nodes at once; with ``record``, write what they say as ``poll`` rows."""
    answers = await gather(*(describe(network, node, record) for node in nodes))
    return Snapshots(of=dict(zip(nodes, answers, strict=True)))


async def describe(network: Network, node: str, record: Record | None = None) -> Snapshot:
    """Ask one node; with ``record``, write two ``poll`` rows, before and after, of meta nodes and name servers."""
    kind = {"meta": "controller", "nameserver": "route"}.get(node.rpartition("-")[0], "")
    op = record("poll", type="invoke", f=kind, node=node) if record and kind else -1
    try:
        answer = await ask(network.connect(HARNESS, node), Command(code=Request.DESCRIBE), DESCRIBE_S)
        if answer.code != Response.SUCCESS:
            return {}
        snapshot: dict[str, Any] = json.loads(answer.body)
    except (Failed, Unknown, ValueError):
        return {}
    if record and kind:
        epoch, incarnation = snapshot.get("term", -1), snapshot.get("incarnation", -1)
        value = _shown(kind, snapshot)
        record("poll", type="ok", op=op, f=kind, node=node, epoch=epoch, incarnation=incarnation, value=value)
    return snapshot


def _shown(kind: str, snapshot: Snapshot) -> Mapping[str, Any]:
    """Return what of a snapshot stands in the history."""
    if kind == "controller":
        return {name: snapshot.get(name) for name in ("role", "term", "leader", "commit")}
    return {"masters": {name: route.get("master", "") for name, route in snapshot.get("routes", {}).items()}}


def _node(replica: str) -> str:
    return replica.rpartition("#")[0]
