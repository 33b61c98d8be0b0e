"""What etcd's servers say of themselves, and who leads by the word of most of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Dials
from chaos.effects.links import HARNESS
from chaos.ops import Failed
from chaos.tasks import gather
from drivers.etcd.api import look, number

STATUS_S = 0.5
#: A member is in sync when it lacks no more entries than come while one asks.
CLOSE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One server's answer. ``member`` and ``leader`` are etcd's own ids, 0 while nobody leads; ``committed`` and
    ``applied`` are indexes of the Raft log. ``well``: it is a voter and raised no alarm."""

    member: int
    leader: int
    term: int
    committed: int
    applied: int
    well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What those say who answered, by the node's name."""

    nodes: Sequence[str]
    of: Mapping[str, Status]

    @property
    def leader(self) -> str:
        """The node that more than half of all nodes follow; "" without one. A leader that was cut off may believe to
        lead for another election timeout, and its term is no help: what a server reports as its term is that of the
        last entry that it applied."""
        for name, status in self.of.items():
            if 2 * sum(other.leader == status.member for other in self.of.values()) > len(self.nodes):
                return name
        return ""

    @property
    def term(self) -> int:
        return max((status.term for status in self.of.values()), default=-1)

    @property
    def in_sync(self) -> tuple[str, ...]:
        leader = self.of.get(self.leader)
        if leader is None:
            return ()
        return tuple(
            name
            for name, status in self.of.items()
            if status.well and status.leader == leader.member and status.applied + CLOSE >= leader.committed
        )


async def ask(network: Dials, nodes: Sequence[str]) -> Members:
    """Ask all of them at once."""
    found = await gather(*(_status(network, node) for node in nodes))
    return Members(
        nodes=nodes, of={node: status for node, status in zip(nodes, found, strict=True) if status is not None}
    )


async def _status(network: Dials, node: str) -> Status | None:
    try:
        reported: dict[str, Any] = await look(network, HARNESS, node, "maintenance/status", {}, STATUS_S)
        return Status(
            member=number(reported["header"], "member_id"),
            leader=number(reported, "leader"),
            term=number(reported, "raftTerm"),
            committed=number(reported, "raftIndex"),
            applied=number(reported, "raftAppliedIndex"),
            well=not reported.get("isLearner") and not reported.get("errors"),
        )
    except (Failed, LookupError, ValueError):
        return None
