"""What the nodes of the reference system say of themselves, and what follows from it for the one broker group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Network, Record
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
    """One of each node that was asked, about the broker group of this name."""

    group: str
    of: Mapping[str, Snapshot]

    def leader(self, controllers: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        """Return the controllers' leader of the highest term, and what it says of the group; "" and {} without one."""
        leaders = [(self.of[name]["term"], name) for name in controllers if self.of[name].get("role") == "leader"]
        if not leaders:
            return "", {}
        leader = max(leaders)[1]
        return leader, self.of[leader]["groups"].get(self.group, {})

    def master(self, brokers: Sequence[str]) -> tuple[str, int]:
        """Return the broker that claims to be the master in the highest epoch, and that epoch; "" and -1 without
        one."""
        masters = [(self.of[name].get("epoch", -1), name) for name in brokers if self.of[name].get("role") == "master"]
        epoch, master = max(masters, default=(-1, ""))
        return master, epoch

    def caught_up(self, controllers: Sequence[str]) -> bool:
        """Return whether the controllers' leader counts on the votes of all of them, and each knows all that it
        committed."""
        leader, _ = self.leader(controllers)
        if not leader or sorted(self.of[leader].get("voters", ())) != sorted(controllers):
            return False
        return all(self.of[name].get("commit", -1) >= self.of[leader]["commit"] for name in controllers)

    def agree(self, brokers: Sequence[str], nameservers: Sequence[str], master: str, epoch: int) -> bool:
        """Return whether all nodes answer, brokers have the roles that the controllers gave them, and all routes lead
        to the master."""
        for name in brokers:
            role = "master" if name == master else "slave"
            state = self.of[name]
            if not state or state["role"] != role or state["epoch"] != epoch or not state["ready"]:
                return False
        routes = [self.of[name].get("routes", {}).get(self.group, {}) for name in nameservers]
        return all(self.of.values()) and all(
            route.get("master") == master and route.get("epoch") == epoch for route in routes
        )


async def take(network: Network, group: str, nodes: Sequence[str], record: Record | None = None) -> Snapshots:
    """Ask all these nodes at once; with ``record``, write what they say as ``poll`` rows."""
    answers = await gather(*(describe(network, group, node, record) for node in nodes))
    return Snapshots(group=group, of=dict(zip(nodes, answers, strict=True)))


async def describe(network: Network, group: str, node: str, record: Record | None = None) -> Snapshot:
    """Ask one node; with ``record``, write two ``poll`` rows, one before and one after."""
    kind = {"broker": "state", "controller": "controller", "nameserver": "route"}[node.rpartition("-")[0]]
    op = record("poll", type="invoke", f=kind, node=node) if record else -1
    try:
        answer = await ask(network.connect(HARNESS, node), Command(code=Request.DESCRIBE), DESCRIBE_S)
        if answer.code != Response.SUCCESS:
            return {}
        snapshot: dict[str, Any] = json.loads(answer.body)
    except (Failed, Unknown, ValueError):
        return {}
    if record:
        shown = snapshot.get("routes", {}).get(group, {}) if kind == "route" else snapshot
        value = {
            name: content for name, content in shown.items() if name not in ("epoch", "queues", "voters", "groups")
        }
        epoch = shown.get("term" if kind == "controller" else "epoch", -1)
        incarnation = snapshot.get("incarnation", -1)
        record("poll", type="ok", op=op, f=kind, node=node, epoch=epoch, incarnation=incarnation, value=value)
    return snapshot
