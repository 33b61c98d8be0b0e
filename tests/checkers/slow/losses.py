"""Whether the profile explains a loss, found by replaying each replica's log as a table, one record after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.losses import Lost

Record = tuple[int, ...]  # queue, offset, hash, epoch


@dataclass
class Replica:
    """A replica's log as it stands: position → record. ``took``: by which row it took each record first; ``gone``: by
    which row it lost one. ``led``: epoch → the row, what it held, and what it had lost, when that term began."""

    log: dict[int, Record] = field(default_factory=dict)
    took: dict[Record, int] = field(default_factory=dict)
    gone: dict[Record, int] = field(default_factory=dict)
    led: dict[int, tuple[int, set[Record], dict[Record, int]]] = field(default_factory=dict)

    def live(self, rows: Rows, at: int) -> None:
        f, position = rows.text("f", at), int(rows.column("position")[at])
        if f == "append":
            record = tuple(int(rows.column(name)[at]) for name in ("queue", "offset", "hash", "epoch"))
            self.log[position] = record
            self.took.setdefault(record, at)
            self.gone.pop(record, None)
        elif f == "role":
            if rows.value(at).get("role") == "master":
                self.led[int(rows.column("epoch")[at])] = (at, set(self.log.values()), dict(self.gone))
        else:
            for place in [place for place in self.log if place >= position]:
                self.gone[self.log.pop(place)] = at


def replay(rows: Rows) -> dict[str, Replica]:
    replicas: dict[str, Replica] = {}
    every = [int(at) for f in ("append", "recovered", "truncate", "role") for at in rows.where(kind="trace", f=f)]
    for at in sorted(every, key=lambda at: [int(rows.column(c)[at]) for c in ("incarnation", "step", "index")]):
        replicas.setdefault(rows.text("node", at), Replica()).live(rows, at)
    return replicas


def explain(rows: Rows, context: RunContext, replicas: dict[str, Replica], at: int, content: int) -> Lost:
    """What is to be said of the loss of the message that was acknowledged in row ``at``, with this content."""
    queue, offset, epoch = (int(rows.column(name)[at]) for name in ("queue", "offset", "epoch"))
    record: Record = (queue, offset, content, epoch)
    loss: tuple[int, str] | None = None
    for term, name in sorted((term, name) for name, replica in replicas.items() for term in replica.led):
        if term > epoch and record in replicas[name].led[term][1]:
            loss = None
        elif term > epoch and loss is None:
            loss = term, name
    if loss is None:
        return Lost.UNEXPLAINED
    answers = _Loss(rows, context, replicas, at, record, *loss).answers()
    return max(answers, key=[Lost.UNEXPLAINED, Lost.UNDECIDED, Lost.PERMITTED].index, default=Lost.UNEXPLAINED)


@dataclass
class _Loss:
    rows: Rows
    context: RunContext
    replicas: dict[str, Replica]
    at: int
    record: Record
    term: int
    new: str

    def answers(self) -> list[Lost]:
        """One for each weakness of the profile."""
        profile, copies = self.context.profile, self._copies()
        role, _, gone = self.replicas[self.new].led[self.term]
        clean, took = self._clean(), self.replicas[self.new].took
        crash = gone.get(self.record, -1)
        crash = crash if crash >= 0 and self.rows.text("f", crash) == "recovered" else -1
        found = [
            {True: Lost.UNEXPLAINED, None: Lost.UNDECIDED, False: Lost.PERMITTED}[clean if profile.unclean else True]
        ]
        if profile.flush == "async" and crash >= 0:
            before = [at for at in self.rows.where(kind="trace", f="recovered", node=self.new).tolist() if at < crash]
            found.append(self._struck(self.new, Effect.MAY_CRASH, max([took[self.record], *before]), crash))
        if profile.acks != "all" and self._stood(copies) and not self._is_copy(copies, role, crash) | self._dropped():
            known = {True: Lost.PERMITTED, False: Lost.UNEXPLAINED, None: Lost.UNDECIDED}
            found.append(known[clean if Evidence.ELECTIONS in self.context.evidence else clean is not False])
        if (
            profile.min_in_sync < 2
            and profile.acks in ("all", "master")
            and copies is not None
            and len(copies) == 1
            and self._previous() in ([], [*copies], None)
        ):
            effects = [Effect.LOSES_DISK, *([Effect.MAY_CRASH] if profile.flush == "async" else [])]
            found += [self._struck(*copies, effect, self.at, role) for effect in effects]
        return found

    def _stood(self, copies: set[str] | None) -> bool:
        needed = 1 if self.context.profile.acks == "master" else int(self.context.profile.acks)
        takers = {name for name, replica in self.replicas.items() if self.record in replica.took}
        return len(takers if copies is None else takers & copies) >= needed

    def _is_copy(self, copies: set[str] | None, role: int, crash: int) -> bool:
        took = self.replicas[self.new].took.get(self.record, -1)
        if crash >= 0 and self._struck(self.new, Effect.LOSES_DISK, took, crash) is Lost.PERMITTED:
            return False
        if copies is not None:
            return self.new in copies
        if self.context.profile.acks == "master":
            return self.new == self.rows.text("node", self.at)
        step = self.rows.column("step")
        return took >= 0 and step[took] < step[role]

    def _dropped(self) -> bool:
        """It cut the record off, and no master since has lacked it."""
        led = self.replicas[self.new].led[self.term]
        cut = led[2].get(self.record, -1)
        between = [
            one
            for replica in self.replicas.values()
            for term, one in replica.led.items()
            if self.record[-1] < term < self.term
        ]
        lacked = any(self.record not in held for _, held, _ in between)
        return cut >= 0 and self.rows.text("f", cut) == "truncate" and not lacked

    def _previous(self) -> list[str] | None:
        entry = self._elected()
        return None if entry is None else list(entry["previous_set"])

    def _clean(self) -> bool | None:
        entry = self._elected()
        return None if entry is None else not entry["unclean"] and self.new in entry["previous_set"]

    def _elected(self) -> Mapping[str, Any] | None:
        for at in self.rows.where(kind="trace", f="applied").tolist():
            entry = self.rows.value(at)["entry"]
            if (entry["type"], entry.get("master_epoch"), entry.get("master")) == ("elect", self.term, self.new):
                return entry  # type: ignore[no-any-return]
        return None

    def _copies(self) -> set[str] | None:
        position, acked = int(self.rows.column("position")[self.at]), []
        for at in self.rows.where(kind="trace", f="acked", node=self.rows.text("node", self.at)).tolist():
            end = int(self.rows.column("position")[at])
            if self.rows.column("epoch")[at] == self.record[-1] and end > position:
                acked.append((end, self.rows.value(at).get("copies")))
        copies = min(acked, key=lambda one: one[0])[1] if acked else None
        return None if copies is None else {name for name, end in copies.items() if end > position}

    def _struck(self, node: str, effect: Effect, since: int, until: int) -> Lost:
        times = self.rows.column("time_ns")
        lasted = [
            fault
            for fault in self.rows.memo(facts.faults)
            if fault.began_ns <= times[until] and times[since] <= fault.until_ns
        ]
        if any(node in fault.hits(effect) for fault in lasted):
            return Lost.PERMITTED
        return Lost.UNDECIDED if any(fault.may_hit(node) for fault in lasted) else Lost.UNEXPLAINED
