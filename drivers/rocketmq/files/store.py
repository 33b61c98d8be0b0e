"""All that a broker keeps below its ``storePathRootDir``, and whether its files agree with one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.scrub import Damage, Kind, Look
from drivers._remoting import records
from drivers._remoting.records import BadRecord
from drivers.rocketmq.files import checkpoint, config, consume_queue, epochs, index, mapped
from drivers.rocketmq.files.commit_log import CommitLog
from drivers.rocketmq.files.consume_queue import ConsumeQueue


@dataclass(slots=True, kw_only=True)
class Store:
    """One replica's store, read by :meth:`look`."""

    root: Path
    log: CommitLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = CommitLog(folder=self.root / "commitlog")

    def look(self) -> Look:
        """Read every file once. Raises ``OSError``."""
        count = sum(1 for _ in self.log.read())
        queues, wrong = consume_queue.queues(self.root / "consumequeue")
        damage = [*self.log.damage, *wrong]
        for queue in queues:
            damage += self._queue(queue)
        damage += [*self._positions(), *self._index(), *self._config()]
        size = sum(part.size for part in mapped.parts(self.log.folder, self.log.name)[0])
        return Look(damage=damage, counted={"messages": count, "queues": len(queues), "bytes": size})

    def read_config(self, file: str) -> Mapping[str, Any]:
        """One of ``config/*.json``, {} without it. Raises ``OSError``."""
        return config.read(self.root / "config", file)[0]

    def _queue(self, queue: ConsumeQueue) -> list[Damage]:
        """Each unit against its record. What stands before the log's first file has been deleted for its age."""
        wrong: list[Damage] = []
        with mapped.Segments(mapped.parts(self.log.folder, self.log.name)[0]) as segments:
            for unit in queue.read():
                if unit.position < self.log.begin:
                    continue
                found = segments.at(unit.position, unit.size)
                if found is None or unit.position + unit.size > self.log.end:
                    text = f"message {unit.offset} at {unit.position}: the commit log ends at {self.log.end}"
                    wrong.append(Damage(file=unit.file, kind=Kind.DANGLING, text=text, at=unit.at))
                    continue
                part, data = found
                with suppress(BadRecord):  # the commit log's own damage
                    told = consume_queue.against(unit, queue, records.decode(data, unit.position - part.base))
                    wrong += [told] if told else []
        return [*queue.damage, *wrong]

    def _positions(self) -> Iterator[Damage]:
        """The epoch file and the checkpoint: themselves, and what they say of the log's end."""
        for name in (epochs.NAME, f"{epochs.NAME}.bak"):
            if (self.root / name).is_file():
                found, wrong = epochs.read(self.root / name, name)
                yield from wrong
                if found and found[-1].start > self.log.end and name == epochs.NAME:
                    text = f"epoch {found[-1].epoch} begins at {found[-1].start}, the commit log ends at {self.log.end}"
                    yield Damage(file=name, kind=Kind.CONTRADICTION, text=text)
        if (self.root / checkpoint.NAME).is_file():
            point, wrong = checkpoint.read(self.root / checkpoint.NAME)
            yield from wrong
            if point is not None and point.confirmed > self.log.end:
                text = f"the log is confirmed up to {point.confirmed}, but ends at {self.log.end}"
                yield Damage(file=checkpoint.NAME, kind=Kind.CONTRADICTION, text=text, at=32)

    def _index(self) -> Iterator[Damage]:
        folder = self.root / "index"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file():
                yield from index.read(path, f"index/{path.name}")[1]

    def _config(self) -> Iterator[Damage]:
        for file in (config.TOPICS, config.OFFSETS):
            content, wrong = config.read(self.root / "config", file)
            yield from wrong
            yield from config.check_topics(content) if file == config.TOPICS else config.offsets(content)[1]
