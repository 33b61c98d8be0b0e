"""What a broker knows of its tier, ``config/tieredStoreMetadata.json``, beside the files that are there.

For each kind of file it has a table, ``BROKER/TOPIC/QUEUE`` → base → size, status (2: deleted), times. The last file of
a queue may be larger than the table says: the broker writes the file first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.scrub import Damage, Kind
from drivers.rocketmq.files import config
from drivers.rocketmq.files.mapped import LAST, Part
from drivers.rocketmq.files.tier_layout import COMMIT_LOG, CONSUME_QUEUE, INDEX, QueuePlace

_TABLES = {
    "commitLogFileSegmentTable": COMMIT_LOG,
    "consumeQueueFileSegmentTable": CONSUME_QUEUE,
    "indexFileSegmentTable": INDEX,
}
_DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One file as the metadata have it. ``queue``: ``BROKER/TOPIC/QUEUE``."""

    queue: str
    kind: str
    base: int
    size: int


def segments(
    content: Mapping[str, Any], name: str = f"config/{config.TIER}", *, with_index: bool = False
) -> tuple[list[Segment], list[Damage]]:
    """Return all files of queues that are not deleted, and the entries that make no sense; ``with_index``: those of the
    index too."""
    found, wrong = [], []
    for table, kind in _TABLES.items():
        if kind == INDEX and not with_index:
            continue
        for queue, base, entry in _entries(content.get(table)):
            numbers = [base if base is not None else -1, *(_number(entry, key) for key in ("size", "status"))]
            if min(numbers) < 0 or numbers[0] != _number(entry, "baseOffset"):
                text = f"{table}, {queue}: the entry of base {numbers[0]} makes no sense"
                wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=text))
            elif numbers[2] != _DELETED:
                found.append(Segment(queue=queue, kind=kind, base=numbers[0], size=numbers[1]))
    return found, wrong


def queues(known: list[Segment]) -> list[tuple[str, str, int]]:
    """Return ``(broker, topic, number)`` of each queue of which the tier must hold something, and of each broker's
    index."""
    found = set()
    for one in known:
        broker, _, rest = one.queue.partition("/")
        topic, _, number = rest.rpartition("/")
        if one.size > 0 and broker and topic and number.isascii() and number.isdigit() and len(number) < 10:
            found.add((broker, topic, int(number)))
    return sorted(found)


def against(known: list[Segment], place: QueuePlace, name: str = f"config/{config.TIER}") -> list[Damage]:
    """Return what the metadata say of one queue and its files don't keep, and its files that they don't know. Raises
    ``OSError``."""
    queue = f"{place.broker}/{place.topic}/{place.queue_id}"
    wrong = []
    for kind in (COMMIT_LOG, CONSUME_QUEUE, INDEX):
        files: dict[int, Part] = {part.base: part for part in place.segments(kind)[0]}
        mine = [one for one in known if one.queue == queue and one.kind == kind]
        for one in mine:
            part = files.get(one.base)
            if part is None and one.size == 0:
                continue  # it is made when its first byte is written
            if part is None:
                text = f"{queue}: {kind} from {one.base} on ({one.size} bytes) is not in the tier"
                wrong.append(Damage(file=name, kind=Kind.DANGLING, text=text))
            elif part.size < one.size:
                text = f"the metadata give it {one.size} bytes, it has {part.size}"
                wrong.append(Damage(file=part.name, kind=Kind.CONTRADICTION, text=text))
        unknown = sorted(files.keys() - {one.base for one in mine})
        wrong += [
            Damage(file=files[base].name, kind=Kind.CONTRADICTION, text=f"{name} doesn't know this file")
            for base in unknown
            if mine
        ]
    return wrong


def _entries(table: object) -> Iterator[tuple[str, int | None, Mapping[str, Any]]]:
    for queue, bases in (table if isinstance(table, dict) else {}).items():
        for base, entry in (bases if isinstance(bases, dict) else {}).items():
            number = int(base) if base.isascii() and base.isdigit() and len(base) < 20 else None
            yield (
                queue,
                number if number is not None and number <= LAST else None,
                (entry if isinstance(entry, dict) else {}),
            )


def _number(entry: Mapping[str, Any], key: str) -> int:
    value = entry.get(key)
    return value if type(value) is int else -1
