"""The state of one broker group, followed along the controllers' committed entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers.roles.lives import EPOCH_REGRESSION
from checkers.roles.promise import DUPLICATE_ID, ELECTION_OUTSIDE_SET, TWO_MASTERS


@dataclass(slots=True)
class Group:
    """The state of one broker group, followed along the committed entries. ``members`` is None while some entry is
    missing from the record, so that the set is unknown; then an election is judged by what it says of itself."""

    rows: Rows
    found: Findings
    unclean: bool
    epoch: int = -1
    epoch_at: int = -1
    members: frozenset[str] | None = frozenset()
    generations: dict[str, int] = field(default_factory=dict)
    brokers: set[str] = field(default_factory=set)
    ids: dict[int, dict[str, int]] = field(default_factory=dict)
    elected: dict[int, tuple[str, int]] = field(default_factory=dict)
    sets: dict[int, tuple[frozenset[str], int]] = field(default_factory=dict)
    _forgot: bool = False

    def apply(self, at: int, entry: Mapping[str, Any], *, whole: bool) -> None:
        if not whole:
            self.members = None
        kind, broker = entry.get("type"), str(entry.get("broker", ""))
        if kind == "elect":
            self._elect(at, entry)
        elif "master_epoch" in entry and kind != "alter":
            self._epoch_grows(at, int(entry["master_epoch"]))
        if kind in ("register", "apply_id"):
            self._own_id(at, broker, int(entry.get("id", -1)))
            self._lost_disk(kind, broker, entry)
        if "set" in entry:
            self.members = frozenset(entry["set"])
            self.sets.setdefault(int(entry.get("set_epoch", -1)), (self.members, at))
        elif entry.get("removed") and self.members is not None:
            self.members -= frozenset(entry["removed"])
        if kind in ("register", "apply_id"):
            self._forget(kind, broker, entry)

    def _own_id(self, at: int, broker: str, number: int) -> None:
        """Check that an id belongs to one broker for ever; one that lost its disk gets a new id."""
        owners = self.ids.setdefault(number, {})
        if number >= 0 and owners and broker not in owners:
            owner, since = next(iter(owners.items()))
            self.found.add(
                DUPLICATE_ID,
                f"{owner} and {broker} are both broker {number} of their group: the controllers gave them one id, so "
                "that each takes the other's place.",
                *(int(self.rows.column("index")[row]) for row in (since, at)),
            )
        owners.setdefault(broker, at)

    def _lost_disk(self, kind: str, broker: str, entry: Mapping[str, Any]) -> None:
        generation = int(entry.get("generation", -1))
        again = kind == "apply_id" and broker in self.brokers
        self._forgot = again or 0 <= generation <= self.generations.get(broker, -1)
        self.brokers.add(broker)
        if kind == "register" and generation >= 0:  # a disk that went back in time goes on counting from there
            self.generations[broker] = generation

    def _forget(self, kind: str, broker: str, entry: Mapping[str, Any]) -> None:
        """Take a replica whose disk has lost its lives from the candidates, whatever the entry made of the set."""
        if self._forgot and self.members is not None:
            self.members -= {broker}
        if kind == "apply_id":  # the new id has no lives yet
            self.generations.pop(broker, None)

    def _epoch_grows(self, at: int, epoch: int) -> None:
        if epoch <= self.epoch:
            self.found.add(
                EPOCH_REGRESSION,
                f"The controllers' committed entries give master epoch {epoch} after epoch {self.epoch}.",
                *(int(self.rows.column("index")[n]) for n in (self.epoch_at, at) if n >= 0),
            )
        self.epoch, self.epoch_at = max(self.epoch, epoch), at

    def _elect(self, at: int, entry: Mapping[str, Any]) -> None:
        epoch, master = int(entry.get("master_epoch", -1)), str(entry.get("master", ""))
        index = self.rows.column("index")
        other = self.elected.get(epoch)
        if other is not None and other[0] != master:
            self.found.add(
                TWO_MASTERS,
                f"{other[0]} and {master} were both elected master of epoch {epoch}.",
                int(index[other[1]]),
                int(index[at]),
            )
        else:
            self._epoch_grows(at, epoch)
        is_first = not self.elected
        self.elected.setdefault(epoch, (master, at))
        if entry.get("bootstrap") and is_first:
            return
        previous = frozenset(entry.get("previous_set") or ())
        members = previous if self.members is None else self.members & previous
        if master not in members and not (self.unclean and entry.get("unclean")):
            self.found.add(
                ELECTION_OUTSIDE_SET,
                f"{master} was elected master of epoch {epoch}, but only {', '.join(sorted(members)) or 'nobody'} "
                "could be: the others were out of the SyncStateSet or had lost their disk.",
                int(index[at]),
            )
