"""Disk rules of a node that is a process: the supervisor writes them to one file, the node writes its hits to another.

Both stand beside the node's directory. ``NODE.rules`` holds the rules as JSON by their ids; there is no such file while
there are no rules. ``NODE.hits`` gets a line for each operation that a rule refused, failed or delayed: the rule's id
and its kind.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from chaos.effects.disks import DiskAction, DiskRules, SlowDisk, from_json, to_json


class ReadRules(DiskRules):
    """The rules as the node sees them; :meth:`refresh` before each use. For one thread."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._seen: tuple[int, int] = (0, 0)

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if there are any rules."""
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            if self.by_id:
                self.by_id.clear()
                self._seen = (0, 0)
            return False
        if self._seen != (found.st_ino, found.st_mtime_ns):
            try:
                rules = json.loads(self._file.read_text("utf-8"))
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOENT):
                    raise
                return bool(self.by_id)  # a node must not die of looking at its disk's rules
            self._seen = (found.st_ino, found.st_mtime_ns)
            self.by_id = {rule_id: from_json(action) for rule_id, action in rules.items()}
        return bool(self.by_id)

    def _count(self, rule_id: str, action: DiskAction) -> None:
        with hits_of(self._file).open("a", encoding="utf-8") as file:
            file.write(f"{rule_id} {type(action).__name__}\n")


class WrittenRules(DiskRules):
    """The rules of one node as its supervisor holds them."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._size_at_birth = 0

    @staticmethod
    def read(file: Path, size_at_birth: int) -> WrittenRules:
        """The rules as another supervisor has left them; ``size_at_birth``: what :meth:`born` has returned."""
        found = WrittenRules(file)
        found._size_at_birth = size_at_birth
        try:
            actions = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return found
        for rule_id, action in actions.items():
            DiskRules.put_up(found, rule_id, from_json(action))
        return found

    def put_up(self, rule_id: str, action: DiskAction) -> None:
        super().put_up(rule_id, action)
        self._write()

    def clear(self, rule_id: str) -> None:
        super().clear(rule_id)
        self._write()

    def born(self) -> int:
        """A life of the node begins; how much its rules had hit before, for :meth:`read`."""
        hits = hits_of(self._file)
        self._size_at_birth = hits.stat().st_size if hits.exists() else 0
        return self._size_at_birth

    @property
    def deadly(self) -> bool:
        """Whether a rule made the disk fail in this life, which may have ended the node."""
        return any(line.split()[1] != SlowDisk.__name__ for line in self._lines(self._size_at_birth))

    def count(self, rule_id: str) -> int:
        return sum(line.split()[0] == rule_id for line in self._lines(0))

    def _lines(self, begin: int) -> list[str]:
        hits = hits_of(self._file)
        if not hits.exists():
            return []
        with hits.open("rb") as file:
            file.seek(begin)
            whole, _, _ = file.read().rpartition(b"\n")
        return whole.decode().splitlines()

    def _write(self) -> None:
        """In one step: the node may look at any moment."""
        if not self.by_id:
            self._file.unlink(missing_ok=True)
            return
        part = self._file.with_suffix(".rules-part")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({rule_id: to_json(action) for rule_id, action in self.by_id.items()}), "utf-8")
        part.chmod(0o644)  # the node may be another user
        part.replace(self._file)


def rules_of(directory: Path, node: str) -> Path:
    """The rules of a node, in a run's directory."""
    return directory / "nodes" / f"{node}.rules"


def hits_of(rules: Path) -> Path:
    """What the rules of this file have hit."""
    return rules.with_suffix(".hits")
