"""What each server says of itself and of its streams, and who leads them by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Dials, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.ops import Failed
from chaos.tasks import gather
from drivers.nats.api import ACCOUNT, Session, number
from drivers.nats.client import LEADER

LOOK_S = 1.0
#: A replica is in sync when it lacks no more messages than come while one asks.
CLOSE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A server's own copy of one stream. ``leader``: whom it follows, "" for nobody; ``term``: its Raft term, -1 where
    its version doesn't say, or nobody elects; ``others``: of a leader: the other replicas, and whether each is current
    in its eyes."""

    leader: str
    leads: bool
    term: int
    first: int
    last: int
    others: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One server's answers. ``healthy``: it knows the cluster's leader, and all that it holds is current."""

    healthy: bool = False
    streams: Mapping[str, Replica] = field(default_factory=dict)


async def take(network: Dials, nodes: Sequence[str], record: Record | None, polled: str) -> Mapping[str, Status]:
    """Ask all servers at once, each over a connection of its own; those that don't answer are left out. With
    ``record``, write what each says of the stream ``polled``, if that has a name."""
    found = await gather(*(_status(network, node, record if polled else None, polled) for node in nodes))
    return {node: status for node, status in zip(nodes, found, strict=True) if status is not None}


async def _status(network: Dials, node: str, record: Record | None, polled: str) -> Status | None:
    session = Session(network, HARNESS, (node,))
    row = record("poll", f="state", type="invoke", node=node) if record else -1
    try:
        health = await session.about(node, "HEALTHZ", LOOK_S)
        groups = await session.about(node, "RAFTZ", LOOK_S, account=ACCOUNT)
        storage = await session.about(node, "JSZ", LOOK_S, account=ACCOUNT, accounts=True, streams=True, raft=True)
        status = Status(healthy=health.get("status") == "ok", streams=_replicas(node, storage, groups))
    except (Failed, AttributeError, LookupError, TypeError):
        return None
    finally:
        session.close()
    if record and (replica := status.streams.get(polled)):
        value = {"role": "master" if replica.leads else "slave", "end": replica.last}
        record("poll", f="state", type="ok", node=node, op=row, epoch=replica.term, value=value)
    return status


def _replicas(node: str, storage: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Replica]:
    """Return the streams that a server holds. Raises what damaged answers raise."""
    found = {}
    for account in storage.get("account_details") or ():
        for stream in account.get("stream_detail") or ():
            cluster = stream.get("cluster") or {}
            raft = groups.get(ACCOUNT, {}).get(stream.get("stream_raft_group")) or {}
            leader = str(cluster.get("leader") or "")
            found[str(stream["name"])] = Replica(
                leader=leader,
                leads=raft.get("state") == LEADER if raft else leader == node,
                term=number(raft, "term") if raft else -1,
                first=number(stream["state"], "first_seq"),
                last=number(stream["state"], "last_seq"),
                others={str(peer["name"]): bool(peer.get("current")) for peer in cluster.get("replicas") or ()},
            )
    return found


def group_of(stream: str, found: Mapping[str, Status], before: ReplicaGroup) -> ReplicaGroup:
    """Return who holds a stream and who leads it. ``before``: what was known of it so far."""
    held = {node: status.streams[stream] for node, status in found.items() if stream in status.streams}
    leading = {node: replica for node, replica in held.items() if replica.leads}
    leader = max(leading, key=lambda node: (leading[node].term, _followers(held, node)), default="")
    if not leader:
        return ReplicaGroup(name=before.name, replicas=before.replicas, epoch=before.epoch)
    head = leading[leader]
    follows = [
        node
        for node, replica in held.items()
        if replica.leader == leader and replica.term == head.term and replica.last + CLOSE >= head.last
    ]
    return ReplicaGroup(
        name=before.name,
        replicas=tuple(sorted({leader, *head.others})),
        leader=leader,
        epoch=max(before.epoch, head.term),
        in_sync=tuple(node for node in follows if node == leader or head.others.get(node)),
    )


def _followers(held: Mapping[str, Replica], leader: str) -> int:
    return sum(replica.leader == leader for replica in held.values())
