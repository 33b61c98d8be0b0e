"""What may happen to a member, what it does then, and what laws look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

#: An entry as a log holds it: term and data. The first one has the index 1.
Logged = tuple[int, bytes]
#: The files of logs begin so.
LOGS = "raft/"


class Kind(StrEnum):
    START = "start"
    DELIVER = "deliver"
    SYNCED = "synced"
    TIMEOUT = "timeout"  # no leader heard; a leader: no majority heard
    HEARTBEAT = "heartbeat"
    PROPOSE = "propose"
    READ = "read"
    CLOSED = "closed"
    LOSE = "crash, losing what was not synced"
    KEEP = "crash, after all was written"
    KEEP_LOG = "crash, after the log was written and nothing else"
    WIPE = "crash, losing the disk"


CRASHES = (Kind.LOSE, Kind.KEEP, Kind.KEEP_LOG, Kind.WIPE)


@dataclass(frozen=True, slots=True)
class Event:
    """``peer``: whose message, or whose connection; of a proposal, whom it concerns. ``number``: of the message, the
    value, or what a read must see. ``word``: what is proposed."""

    kind: Kind
    peer: str = ""
    number: int = 0
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What laws look at. ``log``: all entries; those are None of which a snapshot holds the outcome. ``unsynced``: what
    a crash may take, by whether it is a log. ``replica``: what the group calls this member. ``wrong``: what is wrong
    with it, whatever the others are, "" if nothing is."""

    term: int
    leads: bool
    leader: str
    log: tuple[Logged | None, ...]
    syncing: bool
    unsynced: frozenset[bool]
    replica: str = ""
    may_change_members: bool = False
    wrong: str = ""


class Applied(NamedTuple):
    """An entry that was applied: its place in the log, the state that it left (of a state machine that does nothing
    ""), and, in words, what it did."""

    place: int
    entry: Logged
    state: str = ""
    did: str = ""


@dataclass(slots=True)
class Done:
    """What a step has done: messages (to whom, number), entries applied, snapshots restored (index, state), reads
    answered (what each had to see, what was applied by then), proposals that were acknowledged (index, data)."""

    sent: list[tuple[str, int]] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    restored: list[tuple[int, str]] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
