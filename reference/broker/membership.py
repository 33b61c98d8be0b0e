"""How a broker finds its place: identity and role from the controllers (RIP-44), its route in the name servers.

A broker gets an id (1012, 1013), registers this life of it (1003), and asks for an election when its group has no
master (1002). From then on heartbeats (904) go to every controller, and role changes come by notification (1008) or,
when that is lost, by polling (1004). One request is under way at a time; it moves on to the next controller when the
one that was asked does not lead, does not answer or is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chaos.node import Env
from reference.broker.files import Completions, SmallFile, Then
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, read_object, request_number, whole

TICK_NS = 250_000_000
RETRY_NS = 100_000_000
TIMEOUT_NS = 1_000_000_000
_POLL_TICKS = 4  # polls and registrations: once a second
#: So many lives are remembered that may not have been registered.
MOST_LIVES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a controller says of the group: who is master of which epoch, and the SyncStateSet (ids)."""

    master_id: int
    master: str
    epoch: int
    members: frozenset[int]
    set_epoch: int


class Member(Protocol):
    """The broker, as its membership sees it."""

    @property
    def name(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def has_master_role(self) -> bool:
        """Master in its own belief."""

    @property
    def is_fenced(self) -> bool:
        """Without a role in this life."""

    def standing(self) -> tuple[int, int, int]:
        """Epoch of the last record, durable end of the log (-1: can't be elected), confirm offset."""

    def topic_counts(self) -> Mapping[str, int]: ...

    def assigned(self, env: Env, assignment: Assignment) -> None: ...

    def set_answered(self, env: Env, number: int, code: int, assignment: Assignment | None) -> None:
        """Take the answer to :meth:`Membership.alter_set`."""


class Membership:
    def __init__(self, member: Member, completions: Completions, options: Mapping[str, Any]) -> None:
        self._member = member
        self._file = SmallFile("identity", completions)
        self._cluster = str(options.get("cluster", "stormproof"))
        self._group = str(options.get("group", "broker"))
        self._controllers: Sequence[str] = tuple(options.get("controllers", ()))
        self._nameservers: Sequence[str] = tuple(options.get("nameservers", ()))
        self._spread = options.get("heartbeats", "all") == "one"
        self._asynchronous = options.get("flush", "sync") == "async"
        self._asked = 0  # which controller we turn to
        self._requests = 0
        self._call = 0  # opaque of the request under way, 0: none
        self._called = ""  # who was asked: meanwhile we may have turned to another controller
        self._call_code = 0
        self._altering: dict[int, str] = {}  # opaque → controller
        self._ticks = 0
        self._joined = False
        self._registered_as = -1
        self.generation = 0
        self.disk = ""  # a word that distinguishes this disk from the one that the replica had before
        self.broker_id = -1
        self.seen_epoch = 0
        self._check_code = ""
        self._life = ""  # by it the controllers know a repeated registration from a new life
        self._lives: list[str] = []  # the last one that is known to be registered, and all that began since
        self._applied = False

    @property
    def group(self) -> str:
        return self._group

    @property
    def cluster(self) -> str:
        return self._cluster

    @property
    def life(self) -> str:
        """A random word that no other life has."""
        return self._life

    # Identity

    def begin_life(self, env: Env, then: Then) -> None:
        """Raise and persist the generation before anything else happens in this life."""
        known = self._file.load(env.disk) or {}
        self.generation = known.get("generation", 0) + 1
        self._life = _word(env)
        self._lives = _few([*known.get("lives", []), self._life])
        self.disk = known.get("disk", "") or _word(env)
        self.broker_id = known.get("id", -1)
        self._check_code = known.get("check_code", "")
        self._applied = known.get("applied", False)
        self.seen_epoch = known.get("epoch", 0)
        self._save(env, then)

    def remember_epoch(self, env: Env, epoch: int, then: Then) -> None:
        """Persist the newest master epoch that this replica has accepted: it never follows an older one again."""
        self.seen_epoch = epoch
        self._save(env, then)

    def forget_identity(self, env: Env, then: Then) -> None:
        """Come back as a new replica, in its first life: the disk is not what it was."""
        self.broker_id, self._applied, self.generation, self.disk = -1, False, 1, _word(env)
        self._lives = [self._life]
        self._save(env, then)

    def _save(self, env: Env, then: Then) -> None:
        value = {
            "generation": self.generation,
            "disk": self.disk,
            "lives": self._lives,
            "id": self.broker_id,
            "check_code": self._check_code,
            "applied": self._applied,
            "epoch": self.seen_epoch,
        }
        self._file.save(env, value, then)

    # Joining

    def join(self, env: Env) -> None:
        """Begin once the log has been recovered."""
        env.set_timer("tick", TICK_NS)
        self._next_step(env)

    def _next_step(self, env: Env) -> None:
        if self._joined:
            return
        if self.broker_id < 0:
            self._ask(env, Request.CONTROLLER_GET_NEXT_BROKER_ID)
        elif not self._applied:
            applied = {"appliedBrokerId": str(self.broker_id), "registerCheckCode": self._check_code}
            self._ask(env, Request.CONTROLLER_APPLY_BROKER_ID, applied)
        else:
            self._register(env)

    def _register(self, env: Env) -> None:
        clean = "false" if self._asynchronous and self.generation > 1 else "true"
        life = {"generation": str(self.generation), "life": self._life, "lives": ",".join(self._lives), "clean": clean}
        self._ask(env, Request.CONTROLLER_REGISTER_BROKER, {**self._own(), **life})

    def _own(self) -> dict[str, str]:
        return {"brokerId": str(self.broker_id), "brokerAddress": self._member.name}

    def _ask(self, env: Env, code: Request, fields: Mapping[str, str] | None = None) -> None:
        if not self._controllers:
            return
        self._called = self._controller
        self._call = self._send(env, code, fields or {})
        self._call_code = code
        env.set_timer("membership", TIMEOUT_NS)

    def _send(self, env: Env, code: Request, fields: Mapping[str, str], body: bytes = b"") -> int:
        self._requests += 1
        opaque = request_number(env.incarnation, self._requests)
        known = {"clusterName": self._cluster, "brokerName": self._group, "invokeTime": str(env.wall_ns() // 1_000_000)}
        message = Command(code=code, opaque=opaque, fields={**known, **fields}, body=body)
        env.send(self._controller, message)
        return opaque

    @property
    def _controller(self) -> str:
        return self._controllers[self._asked % len(self._controllers)]

    def _turn_away(self, env: Env) -> None:
        """Try the next controller soon: the one that was asked is of no use now."""
        self._call = 0
        self._asked += 1
        env.set_timer("membership", RETRY_NS)

    # Answers

    def answered(self, env: Env, source: str, message: Command) -> None:
        """Take a controller's (or a name server's) response."""
        if source not in self._controllers:
            return
        if self._altering.get(message.opaque) == source:
            members = _read_set(message)
            set_epoch = whole(message.fields, "newSyncStateSetEpoch", -1)
            del self._altering[message.opaque]
            self._set_answered(env, message, members[0], max(set_epoch, members[1]))
        elif message.opaque == self._call and source == self._called:
            answer = Answer.read(message)
            self._call = 0
            env.cancel_timer("membership")
            self._call_answered(env, answer)

    def _call_answered(self, env: Env, answer: Answer) -> None:
        code = answer.code
        if code in (Response.CONTROLLER_NOT_LEADER, Response.SYSTEM_BUSY, Response.SYSTEM_ERROR):
            self._turn_away(env)
        elif self._call_code == Request.CONTROLLER_GET_NEXT_BROKER_ID and code == 0:
            self.broker_id = answer.next_id
            self._check_code = f"{self._member.name};{env.wall_ns() // 1_000_000}-{env.rng.getrandbits(32):08x}"
            self._save(env, self._next_step)
        elif self._call_code == Request.CONTROLLER_APPLY_BROKER_ID:
            self._id_answered(env, code)
        elif code == Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            self._forget_id(env)
        else:
            self._place_answered(env, answer)

    def _id_answered(self, env: Env, code: int) -> None:
        if code == 0:
            self._applied = True
            self._save(env, self._next_step)
        else:
            self._forget_id(env)

    def _forget_id(self, env: Env) -> None:
        """Somebody else has this id, or the controllers know it no more: apply for a new one."""
        self.broker_id, self._applied, self._joined = -1, False, False
        env.set_timer("membership", RETRY_NS)

    def _place_answered(self, env: Env, answer: Answer) -> None:
        """Take the answer to 1003, 1002 or 1004: where the group stands."""
        if self._call_code == Request.CONTROLLER_REGISTER_BROKER and answer.code == 0:
            self._joined = True
            self._lives = [self._life]
            self._save(env, lambda env: None)
            self._heartbeat(env)
        assignment = answer.assignment
        if assignment is not None:
            self._member.assigned(env, assignment)
        elif not self._joined:
            self._turn_away(env)
        elif self._call_code != Request.CONTROLLER_ELECT_MASTER and self._member.standing()[1] >= 0:
            self._ask(env, Request.CONTROLLER_ELECT_MASTER, {**self._own(), "designateElect": "false"})
        else:
            env.set_timer("membership", 2 * TICK_NS)

    # The SyncStateSet

    def alter_set(self, env: Env, members: frozenset[int], set_epoch: int) -> int:
        """Propose a SyncStateSet; returns the request's number. :meth:`Member.set_answered` follows, or nothing."""
        fields = {"masterBrokerId": str(self.broker_id), "masterEpoch": str(self._member.epoch)}
        body = json.dumps({"syncStateSet": sorted(members), "syncStateSetEpoch": set_epoch}).encode()
        opaque = self._send(env, Request.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body)
        self._altering[opaque] = self._controller
        return opaque

    def _set_answered(self, env: Env, message: Command, members: frozenset[int], set_epoch: int) -> None:
        assignment = None
        if message.code == 0:
            assignment = Assignment(
                master_id=self.broker_id,
                master=self._member.name,
                epoch=self._member.epoch,
                members=members,
                set_epoch=set_epoch,
            )
        elif message.code == Response.CONTROLLER_NOT_LEADER:
            self._asked += 1
        else:
            self.poll(env)
        self._member.set_answered(env, message.opaque, message.code, assignment)

    def notified(self, env: Env, message: Command) -> None:
        """1008: a controller reports a role change."""
        assignment = read_assignment(message)
        if assignment is not None and self._joined:
            self._member.assigned(env, assignment)

    # Time

    def poll(self, env: Env) -> None:
        """Ask for the group's state, unless a request is under way."""
        if self._joined and not self._call:
            self._ask(env, Request.CONTROLLER_GET_REPLICA_INFO)

    def timer(self, env: Env, name: str) -> None:
        if name == "membership":
            if self._call:
                self._turn_away(env)
            elif self._joined:
                self.poll(env)
            else:
                self._next_step(env)
            return
        env.set_timer("tick", TICK_NS)
        self._file.copy(env)
        self._ticks += 1
        if self._joined:
            self._heartbeat(env)
            if self._ticks % _POLL_TICKS == 0:
                self.poll(env)
        if self._ticks % _POLL_TICKS == 0:
            self.announce(env)

    def closed(self, env: Env, peer: str) -> None:
        if peer in self._controllers:
            lost = [opaque for opaque, controller in self._altering.items() if controller == peer]
            for opaque in lost:
                del self._altering[opaque]
            if self._call and peer == self._called:
                self._turn_away(env)

    def _heartbeat(self, env: Env) -> None:
        epoch, end, confirm = self._member.standing()
        fields = {
            "clusterName": self._cluster,
            "brokerName": self._group,
            "brokerAddr": self._member.name,
            "brokerId": str(self.broker_id),
            "epoch": str(epoch),
            "maxOffset": str(end),
            "confirmOffset": str(confirm),
            "generation": str(self.generation),
            "heartbeatTimeoutMills": "1500",
            "electionPriority": "0",
        }
        controllers = self._controllers
        if self._spread:  # each in turn, so that one that is gone costs one heartbeat of them
            fields["passOn"] = "true"
            controllers = controllers[self._ticks % len(controllers) :][:1]
        message = Command(code=Request.BROKER_HEARTBEAT, flags=ONEWAY, fields=fields)
        for controller in controllers:
            env.send(controller, message)

    # Name servers

    def announce(self, env: Env) -> None:
        """Register the route; a fenced broker has none."""
        if self._member.is_fenced:
            return
        route_id = 0 if self._member.has_master_role else self.broker_id
        if self._registered_as == 0 and route_id != 0:
            self._withdraw(env)
        self._registered_as = route_id
        version = {"counter": self._ticks, "stateVersion": self._member.epoch, "timestamp": env.wall_ns() // 1_000_000}
        table = {
            name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6, "topicSysFlag": 0}
            for name, count in self._member.topic_counts().items()
        }
        wrapper = {"dataVersion": version, "topicConfigTable": table}
        body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()
        fields = {**self._route(route_id), "haServerAddr": self._member.name, "heartbeatTimeoutMillis": "10000"}
        for nameserver in self._nameservers:
            env.send(nameserver, Command(code=Request.REGISTER_BROKER, flags=ONEWAY, fields=fields, body=body))

    def _withdraw(self, env: Env) -> None:
        for nameserver in self._nameservers:
            env.send(nameserver, Command(code=Request.UNREGISTER_BROKER, flags=ONEWAY, fields=self._route(0)))

    def _route(self, route_id: int) -> dict[str, str]:
        return {
            "brokerName": self._group,
            "brokerAddr": self._member.name,
            "clusterName": self._cluster,
            "brokerId": str(route_id),
        }


def _few(lives: list[str]) -> list[str]:
    """Without those in the middle, if many began and could not register."""
    return [*lives[:1], *lives[1:][-MOST_LIVES:]]


def _word(env: Env) -> str:
    return f"{env.rng.getrandbits(64):016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A controller's answer to a broker, as far as one looks at it. ``next_id``: of 1012, -1 of all others."""

    code: int
    next_id: int
    assignment: Assignment | None

    @staticmethod
    def read(message: Command) -> Answer:
        """Read an answer. Raises :class:`chaos.node.Malformed`."""
        next_id = whole(message.fields, "nextBrokerId", -1)
        return Answer(code=message.code, next_id=next_id, assignment=read_assignment(message))


def read_assignment(message: Command) -> Assignment | None:
    """Return the group's state in a 1008, or in an answer to 1002, 1003 or 1004; None while the group has no master.
    Raises :class:`chaos.node.Malformed`."""
    fields = message.fields
    master = fields.get("masterAddress", "")
    if message.is_response and message.code not in (0, Response.CONTROLLER_MASTER_STILL_EXIST):
        return None
    if not master or "masterEpoch" not in fields:
        return None
    members, set_epoch = _read_set(message)
    return Assignment(
        master_id=whole(fields, "masterBrokerId", -1),
        master=master,
        epoch=whole(fields, "masterEpoch"),
        members=members,
        set_epoch=whole(fields, "syncStateSetEpoch", set_epoch),
    )


def _read_set(message: Command) -> tuple[frozenset[int], int]:
    """Return the SyncStateSet in a body and its epoch: nobody and -1 where there is none."""
    value = {"syncStateSet": [], **(read_object(message.body) if message.body else {})}
    return frozenset(listed(value, "syncStateSet", int)), item(value, "syncStateSetEpoch", int, -1)
