"""One member's copy of a group: the state that Raft's log feeds, and the files of its sealed segments.

It offers what RIP-19 asks of a store, for one group: put, get, flush, load, recover, and the minimum and maximum offset
of a queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos import events
from chaos.node import Env, Malformed
from reference.raft.state_machine import StateMachine
from reference.split.layout import slice_name
from reference.split.segments import Segment
from reference.split.store import entries
from reference.split.store.entries import Append, Entry, Fence, Seal, Trim, Uploaded
from reference.split.store.group import REASONS, Group, Outcome
from reference.split.store.group_snapshot import files_in, lacking, restored, snapshot_of, with_files, without_files
from reference.split.store.segment_files import MADE, REMOVED, REPLICA, TRIMMED, SegmentFiles
from reference.split.store.tail import QueueKey

#: A group is written anew into its log with a tail of this size, or after a SEAL.
SMALL_TAIL_BYTES = 1 << 16


class GroupMachine(StateMachine):
    """The state machine of one Raft group. ``is_damaged``: a hash of it differs from its leader's, so that the store
    must not go on with this disk."""

    group_class: type[Group] = Group

    def __init__(self, number: int, files: SegmentFiles) -> None:
        self.group = self.group_class(number)
        self.files = files
        self.applied = 0
        self.is_damaged = False
        self._is_freshly_sealed = False
        self._unsafe: list[Segment] = []  # segments that neither a file nor an object may hold yet

    @property
    def number(self) -> int:
        """The group's."""
        return self.group.number

    # The store's API, for one group

    def put(self, env: Env, index: int, entry: Append) -> Outcome:
        """Add the records of a committed APPEND."""
        outcome = self.group.apply(entry)
        env.trace(
            events.GroupAppended(
                epoch=entry.epoch,
                position=entry.position,
                group=self.number,
                log_index=index,
                end=entry.end,
                crc=entry.crc,
                accepted=not outcome.code,
                reason="again" if outcome.again else REASONS.get(outcome.code),
            )
        )
        return outcome

    def get(self, key: QueueKey, offset: int, count: int, most_bytes: int) -> list[bytes]:
        """Return records of a queue that are not sealed, from an offset on; at least one if it has any."""
        found: list[bytes] = []
        size = 0
        for head in self.group.tail.of_queue(key, offset)[:count]:
            size += head.size
            if found and size > most_bytes:
                break
            found.append(self.group.tail.record(head))
        return found

    def minimum(self, key: QueueKey) -> int:
        """Return a queue's first offset."""
        return self.group.minimum(key)

    def maximum(self, key: QueueKey) -> int:
        """Return the offset after a queue's last record that is applied here."""
        return self.group.maximum(key)

    def flush(self, env: Env, files: Mapping[Segment, bytes], source: str = MADE) -> int | None:
        """Write segments to files, and sync them. Return the token to wait for; None if they are durable already."""
        return self.files.write(env, self.number, files.items(), source)

    def load(self, snapshot: bytes) -> None:
        """Take over the state of a snapshot."""
        self.group = restored(self.number, snapshot, self.group_class)

    def recover(self) -> list[Segment]:
        """Return the segments whose bytes no object holds and whose file is missing here, or is not durable yet."""
        segments = self.group.segments
        self._unsafe = [one for one in self._unsafe if one in segments and not self._is_safe(one)]
        return self._unsafe

    def _is_safe(self, segment: Segment) -> bool:
        return segment in self.files.held or self.group.segments[segment].is_uploaded

    # Raft's state machine

    def apply(self, env: Env, index: int, term: int, data: bytes) -> Outcome | None:
        """Apply a committed entry; an empty one changes nothing."""
        self.applied = index
        if not data:
            return None
        entry = entries.decode(data)
        if isinstance(entry, Append):
            return self.put(env, index, entry)
        size_before = self.group.kept(entry.topic_id)[1] if isinstance(entry, Trim) else 0
        outcome = self.group.apply(entry)
        self._note(env, index, entry, outcome)
        if isinstance(entry, Trim) and not outcome.code:
            self._trace_trim(env, index, entry, outcome, size_before)
        for gone in outcome.gone:
            self.files.drop(env, gone.segment, TRIMMED)
        if outcome.made:
            self._is_freshly_sealed = True
            self._unsafe += outcome.made
            self.is_damaged |= outcome.is_damaged
            self.flush(env, outcome.made)
        return outcome

    def _note(self, env: Env, index: int, entry: Entry, outcome: Outcome) -> None:
        """Trace what a fence, a seal or an upload has done."""
        if isinstance(entry, Fence):
            taken_over = {"slice": slice_name(entry.slice), "broker": entry.broker, "life": entry.life}
            about: dict[str, Any] = {"group": self.number, "end": self.group.end, **taken_over}
            env.trace(
                events.GroupFenced(epoch=entry.epoch, position=index, accepted=not outcome.code, **about),
            )
        elif isinstance(entry, Seal):
            for segment, data in outcome.made.items():
                env.trace(events.Sealed(**segment.traced(), log_index=index, size=len(data)))
        elif isinstance(entry, Uploaded) and not outcome.code:
            env.trace(events.Uploaded(**entry.segment.traced(), log_index=index, key=entry.segment.key))

    def _trace_trim(self, env: Env, index: int, entry: Trim, outcome: Outcome, size_before: int) -> None:
        oldest_ms, left_bytes = self.group.kept(entry.topic_id)
        env.trace(
            events.Trimmed(
                group=self.number,
                log_index=index,
                topic=entry.topic_id,
                version=entry.version,
                rule=entry.rule,
                now_ms=self.group.now_ms,
                starts={str(number): offset for number, offset in entry.starts.items()},
                newest_ms=max((one.newest_ms for one in outcome.gone), default=-1),
                oldest_ms=oldest_ms,
                size_bytes=size_before,
                left_bytes=left_bytes,
            )
        )

    def check(self, data: bytes) -> None:
        """Raise :class:`chaos.node.Malformed` for an entry of another member that can't be applied."""
        if data:
            entries.check(self.number, data)

    def check_snapshot(self, snapshot: bytes) -> None:
        """Raise :class:`chaos.node.Malformed` for a snapshot that can't be restored, or lacks bytes that no object
        holds: a member that has none of them must not count as one that has (R4)."""
        restored(self.number, snapshot, self.group_class)
        sent = files_in(snapshot)
        for segment in lacking(snapshot):
            if segment not in sent and segment not in self.files.held:
                raise Malformed(f"a snapshot of group {self.number} comes without the bytes of {segment.key}")

    def snapshot(self) -> Iterator[bytes]:
        """Return the state of this moment, in pieces."""
        self._is_freshly_sealed = False
        return snapshot_of(self.group)

    def may_compact(self) -> bool:
        """The log keeps what no durable file holds (R4); and a snapshot's tail is small, or there was a SEAL."""
        is_cheap = self._is_freshly_sealed or len(self.group.tail.data) <= SMALL_TAIL_BYTES
        return is_cheap and self.files.is_checked and not self.recover()

    def outgoing(self, snapshot: bytes) -> bytes:
        """Return a snapshot as a follower is sent it: with the bytes of all segments that a voter must hold (R4). What
        was uploaded or trimmed since it was made needs none. Where this store lacks some of the others it comes
        without any, and the follower refuses it."""
        found = {segment: self.files.read(segment) for segment in lacking(snapshot) if self.must_hold(segment)}
        files = {segment: data for segment, data in found.items() if data is not None}
        return with_files(snapshot, files) if len(files) == len(found) else without_files(snapshot)

    def must_hold(self, segment: Segment) -> bool:
        """Policy: a voter holds each segment of the group that no object holds (R4)."""
        known = self.group.segments.get(segment)
        return known is not None and not known.is_uploaded

    def kept(self, snapshot: bytes) -> bytes:
        """Return what is logged of a snapshot that came: all but the bytes that stand in files."""
        return without_files(snapshot)

    def prepare(self, env: Env, snapshot: bytes) -> int | None:
        """Write the files that a snapshot needs. Return the token of their sync; None if there is nothing to write.
        Raises :class:`chaos.node.Malformed` where the disk has no room: without them the snapshot must not count."""
        files = files_in(snapshot)
        due = self.flush(env, files, REPLICA)
        if self.files.give_up_unwritten(files):
            raise Malformed(f"the disk has no room for the segments of group {self.number}")
        return due

    def restore(self, env: Env, snapshot: bytes) -> None:
        """Begin at a snapshot."""
        self.load(snapshot)
        self._unsafe = list(self.group.segments)

    def role_changed(self, env: Env) -> None:
        """Do nothing: what a leader does, its store asks of Raft now and then."""

    def synced(self, env: Env, token: int) -> None:
        """Take note that a sync of files has ended."""
        self.files.done(env, self.number, token)

    # Files

    def forget(self, env: Env) -> None:
        """Delete the files of a group that this store is no member of any more."""
        self.files.drop_strays(env, lambda segment: segment.group == self.number, REMOVED)

    def is_stray(self, segment: Segment) -> bool:
        """Policy: what lies below the last SEAL and isn't named by the state never will be."""
        group = self.group
        return segment.group == group.number and segment.end <= group.sealed and segment not in group.segments
