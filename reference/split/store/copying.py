"""Copies of sealed segments: what a store lacks is fetched from the object store, or from another member, and checked.

Bytes that no object holds come first; of the others as many are kept here, newest first, as ``local_bytes`` allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from chaos.node import Env, Malformed
from reference.split.calls import Calls
from reference.split.requests import Refusal, SegmentRequest
from reference.split.segments import SealedSegment, Segment, digest_of
from reference.split.store.machine import GroupMachine
from reference.split.store.segment_files import DAMAGED, REPLICA, TIER, UPLOADED, SegmentFiles
from reference.split.store.tier import SegmentTier
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import whole

#: So many segments are copied to a store at once, in pieces of this size; so long may a piece take.
MAX_UNDER_WAY, PIECE_BYTES, TIMEOUT_NS = 2, 1 << 20, 2_000_000_000


class Places(Protocol):
    """Where the replicas of a group are."""

    def has(self, machine: GroupMachine) -> bool:
        """Return whether this is the state machine of a replica that is here."""

    def nodes_of(self, group: int) -> Sequence[str]:
        """Return the stores that are members of a group, this one too."""

    def env_of(self, env: Env, group: int) -> Env:
        """Return the environment of the replica of a group that is here."""


class Copying:
    """The copies that one store makes, and those that it gives to others."""

    def __init__(self, files: SegmentFiles, tier: SegmentTier, calls: Calls, places: Places, local_bytes: int) -> None:
        self._files, self._tier, self._calls, self._places = files, tier, calls, places
        self._local_bytes = local_bytes
        self._under_way: dict[Segment, None] = {}
        self._turn = 0

    # What this store lacks, or need not keep

    def consider(self, env: Env, machines: Iterable[GroupMachine]) -> None:
        """Drop uploaded segments beyond the limit, and begin to copy what is lacking."""
        room = self._local_bytes
        needed: list[tuple[GroupMachine, Segment]] = []
        useful: list[tuple[GroupMachine, Segment]] = []
        known = [(one, machine) for machine in machines for one in machine.group.segments.values()]
        for sealed, machine in sorted(known, key=lambda pair: (-pair[0].sealed_ms, pair[0].segment)):
            segment = sealed.segment
            if self.must_stay(env, sealed):
                needed.append((machine, segment))
                continue
            room -= sealed.size
            if room >= 0:
                useful.append((machine, segment))
            elif segment in self._files.held:
                self._files.drop(env, segment, UPLOADED)
        for machine, segment in needed + useful:
            if len(self._under_way) < MAX_UNDER_WAY and self._lacks(segment):
                self._copy(env, machine, segment)

    def must_stay(self, env: Env, sealed: SealedSegment) -> bool:
        """Policy: what no object holds stays here, however little room there is (R4)."""
        return not sealed.is_uploaded

    def _lacks(self, segment: Segment) -> bool:
        files = self._files
        is_here = segment in files.held or files.is_pending(segment) or segment in self._under_way
        return files.is_checked and not is_here

    def _copy(self, env: Env, machine: GroupMachine, segment: Segment) -> None:
        others = [] if machine.group.segments[segment].is_uploaded else self.sources(env, machine)
        self._under_way[segment] = None
        self._turn += 1
        turn = self._turn % (len(others) + 1)
        if turn < len(others):
            self._ask(env, machine, segment, others[turn], b"")
        else:
            self._tier.fetch(env, segment, lambda env, data, absent: self._came(env, machine, segment, data, TIER))

    def sources(self, env: Env, machine: GroupMachine) -> Sequence[str]:
        """Policy: what no object holds, as far as is known here, is asked of the other members, too. After a restart a
        member may have forgotten an UPLOADED, after which all let their copies go."""
        return [node for node in self._places.nodes_of(machine.number) if node != env.name]

    def _ask(self, env: Env, machine: GroupMachine, segment: Segment, node: str, held: bytes) -> None:
        """Ask another member for the bytes behind those that are here."""

        def answered(env: Env, piece: tuple[int, bytes] | None) -> None:
            size, data = piece if piece is not None else (0, b"")
            known = machine.group.segments.get(segment)
            if not data or known is None or known.size != size:
                self._came(env, machine, segment, None, REPLICA)
            elif len(held) + len(data) < size:
                self._ask(env, machine, segment, node, held + data)
            else:
                self._came(env, machine, segment, held + data, REPLICA)

        request = SegmentRequest(segment=segment, offset=len(held))
        self._calls.ask(env, node, request, _read_piece, answered, TIMEOUT_NS)

    def _came(self, env: Env, machine: GroupMachine, segment: Segment, data: bytes | None, source: str) -> None:
        self._under_way.pop(segment, None)
        is_wanted = self._places.has(machine) and segment in machine.group.segments
        if data is not None and is_wanted and self.is_whole(segment, data):
            machine.flush(self._places.env_of(env, machine.number), {segment: data}, source)

    def is_whole(self, segment: Segment, data: bytes) -> bool:
        """Policy: a copy counts only if its hash is the segment's."""
        return digest_of(data) == segment.digest

    # What others lack

    def give(self, env: Env, source: str, message: Command) -> None:
        """Answer SEGMENT_GET with a piece."""
        asked = SegmentRequest.read(message)
        data = self._files.read(asked.segment)
        if data is None or asked.offset >= len(data):
            refusal = Refusal(code=Response.GROUP_BEHIND, remark=f"this store lacks {asked.segment.key}")
            env.send(source, refusal.reply(message))
            return
        if not asked.offset and not self._files.is_whole(asked.segment, data):
            self._files.drop(env, asked.segment, DAMAGED)
            env.send(source, message.reply(Response.GROUP_BEHIND, remark=f"{asked.segment.key} is damaged here"))
            return
        piece = data[asked.offset : asked.offset + PIECE_BYTES]
        env.send(source, message.reply(fields={"size": str(len(data))}, body=piece))


def _read_piece(message: Command) -> tuple[int, bytes]:
    """Return the size of a segment and a piece of it; an empty one from a store that lacks it. Raises
    :class:`chaos.node.Malformed`."""
    if message.code != Response.SUCCESS:
        return 0, b""
    size = whole(message.fields, "size")
    if not 0 < len(message.body) <= size:
        raise Malformed(f"no piece of a segment of {size} bytes has {len(message.body)}")
    return size, message.body
