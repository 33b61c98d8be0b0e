"""What a store shows to those who observe the cluster: its groups as they are, and their bytes for a final read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.node import Env, Malformed
from reference.split.requests import ANYWHERE, group_of_request
from reference.split.segments import SealedSegment, Segment, digest_of
from reference.split.store.group import Group
from reference.split.store.groups import Groups
from reference.split.store.machine import GroupMachine
from reference.split.store.reads import OpenSegment
from reference.wire.command import Command

#: So many bytes of a log are given in one answer, unless one record alone has more.
LOG_BYTES = 1 << 20


def describe(groups: Groups) -> dict[str, Any]:
    """Return how the groups stand."""
    rows = {str(number): _describe_group(groups, number) for number in sorted(groups.host.replicas)}
    return {"disk": groups.host.disk, "groups": rows}


def _describe_group(groups: Groups, number: int) -> dict[str, Any]:
    member, machine = groups.host.replicas[number], groups.machines[number]
    group, files = machine.group, machine.files
    index, members = member.committed_members()
    lacking = [one for one in group.segments.values() if one.segment not in files.held and not one.is_uploaded]
    return {
        "role": member.role,
        "term": member.term,
        "leader": member.leader,
        "commit": member.commit,
        "applied": member.applied,
        "end": group.end,
        "sealed": group.sealed,
        "start": group.start,
        "epoch": group.fence.epoch,
        "index": index,
        "voters": list(members.voters),
        "learners": list(members.learners),
        "segments": len(group.segments),
        "held": sum(one in files.held for one in group.segments),
        "missing": len(lacking),
    }


def state_of(groups: Groups, number: int) -> dict[str, Any]:
    """Return the state of a replica, with the hashes of the bytes that it holds, computed now."""
    member, machine = groups.host.replicas[number], groups.machines[number]
    group = machine.group
    members = member.committed_members()[1]
    kept = {str(topic_id): list(group.kept(topic_id)) for topic_id in group.topic_ids()}
    strays = [one.path for one in machine.files.held if one.group == number and one not in group.segments]
    return {
        "replica": member.name,
        "log_index": member.applied,
        "epoch": group.fence.epoch,
        "start": group.start,
        "end": group.end,
        "sealed": group.sealed,
        "tail": digest_of(bytes(group.tail.data)),
        "voters": list(members.voters),
        "learners": list(members.learners),
        "now_ms": group.now_ms,
        "segments": [_segment_row(machine, segment) for segment in group.segments],
        "kept": kept,
        "strays": strays,
    }


def _segment_row(machine: GroupMachine, segment: Segment) -> list[Any]:
    data = machine.files.read(segment)
    if data is not None:
        return [segment.topic_id, segment.start, segment.end, digest_of(data), "local"]
    where = "tier" if machine.group.segments[segment].is_uploaded else "missing"
    return [segment.topic_id, segment.start, segment.end, segment.digest, where]


class LogReads:
    """Reads of a group's bytes in the order of their positions, whether they lie in the tail, a file or an object."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def read(self, env: Env, number: int, position: int, then: Callable[[Env, bytes | None, int], None]) -> None:
        """Read whole records from a position on. ``then`` gets them, and where to go on; None for bytes that can't be
        had now, and nothing at the end. Positions of trimmed records are passed over."""
        machine = self._groups.machines.get(number)
        if machine is None:  # it was removed meanwhile
            then(env, None, position)
            return
        group = machine.group
        stretch = _stretch(group, position)
        if stretch:
            self._open_all(env, number, position, stretch[0].segment.end, stretch, [], then)
            return
        records, end = b"", max(position, group.sealed)
        for head in group.tail.heads:
            if head.position < position:
                continue
            if records and len(records) + head.size > LOG_BYTES:
                break
            records, end = records + group.tail.record(head), head.position + head.size
        then(env, records, end)

    def _open_all(
        self,
        env: Env,
        number: int,
        position: int,
        end: int,
        left: Sequence[SealedSegment],
        opened: Sequence[OpenSegment],
        then: Callable[[Env, bytes | None, int], None],
    ) -> None:
        """Open the segments of all topics in the stretch up to ``end``, one after the other."""
        if not left:
            self._merge(env, number, position, end, opened, then)
            return

        def came(env: Env, one: OpenSegment | None, text: str) -> None:
            if one is None:
                then(env, None, position)
            else:
                self._open_all(env, number, position, end, left[1:], [*opened, one], then)

        self._groups.reads.open(env, left[0], ANYWHERE, came)

    def _merge(
        self,
        env: Env,
        number: int,
        position: int,
        end: int,
        opened: Sequence[OpenSegment],
        then: Callable[[Env, bytes | None, int], None],
    ) -> None:
        rows = [
            (head.position, head.size, one, at)
            for one in opened
            for at, head in one.rows()
            if head.position >= position
        ]
        rows.sort(key=lambda row: row[0])
        parts: list[bytes] = []
        size = 0
        for place, length, one, at in rows:
            if parts and size + length > LOG_BYTES:
                break
            parts.append(one.data[at : at + length])
            size, end = size + length, place + length
        if parts:
            then(env, b"".join(parts), end)
        else:  # the rest of this stretch was trimmed
            self.read(env, number, end, then)


def _stretch(group: Group, position: int) -> list[SealedSegment]:
    """Return the segments of the first seal that ends behind a position and of which something is kept."""
    end = min((one.end for one in group.segments if one.end > position), default=-1)
    return [one for one in group.segments.values() if one.segment.end == end]


def number_in(groups: Groups, message: Command) -> int:
    """Return the group that a request is about, which has a replica here. Raises :class:`chaos.node.Malformed`."""
    number = group_of_request(message.fields)
    if number not in groups.machines:
        raise Malformed(f"this store has no replica of group {number}")
    return number
