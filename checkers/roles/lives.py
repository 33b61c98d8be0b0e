"""Lives of replicas: what a replica knew for good in one life, the next life on the same disk still knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Ints, among
from checkers._facts.faults import Fault

#: A replica forgot a life of its own; a name of the law about roles.
LIFE_FORGOTTEN = "life-forgotten"
EPOCH_REGRESSION = "epoch-regression"

_KINDS = ("start", "recovered", "role", "confirm")


def forgotten(rows: Rows, found: Findings, node: str) -> None:
    """Check that the number of a life is higher than those of all lives before on that disk which came as far as to
    read the log: by then the number was durable. And that a life begins with no older epoch than that of records which
    the replica has confirmed as the master. What a fault has taken from a disk, nobody need remember."""
    index, epoch = rows.column("index"), rows.column("epoch")
    confirms = rows.where(kind="trace", f="confirm")
    disk = _Disks(rows.memo(facts.faults), node)
    traces = facts.node_traces(rows, node, *_KINDS)
    rare = np.flatnonzero(~among(traces, confirms))  # confirms are many: one look at those between two of these
    for place, until in zip(rare.tolist(), [*rare[1:].tolist(), len(traces)], strict=True):
        at, confirmed = int(traces[place]), traces[place + 1 : until]
        if (f := rows.text("f", at)) != "start":
            disk.follow(rows, at, f, confirmed)
            continue
        _names_its_disk(rows, found, node, at)
        lost = disk.begin(rows, at)
        if lost.life >= 0:
            found.add(
                LIFE_FORGOTTEN,
                f"{node} began life {int(rows.value(at)['generation'])} of its disk at {facts.at_s(rows, at)}, "
                f"although it had been in life {lost.life} by {facts.at_s(rows, lost.life_at)}, and no fault had "
                "taken anything from that disk.",
                int(index[lost.life_at]),
                int(index[at]),
            )
        if lost.epoch >= 0:
            found.add(
                EPOCH_REGRESSION,
                f"{node} began a life at {facts.at_s(rows, at)} in which it knew epoch {int(epoch[at])}, although "
                f"it had confirmed records as the master of epoch {lost.epoch} by "
                f"{facts.at_s(rows, lost.epoch_at)}, and no fault had taken anything from its disk.",
                int(index[lost.epoch_at]),
                int(index[at]),
            )


def _names_its_disk(rows: Rows, found: Findings, node: str, at: int) -> None:
    """Whose disks have words has one in each life: without it this life could be one on any disk."""
    if rows.value(at).get("disk") == "":
        found.add(
            LIFE_FORGOTTEN,
            f"{node} began a life at {facts.at_s(rows, at)}, and had no word for its disk, which distinguishes its "
            "lives from those on another one.",
            int(rows.column("index")[at]),
        )


@dataclass(slots=True)
class _Known:
    """What a disk has known for good, each with the row that shows it; -1: nothing."""

    life: int = -1
    life_at: int = -1
    epoch: int = -1
    epoch_at: int = -1


@dataclass(slots=True)
class _Disks:
    """The disks of a node, by their words, as its traces name them one after the other."""

    faults: Sequence[Fault]
    node: str
    _known: dict[str, _Known] = field(default_factory=dict)
    _disk: str = ""
    _life: int = -1

    def begin(self, rows: Rows, at: int) -> _Known:
        """Begin a life. Returns what was known on its disk and is forgotten."""
        value, epoch = rows.value(at), int(rows.column("epoch")[at])
        self._disk, self._life = str(value.get("disk", "")), int(value.get("generation", -1))
        lost = _Known()
        known = self._known.get(self._disk)
        if known is None or not self._disk:
            return lost
        if 0 <= self._life <= known.life:
            if self._may_be_harmed(rows, known.life_at, at):
                known.life = -1  # from here on it counts from the beginning
            else:
                lost.life, lost.life_at = known.life, known.life_at
        if 0 <= epoch < known.epoch:
            if self._may_be_harmed(rows, known.epoch_at, at):
                known.epoch = -1
            else:
                lost.epoch, lost.epoch_at = known.epoch, known.epoch_at
        return lost

    def follow(self, rows: Rows, at: int, f: str, confirmed: Ints) -> None:
        """Note what the present life does, and confirms until it does something else."""
        if f == "recovered":
            known = self._known.setdefault(self._disk, _Known())
            if self._life > known.life:
                known.life, known.life_at = self._life, at
        elif f == "role" and (value := rows.value(at)).get("role") == "master" and "start" in value:
            own = confirmed[rows.column("position")[confirmed] > int(value["start"])]
            epoch = int(rows.column("epoch")[at])
            known = self._known.setdefault(self._disk, _Known())
            if len(own) and epoch > known.epoch:
                known.epoch, known.epoch_at = epoch, int(own[0])

    def _may_be_harmed(self, rows: Rows, since: int, now: int) -> bool:
        """Was a fault in force between these two rows that takes from the disk what it held, or may do so?"""
        since_ns, now_ns = (int(rows.column("time_ns")[at]) for at in (since, now))
        return any(
            fault.began_ns <= now_ns
            and fault.until_ns >= since_ns
            and (self.node in fault.hits(Effect.LOSES_DISK) or fault.may_hit(self.node))
            for fault in self.faults
        )
