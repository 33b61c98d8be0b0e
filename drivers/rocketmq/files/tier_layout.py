"""How a tier directory of RocketMQ's is laid out (``PosixFileSegment``).

``HASH_CLUSTER/BROKER/TOPIC/QUEUE/KIND/HASHBASE``: ``KIND`` is COMMIT_LOG or CONSUME_QUEUE (the index, INDEX, is one for
each broker, with a topic's name that no client can have). ``HASH`` are the first eight digits of an MD5, of the
cluster's name and of the base's digits. The base is the offset of the file's first byte, as twenty digits; files of one
kind continue one another, as those of a commit log do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.scrub import Damage, Kind
from drivers.rocketmq.files.mapped import LAST, Part

COMMIT_LOG, CONSUME_QUEUE, INDEX = "COMMIT_LOG", "CONSUME_QUEUE", "INDEX"
_CLUSTER = re.compile(r"([0-9a-f]{8})_(.+)", re.DOTALL)
_SEGMENT = re.compile(r"([0-9a-f]{8})([0-9]{20})")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Where the tier keeps one queue: ``path`` below ``root``."""

    root: Path
    cluster: str
    broker: str
    topic: str
    queue_id: int

    @property
    def name(self) -> str:
        return f"{_hash(self.cluster)}_{self.cluster}/{self.broker}/{self.topic}/{self.queue_id}"

    def segments(self, kind: str) -> tuple[list[Part], list[Damage]]:
        """Return the files of one kind by their base, and those that have no business there. Raises ``OSError``."""
        folder = self.root / self.name / kind
        if not folder.is_dir():
            return [], []
        found, wrong = [], []
        for path in sorted(folder.iterdir(), key=lambda one: one.name[8:]):
            shown = f"{self.name}/{kind}/{path.name}"
            match = _SEGMENT.fullmatch(path.name)
            if match is None or int(match[2]) > LAST or not path.is_file():
                wrong.append(Damage(file=shown, kind=Kind.UNREADABLE, text="no segment has a name like this"))
            elif match[1] != _hash(str(int(match[2]))):
                text = f"its name should begin with {_hash(str(int(match[2])))}; a broker doesn't find it"
                wrong.append(Damage(file=shown, kind=Kind.MISPLACED, text=text))
            else:
                found.append(Part(path=path, name=shown, base=int(match[2]), size=path.stat().st_size))
        return found, wrong


def clusters(root: Path) -> Sequence[str]:
    """Return the clusters that keep something in this directory, by the names of its folders. Raises ``OSError``."""
    found = (_CLUSTER.fullmatch(path.name) for path in sorted(root.iterdir()) if path.is_dir())
    return [match[2] for match in found if match and match[1] == _hash(match[2])]


def cluster_of(root: Path, broker: str) -> str:
    """Return the cluster that keeps something of this broker, or the first one. Raises ``OSError``."""
    found = clusters(root)
    return next((one for one in found if (root / f"{_hash(one)}_{one}" / broker).is_dir()), found[0] if found else "")


def places(root: Path) -> Iterator[QueuePlace]:
    """Yield all queues of all clusters in this directory, in the order of their names. Raises ``OSError``."""
    for cluster in clusters(root):
        top = root / f"{_hash(cluster)}_{cluster}"
        for folder in sorted(top.glob("*/*/*")):
            number = folder.name
            if folder.is_dir() and number.isascii() and number.isdigit() and len(number) < 10:
                broker, topic = folder.parts[-3:-1]
                if any((folder / kind).is_dir() for kind in (COMMIT_LOG, CONSUME_QUEUE)):
                    yield QueuePlace(root=root, cluster=cluster, broker=broker, topic=topic, queue_id=int(number))


def _hash(text: str) -> str:
    """Return a hash that protects nothing: RocketMQ spreads names by it."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8]
