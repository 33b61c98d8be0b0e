"""What clients did, one class for each operation of a history, and what the harness itself saw.

Laws ask for rows by these classes, as for what nodes trace (:mod:`chaos.events`); nobody makes instances of them. An
operation has a row when it begins and one when it ends: ``type`` says which (:class:`chaos.ops.OpType`), and ``op`` of
the latter is the ``index`` of the former. A field that is called like a column of the history stands there, every
other one in ``value``, where it may be missing. Integers are -1 and texts "" where there is none. The order is that of
``docs/history.md``, which says when each row is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from chaos.events import Field

R = TypeVar("R", bound="RowClass")


class RowClass:
    """Rows of one ``kind`` and one ``f``, or of every ``f`` where that is ""."""

    kind: ClassVar[str]
    f: ClassVar[str]
    index: Annotated[int, "number of the row"]
    time_ns: Annotated[int, "when it was recorded, in ns on the clock of the history"]


class Operation(RowClass):
    """What a client asked for, and how it ended."""

    kind = "op"
    type: Annotated[str, "`invoke`, `ok`, `fail` or `info`"]
    op: Annotated[int, "`index` of the invocation; -1 on the invocation itself"]
    began_ns: Annotated[int, "on the end: `time_ns` of the invocation"]
    began_offset: Annotated[int, "on the end: `offset` of the invocation"]
    began_value: Annotated[int, "on the end that repeats all of the invocation: how much of `value` is that one's"]
    process: Annotated[str, "who asked; it has one operation in progress at a time"]
    node: Annotated[str, "who answered"]
    incarnation: Annotated[int, "in which of its lives"]
    epoch: Annotated[int, "in which master epoch, as it believed"]


def rows(f: str, kind: str = "op") -> Callable[[type[R]], type[R]]:
    """Make a class with annotated fields that of the rows which the history calls ``f``."""

    def made(cls: type[R]) -> type[R]:
        cls.kind, cls.f = kind, f
        for base in reversed(cls.__mro__[:-1]):
            for name, hint in vars(base).get("__annotations__", {}).items():
                if not str(hint).startswith("ClassVar"):
                    setattr(cls, name, Field(cls, name))
        return cls

    return made


def fields_of(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a class of rows, whether nodes trace them or not."""
    declared = [name for base in reversed(cls.__mro__[:-1]) for name in vars(base).get("__annotations__", {})]
    return tuple(name for name in dict.fromkeys(declared) if name not in ("kind", "f"))


@rows("send")
class Send(Operation):
    """A client sent a message."""

    queue: Annotated[int, "index of the queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]
    offset: Annotated[int, "ok: where it is stored in the queue"]
    position: Annotated[int, "ok: where it is stored in the log"]
    txn: Annotated[int, "number of its transaction; the end is recorded when that has ended"]
    micro: Annotated[int, "which step of the transaction it is, from 0"]
    stored: Annotated[int, "fail and info, in a transaction: the offset at which it was written"]


@rows("pull")
class Pull(Operation):
    """A client asked for messages of a queue. Each that came is a row :class:`Delivered`."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "invoke: asked for"]
    group: Annotated[str, "the consumer group"]
    demand: Annotated[str, "`local` or `tier`, if demanded"]
    limit: Annotated[int, "how many messages at most"]
    max_bytes: Annotated[int, "how many bytes at most"]
    wait_ms: Annotated[int, "how long the node may hold the read at the end of the queue"]
    minimum: Annotated[int, "ok: first offset of the queue, as the answer says"]
    maximum: Annotated[int, "ok: the next one to be written"]
    following: Annotated[int, "ok: the next one to be read"]
    size: Annotated[int, "ok: bytes of all messages"]
    source: Annotated[str, "ok: `local` or `tier`"]


@rows("delivered")
class Delivered(Operation):
    """A client was given a message, by the pull, poll or receive that ``op`` names."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "in the queue"]
    message: Annotated[int, "id of the message; -1 where it is none of ours"]
    hash: Annotated[int, "of the body that arrived"]
    txn: Annotated[int, "number of the transaction in which it was read, -1 for none"]


@rows("commit")
class CommitOffset(Operation):
    """A client committed the offset of a consumer group."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "the next one that the group is to read"]
    group: Annotated[str, "the consumer group"]
    generation: Annotated[int, "of a member: in whose name"]
    txn: Annotated[int, "number of its transaction; the end is recorded when that has ended"]
    micro: Annotated[int, "which step of the transaction it is, from 0"]


@rows("committed")
class CommittedOffset(Operation):
    """A client asked what a consumer group had committed."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "ok: the answer"]
    group: Annotated[str, "the consumer group"]


@rows("bounds")
class Bounds(Operation):
    """A client asked from where to where a queue goes."""

    queue: Annotated[int, "index of the queue"]
    minimum: Annotated[int, "ok: first offset"]
    maximum: Annotated[int, "ok: the next one to be written"]


@rows("drain")
class Drain(Operation):
    """A client read a queue to its end after recovery: what it did not see below that end is not there."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "invoke: where the proof begins; ok: the end that was proven"]
    group: Annotated[str, "the consumer group"]
    maximum: Annotated[int, "ok: the system's own end, if it keeps reporting an earlier one"]


class LogOperation(Operation):
    """An operation of a client with a position in each of several queues; a member of a group among them."""

    following: Annotated[Mapping[str, int], "ok: {queue: where it goes on}, of all its queues"]
    group: Annotated[str, "the consumer group, if it is a member of one"]
    generation: Annotated[int, "of the group: invoke: as the member knows it; ok: as the answer says"]
    fenced: Annotated[bool, "fail: the member is put out, or its generation is over"]


@rows("assign")
class Assign(LogOperation):
    """A client took queues for its own, instead of those that it had."""

    queues: Annotated[Sequence[int], "their indexes"]


@rows("seek")
class Seek(LogOperation):
    """A client changed its position in a queue."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "invoke: where to; -1: the end; ok: where it is"]


@rows("poll")
class Poll(LogOperation):
    """A client asked for messages of any of its queues. Each that came is a row :class:`Delivered`."""

    positions: Annotated[Mapping[str, int], "{queue: from where on}, of all its queues"]
    limit: Annotated[int, "how many messages at most"]
    txn: Annotated[int, "number of the transaction that it belongs to"]
    micro: Annotated[int, "which step of the transaction it is, from 0"]


class MemberOperation(LogOperation):
    """What a member of a group and the group say to one another."""

    topics: Annotated[Sequence[str], "of a join: whose queues it wants"]
    queues: Annotated[Sequence[int], "ok: the indexes of those that are its own from now on"]
    lost: Annotated[Sequence[int], "ok: those that were its own before and are no longer"]
    rejoin: Annotated[bool, "ok: it must join again to stay a member"]


@rows("join")
class Join(MemberOperation):
    """A client joined a group, or the generation that begins."""


@rows("heartbeat")
class Heartbeat(MemberOperation):
    """A member said that it is there."""


@rows("leave")
class Leave(MemberOperation):
    """A member left its group."""


@rows("take_over")
class TakeOver(Operation):
    """A producer became the owner of a transactional id; its last owner is fenced."""

    id: Annotated[str, "the transactional id"]
    epoch: Annotated[int, "ok: grows with each owner"]


@rows("txn")
class Txn(Operation):
    """A transaction over several queues. Ok: it was committed; fail: it surely was not."""

    txn: Annotated[int, "its number, unique in the run"]
    id: Annotated[str, "the transactional id"]
    epoch: Annotated[int, "of the id's owner"]
    decision: Annotated[str, "`commit` or `abort`: what was intended"]
    micro: Annotated[Sequence[Sequence[Any]], 'list-append: its steps, `["append", key, value]`, `["r", key, list]`']


@rows("begin_txn")
class BeginTxn(Operation):
    """A client opened a transaction."""

    txn: Annotated[int, "its number"]
    micro: Annotated[int, "which step of the transaction it is, from 0"]
    fenced: Annotated[bool, "fail: another producer owns the id"]


@rows("end_txn")
class EndTxn(Operation):
    """A client asked once for the end of a transaction."""

    txn: Annotated[int, "its number"]
    micro: Annotated[int, "which step of the transaction it is, from 0"]
    decision: Annotated[str, "`commit` or `abort`"]
    fenced: Annotated[bool, "fail: another producer owns the id"]


@rows("delay")
class DelayedSend(Operation):
    """A client sent a message that is not to be delivered at once."""

    queue: Annotated[int, "index of the queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]
    delay_ms: Annotated[int, "how long not"]


@rows("transact")
class Transaction(Operation):
    """A client sent a message in a transaction."""

    queue: Annotated[int, "index of the queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]
    decision: Annotated[str, "`commit` or `rollback`"]


@rows("receive")
class Receive(Operation):
    """A client library handed messages to a group; each is a row :class:`Delivered`."""

    queue: Annotated[int, "index of the queue"]
    group: Annotated[str, "the consumer group"]
    in_order: Annotated[int, "1: the group is promised order"]


@rows("receive_again")
class ReceiveAgain(Operation):
    """A client library handed out a message again, since nobody had acknowledged it in time."""

    queue: Annotated[int, "index of the queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of the body that arrived"]
    group: Annotated[str, "the consumer group"]


@rows("ack")
class Acknowledge(Operation):
    """A group has done with a message."""

    queue: Annotated[int, "index of the queue"]
    message: Annotated[int, "id of the message"]
    group: Annotated[str, "the consumer group"]


@rows("caught_up")
class CaughtUp(Operation):
    """The wait, after recovery, until a group was given everything."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "ok: how far it came without a gap"]
    group: Annotated[str, "the consumer group"]
    received: Annotated[int, "ok: how many messages all groups were given meanwhile"]


@rows("create_topic")
class CreateTopic(Operation):
    """A client created a topic."""

    topic: Annotated[str, "its name"]
    queues: Annotated[int, "how many it shall have"]


@rows("delete_topic")
class DeleteTopic(Operation):
    """A client deleted a topic."""

    topic: Annotated[str, "its name"]


@rows("find_topic")
class FindTopic(Operation):
    """A client asked for a topic."""

    topic: Annotated[str, "its name"]
    queues: Annotated[int, "ok: how many it has; 0: there is no such topic"]


@rows("elect")
class Elect(Operation):
    """An operator asked for another master."""

    group: Annotated[str, "of brokers"]
    target: Annotated[str, "the node that shall be the master"]


@rows("find_master")
class FindMaster(Operation):
    """An operator asked who is the master."""

    group: Annotated[str, "of brokers"]
    master: Annotated[str, "ok: its name"]
    in_sync: Annotated[Sequence[str], "ok: the SyncStateSet"]


class Exchange(Operation):
    """An operation on a queue or a store that names items by their content: clients are given no offsets."""

    queue: Annotated[int, "index of the queue, or of the store"]


class ItemOperation(Exchange):
    """One of them that names an item."""

    message: Annotated[int, "id of the item, -1 where it is none of ours"]
    hash: Annotated[int, "of its content"]
    item: Annotated[str, "its content"]
    key: Annotated[str, "by which it is ordered, if by any"]


@rows("enqueue")
class Enqueue(ItemOperation):
    """A client put an item into a queue, under a content that no other item of the run has."""


@rows("dequeue")
class Dequeue(Exchange):
    """A client asked for items of a queue. Each that came is a row :class:`CameOut`. Fail: none came, whatever the
    reason."""


@rows("put")
class Put(ItemOperation):
    """A client put an item into a store, under a content that no other item of the run has."""


@rows("get_all")
class GetAll(Exchange):
    """A client read all that a store holds. Each item is a row :class:`CameOut`."""


@rows("came_out")
class CameOut(ItemOperation):
    """An item came out, by the dequeue or get_all that ``op`` names; -1: it was pushed to a client that did not ask,
    so that only the order of recording is known."""


@rows("emptied")
class Emptied(Exchange):
    """Nothing was left in a queue: what had been put in before and has not come out was lost."""

    by: Annotated[str, "who says so"]


@rows("question")
class Question(Operation):
    """A client asked for what lies at the system's limits."""

    question: Annotated[str, "in a few words"]
    to: Annotated[str, "the node asked"]
    expected: Annotated[str, "the documented answer"]
    told: Annotated[str, "the actual one"]
    kept: Annotated[bool, "whether it asked for what the node keeps on its disk"]


class ObjectOperation(Operation):
    """An operation on an object of a key-value store, or an entry of metadata."""

    object: Annotated[str, "its name"]
    model: Annotated[str, "which model it follows"]
    to: Annotated[str, "the node asked"]
    members: Annotated[Sequence[str], "what NAME/set holds"]
    address: Annotated[str, "what NAME/text holds"]
    revision: Annotated[int, "ok: of all metadata"]
    version: Annotated[int, "ok: of the entry"]


@rows("create")
class CreateObject(ObjectOperation):
    """A client created an object."""

    init: Annotated[Mapping[str, Any], "{model: first state}"]
    part: Annotated[str, "what of the object it is; empty: all of it"]


@rows("read")
class ReadObject(ObjectOperation):
    """A client read an object."""


@rows("write")
class WriteObject(ObjectOperation):
    """A client overwrote an object."""


@rows("cas")
class CompareAndSet(ObjectOperation):
    """A client changed an object if it had a certain version."""

    expected: Annotated[int, "that version"]
    refused: Annotated[bool, "fail: it had another one"]


@rows("acquire")
class Acquire(ObjectOperation):
    """A client asked for a lock."""

    holder: Annotated[int, "number of the client"]
    token: Annotated[int, "of the lock, if it has it"]


@rows("release")
class Release(ObjectOperation):
    """A client gave a lock back."""

    holder: Annotated[int, "number of the client"]
    token: Annotated[int, "of the lock"]


@rows("view")
class ViewEntry(ObjectOperation):
    """A client asked a node for its view of an entry of metadata."""

    content: Annotated[int, "of the value, as in :class:`chaos.events.MetadataApplied`"]


class PollRow(RowClass):
    """What the harness was answered when it polled a node."""

    node: Annotated[str, "who was polled"]
    op: Annotated[int, "`index` of the row that began the poll"]
    type: Annotated[str, "`invoke` or `ok`"]


@rows("state", "poll")
class BrokerState(PollRow):
    """How a broker stands, in one of its groups where each has a master of its own."""

    epoch: Annotated[int, "master epoch"]
    group: Annotated[str, "which of several groups that is, as the queues that it has name it in `run.json`"]
    role: Annotated[str, "`fenced`, `slave` or `master`"]
    first: Annotated[int, "first position of its log"]
    end: Annotated[int, "end of its log"]
    synced: Annotated[int, "how much of it is durable"]
    confirm: Annotated[int, "confirm offset"]
    set: Annotated[Sequence[str], "the SyncStateSet"]
    generation: Annotated[int, "how many incarnations its disk has had"]
    tier: Annotated[Mapping[str, int], "{queue: T}"]


@rows("uploads", "poll")
class UploadsOfReplica(PollRow):
    """What a replica has put into a tier that all share."""

    files: Annotated[Mapping[str, int], "{file: bytes that it has put there itself}"]
    late_s: Annotated[float, "how old that may be"]


class FinalRow(RowClass):
    """What was found after recovery."""

    node: Annotated[str, "the node; empty for the tier"]


@rows("log", "final")
class FinalRecord(FinalRow):
    """A record of a replica's log."""

    epoch: Annotated[int, "master epoch in which it was written"]
    position: Annotated[int, "of its first byte"]
    queue: Annotated[int, "index of its queue; -1 for the system's own records"]
    offset: Annotated[int, "in its queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]
    system: Annotated[str, "`offsets` or `topic`, of the system's own records"]


@rows("node", "final")
class FinalReplica(FinalRow):
    """How a replica stands."""

    epoch: Annotated[int, "master epoch"]
    first: Annotated[int, "first position of its log"]
    end: Annotated[int, "end of its log"]
    confirm: Annotated[int, "confirm offset"]
    epochs: Annotated[Sequence[Sequence[int]], "[[epoch, its first position], …]"]
    minimums: Annotated[Mapping[str, int], "{queue: first offset}"]
    maximums: Annotated[Mapping[str, int], "{queue: next offset}"]
    role: Annotated[str, "`fenced`, `slave` or `master`"]
    group: Annotated[str, "of a node of several groups: which"]


@rows("complete", "final")
class ReadToItsEnd(FinalRow):
    """A node's log was read to its end."""


@rows("view", "final")
class FinalTierView(FinalRow):
    """The manifest of a queue, as a replica holds it."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "T"]
    position: Annotated[int, "P"]
    epoch: Annotated[int, "master epoch"]
    hash: Annotated[int, "of its bytes"]
    version: Annotated[int, "of the manifest"]


@rows("offsets", "final")
class FinalOffsets(FinalRow):
    """What a replica has of the consumer groups."""

    groups: Annotated[Mapping[str, Mapping[str, int]], "{group: {queue: offset}}"]


@rows("topics", "final")
class FinalTopics(FinalRow):
    """What topics a replica has."""

    topics: Annotated[Mapping[str, Mapping[str, int]], "{name: {`queues`, `first_index`}}"]


@rows("manifest", "final")
class FinalManifest(FinalRow):
    """The manifest of a queue in the tier."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "T"]
    position: Annotated[int, "P"]
    epoch: Annotated[int, "master epoch"]
    hash: Annotated[int, "of its bytes"]
    version: Annotated[int, "of the manifest"]
    content: Annotated[Mapping[str, Any], "the manifest itself"]


@rows("tiered", "final")
class TieredRecord(FinalRow):
    """A record in the tier; of a node's own tier, where ``node`` names one. What no reader is given has no content."""

    epoch: Annotated[int, "master epoch in which it was written"]
    position: Annotated[int, "of its first byte in the log"]
    queue: Annotated[int, "index of its queue"]
    offset: Annotated[int, "in its queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]
    key: Annotated[str, "of its object"]
    size: Annotated[int, "in a tier of a replica's own: bytes"]


@rows("orphan", "final")
class OrphanObject(FinalRow):
    """An object that no manifest names."""

    queue: Annotated[int, "index of the queue"]
    key: Annotated[str, "of the object"]


@rows("tier_queue", "final")
class OwnTierQueue(FinalRow):
    """What a tier that is no node claims to hold of a queue; of a node's own tier, where ``node`` names one."""

    queue: Annotated[int, "index of the queue"]
    minimum: Annotated[int, "first offset"]
    maximum: Annotated[int, "the one after the last"]


@rows("tier_damage", "final")
class OwnTierDamage(FinalRow):
    """A damaged place in a tier that is no node."""

    queue: Annotated[int, "index of the queue"]
    about: Annotated[str, "`content` or `metadata`"]
    text: Annotated[str, "what is wrong"]


@rows("tier_unread", "final")
class OwnTierUnread(FinalRow):
    """A tier that is no node could not be read."""

    reason: Annotated[str, "why"]


@rows("holders", "final")
class QueueHolders(FinalRow):
    """Which nodes hold a copy of a queue."""

    queue: Annotated[int, "index of the queue"]
    nodes: Annotated[Sequence[str], "those"]


@rows("node_read", "final")
class NodeRead(FinalRow):
    """A message as a node answered it from its own copy."""

    epoch: Annotated[int, "master epoch, where the answer says it"]
    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "in the queue"]
    message: Annotated[int, "id of the message"]
    hash: Annotated[int, "of its body"]


@rows("node_end", "final")
class NodeReadEnd(FinalRow):
    """Up to where a node was read."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "that end"]
    minimum: Annotated[int, "first offset that it has"]
    reason: Annotated[str, "why not as far as another one"]


@rows("group", "final")
class FinalGroup(FinalRow):
    """A replica of a group, as its store shows it: the bytes that it holds are hashed again."""

    epoch: Annotated[int, "the fence epoch"]
    position: Annotated[int, "end of the group's bytes"]
    group: Annotated[int, "of which group"]
    replica: Annotated[str, "its name: `store-1#7`"]
    log_index: Annotated[int, "index of the last entry that it has applied"]
    start: Annotated[int, "where the bytes begin that no TRIM has taken"]
    sealed: Annotated[int, "end of the last SEAL"]
    tail: Annotated[str, "BLAKE2b-128 of the bytes from there to the end, in hex"]
    voters: Annotated[Sequence[str], "the members that vote, as it knows"]
    learners: Annotated[Sequence[str], "and those that do not"]
    now_ms: Annotated[int, "the group's logged time"]
    segments: Annotated[Sequence[Sequence[Any]], "[[topic, start, end, digest, `local`, `tier` or `missing`], …]"]
    kept: Annotated[Mapping[str, Sequence[int]], "{topic: [store time of its oldest record, bytes of its records]}"]
    strays: Annotated[Sequence[str], "files of segments that its state does not name"]


@rows("object", "final")
class FinalObject(FinalRow):
    """An object in the tier of a storage cluster."""

    key: Annotated[str, "of the object"]
    size: Annotated[int, "bytes"]
    digest: Annotated[str, "BLAKE2b-128 of them, in hex"]


@rows("", "fault")
class FaultRow(RowClass):
    """A fault: planned, in force, or over. The name of the fault is the row's ``f``."""

    type: Annotated[str, "`invoke`, `ok` or `fail`"]
    process: Annotated[str, "which injection"]
    node: Annotated[str, "the target, where there is one"]
    targets: Annotated[Sequence[str], "invoke: all targets"]
    detail: Annotated[Mapping[str, Any], "invoke: how it was chosen"]
    effects: Annotated[Mapping[str, Sequence[str]], "invoke: {effect: nodes} that it may have"]
    phase: Annotated[str, "ok: `inject` or `undo`"]
    proven: Annotated[Mapping[str, Sequence[str]], "ok: {effect: nodes} that took place"]
    proof: Annotated[Mapping[str, Any], "ok: what the injection itself showed"]


@rows("", "harness")
class HarnessRow(RowClass):
    """What the harness says of itself: the phases of the run, how recovery ended, its own delays."""

    node: Annotated[str, "the node that it is about, where there is one"]
    phase: Annotated[str, "the phase that begins"]
    role: Annotated[str, "of a node that was added"]
    seconds: Annotated[float, "how long it took"]
    reason: Annotated[str, "why not"]
    ms: Annotated[int, "how long the harness stood still"]
    what: Annotated[str, "what happened, in words"]
