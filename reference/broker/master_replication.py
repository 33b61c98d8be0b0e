"""The master's half of replication: handshakes, streams, the confirm offset, and the SyncStateSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chaos import events
from chaos.node import Env, Malformed
from reference.broker.commitlog import Epochs
from reference.broker.membership import Assignment, Membership
from reference.broker.parts import Replica
from reference.broker.retention import Retention
from reference.tier.interface import View
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, read_object, text, to_json, whole

TICK_NS = 100_000_000
HEARTBEAT_NS = 250_000_000
PROPOSAL_NS = 1_000_000_000
BATCH_BYTES = 64 * 1024
WINDOW_BYTES = 512 * 1024
#: For so long records gather in virtual time, where waiting costs nothing and each step does.
LINGER_MS = 40

#: A proposal that was refused with one of these has no effect, now or later.
_REFUSED = (
    Response.CONTROLLER_INVALID_REPLICAS,
    Response.CONTROLLER_BROKER_NOT_ALIVE,
    Response.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
)


@dataclass(slots=True)
class Peer:
    """A connected slave. ``session`` is the number of its handshake: messages of older ones are void."""

    name: str
    id: int
    session: str
    streaming: bool = False
    sent: int = 0
    acked: int = 0
    sent_confirm: int = -1
    sent_ns: int = 0
    target: int = 0  # the log's end at ``target_ns``: once acknowledged, the slave was in step at that moment
    target_ns: int = 0
    version: int = 1  # of records that it reads


@dataclass(frozen=True, slots=True)
class Hello:
    """A slave's handshake: what it holds, and whose log it wants to follow."""

    request: Command
    epoch: int
    id: int
    session: str
    epochs: list[tuple[int, int]]
    first: int
    end: int
    bootstrapping: bool
    views: dict[int, int]
    version: int

    @classmethod
    def read(cls, message: Command) -> Hello:
        """Read a slave's handshake. Raises :class:`chaos.node.Malformed`."""
        fields, value = message.fields, read_object(message.body)
        return cls(
            request=message,
            epoch=whole(fields, "epoch"),
            id=whole(fields, "id"),
            session=text(fields, "session"),
            epochs=[(epoch, start) for epoch, start in listed(value, "epochs", int, int)],
            first=item(value, "first", int),
            end=item(value, "end", int),
            bootstrapping=item(value, "bootstrapping", bool),
            views=dict(listed(value, "views", int, int)),
            version=whole(fields, "version", 1),
        )


class MasterBroker(Replica, Protocol):
    """The broker, as the master's half of its replication sees it."""

    @property
    def name(self) -> str: ...

    @property
    def has_master_role(self) -> bool: ...

    @property
    def writable(self) -> bool:
        """Master of an epoch that is durable."""

    @property
    def epoch_start(self) -> int:
        """Where the log ended when this replica took the role."""

    @property
    def membership(self) -> Membership: ...

    @property
    def retention(self) -> Retention: ...

    def progress(self, env: Env) -> None: ...


class MasterPolicy(Protocol):
    """The decisions of :class:`reference.broker.replication.Replication` that a master rests on."""

    def own_end(self) -> int: ...

    def confirm_members(self) -> frozenset[int]: ...

    def confirm_end(self, members: Mapping[int, int]) -> int: ...

    def may_leave_set(self, behind_ns: int) -> bool: ...

    def truncation_point(self, epochs: Epochs, end: int) -> int: ...


class MasterReplication:
    def __init__(self, broker: MasterBroker, policy: MasterPolicy, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._policy = policy
        self._batch_bytes = min(BATCH_BYTES, int(options.get("segment_bytes", 1 << 20)))
        self._linger_ns = int(options.get("linger_ms", LINGER_MS if options.get("virtual_time") else 0)) * 1_000_000
        self.is_gathering = False  # records wait for others that they are synced and sent with
        self._read_last = (-1, -1, b"")  # position, size, bytes: slaves that keep up want the same
        self._peers: dict[str, Peer] = {}
        self._names: dict[int, str] = {}
        self._early: dict[str, Hello] = {}
        self._acks: dict[int, int] = {}  # by id, of this epoch
        self._in_step_ns: dict[int, int] = {}  # by id: when the member last had everything
        self._proposal = 0  # the request under way
        self._proposal_ns = 0
        self._proposals: dict[int, frozenset[int]] = {}  # by request: not yet answered, or unclear
        self.members: frozenset[int] = frozenset()
        self.set_epoch = -1

    def start(self, env: Env, assignment: Assignment) -> None:
        """Begin a mastership. Nobody is connected, nothing is acknowledged in this epoch."""
        self.stop(env)
        self.members, self.set_epoch = assignment.members, assignment.set_epoch
        now = env.mono_ns()
        self._in_step_ns = dict.fromkeys(self.members, now)
        env.set_timer("replicate", TICK_NS)

    def stop(self, env: Env) -> None:
        self._peers.clear()
        self._acks.clear()
        self._proposals.clear()
        self._proposal = 0
        self.is_gathering = False
        self._read_last = (-1, -1, b"")
        env.cancel_timer("push")
        env.cancel_timer("replicate")

    # Handshake

    def hello(self, env: Env, source: str, hello: Hello) -> None:
        """Answer a slave that sends its epoch history: say where to cut, or give it a base to begin with."""
        broker, message, epoch = self._broker, hello.request, hello.epoch
        if epoch > broker.epoch or (epoch == broker.epoch and broker.has_master_role and not broker.writable):
            self._early[source] = hello  # it heard of our role before we did
            return
        if epoch != broker.epoch or not broker.has_master_role:
            env.send(source, message.reply(Response.SERVICE_NOT_AVAILABLE, remark="not the master of that epoch"))
            return
        if hello.version < broker.queues.version:
            remark = f"the log has records of version {broker.queues.version}, and this replica reads {hello.version}"
            env.send(source, message.reply(Response.SERVICE_NOT_AVAILABLE, remark=remark))
            return
        peer = Peer(source, hello.id, hello.session, version=hello.version)
        self._peers[source] = peer
        self._names[peer.id] = source
        first, end = hello.first, hello.end
        point = self._policy.truncation_point(hello.epochs, end)
        start = broker.retention.bootstrap_position()
        if end == 0 and start == 0:
            point = 0
        if point < max(broker.log.first, first) or hello.bootstrapping or (end == 0 and start > 0):
            self._send_base(env, peer, start)
        else:
            env.send(source, message.reply(fields={"session": peer.session, "point": str(point)}))
            for queue, view in sorted(broker.tier.views().items()):
                if view.version > hello.views.get(queue, -1):
                    self._send_view(env, peer, view)

    def _send_base(self, env: Env, peer: Peer, position: int) -> None:
        """Send the state of queues, topics and offsets at ``position``, in one message; retention waits for the
        slave."""
        broker = self._broker
        broker.retention.pin(env, peer.id, position)
        base = broker.queues.base_at(broker.log.base, position)
        value = {
            "base": base.to_json(),
            "epochs": [entry for entry in broker.log.epochs if entry[1] < position],
            "views": [view.to_json() for _, view in sorted(broker.tier.views().items())],
        }
        fields = {"session": peer.session, "epoch": str(broker.epoch)}
        body = to_json(value)
        env.send(peer.name, Command(code=Request.REPLICA_BOOTSTRAP, flags=ONEWAY, fields=fields, body=body))

    def opened(self, env: Env) -> None:
        """Answer the slaves that were early, now that the epoch is durable."""
        early, self._early = self._early, {}
        for source, hello in early.items():
            self.hello(env, source, hello)

    # Stream

    def gather(self, env: Env) -> None:
        """Sync and send the records that were written, together with all that come while we linger."""
        if not self._linger_ns:
            self.push(env)
        elif not self.is_gathering:
            self.is_gathering = True
            env.set_timer("push", self._linger_ns)

    def push(self, env: Env) -> None:
        self.is_gathering = False
        self._broker.log.flush(env)
        for peer in list(self._peers.values()):
            if peer.streaming:
                self._stream(env, peer)

    def _stream(self, env: Env, peer: Peer) -> None:
        """Send a slave what is new, as far as its window goes. While it owes an acknowledgement, records gather until
        they fill a batch."""
        log = self._broker.log
        while peer.sent < log.end and peer.sent - peer.acked < WINDOW_BYTES:
            if peer.acked < peer.sent and log.end - peer.sent < self._batch_bytes:
                return
            size = min(self._batch_bytes, log.epoch_end(peer.sent) - peer.sent)
            data = self._read(env, peer.sent, size)
            if not data:  # retention has overtaken the slave: it must begin again
                del self._peers[peer.name]
                env.close(peer.name)
                return
            self._send(env, peer, data)

    def _read(self, env: Env, position: int, size: int) -> bytes:
        if self._read_last[:2] != (position, size):
            self._read_last = (position, size, self._broker.log.read_records(env, position, size))
        return self._read_last[2]

    def _send(self, env: Env, peer: Peer, body: bytes) -> None:
        broker = self._broker
        fields = {
            "session": peer.session,
            "epoch": str(broker.epoch),
            "position": str(peer.sent),
            "confirm": str(broker.log.confirm),
        }
        if body:
            fields["recordEpoch"] = str(broker.log.epoch_at(peer.sent))
        env.send(peer.name, Command(code=Request.REPLICA_APPEND, flags=ONEWAY, fields=fields, body=body))
        peer.sent += len(body)
        peer.sent_confirm = broker.log.confirm
        peer.sent_ns = env.mono_ns()

    def publish(self, env: Env, view: View) -> None:
        for peer in self._peers.values():
            self._send_view(env, peer, view)

    def _send_view(self, env: Env, peer: Peer, view: View) -> None:
        fields = {"session": peer.session, "epoch": str(self._broker.epoch), "view": "true"}
        body = to_json(view.to_json())
        env.send(peer.name, Command(code=Request.REPLICA_APPEND, flags=ONEWAY, fields=fields, body=body))

    def acknowledged(self, env: Env, source: str, message: Command) -> None:
        peer = self._peers.get(source)
        if peer is None or message.fields.get("session") != peer.session or not self._broker.has_master_role:
            return
        position, end = whole(message.fields, "position"), whole(message.fields, "end")
        if not peer.streaming:
            self._begin_stream(env, peer, end)
        peer.acked = position
        self._acks[peer.id] = max(position, self._acks.get(peer.id, -1))
        if position >= peer.target:
            self._in_step_ns[peer.id] = max(peer.target_ns, self._in_step_ns.get(peer.id, 0))
            peer.target, peer.target_ns = self._broker.log.end, env.mono_ns()
            if position >= peer.target:
                self._in_step_ns[peer.id] = peer.target_ns
        self.advance(env)
        if self._peers.get(source) is peer and not self.is_gathering:
            self._stream(env, peer)
        if peer.id not in self.members:
            self._review_set(env)

    def _begin_stream(self, env: Env, peer: Peer, position: int) -> None:
        """Begin to stream to a slave whose log is durably a beginning of ours. Raises :class:`Malformed` when it can't
        be."""
        log = self._broker.log
        if log.first < position < log.end and not self._broker.queues.begins_at(position):
            raise Malformed(f"no record begins at {position}")
        peer.streaming = True
        peer.sent = position
        peer.target, peer.target_ns = self._broker.log.end, env.mono_ns()
        self._broker.retention.unpin(peer.id)

    def all_read(self, version: int) -> bool:
        """Return whether all of the SyncStateSet and all others that follow read records of this version."""
        following = {peer.id for peer in self._peers.values() if peer.version >= version}
        members = self.members.union(*self.proposed_sets()) - {self._broker.membership.broker_id}
        return members <= following and len(following) == len(self._peers)

    def peers(self) -> list[Peer]:
        return list(self._peers.values())

    def streaming_peers(self) -> list[Peer]:
        return [peer for peer in self._peers.values() if peer.streaming]

    def member_ends(self, members: frozenset[int]) -> dict[str, int]:
        """How far each of these other replicas has acknowledged in this epoch, -1 where it has not."""
        others = sorted(members - {self._broker.membership.broker_id})
        return {self.name_of(member): self._acks.get(member, -1) for member in others}

    def closed(self, env: Env, peer: str) -> None:
        self._peers.pop(peer, None)
        self._early.pop(peer, None)

    # Confirm offset

    def advance(self, env: Env) -> None:
        """Raise the confirm offset as far as the acknowledgements go, and let the broker act on it."""
        broker, log = self._broker, self._broker.log
        acks = self._acks
        ends = {member: acks.get(member, -1) for member in sorted(self._policy.confirm_members())}
        ends[broker.membership.broker_id] = self._policy.own_end()
        confirm = self._policy.confirm_end(ends)
        if confirm > log.confirm:
            log.confirm = confirm
            named = {self.name_of(member): end for member, end in ends.items()}
            env.trace(events.Confirm(epoch=broker.epoch, position=confirm, acks=named, **self._set_value()))
        broker.progress(env)

    def _set_value(self) -> dict[str, Any]:
        proposed = frozenset().union(*self.proposed_sets())
        return {
            "set": self.set_names(),
            "proposed": [self.name_of(member) for member in sorted(proposed - self.members)],
            "set_epoch": self.set_epoch,
        }

    def name_of(self, member: int) -> str:
        if member == self._broker.membership.broker_id:
            return self._broker.name
        return self._names.get(member, f"id:{member}")

    def set_names(self) -> list[str]:
        return [self.name_of(member) for member in sorted(self.members)]

    # SyncStateSet

    def proposed_sets(self) -> list[frozenset[int]]:
        return list(self._proposals.values())

    def adopt(self, env: Env, assignment: Assignment) -> None:
        """Adopt a set of this epoch that is known to hold; it closes all proposals made on older ones."""
        if assignment.set_epoch <= self.set_epoch:
            return
        now = env.mono_ns()
        for member in assignment.members - self.members:
            self._in_step_ns[member] = now
        self.members, self.set_epoch = assignment.members, assignment.set_epoch
        self._proposals.clear()
        self._proposal = 0
        env.trace(events.SyncStateSet(epoch=self._broker.epoch, **self._set_value()))
        self.advance(env)

    def tick(self, env: Env) -> None:
        env.set_timer("replicate", TICK_NS)
        now = env.mono_ns()
        confirm = self._broker.log.confirm
        for peer in self._peers.values():
            silent_ns = now - peer.sent_ns
            if peer.streaming and silent_ns >= (TICK_NS if peer.sent_confirm != confirm else HEARTBEAT_NS):
                self._send(env, peer, b"")
        if self._proposal and now - self._proposal_ns > PROPOSAL_NS:
            self._proposal = 0  # unclear: its members count until a newer set is seen
            self._broker.membership.poll(env)
        self._review_set(env)

    def _review_set(self, env: Env) -> None:
        """Propose the set that should be: without members that are behind or away, with slaves that have caught up.

        While an older proposal is unclear the set is proposed even unchanged: its new epoch closes that proposal, whose
        members would otherwise hold the confirm offset up for as long as they are away.
        """
        if self._proposal or not self._broker.writable:
            return
        wanted = self._wanted_set(env.mono_ns())
        if wanted == self.members and not self._proposals:
            return
        number = self._broker.membership.alter_set(env, wanted, self.set_epoch)
        self._proposal, self._proposal_ns = number, env.mono_ns()
        self._proposals[number] = wanted
        joining = {self.name_of(member): self._acks.get(member, -1) for member in sorted(wanted - self.members)}
        evidence: dict[str, Any] = {"acks": joining, "confirm": self._broker.log.confirm} if joining else {}
        env.trace(events.SyncStateSet(epoch=self._broker.epoch, **self._set_value(), **evidence))

    def _wanted_set(self, now_ns: int) -> frozenset[int]:
        log = self._broker.log
        caught_up = max(log.confirm, self._broker.epoch_start)
        wanted = {self._broker.membership.broker_id}
        for member in self.members:
            if not self._policy.may_leave_set(now_ns - self._in_step_ns.get(member, 0)):
                wanted.add(member)
        for peer in self._peers.values():
            if peer.streaming and peer.acked >= caught_up and peer.id not in self.members:
                wanted.add(peer.id)
        return frozenset(wanted)

    def set_answered(self, env: Env, number: int, code: int, assignment: Assignment | None) -> None:
        if number == self._proposal:
            self._proposal = 0
        if assignment is not None:
            self.adopt(env, assignment)
        elif code in _REFUSED:
            self._proposals.pop(number, None)
            self.advance(env)
