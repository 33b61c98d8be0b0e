"""Copies of sealed segments: what a store lacks is fetched from the object store, or from another member, and checked.

Bytes that no object holds come first; of the others as many are kept here, newest first, as ``local_bytes`` allow.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.node import Env, Malformed
from reference.split.calls import Calls
from reference.split.names import split_replica
from reference.split.replica import Replica
from reference.split.requests import Refusal, SegmentRequest
from reference.split.segment_files import DAMAGED, REPLICA, TIER, UPLOADED, SegmentFiles
from reference.split.segments import Segment, digest_of
from reference.split.tier import SegmentTier
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import whole

#: So many segments are copied to a store at once, in pieces of this size; so long may a piece take.
MAX_UNDER_WAY, PIECE_BYTES, TIMEOUT_NS = 2, 1 << 20, 2_000_000_000


class Copying:
    """The copies that one store makes, and those that it gives to others."""

    def __init__(self, files: SegmentFiles, tier: SegmentTier, calls: Calls, local_bytes: int) -> None:
        self._files, self._tier, self._calls = files, tier, calls
        self._local_bytes = local_bytes
        self._under_way: dict[Segment, None] = {}
        self._turn = 0

    # What this store lacks, or need not keep

    def consider(self, env: Env, replicas: Iterable[Replica]) -> None:
        """Drop uploaded segments beyond the limit, and begin to copy what is lacking."""
        room = self._local_bytes
        needed: list[tuple[Replica, Segment]] = []
        useful: list[tuple[Replica, Segment]] = []
        known = [(one, replica) for replica in replicas for one in replica.group.segments.values()]
        for sealed, replica in sorted(known, key=lambda pair: (-pair[0].sealed_ms, pair[0].segment)):
            segment = sealed.segment
            if not sealed.is_uploaded:
                needed.append((replica, segment))
                continue
            room -= sealed.size
            if room >= 0:
                useful.append((replica, segment))
            elif segment in self._files.held:
                self._files.drop(env, segment, UPLOADED)
        for replica, segment in needed + useful:
            if len(self._under_way) < MAX_UNDER_WAY and self._lacks(segment):
                self._copy(env, replica, segment)

    def _lacks(self, segment: Segment) -> bool:
        files = self._files
        is_here = segment in files.held or files.is_pending(segment) or segment in self._under_way
        return files.is_checked and not is_here

    def _copy(self, env: Env, replica: Replica, segment: Segment) -> None:
        if replica.group.segments[segment].is_uploaded:
            self._under_way[segment] = None
            self._tier.fetch(env, segment, lambda env, data, absent: self._came(env, replica, segment, data, TIER))
            return
        others = self._others(env, replica)
        if others:
            self._under_way[segment] = None
            self._turn += 1
            self._ask(env, replica, segment, others[self._turn % len(others)], b"")

    def _others(self, env: Env, replica: Replica) -> list[str]:
        members = replica.members.all if replica.members is not None else ()
        return [node for node in (split_replica(name)[0] for name in members) if node != env.name]

    def _ask(self, env: Env, replica: Replica, segment: Segment, node: str, held: bytes) -> None:
        """Ask another member for the bytes behind those that are here."""

        def answered(env: Env, piece: tuple[int, bytes] | None) -> None:
            size, data = piece if piece is not None else (0, b"")
            known = replica.group.segments.get(segment)
            if not data or known is None or known.size != size:
                self._came(env, replica, segment, None, REPLICA)
            elif len(held) + len(data) < size:
                self._ask(env, replica, segment, node, held + data)
            else:
                self._came(env, replica, segment, held + data, REPLICA)

        request = SegmentRequest(segment=segment, offset=len(held))
        self._calls.ask(env, node, request, _read_piece, answered, TIMEOUT_NS)

    def _came(self, env: Env, replica: Replica, segment: Segment, data: bytes | None, source: str) -> None:
        self._under_way.pop(segment, None)
        if data is not None and segment in replica.group.segments and self.is_whole(segment, data):
            replica.flush(env, {segment: data}, source)

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
