"""A broker: one replica of a group's commit log, as master or as slave.

Roles: ``fenced`` until the controllers have given this life of the broker a role, then ``slave`` or ``master``. A role
is taken only with a higher epoch than any that this replica has accepted, in this life or an earlier one; a slave may
also go on in the same one.

A broker has the master's role (``has_master_role``) from the step that took it. It is *writable* once its epoch is
durable, and ready (``is_master``) once everything that its log held when it took the role is confirmed and has taken
effect: until then it answers "retry".

Options: ``controllers``, ``nameservers`` (node names), ``objectstore`` (a node name, "" for no tier), ``group``,
``cluster``, ``topics`` ({name: queues}), ``segment_bytes``, ``retain_bytes`` (keep at least; 0 = all),
``delete_untiered``, ``flush`` (``sync``, ``async``), ``acks`` (``all``, ``master``, a number), ``min_in_sync``,
``ack_timeout_ms``, ``max_lag_ms``; those that begin with ``tier_`` are the tier's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chaos import events
from chaos.node import Env, NodeSpec
from reference.broker.admin_requests import AdminRequests
from reference.broker.administration import administration
from reference.broker.assignment import Assignments
from reference.broker.commitlog import Base, CommitLog
from reference.broker.consumer_requests import ConsumerRequests
from reference.broker.deferral import TIMER as DEFERRED_TIMER
from reference.broker.deferral import Deferral
from reference.broker.files import Completions, Then
from reference.broker.lock_requests import LockRequests
from reference.broker.membership import Assignment, Membership
from reference.broker.parts import Refused
from reference.broker.popping import TIMER as POPS_TIMER
from reference.broker.popping import PopRequests
from reference.broker.producer_requests import RETRY_PREFIX, ProducerRequests
from reference.broker.queues import Queue, Queues
from reference.broker.records import Record, body_hash, message_number
from reference.broker.replication import Replication
from reference.broker.reset_requests import ResetRequests
from reference.broker.retention import TICK_NS as RETENTION_NS
from reference.broker.retention import Retention
from reference.broker.tier_adapter import BrokerAdapter
from reference.broker.topic_admin import QueueViews
from reference.tier.interface import TierInterface
from reference.tier.null_tier import NullTier
from reference.wire.codes import Request, Response
from reference.wire.command import Command

FENCED, SLAVE, MASTER = "fenced", "slave", "master"
DISPATCH_COUNT = 1000
Handler = Callable[[Env, str, Command], None]


def _tier_class(options: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], TierInterface]:
    if not options.get("objectstore"):
        return NullTier
    from reference.tier.storage import Tier

    return Tier


class Broker:
    """The node. Its parts are classes, so that a planted bug is a subclass that overrides one policy method."""

    def __init__(
        self,
        spec: NodeSpec,
        *,
        log: type[CommitLog] = CommitLog,
        queues: type[Queues] = Queues,
        replication: type[Replication] = Replication,
        retention: type[Retention] = Retention,
        membership: type[Membership] = Membership,
        producer_requests: type[ProducerRequests] = ProducerRequests,
        consumer_requests: type[ConsumerRequests] = ConsumerRequests,
        deferral: type[Deferral] = Deferral,
        lock_requests: type[LockRequests] = LockRequests,
        pop_requests: type[PopRequests] = PopRequests,
        tier: Callable[[Mapping[str, Any]], TierInterface] | None = None,
    ) -> None:
        options: Mapping[str, Any] = spec.options
        self.env: Env  # of the step that is running
        self.name = spec.name
        self.role, self.master = FENCED, ""
        self.epoch = self.epoch_start = 0
        self.writable = False
        self._topics: dict[str, int] = dict(options.get("topics", {}))
        self.is_tiered = bool(options.get("objectstore"))
        self._objectstore = str(options.get("objectstore", ""))
        self._controllers = frozenset(options.get("controllers", ()))
        self._completions = Completions()
        self._segment_bytes = int(options.get("segment_bytes", 1 << 20))
        self.log = log(self._completions, segment_bytes=self._segment_bytes, on_synced=self._log_synced)
        self._queues_of = queues
        self.queues = queues(self.log.base)
        self.membership = membership(self, self._completions, options)
        self.retention = retention(self, options)
        self.tier: TierInterface = (tier or _tier_class(options))(options)
        self.replication = replication(self, options)
        self._producer_requests = producer = producer_requests(self, options)
        self._consumer_requests = consumer = consumer_requests(self)
        self._deferral = deferral(self, producer, consumer.subscriptions, options)
        self._lock_requests = lock_requests(self, producer, options)
        self._assignments = Assignments(self, consumer.subscriptions, str(options.get("group", "")))
        self._pop_requests = pop_requests(self, producer, self._deferral)
        views = QueueViews(self, self.membership.group, consumer)
        self._reset_requests = ResetRequests(self, producer, views)
        self._handlers = self._table(AdminRequests(self, self.membership, self.replication, self.retention))
        self._handlers |= administration(views, options)
        self._recovering, self._recovered_confirm = True, 0
        self._promoted = False  # the tier knows that we are master
        self._unreported = False  # more is on the disk than the trace says, but its epoch isn't
        self._rebuilding: Then | None = None

    def _table(self, admin: AdminRequests) -> dict[int, Handler]:
        producer, consumer = self._producer_requests, self._consumer_requests
        return {
            Request.SEND_MESSAGE: producer.send,
            Request.SEND_MESSAGE_V2: producer.send,
            Request.SEND_BATCH_MESSAGE: producer.send,
            Request.CONSUMER_SEND_MSG_BACK: self._deferral.send_back,
            Request.END_TRANSACTION: self._deferral.end,
            Request.QUERY_ASSIGNMENT: self._assignments.query,
            Request.POP_MESSAGE: self._pop_requests.pop,
            Request.ACK_MESSAGE: self._pop_requests.acknowledge,
            Request.CHANGE_MESSAGE_INVISIBLETIME: self._pop_requests.change_time,
            Request.LOCK_BATCH_MQ: self._lock_requests.lock,
            Request.UNLOCK_BATCH_MQ: self._lock_requests.unlock,
            Request.UPDATE_CONSUMER_OFFSET: producer.commit,
            Request.INVOKE_BROKER_TO_RESET_OFFSET: self._reset_requests.reset,
            Request.UPDATE_AND_CREATE_TOPIC: producer.create_topic,
            Request.DELETE_TOPIC_IN_BROKER: producer.delete_topic,
            Request.PULL_MESSAGE: consumer.pull,
            Request.LITE_PULL_MESSAGE: consumer.pull,
            Request.QUERY_MESSAGE: consumer.index.by_key,
            Request.VIEW_MESSAGE_BY_ID: consumer.index.by_position,
            Request.QUERY_CONSUMER_OFFSET: consumer.committed,
            Request.SEARCH_OFFSET_BY_TIMESTAMP: consumer.search,
            Request.GET_MAX_OFFSET: consumer.maximum,
            Request.GET_MIN_OFFSET: consumer.minimum,
            Request.HEART_BEAT: self._heartbeat,
            Request.UNREGISTER_CLIENT: consumer.subscriptions.unregister,
            Request.GET_CONSUMER_LIST_BY_GROUP: consumer.clients.members,
            Request.CHECK_CLIENT_CONFIG: consumer.subscriptions.check,
            Request.GET_BROKER_RUNTIME_INFO: admin.runtime_info,
            Request.GET_BROKER_HA_STATUS: admin.ha_status,
            Request.GET_BROKER_EPOCH_CACHE: admin.epoch_cache,
            Request.DESCRIBE: admin.describe,
            Request.READ_LOG: admin.read_log,
            Request.READ_STATE: admin.read_state,
            Request.NOTIFY_BROKER_ROLE_CHANGED: self._notified,
            Request.REPLICA_HELLO: self._replicated,
            Request.REPLICA_APPEND: self._replicated,
            Request.REPLICA_ACK: self._replicated,
            Request.REPLICA_BOOTSTRAP: self._replicated,
        }

    # Policy

    def next_offset(self, queue: Queue) -> int:
        """Return the offset of the next record of a queue: after all that the log holds, confirmed or not."""
        return queue.next

    def readable_end(self, queue: Queue) -> int:
        """Readers see what is confirmed."""
        return queue.confirmed

    def offered_end(self, queue: Queue) -> int:
        """Return the end of what is confirmed: that is what the tier is offered."""
        return queue.confirmed

    def takes_role(self, assignment: Assignment) -> bool:
        """Return whether this role is taken: one of a higher epoch than any before; a slave that has just started may
        go on in the same one. Who is cutting its log does not become master: it is not known yet where its own epoch
        would begin."""
        becomes_master = assignment.master_id == self.membership.broker_id
        unsettled = self.log.bootstrapping or self.replication.slave.is_changing
        if self._recovering or self._rebuilding is not None or (becomes_master and unsettled):
            return False
        if assignment.epoch == self.epoch:
            return self.is_fenced and not becomes_master
        return assignment.epoch > self.epoch

    # State

    @property
    def generation(self) -> int:
        return self.membership.generation

    @property
    def is_fenced(self) -> bool:
        return self.role == FENCED

    @property
    def has_master_role(self) -> bool:
        return self.role == MASTER

    @property
    def is_master(self) -> bool:
        return self.role == MASTER and self.writable and self.queues.dispatched >= self.epoch_start

    @property
    def confirm(self) -> int:
        return self.log.confirm

    def standing(self) -> tuple[int, int, int]:
        """For elections: epoch of the last record, end of the log as far as it counts, confirm offset."""
        electable = not (self._recovering or self.log.bootstrapping)
        return self.log.last_epoch, self.replication.own_end() if electable else -1, self.log.confirm

    def topic_counts(self) -> Mapping[str, int]:
        return {topic.name: topic.queues for topic in self.queues.known_topics()}

    def identity_fields(self, env: Env) -> dict[str, str]:
        """Fields by which an answer says who gave it."""
        return {"epoch": str(self.epoch), "incarnation": str(env.incarnation)}

    def must_serve(self, *, any_replica: bool = False) -> None:
        """Raise :class:`Refused` unless this broker may answer clients now."""
        if self.replication.slave.is_changing:
            raise Refused(Response.SYSTEM_BUSY, "retry: the log is being cut")
        if self.role == MASTER:
            if not self.is_master:
                raise Refused(Response.SYSTEM_BUSY, "retry: the mastership begins")
        elif self.role == FENCED or not any_replica or self._rebuilding is not None:
            raise Refused(Response.SERVICE_NOT_AVAILABLE, f"not the master: {self.role}")

    def must_be_recovered(self) -> None:
        """Raise :class:`Refused` while this replica is still going through its log."""
        if self._recovering or self._rebuilding is not None:
            raise Refused(Response.SYSTEM_BUSY, "retry: the log is being read")

    def find_queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue. Raises :class:`Refused` when there is none (yet)."""
        queue = self.queues.queue(topic, queue_id)
        if queue is None or not self.queues.topics[topic].confirmed:
            if self.role == MASTER:
                raise Refused(Response.TOPIC_NOT_EXIST, f"no queue {queue_id} of topic {topic}")
            raise Refused(Response.SYSTEM_BUSY, "retry: this replica does not know the topic yet")
        if self.queues.topics[topic].is_ending:
            raise Refused(Response.SYSTEM_BUSY, "retry: the topic is being deleted")
        return queue

    # Life

    def start(self, env: Env) -> None:
        self.env = env
        self.membership.begin_life(env, self._begin_recovery)
        self.epoch = self.membership.seen_epoch
        env.trace(events.Start(epoch=self.epoch, generation=self.generation, disk=self.membership.disk))
        env.trace(events.Role(epoch=self.epoch, role=FENCED, master="", set=[], set_epoch=-1))

    def _begin_recovery(self, env: Env) -> None:
        self.log.load(env)
        self.queues = self._queues_of(self.log.base)
        env.set_timer("recover", 0)

    def _recover(self, env: Env) -> None:
        if self.log.recover(env, self._found):
            self.log.finish_recovery(env, self._recovered)
        else:
            env.set_timer("recover", 0)

    def _found(self, record: Record) -> None:
        self.queues.add(record)

    def _recovered(self, env: Env) -> None:
        log = self.log
        if log.is_damaged:
            self.membership.forget_identity(env, self._begin_again)
            return
        self._recovered_confirm = log.confirm
        self._recovering = False
        env.trace(
            events.Recovered(
                position=log.end, epoch=log.last_epoch, first=log.first, epochs=list(log.epochs), confirm=log.confirm
            )
        )
        self.tier.recover(env, BrokerAdapter(self))
        self.replication.recovered(env)
        self.membership.join(env)
        env.set_timer("retention", RETENTION_NS)
        self.progress(env)

    def _begin_again(self, env: Env) -> None:
        """Begin again as a new replica: the disk lost what it had promised to keep, and what is left of it goes."""
        env.trace(events.Damaged(position=self.log.end))
        env.trace(events.Start(epoch=self.epoch, generation=self.generation, disk=self.membership.disk))
        self.log.restart_at(env, Base(), [], self._recovered_empty)

    def _recovered_empty(self, env: Env) -> None:
        self.reset_queues()
        self._recovered(env)

    # Steps

    def message(self, env: Env, source: str, message: Command) -> None:
        self.env = env
        if message.is_response:
            if source == self._objectstore and self.tier.message(env, source, message):
                return
            if source in self._controllers:
                self.membership.answered(env, source, message)
            elif not self._recovering:
                self.replication.message(env, source, message)
            return
        handler = self._handlers.get(message.code)
        try:
            if handler is None:
                remark = f" request type {message.code} not supported"
                raise Refused(Response.REQUEST_CODE_NOT_SUPPORTED, remark)
            handler(env, source, message)
        except Refused as refusal:
            if not message.is_oneway:
                env.send(source, message.reply(refusal.code, self.identity_fields(env), remark=str(refusal)))

    def timer(self, env: Env, name: str) -> None:
        self.env = env
        if name in ("tick", "membership"):
            self.membership.timer(env, name)
        elif name in ("push", "replicate", "follow"):
            self.replication.timer(env, name)
        elif name in ("waiting", "changes"):
            self._producer_requests.timer(env, name)
        elif name == "held":
            self._consumer_requests.timer(env)
        elif name == DEFERRED_TIMER:
            self._deferral.timer(env)
        elif name == POPS_TIMER:
            self._pop_requests.timer(env)
        elif name == "retention":
            self.retention.tick(env)
            self._deferral.make_room(env)
        elif name == "dispatch":
            self.progress(env)
        elif name == "recover":
            self._recover(env)
        elif name == "rebuild":
            self._rebuild(env)
        else:
            self.tier.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        self.env = env
        self._completions.done(env, token)

    def closed(self, env: Env, peer: str) -> None:
        self.env = env
        self.membership.closed(env, peer)
        if not self._recovering:
            self.replication.closed(env, peer)
            self.tier.closed(env, peer)
        self._consumer_requests.closed(env, peer)
        self._pop_requests.closed(peer)

    def _heartbeat(self, env: Env, source: str, message: Command) -> None:
        """34: groups that are given messages get a topic for those that they send back."""
        subscriptions = self._consumer_requests.subscriptions
        subscriptions.heartbeat(env, source, message)
        for group in subscriptions.given(source) if self.is_master else ():
            with suppress(Refused):
                self._producer_requests.make_topic(env, RETRY_PREFIX + group)

    def _notified(self, env: Env, source: str, message: Command) -> None:
        if source not in self._controllers:
            raise Refused(Response.NO_PERMISSION, f"{source} is no controller")
        self.membership.notified(env, message)
        if not message.is_oneway:
            env.send(source, message.reply())

    def _replicated(self, env: Env, source: str, message: Command) -> None:
        if not self._recovering:
            self.replication.message(env, source, message)

    def _log_synced(self, env: Env) -> None:
        self._unreported = self.log.waits_for_epoch
        env.trace(events.Synced(position=self.log.synced, **self.log.synced_file()))
        self.replication.synced(env)

    def epoch_durable(self, env: Env) -> None:
        """Report what lay on the disk and waited for its epoch: it counts from now on."""
        if self._unreported:
            self._unreported = self.log.waits_for_epoch  # for a later one, whose end may come in the same step
            env.trace(events.Synced(position=self.log.synced, **self.log.synced_file()))
        self.replication.synced(env)

    # Roles

    def assigned(self, env: Env, assignment: Assignment) -> None:
        """Act on a controller's word of who is master: take another role, or adopt the set."""
        if assignment.epoch == self.epoch and self.has_master_role:
            if assignment.master_id == self.membership.broker_id:
                self.replication.master.adopt(env, assignment)
        elif self.takes_role(assignment):
            self._leave_role(env)
            self.epoch, self.master = assignment.epoch, assignment.master
            if assignment.master_id == self.membership.broker_id:
                self._become_master(env, assignment)
            else:
                self._become_slave(env)
            self.membership.announce(env)

    def _leave_role(self, env: Env) -> None:
        self.writable = self._promoted = False
        if self.has_master_role:
            self.tier.demoted(env)
            self._deferral.demoted(env)
            self._lock_requests.abandon()
            self._pop_requests.abandon(env)
            self._reset_requests.abandon()
            self._producer_requests.abandon(env)
        self._consumer_requests.abandon(env)

    def _become_master(self, env: Env, assignment: Assignment) -> None:
        self.role, self.epoch_start = MASTER, self.log.end
        self.log.confirm = self.replication.promotion_confirm()
        self.replication.become_master(env, assignment)
        master = self.replication.master
        env.trace(
            events.Role(
                epoch=self.epoch,
                role=MASTER,
                master=self.name,
                set=master.set_names(),
                set_epoch=master.set_epoch,
                start=self.epoch_start,
                ack_timeout_ms=self._producer_requests.timeout_ms,
                **self.retention.kept,
            )
        )
        epoch = self.epoch

        def remembered(env: Env) -> None:
            if self.epoch == epoch:
                self.log.begin_epoch(env, epoch, opened)

        def opened(env: Env) -> None:
            if self.epoch == epoch:
                self.writable = True
                self.log.flush(env)
                self.replication.opened(env)
                self.epoch_durable(env)

        self.membership.remember_epoch(env, epoch, remembered)

    def _become_slave(self, env: Env) -> None:
        self.role = SLAVE
        who: dict[str, Any] = {"role": SLAVE, "master": self.master, "set": [], "set_epoch": -1}
        env.trace(events.Role(epoch=self.epoch, **who, **self.retention.kept))
        epoch, master = self.epoch, self.master
        self.replication.master.stop(env)

        def remembered(env: Env) -> None:
            if self.epoch == epoch:
                self.replication.become_slave(env, master)

        self.replication.slave.stop(env)
        self.membership.remember_epoch(env, epoch, remembered)

    def set_answered(self, env: Env, number: int, code: int, assignment: Assignment | None) -> None:
        if self.has_master_role:
            self.replication.master.set_answered(env, number, code, assignment)

    # The log moves

    def added(self, env: Env, record: Record, epoch: int) -> None:
        """Take in a record that was appended: one that a master sent, or a system record of our own."""
        effect = self.queues.add(record)
        hash = body_hash(record.body)
        if effect.queue is None:
            settles = record.prepared or effect.value.get("key")
            env.trace(
                events.Append(
                    epoch=epoch,
                    position=record.position,
                    hash=hash,
                    size=record.size,
                    system=effect.system,
                    settles=settles,
                )
            )
        else:
            env.trace(
                events.Append(
                    epoch=epoch,
                    position=record.position,
                    queue=effect.queue.index,
                    offset=record.offset,
                    message=message_number(record.properties),
                    hash=hash,
                    size=record.size,
                    settles=record.prepared or None,
                )
            )

    def progress(self, env: Env) -> None:
        """Let what is confirmed take effect, a slice in one step; then answer those that waited for it."""
        if self._recovering or self._rebuilding is not None:
            return
        confirm, before = self.log.confirm, self.queues.dispatched
        if self.queues.behind(confirm):
            self._dispatch(env, confirm)
        if not self._promoted and self.is_master:
            self._promoted = True
            self.tier.promoted(env)
            self._deferral.promoted(env)
            self._create_topics(env)
        self._producer_requests.complete(env)
        self._reset_requests.notify(env)
        if self.queues.dispatched != before:
            self._consumer_requests.wake(env)
            self._pop_requests.wake(env)
            if self.is_master:
                self.tier.confirmed(env)

    def _dispatch(self, env: Env, confirm: int) -> None:
        for effect in self.queues.dispatch(confirm, DISPATCH_COUNT):
            if effect.queue is not None and not effect.settles:
                continue  # a message that came to its queue at once, as most do
            if self._promoted and (effect.deferred or effect.settles or effect.system == "settled"):
                self._deferral.took_effect(env, effect)
            if effect.value.get("reset"):
                self._pop_requests.reset(effect.value["group"], effect.value["queue"])
            if effect.system == "offsets" and effect.position >= self._recovered_confirm:
                group, queue = effect.value["group"], effect.value["queue"]
                offset = self.queues.offsets.get(group, {}).get(queue)
                if offset is not None:  # else its topic is gone
                    env.trace(events.Commit(queue=queue, offset=offset, position=effect.position, group=group))
        if self.queues.behind(confirm):
            env.set_timer("dispatch", 0)

    def _create_topics(self, env: Env) -> None:
        """Make the topics of the options, unless somebody has deleted them."""
        for name, count in self._topics.items():
            if not self.queues.was_made(name):
                self._producer_requests.append_topic(env, name, count)

    def reset_queues(self) -> None:
        """Forget the queues of the old log: the log has begun again."""
        self.queues = self._queues_of(self.log.base)

    def rebuild(self, env: Env, then: Then) -> None:
        """Go through the whole log again: confirmed records were cut off (only after an unclean election)."""
        self.reset_queues()
        self._rebuilding, self._rebuild_at = then, self.log.first
        env.set_timer("rebuild", 0)

    def _rebuild(self, env: Env) -> None:
        assert self._rebuilding is not None
        data = (
            self.log.read_records(env, self._rebuild_at, self._segment_bytes)
            if self._rebuild_at < self.log.end
            else b""
        )
        at = 0
        while at < len(data):
            record = self.log.decode(data, at)
            self.queues.add(record)
            at += record.size
        self._rebuild_at += at
        if data:
            env.set_timer("rebuild", 0)
        else:
            then, self._rebuilding = self._rebuilding, None
            self._recovered_confirm = self.log.confirm
            then(env)
            self.progress(env)
