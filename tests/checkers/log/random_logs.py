"""Random histories of logs: two queues, readers, groups and transactions, of which most do what they should."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from tests.checkers.log.logs import Logs, Places, Txn, X, Y

QUEUES = (X, Y)
READERS = ("reader-0", "reader-1", "eos-reader")


@dataclass
class Entry:
    """What stands at an offset; ``is_visible``: None while its transaction is open."""

    sequence: int
    is_visible: bool | None = True


@dataclass
class Open:
    """A transaction that is going on."""

    txn: Txn
    entries: list[Entry] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)


class RandomLogs:
    """``wrong``: how often something goes wrong that could."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.wrong = rng.choice((0.0, 0.02, 0.1))
        self.history = Logs(step_ms=1)
        self.logs: dict[int, list[Entry]] = {queue: [] for queue in QUEUES}
        self.next = dict.fromkeys(QUEUES, 0)
        self.stands = {reader: dict.fromkeys(QUEUES, 0) for reader in READERS}
        self.lives = dict.fromkeys(READERS, 0)
        self.committed = dict.fromkeys(QUEUES, -1)
        self.open: dict[str, Open] = {}

    def errs(self) -> bool:
        return self.rng.random() < self.wrong

    def sequence(self, queue: int) -> int:
        """Return a new message, or, now and then, one that was sent before."""
        if self.next[queue] and self.rng.random() < 0.1:
            return self.rng.randrange(self.next[queue])
        self.next[queue] += 1
        return self.next[queue] - 1

    def append(self, queue: int, sequence: int, is_visible: bool | None = True) -> tuple[int, Entry]:
        """Return where a message is said to stand, and what stands there."""
        entry = Entry(sequence, is_visible)
        at = len(self.logs[queue])
        self.logs[queue].append(entry)
        if self.errs():
            entry.is_visible = False
        if self.errs():
            self.logs[queue].append(Entry(sequence))
        return (self.rng.randrange(at + 1) if self.errs() else at), entry

    def send(self) -> None:
        queue, type = self.rng.choice(QUEUES), self.rng.choices(("ok", "info", "fail"), (8, 1, 1))[0]
        sequence = self.sequence(queue)
        there = type == "ok" or (type == "info" and self.rng.random() < 0.5) or self.errs()
        place = self.append(queue, sequence)[0] if there else -1
        offset = place if type == "ok" else -1
        who = f"sender-{self.rng.randrange(2)}.0" if type == "ok" else f"sender-{len(self.history.rows)}.0"
        self.history.send(sequence, offset, queue=queue, type=type, process=who)

    def transact(self) -> None:
        """Begin a transaction, or go on with one."""
        name = self.rng.choice(("eos", "other"))
        if name not in self.open:
            self.open[name] = Open(self.history.txn(name, name))
            return
        one = self.open[name]
        step = self.rng.choices(("send", "poll", "commit", "end"), (5, 2, 1, 2))[0]
        queue = self.rng.choice(QUEUES)
        if step == "send":
            sequence = self.sequence(queue)
            offset, entry = self.append(queue, sequence, None)
            one.entries.append(entry)
            one.txn.send(sequence, offset if self.rng.random() < 0.9 else -1, queue=queue)
        elif step == "poll":
            is_reader = name == "eos" and self.rng.random() < 0.9
            one.txn.poll(self.given("eos-reader"), process=self.process("eos-reader") if is_reader else "")
        elif step == "commit":
            one.offsets[queue] = self.rng.randrange(5)
            one.txn.commit(one.offsets[queue], queue=queue)
        else:
            self.end(name)

    def end(self, name: str) -> None:
        one = self.open.pop(name)
        type = self.rng.choices(("ok", "fail", "info"), (6, 2, 2))[0]
        is_committed = type == "ok" or (type == "info" and self.rng.random() < 0.5)
        for entry in one.entries:
            entry.is_visible = is_committed != self.errs()
        if is_committed != self.errs():
            self.committed |= one.offsets
        one.txn.end(type, asked=type == "ok" or self.rng.random() < 0.9)
        if type != "ok" and name == "eos" and self.rng.random() < 0.8:
            for queue in QUEUES:
                self.seek("eos-reader", queue, self.rng.randrange(3))

    def given(self, reader: str, limit: int = 4) -> dict[int, Places]:
        """Return what a reader is given of all queues from where it stands."""
        found: dict[int, Places] = {}
        for queue in QUEUES:
            places: Places = []
            at = self.stands[reader][queue]
            while at < len(self.logs[queue]) and len(places) < limit:
                entry = self.logs[queue][at]
                if entry.is_visible is None and not self.errs():
                    break
                at += 1
                if entry.is_visible is not False and not self.errs():
                    places.append((at - 1, entry.sequence))
            if places and self.errs():
                places.insert(self.rng.randrange(len(places)), self.rng.choice(places))
            found[queue] = places
            self.stands[reader][queue] = self.rng.randrange(at + 1) if self.errs() else at
        return found

    def process(self, reader: str) -> str:
        return f"{reader}.{self.lives[reader]}"

    def poll(self) -> None:
        reader = self.rng.choice(READERS)
        if self.rng.random() < 0.1:
            self.history.poll({}, process=self.process(reader), type="info")
            self.lives[reader] += 1
        else:
            self.history.poll(self.given(reader), process=self.process(reader))

    def seek(self, reader: str, queue: int, offset: int) -> None:
        type = self.rng.choices(("ok", "fail", "info"), (8, 1, 1))[0]
        if type == "ok":
            self.stands[reader][queue] = offset
        self.history.move("seek", process=self.process(reader), type=type, queue=queue, offset=offset)
        self.lives[reader] += type == "info"

    def move(self) -> None:
        reader, queue = self.rng.choice(READERS), self.rng.choice(QUEUES)
        f = self.rng.choice(("seek", "assign", "assign", "join", "leave"))
        if f == "seek":
            self.seek(reader, queue, self.rng.randrange(len(self.logs[queue]) + 1))
            return
        if f in ("join", "leave"):
            reader = READERS[1]
        queues = self.rng.choice(([X], [Y], [X, Y]))
        for one in QUEUES:
            if one not in queues or self.rng.random() < 0.2:
                self.stands[reader][one] = self.rng.randrange(3)
        following = {str(one): self.stands[reader][one] for one in queues}
        type = self.rng.choices(("ok", "fail", "info"), (8, 1, 1))[0]
        more = {} if f == "leave" else {"queues": queues}
        known = {} if type != "ok" or self.rng.random() < 0.2 else {"following": following}
        self.history.move(f, process=self.process(reader), type=type, **more, **known)
        self.lives[reader] += type == "info"

    def offsets(self) -> None:
        queue = self.rng.choice(QUEUES)
        if self.rng.random() < 0.3:
            type = self.rng.choice(("ok", "ok", "fail", "info"))
            offset = self.rng.randrange(5)
            self.committed[queue] = offset if type == "ok" else self.committed[queue]
            self.history.commit(offset, queue=queue, type=type)
        else:
            self.history.committed(self.rng.randrange(-1, 5) if self.errs() else self.committed[queue], queue=queue)

    def run(self, steps: int) -> Logs:
        for _ in range(steps):
            step = self.rng.choices((self.send, self.transact, self.poll, self.move, self.offsets), (4, 8, 4, 1, 2))[0]
            step()
        for name in list(self.open):
            if self.rng.random() < 0.8:
                self.end(name)
        self.history.phase("drain")
        for queue in QUEUES:
            places = [(at, one.sequence) for at, one in enumerate(self.logs[queue]) if one.is_visible]
            if self.rng.random() < 0.9:
                self.history.read_all(*places, queue=queue, end=len(self.logs[queue]))
        return self.history


def logs(rng: Random) -> Logs:
    """Return a history of some hundred rows."""
    return RandomLogs(rng).run(rng.choice((20, 60, 120)))


def of_logs(rng: Random) -> pa.Table:
    """Return its rows."""
    return logs(rng).table()
