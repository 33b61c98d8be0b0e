"""What the golden pages of replication and of the tier can do and show.

Brokers and the object store are real; the controllers are played by the page, and so is the client. Each record of the
log takes 200 bytes, so that positions are easy to follow. There is one queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.node import Node, NodeSpec
from reference.broker.node import Broker
from reference.broker.queues import topic_body
from reference.broker.records import SYSTEM, TOPIC_RECORDS, Record, decode_all, encode
from reference.objectstore.node import ObjectStore
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.step_world import Held, StepScenario
from tests.reference.tier_words import StoreWords, objects_in

CONTROLLER, CLIENT, STORE = "controller", "client", "store"
RECORD_BYTES = 200


def _padded_topic() -> str:
    """A name that makes the topic's own record as long as the others."""
    short = len(encode(topic=TOPIC_RECORDS, queue_id=0, offset=0, position=0, body=topic_body("orders", 1, 0)))
    return "orders".ljust(6 + RECORD_BYTES - short, "-")


TOPIC = _padded_topic()
_OVERHEAD = len(encode(topic=TOPIC, queue_id=0, offset=0, position=0, body=b""))


def label(record: Record) -> str:
    return SYSTEM.get(record.topic) or record.body.decode().rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the page's controllers say of the group."""

    master: str
    epoch: int
    members: tuple[str, ...]
    set_epoch: int


class BrokerScenario(StepScenario):
    def __init__(self, **parts: type) -> None:
        super().__init__()
        self._parts = parts
        self._place: Place | None = None
        self._proposal: tuple[str, Command] | None = None
        self._ids: dict[str, int] = {}
        self._sent: dict[int, str] = {}  # by opaque
        self._store = StoreWords(STORE)

    # What is to be seen

    def say(self, held: Held) -> str:
        if STORE in (held.source, held.to):
            return self._store.say(held.source, held.to, held.message)
        return _replication(held.message)

    def row(self, node: str, f: str, value: Mapping[str, Any]) -> str:
        match f:
            case "role" if value["role"] == "master":
                return f"{node} is the master of epoch {value['epoch']}, set {self._set(value['set'])}"
            case "role" if value["role"] == "slave":
                return f"{node} is a slave of {value['master']} in epoch {value['epoch']}"
            case "set":
                proposed = f", proposed besides {self._set(value['proposed'])}" if value["proposed"] else ""
                return f"{node} has the set {self._set(value['set'])}{proposed}"
            case "confirm":
                return f"{node} confirms up to {value['position']}"
            case "truncate":
                return f"{node} cuts its log from {value['old_end']} back to {value['position']}"
            case "recovered":
                return f"{node} finds its log up to {value['position']}, confirm {value['confirm']}"
            case "tier_cut":
                return f"{node} cuts the tier back to T {value['offset']}, P {value['position']}"
            case "tier_stop":
                return f"{node} stops its uploads: {value['reason']}"
        return ""

    # The parts that the page plays

    def _controller(self, source: str, message: Command) -> None:
        if message.code == Request.CONTROLLER_ALTER_SYNC_STATE_SET:
            self.tell_rows()
            self._proposal = (source, message)
            asked = json.loads(message.body)
            members = [self._name(member) for member in asked["syncStateSet"]]
            self.lines.append(
                f"{source} → {CONTROLLER}  proposes {self._set(members)} after set {asked['syncStateSetEpoch']}"
            )
        elif message.code == Request.CONTROLLER_GET_NEXT_BROKER_ID:
            self._reply(source, message.reply(fields={"nextBrokerId": str(self._ids[source])}))
        elif message.code == Request.CONTROLLER_APPLY_BROKER_ID:
            self._reply(source, message.reply())
        elif message.code != Request.BROKER_HEARTBEAT:
            if self._place is None and message.code == Request.CONTROLLER_ELECT_MASTER:
                self._reply(source, message.reply(Response.CONTROLLER_ELECT_MASTER_FAILED))
            else:
                self._reply(source, message.reply(fields=self._fields(), body=self._members()))

    def _client(self, source: str, message: Command) -> None:
        self.tell_rows()
        what = self._sent.pop(message.opaque)
        match message.code:
            case Response.SUCCESS if what == "read":
                told = "gives " + " ".join(label(record) for record in decode_all(message.body))
            case Response.SUCCESS:
                told = f"stored {what} at offset {message.fields['queueOffset']}"
            case Response.FLUSH_SLAVE_TIMEOUT:
                told = f"does not know whether {what} stays: {message.remark}"
            case _:
                told = f"refused {what}: {message.remark or Response(message.code).name}"
        self.lines.append(f"  {source} {told}")

    def _reply(self, to: str, message: Command) -> None:
        def arrive() -> None:
            if to in self.world.envs:
                self.world.nodes[to].message(self.world.envs[to], CONTROLLER, message)

        self.world.at(0, arrive)

    def _fields(self) -> dict[str, str]:
        place = self._place
        if place is None:
            return {}
        return {
            "masterBrokerId": str(self._ids[place.master]),
            "masterAddress": place.master,
            "masterEpoch": str(place.epoch),
            "syncStateSetEpoch": str(place.set_epoch),
        }

    def _members(self) -> bytes:
        if self._place is None:
            return b""
        ids = [self._ids[member] for member in self._place.members]
        return json.dumps({"syncStateSet": ids, "syncStateSetEpoch": self._place.set_epoch}).encode()

    def _set(self, members: Sequence[str]) -> str:
        """A master calls a member ``id:NUMBER`` until it has met it."""
        names = [self._name(int(it.removeprefix("id:"))) if it.startswith("id:") else it for it in members]
        return "{" + ", ".join(names) + "}"

    def _name(self, broker: int) -> str:
        return next(name for name, number in self._ids.items() if number == broker)

    # Commands

    def do_brokers(
        self, *names: str, tier: str = "no", cut_back: str = "no", min_in_sync: str = "1", linger_ms: str = "0"
    ) -> None:
        """Start these, none of which has a role yet."""
        self._ids = {name: number for number, name in enumerate(names, 1)}
        options = {
            "controllers": [CONTROLLER],
            "topics": {TOPIC: 1},
            "segment_bytes": 10 * RECORD_BYTES,
            "min_in_sync": int(min_in_sync),
            "linger_ms": int(linger_ms),
            "objectstore": STORE if tier == "yes" else "",
            "tier_segment_bytes": 2 * RECORD_BYTES,
            "tier_cut_back": cut_back == "yes",
        }

        def broker(name: str) -> Node:
            return Broker(NodeSpec(name=name, role="broker", package="reference", options=options), **self._parts)

        make: dict[str, Callable[[], Node]] = {}
        if tier == "yes":
            make[STORE] = lambda: ObjectStore(NodeSpec(name=STORE, role="objectstore", package="reference"))
        make |= {name: lambda name=name: broker(name) for name in names}
        self.begin(make, {CONTROLLER: self._controller, CLIENT: self._client})
        self.lines.clear()

    def do_master(self, name: str, *, members: str, tell: str = "") -> None:
        """The controllers elect a master in the next epoch and tell the brokers, or only some of them."""
        place = self._place
        epoch, set_epoch = (place.epoch, place.set_epoch) if place else (0, 0)
        self._place = Place(master=name, epoch=epoch + 1, members=tuple(members.split(",")), set_epoch=set_epoch + 1)
        self.do_tell(*(tell.split(",") if tell else self._ids))

    def do_tell(self, *names: str) -> None:
        """The controllers tell these who is master."""
        code = Request.NOTIFY_BROKER_ROLE_CHANGED
        for name in names:
            self._reply(name, Command(code=code, flags=2, fields=self._fields(), body=self._members()))
        self.settle()

    def do_accept(self) -> None:
        """The controllers take the set that was proposed last."""
        if self._proposal is None or self._place is None:
            raise ValueError("nothing was proposed")
        source, message = self._proposal
        asked = json.loads(message.body)
        if asked["syncStateSetEpoch"] != self._place.set_epoch:
            raise ValueError("it was proposed after another set")
        members = tuple(self._name(member) for member in asked["syncStateSet"])
        self._place = Place(
            master=self._place.master, epoch=self._place.epoch, members=members, set_epoch=self._place.set_epoch + 1
        )
        fields = {"newSyncStateSetEpoch": str(self._place.set_epoch)}
        self._reply(source, message.reply(fields=fields, body=self._members()))
        self.settle()

    def do_send(self, node: str, *bodies: str) -> None:
        for body in bodies:
            opaque = self.world.number()
            self._sent[opaque] = body
            fields = {"a": "p", "b": TOPIC, "c": "", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0", "i": ""}
            data = body.encode().ljust(RECORD_BYTES - _OVERHEAD)
            request = Command(code=Request.SEND_MESSAGE_V2, opaque=opaque, fields=fields, body=data)
            self.world.nodes[node].message(self.world.envs[node], CLIENT, request)
            self.settle()

    def do_read(self, node: str, offset: str) -> None:
        opaque = self.world.number()
        self._sent[opaque] = "read"
        fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "queueOffset": offset, "maxMsgNums": "32"}
        fields |= {"sysFlag": "0", "anyReplica": "true"}
        request = Command(code=Request.PULL_MESSAGE, opaque=opaque, fields=fields)
        self.world.nodes[node].message(self.world.envs[node], CLIENT, request)
        self.settle()

    def do_show(self) -> None:
        """Each broker: its role and its log by epochs, ``[EPOCH] POSITION:RECORD``. What stands behind the bar isn't on
        its disk yet."""
        for name in self._ids:
            if name not in self.world.envs:
                self.lines.append(f"{name} is down")
                continue
            broker: Broker = self.world.nodes[name]
            master = broker.replication.master
            role = f"master of epoch {broker.epoch}, set {self._set(master.set_names())}"
            if not broker.has_master_role:
                role = f"{broker.role} in epoch {broker.epoch}"
            self.lines.append(f"{name} {role}, confirm {broker.log.confirm}, log {self._log(name)}")

    def _log(self, name: str) -> str:
        log, env = self.world.nodes[name].log, self.world.envs[name]
        words = [str(log.first)] if log.first else []
        position, epoch, synced = log.first, 0, log.synced
        while position < log.end:
            for record in log.decode_all(log.read_records(env, position, RECORD_BYTES)):
                words += ["|"] if record.position == synced else []
                words += [f"[{log.epoch_at(record.position)}]"] if log.epoch_at(record.position) != epoch else []
                words.append(f"{record.position}:{label(record)}")
                position, epoch = record.end, log.epoch_at(record.position)
        return f"{' '.join(words)} end {log.end}".lstrip()

    def do_show_tier(self) -> None:
        """The manifest that stands in the store, and all objects there."""
        self.lines += objects_in(self.world.nodes[STORE], self.world.envs[STORE])


def _replication(message: Command) -> str:
    fields = message.fields
    if message.is_response:
        return f"your log fits up to {fields['point']}" if message.code == 0 else f"refused: {message.remark}"
    if message.code == Request.REPLICA_HELLO:
        log = json.loads(message.body)
        epochs = " ".join(f"{epoch}@{start}" for epoch, start in log["epochs"])
        return f"hello in epoch {fields['epoch']}: epochs {epochs or 'none'}, end {log['end']}"
    if message.code == Request.REPLICA_ACK:
        longer = f", log ends at {fields['end']}" if fields["end"] != fields["position"] else ""
        return f"ack {fields['position']}{longer}"
    if message.code == Request.REPLICA_BOOTSTRAP:
        return f"begin anew at {json.loads(message.body)['base']['position']}"
    if "view" in fields:
        view = json.loads(message.body)
        return f"manifest version {view['version']}: T {view['end']}"
    sent = " ".join(f"{record.position}:{label(record)}" for record in decode_all(message.body))
    return (
        f"append [{fields['recordEpoch']}] {sent}, confirm {fields['confirm']}"
        if sent
        else f"confirm {fields['confirm']}"
    )
