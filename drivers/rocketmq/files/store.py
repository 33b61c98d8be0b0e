"""All that a broker keeps below its ``storePathRootDir``, and whether its files agree with one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.scrub import Damage, Kind, Look
from drivers._remoting import records
from drivers._remoting.records import BadRecord
from drivers.rocketmq.files import checkpoint, config, consume_queue, epochs, index, mapped
from drivers.rocketmq.files.checkpoint import Checkpoint
from drivers.rocketmq.files.commit_log import CommitLog
from drivers.rocketmq.files.config import GroupOffset
from drivers.rocketmq.files.consume_queue import ConsumeQueue
from drivers.rocketmq.files.dispatch import Dispatched
from drivers.rocketmq.files.epochs import Epoch

#: Folders of queues: the common form, batches, and one database for all.
QUEUES, BATCHES, ROCKSDB = "consumequeue", "batchconsumequeue", "consumequeue_rocksdb"


@dataclass(slots=True, kw_only=True)
class Store:
    """One replica's store, read by :meth:`look`."""

    root: Path
    log: CommitLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = CommitLog(folder=self.root / "commitlog")

    def look(self) -> Look:
        """Read every file once. Raises ``OSError``."""
        groups, wrong = self._config()  # before the queues: they may grow while we read
        count, dispatched = 0, Dispatched(apart=self._apart())
        for record in self.log.read():
            count += 1
            dispatched.log(record)
        queues, unreadable = consume_queue.queues(self.root / QUEUES)
        damage = [*self.log.damage, *unreadable]
        for queue in queues:
            damage += self._queue(queue, dispatched)
        point, history, misplaced = self._positions()
        dispatched.settled = history[-1].start if len(history) > 1 else mapped.LAST
        damage += [*misplaced, *self._index(), *wrong]
        notes = []
        if any((self.root / folder / "CURRENT").is_file() for folder in (QUEUES, ROCKSDB)):
            notes.append("its queues are kept in RocksDB, which is not read: nothing says whether each message has one")
        else:
            damage += [
                *dispatched.damage(self.log.begin, point.queued if point else -1),
                *self._beyond(groups, dispatched.ends()),
            ]
            notes += self._odd(queues, dispatched)
        size = sum(part.size for part in mapped.parts(self.log.folder, self.log.name)[0])
        counted = {"messages": count, "queues": len(queues), "bytes": size}
        return Look(damage=damage, counted=counted, notes=notes)

    def read_config(self, file: str) -> Mapping[str, Any]:
        """Return one of ``config/*.json``, {} without it. Raises ``OSError``."""
        return config.read(self.root / "config", file)[0]

    def _apart(self) -> frozenset[str]:
        """Return topics whose queues hold batches, and are kept in another folder."""
        folder = self.root / BATCHES
        kept = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
        return frozenset(kept) | config.batch_topics(self.read_config(config.TOPICS))

    def _queue(self, queue: ConsumeQueue, dispatched: Dispatched) -> list[Damage]:
        """Check each unit against its record. What stands before the log's first file has been deleted for its age."""
        wrong: list[Damage] = []
        units: dict[int, int] = {}
        with mapped.Segments(mapped.parts(self.log.folder, self.log.name)[0]) as segments:
            for unit in queue.read():
                units[unit.offset] = unit.position
                if unit.position < self.log.begin:
                    continue
                found = segments.at(unit.position, unit.size)
                if found is None or unit.position + unit.size > self.log.end:
                    text = f"message {unit.offset} at {unit.position}: the commit log ends at {self.log.end}"
                    wrong.append(Damage(file=unit.file, kind=Kind.DANGLING, text=text, at=unit.at))
                    del units[unit.offset]  # it says nothing of how far dispatch has come
                    continue
                part, data = found
                with suppress(BadRecord):  # the commit log's own damage
                    damage = consume_queue.against(unit, queue, records.decode(data, unit.position - part.base))
                    wrong += [damage] if damage else []
        dispatched.queue(queue, units)
        return [*queue.damage, *wrong]

    def _beyond(self, groups: Sequence[GroupOffset], ends: Mapping[tuple[str, int], int]) -> Iterator[Damage]:
        """Yield offsets of groups behind the end of their queue: they skip what comes next. Offsets of topics that are
        gone stay for a while. A queue of which the last message is long deleted may be gone, and then nothing says
        where it ended; with the commit log's beginning still there, it never had a message."""
        topics = self.read_config(config.TOPICS)
        known = config.topics(topics).keys()
        for one in groups:
            end = ends.get((one.topic, one.queue_id), 0)
            gone = not (self.root / QUEUES / one.topic / str(one.queue_id)).is_dir() and self.log.begin > 0
            judged = one.topic in known and one.topic not in config.batch_topics(topics) and not gone
            if judged and one.offset > end:
                who = f"group {one.group}" if one.group else "the delivery of delayed messages"
                text = f"{who} goes on at offset {one.offset} of {one.topic}/{one.queue_id}, which ends at {end}"
                file = f"config/{config.OFFSETS if one.group else config.DELAYS}"
                yield Damage(file=file, kind=Kind.CONTRADICTION, text=text)

    def _odd(self, queues: Sequence[ConsumeQueue], dispatched: Dispatched) -> Iterator[str]:
        """Yield what is odd, but may be right: a topic that was deleted, or deleted and made again, leaves such
        things."""
        known = frozenset(config.topics(self.read_config(config.TOPICS)))
        for topic, count in dispatched.without_queues(known).items():
            yield f"topic {topic} has no queue, but the commit log has {count} records of one that was called so"
        if known and (lost := sorted({queue.topic for queue in queues if queue.maximum} - known)):
            yield f"config/{config.TOPICS} doesn't know {', '.join(lost)}, of which there are queues with messages"

    def _positions(self) -> tuple[Checkpoint | None, list[Epoch], list[Damage]]:
        """Return the checkpoint and the epochs: themselves, and what is wrong with them or with what they say of the
        log's end."""
        damage: list[Damage] = []
        history: list[Epoch] = []
        for name in (epochs.NAME, f"{epochs.NAME}.bak"):
            if (self.root / name).is_file():
                found, wrong = epochs.read(self.root / name, name)
                damage += wrong
                history = history or found
                if found and found[-1].start > self.log.end and name == epochs.NAME:
                    text = f"epoch {found[-1].epoch} begins at {found[-1].start}, the commit log ends at {self.log.end}"
                    damage.append(Damage(file=name, kind=Kind.CONTRADICTION, text=text))
        if not (self.root / checkpoint.NAME).is_file():
            return None, history, damage
        point, wrong = checkpoint.read(self.root / checkpoint.NAME)
        damage += wrong
        if point is not None and point.confirmed > self.log.end:
            text = f"the log is confirmed up to {point.confirmed}, but ends at {self.log.end}"
            damage.append(Damage(file=checkpoint.NAME, kind=Kind.CONTRADICTION, text=text, at=32))
        return point, history, damage

    def _index(self) -> Iterator[Damage]:
        folder = self.root / "index"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file():
                yield from index.read(path, f"index/{path.name}")[1]

    def _config(self) -> tuple[list[GroupOffset], list[Damage]]:
        """Return how far groups have come, and what is wrong in the files of the configuration themselves."""
        topics, wrong = config.read(self.root / "config", config.TOPICS)
        wrong += config.check_topics(topics)
        groups: list[GroupOffset] = []
        for file, found_in in ((config.OFFSETS, config.offsets), (config.DELAYS, config.delays)):
            content, unreadable = config.read(self.root / "config", file)
            found, odd = found_in(content)
            groups += found
            wrong += [*unreadable, *odd]
        return groups, wrong
