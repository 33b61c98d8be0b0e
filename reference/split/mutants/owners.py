"""Planted bugs of meta: epochs, lives and topics that come again, dead owners, a map of what was only wished for."""

from __future__ import annotations

from collections.abc import Sequence

from reference.metadata.catalog import Catalog
from reference.mutants._planted import Planted
from reference.split.meta.deciding import Decisions
from reference.split.meta.entries import Entry
from reference.split.meta.state import ClusterState
from reference.split.names import Broker, Group, Owner, Topic


class EpochUsedAgain(ClusterState):
    """A broker that gets a slice back gets it with the epoch that it had there before."""

    def __init__(self, catalog: Catalog, *, groups: int, slices: int) -> None:
        super().__init__(catalog, groups=groups, slices=slices)
        self._epochs: dict[tuple[str, str], int] = {}

    def next_epoch(self, owner: Owner, broker: str) -> int:
        return self._epochs.setdefault((owner.name, broker), super().next_epoch(owner, broker))


class TwoLivesOneNode(ClusterState):
    """A broker that was restarted goes on with the number that meta knows it by."""

    def next_life(self, known: Broker | None) -> int:
        return known.life if known is not None else super().next_life(known)


class GivenToTheDead(Decisions):
    """Slices stay with a broker until it says that it has gone, which one that is gone for good never does."""

    def is_over(self, broker: Broker, since_ns: int, now_ns: int) -> bool:
        return False

    def ended(self, name: str) -> Entry | None:
        return None


class MapBeforeMembers(ClusterState):
    """Replicas that are wanted stand in the map at once, although the group's log makes none of them a member yet."""

    def with_wish(self, group: Group, wanted: Sequence[str]) -> Group:
        members = tuple(wanted)
        return Group(group.number, group.birth, members, (), group.index + 1, members)


class SameNameAgain(ClusterState):
    """A topic that is made again under its name is the one that had it."""

    def next_topic(self, known: Topic | None) -> int:
        return known.id if known is not None else super().next_topic(known)


MUTANTS = (
    Planted(
        name="epoch-used-again",
        law="fencing",
        stands_for="AutoMQ #1187, #1180: a partition that moves away and back is opened with its first epoch",
        parts={"meta": {"state": EpochUsedAgain}},
    ),
    Planted(
        name="two-lives-one-node",
        law="fencing",
        stands_for="AutoMQ #288, #2595: two incarnations of a node have one node epoch",
        parts={"meta": {"state": TwoLivesOneNode}},
    ),
    Planted(
        name="given-to-the-dead",
        law="stateless",
        stands_for="apache/pulsar #478: what a broker owns stays assigned to it when it is gone for good",
        parts={"meta": {"decisions": GivenToTheDead}},
        scenario="owner_gone",
    ),
    Planted(
        name="map-before-members",
        law="placement",
        stands_for="apache/bookkeeper #4651: the metadata names bookies to which nothing was ever copied",
        parts={"meta": {"state": MapBeforeMembers}},
        scenario="store_dies",
    ),
    Planted(
        name="same-name-again",
        law="retention",
        stands_for="redpanda #4466: a topic that is made again gets the old one's segments",
        parts={"meta": {"state": SameNameAgain}},
        scenario="same_name_again",
    ),
)
