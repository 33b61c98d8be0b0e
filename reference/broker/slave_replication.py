"""The slave's half of replication: find the master, cut the own log where both logs diverge, take records."""

from __future__ import annotations

from typing import Protocol

from chaos import events
from chaos.node import Env, Malformed
from reference.broker.commitlog import Base
from reference.broker.files import Then
from reference.broker.membership import Membership
from reference.broker.parts import Growing
from reference.broker.records import BadRecord
from reference.tier.interface import View
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, read_object, request_number, to_json, whole

TICK_NS = 250_000_000
RETRY_NS = 100_000_000
SILENCE_NS = 1_000_000_000
_SESSION_BITS = 20  # so many sessions a life has to itself


class SlaveBroker(Growing, Protocol):
    """The broker, as the slave's half of its replication sees it."""

    @property
    def membership(self) -> Membership: ...

    def epoch_durable(self, env: Env) -> None:
        """Let the records of the newest epoch count from now on: it is on the disk."""

    def reset_queues(self) -> None:
        """Forget the queues of the old log: the log has begun again."""

    def rebuild(self, env: Env, then: Then) -> None:
        """Go through the whole log again, over several steps, then call ``then``: confirmed records were cut off."""


class SlavePolicy(Protocol):
    """The decisions of :class:`reference.broker.replication.Replication` that a slave rests on."""

    @property
    def flush(self) -> str: ...

    def may_ack(self) -> int: ...

    def log_version(self) -> int: ...


class SlaveReplication:
    def __init__(self, broker: SlaveBroker, policy: SlavePolicy) -> None:
        self._broker = broker
        self._policy = policy
        self._session = 0
        self._life = ""
        self._streaming = False
        self._busy = False  # the log is being cut or begun again
        self._heard_ns = 0
        self._master_confirm = 0
        self.master = ""

    def recovered(self, env: Env) -> None:
        """Sessions of different lives must differ, also on disks that went back in time, where generations repeat."""
        self._session = self._broker.membership.generation << _SESSION_BITS
        self._life = self._broker.membership.life

    def start(self, env: Env, master: str) -> None:
        self.master = master
        self._master_confirm = 0
        self._hello(env)

    def stop(self, env: Env) -> None:
        self.master = ""
        self._streaming = False
        self._session += 1
        env.cancel_timer("follow")

    @property
    def connected(self) -> bool:
        return self._streaming

    def tick(self, env: Env) -> None:
        if not self.master:
            return
        env.set_timer("follow", TICK_NS)
        if not self._streaming or env.mono_ns() - self._heard_ns > SILENCE_NS:
            self._hello(env)

    def closed(self, env: Env, peer: str) -> None:
        if peer == self.master:
            self._streaming = False
            env.set_timer("follow", RETRY_NS)

    @property
    def is_changing(self) -> bool:
        """Whether the log is being cut or begun again, so that what is known of its records may hold no more."""
        return self._busy

    # Handshake

    def _hello(self, env: Env) -> None:
        """Begin a new session, unless the log is being changed: then that begins one when it ends."""
        self._streaming = False
        if not self.master:
            return
        env.set_timer("follow", SILENCE_NS)
        self._session += 1
        if self._busy:
            return
        broker = self._broker
        fields = {
            "session": self._session_word,
            "epoch": str(broker.epoch),
            "id": str(broker.membership.broker_id),
            "generation": str(broker.membership.generation),
            "version": str(self._policy.log_version()),
        }
        value = {
            "epochs": broker.log.epochs,
            "first": broker.log.first,
            "end": broker.log.end,
            "bootstrapping": broker.log.bootstrapping,
            "views": sorted((queue, view.version) for queue, view in broker.tier.views().items()),
        }
        body = to_json(value)
        env.send(self.master, Command(code=Request.REPLICA_HELLO, opaque=self._opaque, fields=fields, body=body))

    @property
    def _session_word(self) -> str:
        return f"{self._life}.{self._session}"

    @property
    def _opaque(self) -> int:
        """The session's number in a frame, which has 32 bits: after 2,047 lives they begin again."""
        return request_number(self._session >> _SESSION_BITS, self._session)

    def _is_current(self, source: str, message: Command) -> bool:
        return source == self.master and message.fields.get("session") == self._session_word and not self._busy

    def answered(self, env: Env, source: str, message: Command) -> None:
        """Take the answer to our handshake: cut the log at that point, then begin."""
        if source == self.master and message.opaque == self._opaque and message.code != 0:
            env.set_timer("follow", RETRY_NS)
        elif self._is_current(source, message) and not self._streaming:
            point = whole(message.fields, "point")
            if point < self._broker.log.first:
                self._hello(env)  # retention has overtaken that point: then the master gives a base
            elif point < self._broker.log.end:
                self._truncate(env, point)
            else:
                self._begin(env)

    def _truncate(self, env: Env, point: int) -> None:
        broker, session = self._broker, self._session
        env.trace(events.Truncate(epoch=broker.epoch, position=point, old_end=broker.log.end))
        self._busy = True
        whole = broker.queues.truncate(point)

        def cut(env: Env) -> None:
            if whole:
                self._changed(env, session)
            else:
                broker.rebuild(env, lambda env: self._changed(env, session))

        broker.log.truncate(env, point, cut)

    def bootstrap(self, env: Env, source: str, message: Command) -> None:
        """Begin again at the base that the master gives: its log no longer joins ours."""
        if not self._is_current(source, message) or self._streaming:
            return
        broker, session = self._broker, self._session
        value = read_object(message.body)
        base = Base.from_json(item(value, "base", dict))
        epochs = [(epoch, start) for epoch, start in listed(value, "epochs", int, int)]
        views = [View.from_json(view) for view in listed(value, "views", dict)]
        self._busy = True
        env.trace(events.BootstrapBegun(epoch=broker.epoch, position=base.position))
        if broker.log.end > base.position:
            env.trace(events.Truncate(epoch=broker.epoch, position=broker.log.first, old_end=broker.log.end))

        def begun(env: Env) -> None:
            broker.reset_queues()
            for view in views:
                broker.tier.received(env, view)
            env.trace(
                events.Bootstrap(
                    epoch=broker.epoch,
                    position=base.position,
                    queues={str(queue): offset for queue, offset in sorted(base.queues.items())},
                    manifests={str(view.queue): view.version for view in views},
                    epochs=epochs,
                    groups={group: dict(table) for group, table in broker.queues.offsets.items()},
                )
            )
            self._changed(env, session)

        broker.log.restart_at(env, base, epochs, begun)

    def _changed(self, env: Env, session: int) -> None:
        """Go on with the log, which is durably changed as that session wanted it. If another session has begun since
        then, ask again."""
        self._busy = False
        if session == self._session and self.master:
            self._begin(env)
        else:
            self._hello(env)

    def _begin(self, env: Env) -> None:
        if self._broker.log.synced < self._broker.log.end:  # what we kept must be durable before it counts
            self._broker.log.flush(env)
        self._streaming = True
        self._heard_ns = env.mono_ns()
        env.set_timer("follow", TICK_NS)
        self._ack(env)

    # Stream

    def append(self, env: Env, source: str, message: Command) -> None:
        """Take records, a confirm offset, or a manifest version, of the current session only."""
        if source != self.master or message.fields.get("session") != self._session_word:
            return
        if "view" in message.fields:
            view = View.from_json(read_object(message.body))
            self._heard_ns = env.mono_ns()
            self._broker.tier.received(env, view)
            return
        position, confirm = whole(message.fields, "position"), whole(message.fields, "confirm")
        self._heard_ns = env.mono_ns()
        if not self._streaming:
            return
        if position != self._broker.log.end:
            self._hello(env)
            return
        self._master_confirm = confirm
        if message.body:
            self._take(env, message)
        if not message.body or self._policy.flush != "sync":
            self._ack(env)
        self._advance(env)

    def _take(self, env: Env, message: Command) -> None:
        log, epoch = self._broker.log, whole(message.fields, "recordEpoch")
        try:
            records = log.decode_all(message.body)
        except BadRecord as error:
            raise Malformed(f"these are no records: {error}") from error
        if epoch != log.last_epoch:
            log.begin_epoch(env, epoch, self._broker.epoch_durable)
        log.append(env, message.body)
        for record in records:
            self._broker.added(env, record, epoch)
        log.flush(env)

    def synced(self, env: Env) -> None:
        if self._streaming:
            self._ack(env)
        self._advance(env)

    def _ack(self, env: Env) -> None:
        fields = {
            "session": self._session_word,
            "position": str(self._policy.may_ack()),
            "end": str(self._broker.log.end),
        }
        env.send(self.master, Command(code=Request.REPLICA_ACK, flags=ONEWAY, fields=fields))

    def _advance(self, env: Env) -> None:
        """Move the slave's confirm offset: it is the master's, as far as the own durable log goes."""
        broker = self._broker
        confirm = min(self._master_confirm, self._policy.may_ack())
        if self._streaming and confirm > broker.log.confirm:
            broker.log.confirm = confirm
            env.trace(events.Confirm(epoch=broker.epoch, position=confirm))
        broker.progress(env)
