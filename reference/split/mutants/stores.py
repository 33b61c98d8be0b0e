"""Planted bugs of stores: what they take, what they let go, and which members their groups have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.node import Env
from reference.mutants._planted import Planted
from reference.raft.members import Members
from reference.split.hosting import Host
from reference.split.hosting.replica import Replica
from reference.split.names import Topic
from reference.split.segments import SealedSegment, Segment
from reference.split.store.copying import Copying
from reference.split.store.entries import Entry, Fence, Trim
from reference.split.store.group import Group
from reference.split.store.group_requests import GroupRequests
from reference.split.store.group_snapshot import restored
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.moving import Moving
from reference.split.store.retention import Retention, trim_of
from reference.split.store.sweeping import Sweeper
from reference.split.view import Cluster
from reference.wire.command import Command


class _TakesAnyEpoch(Group):
    def has_epoch(self, epoch: int) -> bool:
        return True


class AnyEpochApplied(GroupMachine):
    """Entries are applied whatever their epoch is: it was looked at when they came."""

    group_class = _TakesAnyEpoch


class AnyEpochLogged(GroupRequests):
    """Requests are logged whatever their epoch is: their brokers will have looked."""

    def is_outdated(self, group: Group, epoch: int) -> bool:
        return False


class _TakesTheFirst(Group):
    def has_epoch(self, epoch: int) -> bool:
        return self.fence.epoch == 0 or super().has_epoch(epoch)


class FenceInMemory(GroupMachine):
    """A fence is kept in memory alone. Who begins at a snapshot takes records of any epoch until the next one."""

    group_class = _TakesTheFirst

    def load(self, snapshot: bytes) -> None:
        super().load(snapshot)
        self.group.fence = Fence(slice=0, epoch=0, broker="", life=0)


class CursorsNotInSnapshots(GroupMachine):
    """Consumers' offsets stand in entries alone. Who begins at a snapshot knows none of those before it."""

    def load(self, snapshot: bytes) -> None:
        super().load(snapshot)
        self.group.commits.clear()


class EndReadBeforeTheFence(GroupRequests):
    """Where a group ends is read when its next owner asks; what comes until the fence is applied is missed."""

    def _propose(
        self, env: Env, source: str, message: Command, group: int, entry: Entry, answer: Callable[[], Command]
    ) -> None:
        if isinstance(entry, Fence):
            read = answer()
            super()._propose(env, source, message, group, entry, lambda: read)
        else:
            super()._propose(env, source, message, group, entry, answer)


class MembersKnownToOne(Moving):
    """Only the members themselves know who they are."""

    def may_report(self, index: int, member: Replica) -> bool:
        return False


class DrainSkipsTheEmpty(Moving):
    """Groups without a record have nothing to be moved."""

    def consider(self, env: Env, group: int) -> None:
        member = self._host.member(group)
        if member is not None and isinstance(member.machine, GroupMachine) and member.machine.group.end:
            super().consider(env, group)


class RecoveryWritesOldEnsembles(Moving):
    """Who once belonged to a group by its birth is to belong to it again, first of all."""

    _birth: Sequence[str] = ()

    def consider(self, env: Env, group: int) -> None:
        known = self._cluster.group(group)
        self._birth = known.birth if known is not None else ()
        super().consider(env, group)

    def newcomer(self, members: Members, wanted: Sequence[str]) -> str:
        lacking = [name for name in self._birth if name not in members.all]
        return lacking[0] if lacking and not members.learners else super().newcomer(members, wanted)


class CountedTwice(Retention):
    """What lies on the disk and in the object store counts twice."""

    def count_by_size(self, segments: Sequence[SealedSegment], topic: Topic, kept_bytes: int) -> int:
        in_objects = sum(one.size for one in segments if one.is_uploaded)
        return super().count_by_size(segments, topic, kept_bytes + in_objects)


class TrimsTheWrongLog(Retention):
    """How much may go of a group is found out from the group that this store looked at before."""

    _before: Group | None = None

    def due(self, group: Group, topic_id: int, now_ms: int) -> Trim | None:
        other, self._before = self._before or group, group
        found = super().due(other, topic_id, now_ms)
        if found is None:
            return None
        ends = found.starts
        gone = [one for one in other.of_topic(topic_id) if any(ends.get(n, 0) >= r[1] for n, r in one.ranges.items())]
        mine = group.of_topic(topic_id)[: len(gone)]
        return trim_of(mine, topic_id, found.version, found.rule, now_ms) if mine else None


class LooksOnce(Retention):
    """What had nothing to let go when a store looked at it is not looked at again before the store is restarted."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._looked: dict[tuple[int, int], None] = {}

    def due(self, group: Group, topic_id: int, now_ms: int) -> Trim | None:
        place = group.number, topic_id
        found = super().due(group, topic_id, now_ms) if place not in self._looked else None
        if found is None:
            self._looked[place] = None
        return found


class OneClockTrims(Host):
    """Now is what the leader's own clock says."""

    def median_wall_ms(self, env: Env, group: int) -> int | None:
        return env.wall_ns() // 1_000_000


class DeletedBeforeForgotten(Sweeper):
    """The objects of what will be trimmed soon are deleted first, and the trim is logged later."""

    def consider(self, env: Env, led: Led, machine: GroupMachine) -> None:
        super().consider(env, led, machine)
        for topic_id in machine.group.topic_ids() if led.leads else ():
            place = machine.number, topic_id
            if place not in self._under_way and topic_id not in machine.group.trimmed:
                self._due.setdefault(place, (-1, 0))
                self._look(env, machine, topic_id)

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        kept = [one.segment for one in machine.group.of_topic(segment.topic_id)[-2:]]
        return segment.end <= machine.group.sealed and segment not in kept


class SnapshotWithoutSegments(GroupMachine):
    """A snapshot is enough to vote with: the segments in it will be somewhere."""

    def outgoing(self, snapshot: bytes) -> bytes:
        return snapshot

    def check_snapshot(self, snapshot: bytes) -> None:
        restored(self.number, snapshot, self.group_class)


class CopiesObjectsAlone(Copying):
    """What is in no object is not looked for at other members."""

    def sources(self, env: Env, machine: GroupMachine) -> Sequence[str]:
        return ()


MUTANTS = (
    Planted(
        name="epoch-checked-by-the-broker",
        law="fencing",
        stands_for="AutoMQ #2305, automq-for-rocketmq #926: the store takes appends of any epoch",
        parts={"store": {"machine": AnyEpochApplied, "group_requests": AnyEpochLogged}},
        scenario="owner_apart",
    ),
    Planted(
        name="fence-checked-when-proposed",
        law="fencing",
        stands_for="a check of the epoch before an entry is logged, which a fence that is on its way overtakes",
        parts={"store": {"machine": AnyEpochApplied}},
        scenario="fence_under_way",
    ),
    Planted(
        name="fence-in-memory",
        law="fencing",
        stands_for="bookkeeper #2706: without a journal a restart forgets that a ledger was fenced",
        parts={"store": {"machine": FenceInMemory}},
        scenario="fenced_restarts",
    ),
    Planted(
        name="cursors-not-in-snapshots",
        law="consumers",
        stands_for="nats-server #8036: a consumer's acknowledgements are back at the beginning after a power failure",
        parts={"store": {"machine": CursorsNotInSnapshots}},
        scenario="cursors_kept",
    ),
    Planted(
        name="end-read-before-the-fence",
        law="stateless",
        stands_for="pravega #1900: a log whose writer lives is opened where it ends then, without recovering the rest",
        parts={"store": {"group_requests": EndReadBeforeTheFence}},
        scenario="fence_under_way",
    ),
    Planted(
        name="members-known-to-one",
        law="placement",
        stands_for="bookkeeper #1591: acknowledged on members that the metadata never recorded",
        parts={"store": {"moving": MembersKnownToOne}},
        scenario="store_dies",
    ),
    Planted(
        name="drain-skips-the-empty",
        law="replication",
        stands_for="bookkeeper #3239, #3887: decommissioning never ends because of ledgers without entries",
        parts={"store": {"moving": DrainSkipsTheEmpty}},
        scenario="drain_empty",
    ),
    Planted(
        name="recovery-writes-old-ensembles",
        law="availability",
        stands_for="bookkeeper #2615: recovery makes an ensemble that can't be any more, and never ends",
        parts={"store": {"moving": RecoveryWritesOldEnsembles}},
        scenario="store_dies",
    ),
    Planted(
        name="counted-twice",
        law="retention",
        stands_for="KAFKA-20732: local and remote size count twice, and what retention keeps is deleted",
        parts={"store": {"retention": CountedTwice}},
        scenario="retention",
    ),
    Planted(
        name="trims-the-wrong-log",
        law="retention",
        stands_for="automq-for-rocketmq #682: one log is trimmed by what was found out about another",
        parts={"store": {"retention": TrimsTheWrongLog}},
        scenario="retention",
    ),
    Planted(
        name="retention-looks-once",
        law="retention",
        stands_for="tiered-storage-for-apache-kafka #596: a log over its limit is forgotten until its leader restarts",
        parts={"store": {"retention": LooksOnce}},
        scenario="member_behind",
    ),
    Planted(
        name="one-clock-trims",
        law="retention",
        stands_for="a leader whose clock leaps ahead and deletes everything",
        parts={"store": {"host": OneClockTrims}},
        scenario="retention",
        seed=2,
    ),
    Planted(
        name="deleted-before-forgotten",
        law="orphans",
        stands_for="automq-for-rocketmq #716, #717, KAFKA-15352: the object goes first and the metadata later",
        parts={"store": {"sweeper": DeletedBeforeForgotten}},
        scenario="retention",
    ),
    Planted(
        name="snapshot-without-segments",
        law="availability",
        stands_for="a member that votes after a snapshot of which it has no bytes",
        parts={"store": {"machine": SnapshotWithoutSegments, "copying": CopiesObjectsAlone}},
        scenario="disks_lost_in_turn",
    ),
)
