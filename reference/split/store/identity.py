"""Which disk this is: a word that the store gave it when it was empty, the number that meta has given for the word, and
the cluster that it belongs to.

A disk that was wiped, or that lost what it was sure to hold, is another disk: it gets a new word, so that nobody ever
counts on it for what the old one had promised (R6). A disk of another cluster is that cluster's: it is left as it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from zlib import crc32

from chaos.node import Disk, Env, Malformed
from reference.wire.fields import item, read_object, to_json

_PATH, _NEW = "store/identity", "store/identity.new"
#: The disk has no number yet.
NO_NUMBER = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """The word of a disk, its number, and the id of its cluster."""

    word: str
    number: int = NO_NUMBER
    cluster: str = ""

    @staticmethod
    def of_new_disk(env: Env, cluster: str) -> Identity:
        """Return that of a disk that is empty."""
        return Identity(f"{env.rng.getrandbits(64):016x}", cluster=cluster)

    @staticmethod
    def read(disk: Disk) -> Identity | None:
        """Return what stands on a disk; None for an empty or a damaged one."""
        if disk.size(_PATH) < 0:
            return None
        checksum, _, content = disk.read(_PATH).partition(b" ")
        if checksum != _checksum(content):
            return None
        try:
            row = read_object(content)
            return Identity(item(row, "word", str), item(row, "number", int), item(row, "cluster", str))
        except Malformed:
            return None

    def write(self, disk: Disk) -> int:
        """Write it down. Return the token of the sync."""
        content = to_json(asdict(self))
        disk.write(_NEW, 0, _checksum(content) + b" " + content)
        disk.rename(_NEW, _PATH)
        return disk.sync([_PATH, _NEW])

    @staticmethod
    def forget(disk: Disk) -> int:
        """Begin to wipe a disk: a crash in the midst of it must not leave a name to the rest. Return the token of the
        sync."""
        disk.remove(_PATH)
        disk.remove(_NEW)
        return disk.sync([_PATH, _NEW])


def _checksum(content: bytes) -> bytes:
    return b"%08x" % crc32(content)


def wipe(disk: Disk) -> int | None:
    """Remove all that is on a disk. Return the token of the sync; None for an empty disk."""
    paths = disk.list()
    for path in paths:
        disk.remove(path)
    return disk.sync(paths) if paths else None
