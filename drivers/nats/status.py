"""What each server says of itself and of the streams that it holds, and who leads them by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.driver import Dials, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.ops import Failed
from chaos.tasks import gather
from drivers.nats.api import ACCOUNT, LEADER, Json, Session, member, number

#: A replica is in sync when it lacks no more messages than come while one asks.
CLOSE = 100


@dataclass(frozen=True, slots=True)
class Replica:
    """A server's own copy of one stream. ``leader``: whom it follows, "" for nobody; ``term``: its Raft term, -1 where
    its version doesn't say, or nobody elects; ``others``: the other replicas, and whether it takes each for in sync."""

    leader: str
    leads: bool
    term: int
    last: int
    others: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Status:
    """One server's answers. ``healthy``: it knows the cluster's leader, and its log is that one's."""

    healthy: bool
    streams: Mapping[str, Replica]


async def take(
    network: Dials,
    nodes: Sequence[str],
    record: Record | None = None,
    polled: Sequence[str] = (),
    *,
    terms: bool = True,
) -> Mapping[str, Status]:
    """Ask all servers at once, each over a connection of its own; those that don't answer are left out. With
    ``record``, write what each says of its role in the streams ``polled``. ``terms``: whether their version says Raft
    terms; one that doesn't leaves the question without an answer."""
    found = await gather(*(_status(network, node, nodes, record, polled, terms) for node in nodes))
    return {node: status for node, status in zip(nodes, found, strict=True) if status is not None}


async def _status(
    network: Dials, node: str, nodes: Sequence[str], record: Record | None, polled: Sequence[str], terms: bool
) -> Status | None:
    session = Session(network, HARNESS, (node,))
    asked = {stream: record("poll", f="state", type="invoke", node=node) for stream in polled} if record else {}
    try:
        health = await session.about(node, "HEALTHZ", **{"js-meta-only": True})
        groups = await session.about(node, "RAFTZ", account=ACCOUNT) if terms else {}
        stored = await session.about(node, "JSZ", account=ACCOUNT, accounts=True, streams=True, raft=True)
        streams = _replicas(node, nodes, stored, member(groups, ACCOUNT))
    except (Failed, LookupError, TypeError, AttributeError):
        return None
    finally:
        session.close()
    for stream, row in asked.items():
        if record and (one := streams.get(stream)) and one.term >= 0:  # a node of an old version says none
            value = {"role": "master" if one.leads else "slave", "end": one.last, "group": stream}
            record("poll", f="state", type="ok", node=node, op=row, epoch=one.term, value=value)
    return Status(health.get("status") == "ok", streams)


def _replicas(node: str, nodes: Sequence[str], stored: Json, groups: Json) -> Mapping[str, Replica]:
    """Return the streams that a server holds, by their names. Raises whatever damaged answers raise."""
    found = {}
    for stream in (one for account in stored.get("account_details", ()) for one in account.get("stream_detail", ())):
        cluster, raft = member(stream, "cluster"), member(groups, stream.get("stream_raft_group", ""))
        leader = str(cluster.get("leader", ""))
        leads, term = (raft.get("state") == LEADER, number(raft, "term")) if raft else (leader == node, -1)
        others = {one["name"]: _is_close(one) for one in cluster.get("replicas", ()) if one["name"] in nodes}
        found[str(stream["name"])] = Replica(leader, leads, term, number(stream["state"], "last_seq"), others)
    return found


def _is_close(peer: Json) -> bool:
    """Return whether a replica is in sync in the eyes of another one: under load none is ever quite current."""
    lag = peer.get("lag")  # left out where it is unknown
    return bool(peer.get("current")) or (not peer.get("offline") and isinstance(lag, int) and lag <= CLOSE)


def group_of(stream: str, found: Mapping[str, Status], before: ReplicaGroup) -> ReplicaGroup:
    """Return who holds a stream and who leads it. ``before``: what was known of it last."""
    held = {node: status.streams[stream] for node, status in found.items() if stream in status.streams}
    followers = [replica.leader for replica in held.values()]
    leading = [node for node in held if held[node].leads]
    leader = max(leading, key=lambda node: (held[node].term, followers.count(node)), default="")
    if not leader:
        return ReplicaGroup(name=stream, replicas=before.replicas, epoch=before.epoch)
    head = held[leader]
    in_sync = [
        node
        for node, replica in held.items()
        if (replica.leader, replica.term) == (leader, head.term)
        and replica.last + CLOSE >= head.last
        and (node == leader or head.others.get(node))
    ]
    known = tuple(sorted({leader, *head.others}))
    replicas = known if len(known) >= len(before.replicas) else before.replicas  # it may not know a name any more
    return ReplicaGroup(
        name=stream, replicas=replicas, leader=leader, epoch=max(before.epoch, head.term), in_sync=tuple(in_sync)
    )
