"""What replicas' logs and the tier hold in the end, read from their files, without Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.deployment import CanReadFiles
from chaos.driver import Record
from chaos.errors import ChaosError
from chaos.ops import QueueRef
from chaos.workload import body_hash
from drivers.kafka import tier, tier_notes, wire
from drivers.kafka.client import number_of_message
from drivers.kafka.tier_notes import Segment

#: Below each broker's disk.
DATA = "data"
#: What a follower has not got yet it soon has, and what is copied or deleted meanwhile is at rest then.
TRIES, RETRY_S = 10, 1.0
CONTENT, METADATA = "content", "metadata"


@dataclass(frozen=True, slots=True)
class Log:
    """One partition on one broker's disk, from its offset ``first`` to before ``end``."""

    first: int
    end: int
    batches: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with the tier of a queue. ``about``: its content, or what brokers note of it."""

    queue: QueueRef
    about: str
    kind: str
    text: str


async def collect_logs(
    files: CanReadFiles, node: str, ends: Mapping[QueueRef, tuple[int, int]], record: Record
) -> Mapping[QueueRef, Log]:
    """Record what one broker's logs of these queues hold, and that they are complete if they go on to where each ends,
    as leaders say (``ends``: the first offset and the one after the last). Return them; none that are not complete."""
    for _ in range(TRIES):
        try:
            logs = {queue: await _log(files, node, queue.topic, queue.queue_id) for queue in ends}
            if all(log.end >= ends[queue][1] for queue, log in logs.items()):
                break
        except (OSError, ValueError, ChaosError):
            pass
        await asyncio.sleep(RETRY_S)
    else:
        return {}
    for queue, log in logs.items():
        for one in wire.stored(log.batches):
            if one.message is not None:
                record("final", f="log", node=node, position=one.offset, **_content(queue, one))
    minimums = {str(queue.index): log.first for queue, log in logs.items()}
    maximums = {str(queue.index): log.end for queue, log in logs.items()}
    record("final", f="node", node=node, value={"minimums": minimums, "maximums": maximums})
    record("final", f="complete", node=node)
    return logs


async def collect_tier(
    files: CanReadFiles,
    brokers: Sequence[str],
    ends: Mapping[QueueRef, tuple[int, int]],
    logs: Sequence[Mapping[QueueRef, Log]],
    record: Record,
) -> None:
    """Record what the tier of all brokers holds, and what it claims to hold: all that brokers note to be copied, from
    where each queue begins. ``logs``: those of brokers, where transactions may end that began in the tier. What is
    damaged is looked at twice."""
    try:
        look = await _look(files, brokers, list(ends))
        if any(damage for _, _, damage in look.values()):
            await asyncio.sleep(RETRY_S)
            before, look = look, await _look(files, brokers, list(ends))
            look = {
                queue: (segments, batches, [one for one in damage if one in before[queue][2]])
                for queue, (segments, batches, damage) in look.items()
            }
    except (OSError, ValueError, ChaosError) as error:
        record("final", f="tier_unread", value={"reason": str(error) or type(error).__name__})
        return
    for queue, (segments, batches, damage) in look.items():
        own = [one[queue] for one in logs if queue in one]
        _record_tier(queue, ends[queue][0], segments, batches, own, record)
        for one in damage:
            value = {"about": one.about, "kind": one.kind, "text": one.text}
            record("final", f="tier_damage", queue=queue.index, value=value)


def _record_tier(
    queue: QueueRef,
    first: int,
    segments: Sequence[Segment],
    batches: Sequence[Any],
    logs: Sequence[Log],
    record: Record,
) -> None:
    """Record the rows of one queue, which begins at ``first``."""
    end = max((one.end + 1 for one in segments), default=first)
    later = [one for log in logs[:1] for one in log.batches if one.base_offset >= end]
    for one in wire.stored([*batches, *later]):
        if one.offset < end:
            record("final", f="tiered", **_content(queue, one))
    if segments or any(log.first > first for log in logs):
        record("final", f="tier_queue", queue=queue.index, value={"minimum": first, "maximum": end})


def _content(queue: QueueRef, one: wire.Stored) -> Mapping[str, Any]:
    """Return what stands at an offset, without the content of what no reader is given."""
    place = {"queue": queue.index, "offset": one.offset, "epoch": one.epoch}
    if one.message is None:
        return place
    return {**place, "message": number_of_message(one.message.key), "hash": body_hash(one.message.body)}


async def _log(files: CanReadFiles, node: str, topic: str, partition: int) -> Log:
    """Read the segments of a partition; a log without any is empty. Raises ``ValueError`` where one does not go on to
    where the next one begins, and what the deployment raises."""
    folder = f"{DATA}/{topic}-{partition}"
    found = await files.files(node, [f"{folder}/*.log"])
    begins = sorted((int(path.rpartition("/")[2].removesuffix(".log")), path) for path in found)
    first = end = begins[0][0] if begins else 0
    log: list[Any] = []
    for begin, path in begins:
        if begin != end:
            raise ValueError(f"{path} of {node} begins at {begin}, not at {end}")
        log += (await asyncio.to_thread(wire.batches, await _read(files, node, path)))[0]
        end = _end(log, begin)
    return Log(first, end, log)


def _end(batches: Sequence[Any], begin: int) -> int:
    return max(begin, batches[-1].base_offset + batches[-1].last_offset_delta + 1) if batches else begin


async def _read(files: CanReadFiles, node: str, path: str) -> bytes:
    content = bytearray()
    while piece := await files.read_file(node, path, len(content)):
        content += piece
    return bytes(content)


_Look = Mapping[QueueRef, tuple[Sequence[Segment], Sequence[Any], Sequence[Damage]]]


async def _look(files: CanReadFiles, brokers: Sequence[str], queues: Sequence[QueueRef]) -> _Look:
    """Return of each queue the segments that are in the tier by brokers' notes, their batches, and what is wrong."""
    notes = max([await _log(files, broker, tier_notes.TOPIC, 0) for broker in brokers], key=lambda log: log.end)
    segments = tier_notes.finished(record.value or b"" for batch in notes.batches for record in batch.records)
    holder = tier.holder(brokers)
    # each file is named by its first offset and its segment's id
    paths = {_id_in(path): path for path in await files.files(holder, (f"{tier.FOLDER}/**/*.log",))}
    found = {}
    for queue in queues:
        own = [one for one in segments if (one.topic, one.partition) == (queue.topic, queue.queue_id)]
        own.sort(key=lambda one: (one.start, one.end))
        batches: dict[tuple[int, int, int], Any] = {}
        damage: list[Damage] = []
        for segment in own:
            path = paths.get(segment.id, "")
            content = await _read(files, holder, path) if path else None
            held, wrong = await asyncio.to_thread(_held, segment, content)
            damage += [Damage(queue, *one) for one in wrong]
            # where segments overlap, the same batch in both is no second copy of its records
            batches |= {(one.base_offset, one.partition_leader_epoch, one.crc): one for one in held}
        found[queue] = own, [one for _, one in sorted(batches.items())], damage
    return found


def _id_in(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".log").partition("-")[2]


def _held(segment: Segment, content: bytes | None) -> tuple[Sequence[Any], Sequence[tuple[str, str, str]]]:
    """Return the batches of a segment, and what is wrong with it: about what, of which kind, in words. Raises
    ``ValueError`` for one that is compressed, of which nothing is known."""
    name = f"the segment {segment.id}, offsets {segment.start} to {segment.end},"
    if content is None:
        return (), [(CONTENT, "dangling", f"{name} is not there")]
    try:
        batches, size = wire.batches(content)
    except wire.Compressed:
        raise
    except ValueError as error:
        return (), [(CONTENT, "unreadable", f"{name} can't be read: {error}")]
    wrong = [(CONTENT, "cut", f"{name} can be read only up to byte {size}")] if size < len(content) else []
    return batches, [
        *wrong,
        *((METADATA, "contradiction", f"{name} {text}") for text in _against(segment, content, batches)),
    ]


def _against(segment: Segment, content: bytes, batches: Iterable[Any]) -> Iterator[str]:
    """Yield what brokers' notes say of a segment and is not so."""
    if len(content) != segment.size:
        yield f"has {len(content)} bytes, not {segment.size} as brokers note"
    for one in batches:
        last = one.base_offset + one.last_offset_delta
        if not segment.start <= one.base_offset <= last <= segment.end:
            yield f"holds offsets {one.base_offset} to {last}"
        elif segment.epoch_of(one.base_offset) != one.partition_leader_epoch:
            epoch = segment.epoch_of(one.base_offset)
            yield f"holds offset {one.base_offset} of epoch {one.partition_leader_epoch}, not {epoch} as brokers note"
