"""Disk rules of a node that is a process: the harness writes them to one file, the node writes its hits to another.

Both are files of :mod:`chaos.shell.node_files`, side by side. The one holds the rules as JSON by their ids; there is no
such file while there are no rules. The other gets a line for each operation that a rule refused, failed or delayed: the
rule's id and its kind.
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from chaos.effects.disks import DiskAction, DiskRules, SlowDisk, from_json, to_json
from chaos.shell.node_files import NodeFile


class ReadRules(DiskRules):
    """The rules as the node sees them; :meth:`refresh` before each use. For one thread."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._hit_file = file.with_suffix(f".{NodeFile.DISK_HITS}")
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
        with self._hit_file.open("a", encoding="utf-8") as file:
            file.write(f"{rule_id} {type(action).__name__}\n")


def content(rules: Mapping[str, DiskAction]) -> bytes:
    """Return the file of these rules, by their ids; nothing when there are none."""
    return json.dumps({rule_id: to_json(action) for rule_id, action in rules.items()}).encode() if rules else b""


class Hits:
    """What the rules of one node have hit, as far as its file was read. ``counts``: by the id of the rule.
    ``failures``: how often the disk failed, of which the node may have ended. ``read_bytes``: up to where."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures = 0
        self.read_bytes = 0

    def read_on(self, more: bytes) -> None:
        """Take what the file holds from ``read_bytes`` on; the node may not have written all of the last line."""
        whole = more[: more.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
            rule_id, _, kind = line.rpartition(" ")
            self.counts[rule_id] += 1
            self.failures += kind != SlowDisk.__name__
