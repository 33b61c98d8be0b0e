"""Planted bugs that only an election, or a crash, would expose: who counts as in sync lacks what is confirmed. And one
that keeps from the readers of slaves what is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chaos import events
from chaos.node import Env
from reference.broker.commitlog import CommitLog
from reference.broker.master_replication import MasterReplication, Peer
from reference.broker.producer_requests import ProducerRequests
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.slave_replication import SlaveReplication
from reference.mutants._planted import Planted
from reference.wire.command import Command


class JoinsBehind(MasterReplication):
    """A slave is proposed for the SyncStateSet as soon as it streams, however far it is behind."""

    def _wanted_set(self, now_ns: int) -> frozenset[int]:
        return super()._wanted_set(now_ns) | {peer.id for peer in self.streaming_peers()}


class ProposalNotCounted(MasterReplication):
    """The master counts on the set that it knows: whom it has just proposed doesn't hold the confirm offset back."""

    def proposed_sets(self) -> list[frozenset[int]]:
        return []


class ConfirmAsTold(SlaveReplication):
    """A slave takes its master's confirm offset as it is, wherever its own log ends."""

    def _advance(self, env: Env) -> None:
        broker = self._broker
        if self._streaming and self._master_confirm > broker.log.confirm:
            broker.log.confirm = self._master_confirm
            env.trace(events.Confirm(epoch=broker.epoch, position=self._master_confirm))
        broker.progress(env)


class ConfirmWithRecordsOnly(SlaveReplication):
    """A slave learns what is confirmed with the next records: of heartbeats it takes nothing but that they came."""

    def append(self, env: Env, source: str, message: Command) -> None:
        if not message.body and "confirm" in message.fields:
            known = {"confirm": str(self._broker.log.confirm)}
            message = replace(message, fields={**message.fields, **known})
        super().append(env, source, message)


class SentWithTheNextWrite(MasterReplication):
    """A slave that joins is sent what it lacks when somebody writes: until then it only hears that all is well."""

    _begun: frozenset[str] = frozenset()  # sessions that were there at a write

    def push(self, env: Env) -> None:
        self._begun = frozenset(peer.session for peer in self.streaming_peers())
        super().push(env)

    def _stream(self, env: Env, peer: Peer) -> None:
        if peer.session in self._begun:
            super()._stream(env, peer)


class WithJoinsBehind(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.master = JoinsBehind(broker, self, options)


class WithSentWithTheNextWrite(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.master = SentWithTheNextWrite(broker, self, options)


class WithProposalNotCounted(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.master = ProposalNotCounted(broker, self, options)


class WithConfirmAsTold(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = ConfirmAsTold(broker, self)


class WithConfirmWithRecordsOnly(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = ConfirmWithRecordsOnly(broker, self)


class SyncedAsOfNow(CommitLog):
    """When a sync ends, all that is written by then counts as durable, not only what it covered."""

    def _flushed(self, env: Env) -> None:
        self._sync_target = self.end
        super()._flushed(env)


class TooFewSuffice(ProducerRequests):
    """Whether enough replicas are in sync is asked of nobody: a master that is alone takes messages, and says ok."""

    def must_be_in_sync(self) -> None:
        return


MUTANTS = (
    Planted(
        name="joins-behind",
        law="in-sync",
        stands_for="a joiner that counts as in sync by its connection, however far it is behind",
        parts={"broker": {"replication": WithJoinsBehind}},
    ),
    Planted(
        name="proposal-not-counted",
        law="in-sync",
        stands_for="a leader that counts on its committed ISR alone, where Kafka's counts on the maximal one",
        parts={"broker": {"replication": WithProposalNotCounted}},
    ),
    Planted(
        name="confirm-as-told",
        law="in-sync",
        stands_for="a follower that takes the leader's high watermark without the end of its own log as a bound",
        parts={"broker": {"replication": WithConfirmAsTold}},
    ),
    Planted(
        name="confirm-with-records-only",
        law="in-sync",
        stands_for="a follower whose high watermark comes with records alone: its readers wait for the next write",
        parts={"broker": {"replication": WithConfirmWithRecordsOnly}},
        scenario="full_segments",
    ),
    Planted(
        name="synced-as-of-now",
        law="in-sync",
        stands_for="a group commit whose flushed position is read after the flush: later writes count as durable",
        parts={"broker": {"log": SyncedAsOfNow}},
    ),
    Planted(
        name="min-in-sync-ignored",
        law="in-sync",
        stands_for="min.insync.replicas that is set and not looked at: all in sync are waited for, and that is one",
        parts={"broker": {"producer_requests": TooFewSuffice}},
        scenario="too_few_in_sync",
    ),
    Planted(
        name="joiners-sent-with-the-next-write",
        law="in-sync",
        stands_for="openmessaging/dledger #61: who comes back to an idle group is sent nothing before the next write",
        parts={"broker": {"replication": WithSentWithTheNextWrite}},
        scenario="idle_minute",
    ),
)
