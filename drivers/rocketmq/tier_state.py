"""What is left in the tier of a RocketMQ broker at the end of a run, read from its files, without RocketMQ.

The files are copied and then read as ``stormproof scrub`` reads them. A broker may write meanwhile, so what seems
damaged is looked at again, some seconds later, and only what both looks found at the same place is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from chaos.deployment import CanReadFiles
from chaos.driver import Record
from chaos.errors import ChaosError
from chaos.ops import QueueRef
from chaos.scrub import Damage
from chaos.shell import files_below
from chaos.workload import body_hash
from drivers._remoting import records
from drivers.rocketmq.files import config, tier_layout, tier_metadata
from drivers.rocketmq.files.tier_layout import QueuePlace
from drivers.rocketmq.files.tier_queue import TierQueue

TIER = "tier"
FILES = (f"{TIER}/**",)
NOTES = (f"store/config/{config.TIER}", f"store/config/{config.TIER}.bak")
#: A broker writes its notes of the tier every ten seconds at the latest.
AGAIN_S = 12.0
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """One queue: its whole messages by their units, and what is wrong with ``content`` or with the ``metadata``."""

    minimum: int
    maximum: int
    messages: Sequence[tuple[int, records.Record]]
    content: Sequence[Damage]
    metadata: Sequence[Damage] = field(default=())


async def collect_tier(
    files: CanReadFiles, node: str, queues: Sequence[QueueRef], record: Record, *, group: str = "", holder: str = ""
) -> None:
    """Record the rows of the tier of one broker in this group ("": the only one), on the disk of ``holder`` if not its
    own: ``tiered`` for each message, ``tier_damage``, and ``tier_queue`` for each queue that it holds, or that it notes
    to be there; ``tier_unread`` when its files can't be read."""
    wanted = ((holder or node, FILES), (node, NOTES))
    try:
        found = await _look(files, wanted, queues, group)
        if any(one.content or one.metadata for one in found.values()):
            await asyncio.sleep(AGAIN_S)
            again = await _look(files, wanted, queues, group)
            found = {queue: _both(found.get(queue), one) for queue, one in again.items()}
    except (OSError, ChaosError) as error:
        record("final", f="tier_unread", node=node, value={"reason": str(error) or type(error).__name__})
        return
    for queue, look in found.items():
        _record_look(node, queue, look, record)


async def _look(
    files: CanReadFiles, wanted: Sequence[tuple[str, Sequence[str]]], queues: Sequence[QueueRef], group: str
) -> Mapping[QueueRef, QueueLook]:
    """Copy files and look at the queues in them. ``wanted``: which files of which nodes. Raises ``OSError``, or what
    the deployment raises."""
    with TemporaryDirectory(prefix="stormproof-tier-") as folder:
        copy = Path(folder)
        for node, globs in wanted:
            for path, size in (await files.files(node, globs)).items():
                content = bytearray()
                while len(content) < size and (piece := await files.read_file(node, path, len(content), PIECE_BYTES)):
                    content += piece
                files_below.write(copy, path, bytes(content))
        return await asyncio.to_thread(_read, copy, queues, group)


def _read(copy: Path, queues: Sequence[QueueRef], group: str) -> Mapping[QueueRef, QueueLook]:
    """Return all queues of ours that the copy of this tier holds, or that its broker's notes name; where groups share
    it, those of this one."""
    ours = {(queue.topic, queue.queue_id): queue for queue in queues}
    known, _ = tier_metadata.segments(config.read(copy / "store" / "config", config.TIER)[0])
    found = {}
    for place in tier_layout.places(copy / TIER) if (copy / TIER).is_dir() else ():
        queue = ours.get((place.topic, place.queue_id)) if group in ("", place.broker) else None
        if queue is not None:
            tier = TierQueue(place=place)
            messages = list(tier.read())
            found[queue] = QueueLook(
                minimum=tier.minimum,
                maximum=tier.maximum,
                messages=messages,
                content=tier.damage,
                metadata=tier_metadata.against(known, place),
            )
    for one in known:  # of what is gone as a whole there is no folder to look into
        broker, topic, number = [*one.queue.split("/", 2), "", ""][:3]
        queue = ours.get((topic, int(number))) if number.isascii() and number.isdigit() and one.size else None
        if queue is not None and queue not in found and group in ("", broker):
            place = QueuePlace(root=copy / TIER, cluster="", broker=broker, topic=topic, queue_id=int(number))
            wrong = tier_metadata.against(known, place)
            found[queue] = QueueLook(minimum=0, maximum=0, messages=(), content=(), metadata=wrong)
    return found


def _both(before: QueueLook | None, now: QueueLook) -> QueueLook:
    """Return the newer look, with the damage only that the one before had too. While a broker writes, the last of its
    units may point to what the copy lacks: nothing is claimed then of what came since the look before."""

    def still(old: Sequence[Damage], new: Sequence[Damage]) -> list[Damage]:
        places = {one.place for one in old}
        return [one for one in new if one.place in places]

    content = still(before.content, now.content) if before else []
    is_at_rest = len(content) == len(now.content)
    return QueueLook(
        minimum=now.minimum,
        maximum=now.maximum if is_at_rest else min(now.maximum, before.maximum if before else now.minimum),
        messages=now.messages,
        content=content,
        metadata=still(before.metadata, now.metadata) if before else (),
    )


def _record_look(node: str, queue: QueueRef, look: QueueLook, record: Record) -> None:
    for offset, one in look.messages:
        record(
            "final",
            f="tiered",
            node=node,
            queue=queue.index,
            offset=offset,
            position=one.position,
            message=one.message,
            hash=body_hash(one.body),
            value={"size": one.size},
        )
    for about, damage in (("content", look.content), ("metadata", look.metadata)):
        for place in damage:
            value = {"about": about, "kind": str(place.kind), "text": str(place)}
            record("final", f="tier_damage", node=node, queue=queue.index, value=value)
    record(
        "final",
        f="tier_queue",
        node=node,
        queue=queue.index,
        value={"minimum": look.minimum, "maximum": look.maximum},
    )
