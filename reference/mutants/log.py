"""Planted bugs of the commit log and its replication: durability, agreement, no rollback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import Env
from reference.broker.commitlog import CommitLog, Epochs
from reference.broker.files import Then
from reference.broker.node import Broker
from reference.broker.producer_requests import ProducerRequests
from reference.broker.queues import Queue
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.sends import PendingRequest
from reference.mutants._planted import NODE, Planted
from reference.wire.codes import Request

LAZY_NS = 200_000_000


class AckBeforeFsync(Replication):
    """Every replica counts, and acknowledges, bytes that only its memory holds."""

    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, {**options, "flush": "async"})


class LazyFlush(CommitLog):
    """… and its disk is synced only now and then."""

    _flushed_ns = -LAZY_NS

    def flush(self, env: Env) -> None:
        if env.mono_ns() - self._flushed_ns >= LAZY_NS:
            self._flushed_ns = env.mono_ns()
            super().flush(env)


class AckBeforeReplication(Replication):
    """The master answers the producer ok when its own copy is durable, whatever the slaves hold."""

    def acknowledged_end(self) -> int:
        return self.own_end()


class AckStaleSet(Replication):
    """Members that joined the SyncStateSet during the mastership are never waited for."""

    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self._epoch = -1
        self._first_members: frozenset[int] = frozenset()

    def confirm_members(self) -> frozenset[int]:
        if self._epoch != self.broker.epoch:
            self._epoch, self._first_members = self.broker.epoch, self.master.members
        return self._first_members | {self.broker.membership.broker_id}


class AppendTwice(ProducerRequests):
    """A send that waits too long for its acknowledgement is appended a second time by the broker itself."""

    def late(self, env: Env, waiting: PendingRequest) -> None:
        super().late(env, waiting)
        is_send = waiting.request.code in (Request.SEND_MESSAGE, Request.SEND_MESSAGE_V2)
        if is_send and self._broker.is_master:
            self.send(env, waiting.source, waiting.request)


class NoTruncationOnRejoin(Replication):
    """A slave keeps whatever tail it has, as far as the master's log is at least as long."""

    def truncation_point(self, epochs: Epochs, end: int) -> int:
        return min(end, self.broker.log.end)


class TruncationOnlyInMemory(CommitLog):
    """The slave forgets its tail but leaves the bytes in the files, where its next life finds them again."""

    def truncate(self, env: Env, position: int, then: Then) -> None:
        cut, synced = position, min(self._synced, position)
        self.confirm = min(self.confirm, cut)
        self._trim_epochs(cut)
        while self._segments and self._segments[-1].base >= cut:
            self._segments.pop()
        if self._segments and self._segments[-1].end > cut:
            self._segments[-1].size = cut - self._segments[-1].base
        self._synced = self._sync_target = synced
        self._save(env, then)


class EqualStartEpochs(Replication):
    """Histories are compared by where epochs start, not by whose they are."""

    def truncation_point(self, epochs: Epochs, end: int) -> int:
        own = {start for _, start in self.broker.log.epochs}
        for _, start in reversed(epochs):
            if start in own:
                return min(end, self.broker.log.epoch_end(start))
            end = start
        return -1


class QueueOffsetReuse(Broker):
    """After a restart, offsets go on behind the last confirmed record; unconfirmed ones get theirs a second time."""

    def next_offset(self, queue: Queue) -> int:
        return queue.confirmed


class DispatchPastConfirm(Broker):
    """Readers see what the master has appended, confirmed or not."""

    def readable_end(self, queue: Queue) -> int:
        return queue.next


class ConfirmIgnoresDisconnected(Replication):
    """A member of the SyncStateSet without a connection doesn't hold the confirm offset back."""

    def confirm_members(self) -> frozenset[int]:
        connected = {peer.id for peer in self.master.streaming_peers()}
        return super().confirm_members() & (connected | {self.broker.membership.broker_id})


class ChecksumNotChecked(CommitLog):
    """Records carry a checksum, but only the system's own are held against it: at a start, and when they are read."""

    def is_sound(self, data: bytes, at: int, end: int) -> bool:
        return data.find(b"%SYS%", at, end) < 0 or super().is_sound(data, at, end)


MUTANTS = (
    Planted(
        name="ack-before-fsync",
        law="durability",
        stands_for="acknowledging from the page cache: a power cut of all replicas takes messages that were promised",
        parts={"broker": {"replication": AckBeforeFsync, "log": LazyFlush}},
        scenario="power_cut",
    ),
    Planted(
        name="ack-before-replication",
        law="durability",
        stands_for="RocketMQ's default allAckInSyncStateSet=false: a failover loses what only the old master held",
        parts={"broker": {"replication": AckBeforeReplication}},
        scenario="stale_master",
    ),
    Planted(
        name="ack-stale-set",
        law="durability",
        stands_for="apache/rocketmq #5663: the master waits for a SyncStateSet that is no longer the real one",
        parts={"broker": {"replication": AckStaleSet}},
        scenario="stale_master",
    ),
    Planted(
        name="append-twice",
        law="durability",
        stands_for="a broker that repeats an append after FLUSH_SLAVE_TIMEOUT: more copies than attempts",
        parts={"broker": {"producer_requests": AppendTwice}},
        scenario="too_few_in_sync",
    ),
    Planted(
        name="no-truncation-on-rejoin",
        law="agreement",
        stands_for="a rejoining replica that trusts its own tail, as in Kafka before leader epochs (KIP-101)",
        parts={"broker": {"replication": NoTruncationOnRejoin}},
        scenario="unreplicated_tail",
    ),
    Planted(
        name="truncation-only-in-memory",
        law="agreement",
        stands_for="apache/rocketmq #10666: the truncated tail stays on disk and comes back after a crash",
        parts={"broker": {"log": TruncationOnlyInMemory}},
        scenario="unreplicated_tail",
    ),
    Planted(
        name="equal-start-epochs",
        law="agreement",
        stands_for="RocketMQ's epoch file: an epoch that starts where another did is dropped, so histories look equal",
        parts={"broker": {"replication": EqualStartEpochs}},
        scenario="unreplicated_tail",
    ),
    Planted(
        name="queue-offset-reuse",
        law="agreement",
        stands_for="apache/rocketmq #7689: records behind the confirm offset have their queue offsets used again",
        parts={"broker": {NODE: QueueOffsetReuse}},
    ),
    Planted(
        name="dispatch-past-confirm",
        law="no-rollback",
        stands_for="readUnCommitted=true: consumers read what a failover takes back",
        parts={"broker": {NODE: DispatchPastConfirm}},
        scenario="stale_master",
    ),
    Planted(
        name="confirm-ignores-disconnected",
        law="no-rollback",
        stands_for="apache/rocketmq #6662: a stale master whose slaves are gone lets its confirm offset advance",
        parts={"broker": {"replication": ConfirmIgnoresDisconnected}},
        scenario="stale_master",
    ),
    Planted(
        name="checksum-not-checked",
        law="agreement",
        stands_for="checkCRCOnRecover=false, and reads that never look: what rots on a disk is served and replicated",
        parts={"broker": {"log": ChecksumNotChecked}},
        scenario="bit_rot",
    ),
)
