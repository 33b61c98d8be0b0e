"""The disk of one node on which there have been rules: what they are now, and what they have hit."""

from __future__ import annotations

import threading

from chaos.effects.disks import DiskAction
from chaos.machines.machine import Machine
from chaos.shell import disk_rules
from chaos.shell.disk_rules import Hits
from chaos.shell.node_files import NodeFile


class RuledDisk:
    """The node reads all of its rules from one file, and writes each hit to another, of which only what is new is read.
    All calls block and raise what those of :class:`Machine` do; threads may share it."""

    def __init__(self, machine: Machine, node: str) -> None:
        self.node = node
        self._machine = machine
        self._rules: dict[str, DiskAction] = {}
        self._hits = Hits()
        self._failures_before: dict[int, int] = {}
        self._writing = threading.Lock()  # what is written last must be what is known last
        self._reading = threading.Lock()

    def put_up(self, rule_id: str, action: DiskAction) -> None:
        """Put up one more rule; when it can't be written there is none, whatever other rules come and go."""
        with self._writing:
            self._rules[rule_id] = action
            try:
                self._write()
            except BaseException:
                del self._rules[rule_id]
                raise

    def clear(self, rule_id: str, incarnation: int) -> bool:
        """Take a rule away; whether the node, in this life, may be about to end of it. It can be done again."""
        with self._writing:
            self._rules.pop(rule_id, None)
            self._write()
        hits = self._read()
        return hits.counts[rule_id] > 0 and self._failed(incarnation, hits)

    def hits(self, rule_id: str) -> int:
        """Return how often the rule has had an effect, over all lives of the node."""
        return self._read().counts[rule_id]

    def born(self, incarnation: int) -> None:
        """Begin a life; the one before is over."""
        self._failures_before[incarnation] = self._read().failures

    def failed(self, incarnation: int) -> bool:
        """Return whether a rule made the disk fail in this life, of which the node may have ended."""
        return self._failed(incarnation, self._read())

    def _failed(self, incarnation: int, hits: Hits) -> bool:
        return hits.failures > self._failures_before.get(incarnation, 0)

    def _write(self) -> None:
        self._machine.put(self.node, NodeFile.DISK_RULES, disk_rules.content(self._rules))

    def _read(self) -> Hits:
        with self._reading:
            self._hits.read_on(self._machine.get(self.node, NodeFile.DISK_HITS, self._hits.read_bytes))
        return self._hits
