"""Write histories of logs tersely: readers with positions, transactions, and a final read that finds what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chaos.history.run_meta import RunMeta
from chaos.judging.divided import shards
from chaos.judging.engine import judge_rows
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry
from chaos.law import RunContext
from chaos.testing.laws import check_law
from chaos.verdict import Validity, Verdict
from checkers.log import Options, create
from tests.checkers.histories import History, content, m

CONTEXT = RunContext(run="r", seed=1, meta=RunMeta.of({"uses": ["queues", "logs", "transactions"]}))
X, Y = 0, 1
#: Where messages stand: offset and sequence.
Places = list[tuple[int, int]]


@dataclass
class Step:
    """Something that a transaction does; ``offset``: at which its message was written, or what it commits."""

    f: str
    op: int
    queue: int = -1
    sequence: int = -1
    offset: int = -1


@dataclass
class Txn:
    """A transaction whose rows are written as it goes, and those of its ends when it ends."""

    history: Logs
    number: int
    name: str
    op: int
    steps: list[Step] = field(default_factory=list)
    micro: int = 0

    def _process(self) -> tuple[str, dict[str, Any]]:
        micro, self.micro = self.micro, self.micro + 1
        return f"{self.name}-{micro}.0", {"txn": self.number, "micro": micro}

    def send(self, sequence: int, offset: int = -1, *, queue: int = X) -> Txn:
        process, value = self._process()
        message = m(sequence, queue)
        op = self.history.invoke(
            "send", process=process, queue=queue, message=message, hash=content(message), value=value
        )
        self.steps.append(Step("send", op, queue, sequence, offset))
        return self

    def commit(self, offset: int, *, queue: int = X, group: str = "g") -> Txn:
        process, value = self._process()
        op = self.history.invoke("commit", process=process, queue=queue, offset=offset, value={**value, "group": group})
        self.steps.append(Step("commit", op, queue, offset=offset))
        return self

    def poll(self, places: dict[int, Places], *, process: str = "") -> Txn:
        """Poll as a reader, or as a step that is named for the transaction."""
        step, value = self._process()
        self.history.poll(places, process=process or step, value=value)
        return self

    def ask(self, decision: str = "commit", type: str = "ok") -> Txn:
        process, value = self._process()
        op = self.history.invoke("end_txn", process=process, value={**value, "decision": decision})
        self.history.complete(op, type)
        return self

    def end(self, type: str = "ok", *, asked: bool = True) -> Logs:
        """End it: ok, fail (aborted) or info."""
        if asked:
            self.ask("abort" if type == "fail" else "commit", "ok" if type == "fail" else type)
        for step in self.steps:
            if step.f == "commit":
                self.history.complete(step.op, type)
            elif type == "ok":
                self.history.complete(step.op, type, offset=step.offset)
            else:
                self.history.complete(step.op, type, value={"stored": step.offset} if step.offset >= 0 else {})
        self.history.complete(self.op, type)
        return self.history


@dataclass
class Logs(History):
    """Two queues, X and Y."""

    number: int = 0

    def __post_init__(self) -> None:
        self.phase("load")

    def txn(self, name: str = "producer", id: str = "t") -> Txn:
        number, self.number = self.number, self.number + 1
        value = {"txn": number, "id": id, "epoch": 1, "decision": "commit"}
        return Txn(self, number, name, self.invoke("txn", process=f"{name}.0", value=value))

    def put(self, *places: tuple[int, int], queue: int = X, process: str = "sender.0") -> Logs:
        """Send messages, and have each acknowledged at its offset."""
        for offset, sequence in places:
            self.send(sequence, offset, queue=queue, process=process)
        return self

    def tried(self, *sequences: int, queue: int = X, type: str = "info") -> Logs:
        """Send messages without an answer, or in vain; each is the last one of its process."""
        for sequence in sequences:
            self.send(sequence, queue=queue, type=type, process=f"tried-{queue}-{sequence}.0")
        return self

    def poll(
        self,
        places: dict[int, Places],
        *,
        process: str = "reader.0",
        type: str = "ok",
        value: dict[str, Any] | None = None,
    ) -> Logs:
        op = self.invoke("poll", process=process, value=value)
        self.complete(op, type)
        self.deliver(op, process, places, {"txn": value["txn"]} if value and "txn" in value else None)
        return self

    def deliver(self, op: int, process: str, places: dict[int, Places], value: dict[str, Any] | None = None) -> None:
        for queue, found in places.items():
            for offset, sequence in found:
                message = m(sequence, queue)
                columns: dict[str, Any] = {"queue": queue, "offset": offset, "node": "broker-0", "epoch": 1}
                columns |= {"message": message, "hash": content(message)}
                self.row("op", type="ok", f="delivered", op=op, process=process, value=value, **columns)

    def move(self, f: str, *, process: str = "reader.0", type: str = "ok", following: Any = None, **more: Any) -> Logs:
        """A seek (``queue``, ``offset``), an assignment, a join or the end of a membership."""
        queues = more.pop("queues", None)
        op = self.invoke(f, process=process, value=None if queues is None else {"queues": queues}, **more)
        self.complete(op, type, value=None if following is None else {"following": following}, **more)
        return self

    def read_all(self, *places: tuple[int, int], queue: int = X, end: int = -1, maximum: int = -1) -> Logs:
        """Read a queue to its end after the run."""
        op = self.invoke("drain", process=f"drain-{queue}.0", queue=queue, offset=0, value={"by": "log"})
        process = f"drain-{queue}-reader.0"
        read = self.invoke("pull", process=process, queue=queue, offset=0, value={"by": "log"})
        top = max((offset for offset, _ in places), default=-1) + 1
        self.complete(read, value={"minimum": 0, "maximum": top, "following": top}, node="broker-0", epoch=1)
        self.deliver(read, process, {queue: [*places]})
        self.complete(op, offset=max(top, end), value={"maximum": maximum} if maximum >= 0 else {})
        return self


KERNELS = create(Options())
KNOWN = Registry({("law", number): kernel for number, kernel in enumerate(KERNELS)}, {})


def judged(history: Logs, context: RunContext = CONTEXT) -> Verdict:
    """Return the verdict of the law, which is the same in one piece and in as many as there are keys."""
    table = history.table()
    (verdict,) = judge_rows([(WHOLE, table)], context, KNOWN)
    assert judge_rows(shards([table], plan(KNOWN.kernels, context.meta), 1), context, KNOWN) == (verdict,)
    return verdict


def violations(history: Logs) -> set[str]:
    """Return the names of what is found, but for what is allowed."""
    return {one.name for one in judged(history).anomalies if not one.lawful}


def check(*, bad: list[tuple[Logs, list[str]]], good: list[Logs]) -> None:
    """Hold the law to what it must find in these histories, and to its contract with the first of either kind."""
    check_law(
        KERNELS,
        bad=[(history.recorded(), names) for history, names in bad[:1]],
        near_miss=[history.recorded() for history in good[:1]],
        context=CONTEXT,
    )
    for history, names in bad:
        assert violations(history) == set(names)
    for history in good:
        verdict = judged(history)
        assert verdict.validity is Validity.VALID, verdict
