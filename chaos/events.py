"""What nodes trace of themselves: one class for each event that laws judge, in the order of ``docs/history.md``.

A node traces an event at the step in which it happens (:meth:`chaos.node.Env.trace`), and a law asks for its rows by
the class. A field that is called like a column of the history stands there, every other one in ``value``; one that is
None is left out. Integers are -1 where there is none, as in the columns. Systems that report something else besides
declare events of their own with :func:`event`.

Imports only the standard library, because nodes do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MemberDescriptorType
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_type_hints

#: The columns that an event may fill; the others of its row say who traced it, and when.
COLUMNS = ("epoch", "queue", "offset", "position", "message", "hash")
#: Those others, of a trace.
WHO = ("index", "time_ns", "node", "incarnation", "step")
#: In a storage cluster of many groups a position is ``group << 40 | position in the group``.
POSITION_BITS = 40

E = TypeVar("E", bound="Event")
#: Names, or numbers, in JSON.
Names = Sequence[str]
Positions = Mapping[str, int]


class Field:
    """A field of a class of rows, asked for by the class: ``Send.message``. Laws declare what they read by these."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def __repr__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


def field_of(declared: object) -> Field | None:
    """Return which field ``Append.position`` or ``Send.message`` stands for; None for what is none."""
    if isinstance(declared, MemberDescriptorType):  # that of an event, whose instances have the field
        return Field(declared.__objclass__, declared.__name__)
    return declared if isinstance(declared, Field) else None


class Event:
    """What a node did or learned. Subclasses are made by :func:`event`; ``f`` is their name in the history, whose rows
    say besides who traced it, and when."""

    __slots__ = ()
    kind: ClassVar[str] = "trace"
    f: ClassVar[str]
    index: ClassVar[int]
    time_ns: ClassVar[int]
    node: ClassVar[str]
    incarnation: ClassVar[int]
    step: ClassVar[int]

    def row(self, time_ns: int, node: str, incarnation: int, step: int) -> dict[str, Any]:
        """Return the row of the history: the columns that a trace has, and ``value``."""
        raise NotImplementedError


@dataclass_transform(kw_only_default=True)
def event(f: str) -> Callable[[type[E]], type[E]]:
    """Make a class with annotated fields the event that the history calls ``f``."""

    def made(declared: type[E]) -> type[E]:
        cls = dataclasses.dataclass(slots=True, kw_only=True, eq=False)(declared)
        cls.f = f
        for name in WHO:
            setattr(cls, name, Field(cls, name))
        cls.row = _row_of(cls)  # type: ignore[method-assign]
        return cls

    return made


def _row_of(cls: type[Event]) -> Callable[..., dict[str, Any]]:
    """Compile :meth:`Event.row`: there are as many events as records, and a loop over their fields is slow."""
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    columns = ", ".join(f"{name!r}: {f'self.{name}' if name in names else -1}" for name in COLUMNS)
    keys = [field for field in fields if field.name not in COLUMNS]
    always = next((at for at, field in enumerate(keys) if field.default is None), len(keys))
    first = ", ".join(f"{field.name!r}: self.{field.name}" for field in keys[:always])
    lines = [f"value = {{{first}}}"]
    for field in keys[always:]:
        test = f"if self.{field.name} is not None: " if field.default is None else ""
        lines.append(f"{test}value[{field.name!r}] = self.{field.name}")
    lines.append(
        "return {'kind': 'trace', 'time_ns': time_ns, 'node': node, 'incarnation': incarnation, 'step': step,"
        f" 'f': {cls.f!r}, {columns}, 'value': value}}"
    )
    space: dict[str, Any] = {}
    exec("def row(self, time_ns, node, incarnation, step):\n    " + "\n    ".join(lines), space)  # as dataclasses do
    row: Callable[..., dict[str, Any]] = space["row"]
    row.__qualname__ = f"{cls.__qualname__}.row"
    return row


def meanings(cls: type[Event]) -> dict[str, str]:
    """Return what each field means, by name, in order."""
    hints = get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return {name: next((str(one) for one in get_args(hints[name])[1:] if isinstance(one, str)), "") for name in names}


# Any node


@event("start")
class Start(Event):
    """A node begins an incarnation on whatever its disk holds."""

    epoch: Annotated[int, "the newest master epoch that its disk knows"] = -1
    generation: Annotated[int | None, "how many incarnations this disk has had, this one included; on the disk"] = None
    disk: Annotated[str | None, "a word that the disk was given when it was new"] = None


@event("crash")
class Crash(Event):
    """An exception of the node's own code ended its incarnation; the program that hosts it traces this."""

    error: Annotated[str, "the exception's type and text"]
    at: Annotated[str, "its innermost frames, the last one first"]


@event("malformed")
class MalformedMessage(Event):
    """A node could not understand a message, and refused it; of each incarnation the first hundred."""

    source: Annotated[str, "the peer that sent it"]
    code: Annotated[int, "the request or response code"]
    error: Annotated[str, "what is wrong with it"]


# Brokers


@event("damaged")
class Damaged(Event):
    """A replica found less on its disk than that had been sure to hold: the rest goes, and it counts as a new one."""

    position: Annotated[int, "end of the log that was found"]


@event("recovered")
class Recovered(Event):
    """A replica has read its log after a start."""

    position: Annotated[int, "end of the log"]
    epoch: Annotated[int, "master epoch of the last record"]
    first: Annotated[int, "position of the first record"]
    epochs: Annotated[Sequence[Sequence[int]], "[[epoch, its first position], …], ascending"]
    confirm: Annotated[int, "confirm offset"]


@event("append")
class Append(Event):
    """A record stands in a replica's log; it need not be durable yet."""

    epoch: Annotated[int, "master epoch in which it was written"]
    position: Annotated[int, "of its first byte"]
    queue: Annotated[int, "index of its queue; -1 for the system's own records"] = -1
    offset: Annotated[int, "in its queue"] = -1
    message: Annotated[int, "number of the message; -1 where its key is none of ours"] = -1
    hash: Annotated[int, "of its body"] = -1
    size: Annotated[int, "bytes that it takes in the log"]
    system: Annotated[str | None, "`offsets`, `topic`, `deferred`, `settled` or `locks`, of the system's own"] = None
    settles: Annotated[int | None, "where a deferred message stood first that this record ends, or is a copy of"] = None


@event("truncate")
class Truncate(Event):
    """A replica begins to cut the end off its log."""

    epoch: Annotated[int, "master epoch that it follows"]
    position: Annotated[int, "the new end"]
    old_end: Annotated[int, "where the log ended"]


@event("synced")
class Synced(Event):
    """More of a replica's log is durable."""

    position: Annotated[int, "end of what is durable"]
    file: Annotated[str | None, "the file in which that end lies"] = None
    size: Annotated[int | None, "how many bytes of that file are durable"] = None
    disk: Annotated[int | None, "how many of them no crash could take away; the simulator adds it"] = None


@event("confirm")
class Confirm(Event):
    """The confirm offset of a replica grew. A master says by whose copies; a slave says nothing more."""

    epoch: Annotated[int, "master epoch"]
    position: Annotated[int, "the confirm offset"]
    acks: Annotated[Positions | None, "how far each member of the set has acknowledged, {name: position}"] = None
    set: Annotated[Names | None, "the SyncStateSet, as the master knows it"] = None
    proposed: Annotated[Names | None, "who else counts, since a set with them was proposed"] = None
    set_epoch: Annotated[int | None, "of that SyncStateSet"] = None


@event("role")
class Role(Event):
    """A broker takes a role."""

    epoch: Annotated[int, "master epoch"]
    role: Annotated[str, "`fenced`, `slave` or `master`"]
    master: Annotated[str | None, "who leads, as it knows; empty for nobody"] = None
    set: Annotated[Names | None, "the SyncStateSet, of a master"] = None
    set_epoch: Annotated[int | None, "of that set, -1 for none"] = None
    start: Annotated[int | None, "of a master: end of its log when its master term began"] = None
    group: Annotated[str | None, "of a node of several groups: which"] = None
    ack_timeout_ms: Annotated[int | None, "how long a message may wait for its acknowledgement there"] = None
    retain_bytes: Annotated[int | None, "how much of its log stays, where a node deletes from it"] = None
    segment_bytes: Annotated[int | None, "how long a segment may be, which is deleted as a whole"] = None
    tiered: Annotated[bool | None, "whether it keeps what no tier holds"] = None


@event("set")
class SyncStateSet(Event):
    """A master knows of another SyncStateSet, or has proposed one."""

    epoch: Annotated[int, "master epoch"]
    set: Annotated[Names, "the set"]
    proposed: Annotated[Names, "who else counts, since a set with them was proposed"]
    set_epoch: Annotated[int, "of the set"]
    acks: Annotated[Positions | None, "of a proposal: how far each who joins has acknowledged"] = None
    confirm: Annotated[int | None, "and the master's confirm offset"] = None


@event("acked")
class Acked(Event):
    """A master gave one or several producers their ok at this step."""

    epoch: Annotated[int, "master epoch"]
    position: Annotated[int, "end of the last of these records"]
    confirm: Annotated[int, "its confirm offset"]
    copies: Annotated[Positions | None, "under a weaker profile: on whose copies that stood, and how far each goes"] = (
        None
    )


@event("commit")
class Commit(Event):
    """The offset of a consumer group took effect: its record is confirmed."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "the next one that the group is to read"]
    position: Annotated[int, "of the record"]
    group: Annotated[str, "the consumer group"]


@event("retention")
class Retention(Event):
    """A broker deleted old messages from its log."""

    epoch: Annotated[int, "master epoch"]
    position: Annotated[int, "the new first position"]
    rule: Annotated[str, "by which rule"]
    wall_ns: Annotated[int, "the node's wall clock"]
    inputs: Annotated[Mapping[str, Any], "all that the decision used"]
    minimums: Annotated[Mapping[str, int], "{queue: new minimum offset}"]


@event("bootstrap_begun")
class BootstrapBegun(Event):
    """A slave begins again at a base: what its log holds goes from here on, and a crash before :class:`Bootstrap` may
    leave a disk that counts as damaged."""

    epoch: Annotated[int, "master epoch"]
    position: Annotated[int, "where its log will begin"]


@event("bootstrap")
class Bootstrap(Event):
    """A slave has durably begun again at a base, which is its confirm offset; nothing of an earlier log is left."""

    epoch: Annotated[int, "master epoch"]
    position: Annotated[int, "where its log begins"]
    queues: Annotated[Mapping[str, int], "{queue: next offset}"]
    manifests: Annotated[Mapping[str, int], "{queue: version of the manifest that it holds}"]
    epochs: Annotated[Sequence[Sequence[int]], "[[epoch, its first position], …] below the base"]
    groups: Annotated[
        Mapping[str, Mapping[int, int]], "{group: {queue: offset}}: the consumer offsets that it begins with"
    ]


# The tier, as brokers use it


@event("tier_request")
class TierRequest(Event):
    """A broker sends a request to the object store."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "the end that it is about; -1 for none"]
    epoch: Annotated[int, "master epoch"]
    request: Annotated[str, "its id, also in the store's row"]
    verb: Annotated[str, "`put`, `cas`, `get`, `list` or `delete`"]
    key: Annotated[str, "of the object"]


@event("tier_commit")
class TierCommit(Event):
    """A master sends the compare-and-set of a manifest."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "T: the first offset that the tier does not hold"]
    position: Annotated[int, "P: end of the last record that it holds"]
    epoch: Annotated[int, "master epoch"]
    request: Annotated[str, "its id, also in the store's row"]
    version: Annotated[int, "of the manifest"]
    attempt: Annotated[int, "how many versions this master has tried"]
    confirm: Annotated[int, "the confirm offset of this very step"]
    retain_bytes: Annotated[int, "how much of the tier must be kept when it is trimmed; 0: everything"]
    segment_bytes: Annotated[int, "a segment is due once it has so many bytes"]
    segment_records: Annotated[int, "or so many records"]
    max_age_ms: Annotated[int, "or its first record has waited so long; 0: no law asks whether it came in time"]
    parallel: Annotated[int, "how many uploads may be under way"]
    timeout_ms: Annotated[int, "how long a request may take"]
    retain_ms: Annotated[int | None, "how long the tier may have held what is trimmed; nothing: for ever"] = None


@event("tier_view")
class TierView(Event):
    """A replica holds this version of a manifest from now on."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "T of that version"]
    position: Annotated[int, "P of that version"]
    epoch: Annotated[int, "master epoch of that version"]
    hash: Annotated[int, "of the manifest's bytes"]
    version: Annotated[int, "of the manifest"]


@event("tier_stop")
class TierStop(Event):
    """A master stops the uploads of a queue for good: T lies past its log, or bytes differ."""

    queue: Annotated[int, "index of the queue"]
    epoch: Annotated[int, "master epoch"]
    reason: Annotated[str, "why"]
    version: Annotated[int, "of the manifest that it knew; 0: none"]


@event("tier_cut")
class TierCut(Event):
    """A master's log contradicts the tier, and the compare-and-set that follows cuts the manifest back. Only where
    losses are allowed."""

    queue: Annotated[int, "index of the queue"]
    offset: Annotated[int, "the new T"]
    position: Annotated[int, "the new P"]
    epoch: Annotated[int, "master epoch"]
    lost: Annotated[Sequence[int], "[from, to]: offsets that the tier no longer holds"]
    version: Annotated[int, "of the manifest that is cut back"]


# Controllers


@event("raft")
class RaftRole(Event):
    """A controller became follower, candidate or leader."""

    epoch: Annotated[int, "term"]
    role: Annotated[str, "`follower`, `candidate` or `leader`"]
    leader: Annotated[str, "who leads, as it knows; empty for nobody"]
    votes: Annotated[Names | None, "of a leader: who voted for it"] = None
    voters: Annotated[Names | None, "of a leader: who may vote, as it knows"] = None
    commit: Annotated[int | None, "of a leader: index of the last entry that it knew to be committed"] = None
    group: Annotated[int | None, "of a node of many groups: which"] = None


@event("vote")
class Vote(Event):
    """A controller has given a candidate its vote, and the answer leaves with this step."""

    epoch: Annotated[int, "term"]
    candidate: Annotated[str, "for whom; its own vote counts, too"]
    file: Annotated[str | None, "the file that holds the vote"] = None
    size: Annotated[int | None, "how long that file was with the vote"] = None
    disk: Annotated[int | None, "how many bytes of it no crash could take away; the simulator adds it"] = None
    group: Annotated[int | None, "of a node of many groups: which"] = None


@event("term_raised")
class TermRaised(Event):
    """A controller took over the later term of a candidate that asked for its vote."""

    epoch: Annotated[int, "the later term"]
    by: Annotated[str, "the candidate"]
    election_ms: Annotated[int, "how long after it has heard the leader candidates are ignored"]
    transfer: Annotated[int, "1 if the leader itself wants another one"]
    silence_ms: Annotated[int | None, "since the leader was heard; 0 for a leader, missing if none ever was"] = None
    group: Annotated[int | None, "of a node of many groups: which"] = None


@event("applied")
class Applied(Event):
    """A controller applied a committed entry."""

    position: Annotated[int, "index in the log"]
    epoch: Annotated[int, "term of the entry"]
    entry: Annotated[Mapping[str, Any], "the outcome, which has a `type`"]
    silence_ms: Annotated[int | None, "of an election: how long a broker may be silent"] = None
    log: Annotated[Mapping[str, Any] | None, "of each 64th entry: the log's size, and when a snapshot is due"] = None
    committed: Annotated[int | None, "from a leader, of an earlier term's entry: up to where it has committed"] = None
    committed_term: Annotated[int | None, "the term of the entry there"] = None


@event("members")
class RaftMembers(Event):
    """A change of the controllers' members is committed."""

    position: Annotated[int, "index in the log"]
    epoch: Annotated[int, "term of the entry"]
    voters: Annotated[Names, "who votes"]
    learners: Annotated[Names, "who is only sent the log"]
    group: Annotated[int | None, "of a node of many groups: which"] = None


@event("entries_cut")
class EntriesCut(Event):
    """A leader's entries, or its snapshot, replaced the end of a controller's log."""

    position: Annotated[int, "index of the first entry that is gone"]
    epoch: Annotated[int, "its term"]
    last: Annotated[int, "index of the last one"]
    group: Annotated[int | None, "of a node of many groups: which"] = None


@event("metadata")
class MetadataApplied(Event):
    """A controller applied a change of the metadata."""

    position: Annotated[int, "index in the log"]
    object: Annotated[str, "KIND/NAME"]
    version: Annotated[int, "of the entry"]
    revision: Annotated[int, "of all metadata"]
    content: Annotated[int, "of the value: 63 bits of the BLAKE2b of its JSON, keys sorted, no spaces; -1: deleted"]


# Storage clusters: stores hold replicas of many groups, each with a Raft log of its own, which brokers without a disk
# write. In these events ``group`` is the group's number, and ``position`` a place in the group's bytes, unless it says
# otherwise.


@event("fence")
class GroupFenced(Event):
    """A store applied the FENCE of a group: with it an owner takes the group over, and older epochs end."""

    epoch: Annotated[int, "the owner's epoch, of its slice"]
    position: Annotated[int, "index of the entry in the group's Raft log"]
    group: Annotated[int, "of which group"]
    slice: Annotated[str, "the slice, as clients name it"]
    broker: Annotated[str, "the owner"]
    life: Annotated[int, "the owner's incarnation, as meta has numbered it"]
    end: Annotated[int, "end of the group's bytes then"]
    accepted: Annotated[bool, "whether it took effect: its epoch is higher, or the same life asks again"]


@event("group_append")
class GroupAppended(Event):
    """A store applied an APPEND of a group: it added the records, or refused them."""

    epoch: Annotated[int, "the owner's epoch that the entry names"]
    position: Annotated[int, "where the records begin"]
    group: Annotated[int, "of which group"]
    log_index: Annotated[int, "index of the entry in the group's Raft log"]
    end: Annotated[int, "where the records end"]
    crc: Annotated[int, "CRC-32 of the records"]
    accepted: Annotated[bool, "whether they are in the log: added now, or before by the same entry"]
    reason: Annotated[str | None, "why not: `fenced`, `gap` or `other`; `again` if they had been added before"] = None


@event("group_synced")
class GroupSynced(Event):
    """More of a store's file, which all of its groups share, is durable."""

    groups: Annotated[Positions, "{group: index of its last durable entry}, of the groups for which that grew"]


@event("sealed")
class Sealed(Event):
    """A store applied the SEAL of a group, and has the sealed segment of one topic; one row for each topic in it."""

    position: Annotated[int, "where the sealed bytes begin"]
    group: Annotated[int, "of which group"]
    log_index: Annotated[int, "index of the entry in the group's Raft log"]
    topic: Annotated[int, "the topic's id"]
    end: Annotated[int, "where the sealed bytes end"]
    digest: Annotated[str, "BLAKE2b-128 of the topic's records there, in hex, as this store has computed it"]
    size: Annotated[int, "bytes of these records"]


@event("uploaded")
class Uploaded(Event):
    """A store applied UPLOADED: from here on the group counts on the object, and no store needs the segment's file."""

    position: Annotated[int, "where the sealed bytes begin"]
    group: Annotated[int, "of which group"]
    log_index: Annotated[int, "index of the entry in the group's Raft log"]
    topic: Annotated[int, "the topic's id"]
    end: Annotated[int, "where the sealed bytes end"]
    digest: Annotated[str, "of the topic's records there, in hex"]
    key: Annotated[str, "of the object"]


@event("held")
class SegmentHeld(Event):
    """The file of a sealed segment is durable on a store's disk, and its bytes have been hashed."""

    position: Annotated[int, "where the sealed bytes begin"]
    group: Annotated[int, "of which group"]
    topic: Annotated[int, "the topic's id"]
    end: Annotated[int, "where the sealed bytes end"]
    digest: Annotated[str, "of the bytes in the file, in hex"]
    source: Annotated[str, "where they came from: `made`, `tier`, `replica`, or `recovered` after a start"]


@event("dropped")
class SegmentDropped(Event):
    """A store deletes the file of a sealed segment."""

    position: Annotated[int, "where the sealed bytes begin"]
    group: Annotated[int, "of which group"]
    topic: Annotated[int, "the topic's id"]
    end: Annotated[int, "where the sealed bytes end"]
    digest: Annotated[str, "of the segment, in hex"]
    why: Annotated[str, "`trimmed`, `uploaded`, `removed` (it is no member any more), `damaged` or `unknown`"]


@event("trim")
class Trimmed(Event):
    """A store applied the TRIM of a topic in a group: older records are gone from here on."""

    group: Annotated[int, "of which group"]
    log_index: Annotated[int, "index of the entry in the group's Raft log"]
    topic: Annotated[int, "the topic's id"]
    version: Annotated[int, "of the topic's entry by which it was decided"]
    rule: Annotated[str, "`time`, `size` or `deleted`"]
    now_ms: Annotated[int, "the group's logged time, which never falls"]
    starts: Annotated[Positions, "{number of a queue: its new first offset}"]
    newest_ms: Annotated[int, "store time of the newest record that goes; -1: none goes"]
    oldest_ms: Annotated[int, "store time of the oldest record that stays; -1: none stays"]
    size_bytes: Annotated[int, "bytes of the topic's records in the group before"]
    left_bytes: Annotated[int, "and of those that stay"]


@event("opened")
class SliceOpened(Event):
    """A broker serves a slice from here on: all groups of it have accepted its FENCE."""

    epoch: Annotated[int, "of the slice"]
    slice: Annotated[str, "the slice, as clients name it"]
    life: Annotated[int, "the broker's incarnation, as meta has numbered it"]
    ends: Annotated[Positions, "{group: end of its bytes}, as the FENCEs were answered"]


@event("closed_slice")
class SliceClosed(Event):
    """A broker serves a slice no longer."""

    epoch: Annotated[int, "of the slice"]
    slice: Annotated[str, "the slice, as clients name it"]
    life: Annotated[int, "the broker's incarnation, as meta has numbered it"]
    ends: Annotated[Positions, "{group: end of what it has acknowledged}"]


@event("group_acked")
class GroupAcked(Event):
    """A broker gave one or several producers their ok at this step."""

    epoch: Annotated[int, "of the slice"]
    position: Annotated[int, "end of the last of these records"]
    group: Annotated[int, "of which group"]


@event("map_view")
class MapView(Event):
    """A broker, a store or a name server knows more of meta's entries from here on."""

    revision: Annotated[int, "of all entries that it knows"]
    groups: Annotated[Positions, "{group: index of the MEMBERS that it knows of}, of the groups for which that changed"]


# Name servers


@event("route")
class Route(Event):
    """A name server would name another master, or other brokers, to clients from now on."""

    epoch: Annotated[int, "master epoch"]
    group: Annotated[str, "of brokers"]
    master: Annotated[str, "the master's name; empty for none"]
    brokers: Annotated[Names, "all that it names"]


# Object stores


@event("store_put")
class StorePut(Event):
    """The object store has stored an object, or had it already."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "of the object"]
    request: Annotated[str, "the caller's id of the request"]
    hash: Annotated[int, "of the bytes"] = -1
    outcome: Annotated[str, "`created`, `exists`, or why not (`disk full`)"]
    size: Annotated[int | None, "bytes"] = None
    recovered: Annotated[bool | None, "true: it was durable before a restart, and may have been traced already"] = None


@event("store_cas")
class StoreCas(Event):
    """The object store has replaced an object by its next version, or refused to. Without a queue it is no manifest."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "of the object"]
    request: Annotated[str, "the caller's id of the request"]
    epoch: Annotated[int, "of the manifest"] = -1
    offset: Annotated[int, "T of the manifest"] = -1
    position: Annotated[int, "P of the manifest"] = -1
    expected: Annotated[int | None, "the version that was to be replaced; -1: none"] = None
    version: Annotated[int | None, "the new version"] = None
    content: Annotated[Mapping[str, Any] | None, "the manifest itself"] = None
    hash: Annotated[int, "of the bytes"] = -1
    outcome: Annotated[str, "`applied`, `conflict`, or why not"]
    changes: Annotated[Mapping[str, Any] | None, "instead of `content`: what differs from an earlier row's"] = None
    recovered: Annotated[bool | None, "true: it was durable before a restart, and may have been traced already"] = None


@event("store_get")
class StoreGet(Event):
    """The object store was asked for an object."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "of the object"]
    request: Annotated[str, "the caller's id of the request"]
    hash: Annotated[int, "of the bytes"] = -1
    outcome: Annotated[str, "`found`, `absent` or `damaged`"]


@event("store_list")
class StoreList(Event):
    """The object store was asked which objects there are."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "how the keys begin"]
    request: Annotated[str, "the caller's id of the request"]
    outcome: Annotated[str, "`listed`"]


@event("store_delete")
class StoreDelete(Event):
    """The object store has deleted an object."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "of the object"]
    request: Annotated[str, "the caller's id of the request"]
    outcome: Annotated[str, "`deleted` or `absent`"]
    recovered: Annotated[bool | None, "true: it was durable before a restart, and may have been traced already"] = None
