"""What stands on the disk of a store: its log in the shared file, and files of segments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchmarks.exploration.disk import ModelDisk
from benchmarks.exploration.group_entries import GROUP
from reference.raft.log import RaftLog
from reference.raft.members import split_snapshot
from reference.raft.storage.wal import Wal
from reference.split.segments import FILES, Segment, digest_of
from reference.split.store.group_snapshot import lacking


class SmallWal(Wal):
    """The shared file, without room that is kept in front of it."""

    def __init__(self, open_log: Callable[[int], RaftLog] | None = None, rewrite_bytes: int = 0, kept: int = 0) -> None:
        super().__init__(open_log, 1 << 30, 0)


def contents_of(disk: ModelDisk) -> Sequence[Mapping[str, bytes]]:
    """Return what a crash may leave: what is durable, and what each sync under way makes so."""
    return disk.durable, *disk.syncs.values()


def is_whole(files: Mapping[str, bytes], segment: Segment) -> bool:
    """Return whether a segment stands among these files."""
    data = files.get(segment.path)
    return data is not None and _digest(data) == segment.digest


def lacks(files: Mapping[str, bytes]) -> str:
    """Return what the snapshot on a disk names and the disk lacks."""
    for segment in _on_disk(_log_in(files)).segments:
        if not is_whole(files, segment):
            return f"has a snapshot on its disk, and not the bytes of {segment.key}"
    return ""


def content_key(files: Mapping[str, bytes]) -> Hashable:
    """Return what a member would begin with."""
    segments = tuple(sorted((path, _digest(data)) for path, data in files.items() if path.startswith(FILES)))
    return _on_disk(_log_in(files)), segments


def _log_in(files: Mapping[str, bytes]) -> bytes:
    logs = [path for path in files if path.startswith("raft/log.")]
    return files[max(logs)] if logs else b""


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """What a member would begin with; ``segments``: those that its snapshot names."""

    state: Hashable = None
    segments: tuple[Segment, ...] = ()


@lru_cache(maxsize=100_000)
def _on_disk(data: bytes) -> _OnDisk:
    wal = SmallWal(lambda number: RaftLog(wal, number))
    if not wal.load(data) or GROUP not in wal.logs:
        return _OnDisk()
    log = wal.logs[GROUP]
    assert isinstance(log, RaftLog)
    entries = tuple((entry.term, entry.data) for entry in log._entries)
    state = (log.term, log.vote, log.members, log.is_born, log.is_gone, log.snapshot_index, log.snapshot, entries)
    named = lacking(split_snapshot(log.snapshot)[1]) if log.snapshot_index else []
    return _OnDisk(state, tuple(named))


_digest = lru_cache(maxsize=100_000)(digest_of)
