"""A stale master in a few rows: what a report makes of it can be checked by hand.

Times are seconds since the load began. broker-0 is the master of epoch 1 until a partition; broker-1 becomes the master
of epoch 2 at 3 s, while broker-0 goes on until 5 s, then cuts its log. Message 1 was acknowledged by broker-0 alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.verdict import Anomaly
from reports.summary import Story, summarise

SECOND = 1_000_000_000
START = 100
ISOLATED = {"isolates": ["broker-0"]}


class MadeRun:
    """Records rows at given seconds; each method returns the index of its row."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.recorder = Recorder(run, lambda: 0)
        self.steps: dict[str, int] = {}
        self.told: list[dict[str, Any]] = []
        self.phase(0.0, "load")

    def op(self, at: float, process: str, f: str, type: str, **columns: Any) -> int:
        return self.recorder.record("op", time_ns=_ns(at), process=process, f=f, type=type, **columns)

    def send(self, at: float, message: int, offset: int, node: str, epoch: int, process: str = "producer-0.0") -> int:
        """A send that was acknowledged; returns the row of the answer."""
        queue = message >> 40
        op = self.op(at, process, "send", "invoke", queue=queue, message=message)
        answer = {"op": op, "queue": queue, "message": message, "offset": offset, "node": node, "epoch": epoch}
        return self.op(at + 0.1, process, "send", "ok", **answer)

    def read(self, at: float, message: int, offset: int, process: str = "consumer-0.0") -> int:
        return self.op(at, process, "delivered", "ok", queue=message >> 40, message=message, offset=offset)

    def drain(self, at: float, queue: int, offset: int) -> int:
        return self.op(at, "drain-0.0", "drain", "ok", queue=queue, offset=offset)

    def trace(self, at: float, node: str, f: str, *, life: int = 1, **columns: Any) -> int:
        step = self.steps[node] = self.steps.get(node, 0) + 1
        row = {"node": node, "f": f, "incarnation": life, "step": step, "time_ns": _ns(at), **columns}
        self.recorder.record_trace(row)
        return -1

    def append(self, at: float, node: str, message: int, offset: int, position: int, epoch: int) -> None:
        columns = {"queue": message >> 40, "message": message, "offset": offset, "position": position, "epoch": epoch}
        self.trace(at, node, "append", **columns)

    def role(self, at: float, node: str, role: str, epoch: int) -> None:
        self.trace(at, node, "role", epoch=epoch, value={"role": role})

    def polled(self, at: float, node: str, role: str, epoch: int) -> None:
        """A node says its role when it is asked."""
        columns = {"process": "harness", "f": "state", "node": node}
        op = self.recorder.record("poll", time_ns=_ns(at), type="invoke", **columns)
        value = {"role": role, "group": "g"}
        self.recorder.record("poll", time_ns=_ns(at), type="ok", op=op, epoch=epoch, value=value, **columns)

    def fault(
        self,
        start: float,
        end: float,
        *,
        name: str = "partition",
        proven: dict[str, list[str]],
        proof: dict[str, Any] | None = None,
        cuts: Iterable[tuple[list[str], list[str]]] = (),
    ) -> None:
        common = {"f": name, "process": f"fault-{start:g}"}
        declared = {"targets": sorted({node for nodes in proven.values() for node in nodes}), "effects": proven}
        declared["detail"] = {"cuts": [list(sides) for sides in cuts]}
        self.recorder.record("fault", time_ns=_ns(start), type="invoke", value=declared, **common)
        injected = {"phase": "inject", "proof": proof or {}, "proven": proven}
        self.recorder.record("fault", time_ns=_ns(start), type="ok", value=injected, **common)
        self.recorder.record("fault", time_ns=_ns(end), type="ok", value={"phase": "undo", "effective": True}, **common)

    def phase(self, at: float, name: str) -> None:
        self.recorder.record("harness", time_ns=_ns(at), f="phase", value={"phase": name})

    def close(self) -> tuple[History, Story]:
        self.recorder.close()
        history = History.of(*History.open(self.run).recorded())
        assert not history.damage
        return history, summarise(history, ())


def _ns(second: float) -> int:
    return round((START + second) * SECOND)


def stale_master(
    history: MadeRun, *, proven: dict[str, list[str]] = ISOLATED, cut: bool = True, confirmed: int | None = None
) -> dict[str, int]:
    """Returns the rows that laws would name: the two acknowledgements at offset 1, and the drain. ``confirmed``: what
    broker-0 reports as confirmed when it acknowledges."""
    history.role(0.0, "broker-0", "master", 1)
    history.role(0.0, "broker-1", "slave", 1)
    history.send(0.5, 0, 0, "broker-0", 1)
    for node in ("broker-0", "broker-1"):
        history.append(0.5, node, 0, 0, 0, 1)
    history.fault(1.0, 5.0, proven=proven)
    history.append(2.0, "broker-0", 1, 1, 100, 1)
    if confirmed is not None:
        history.trace(2.05, "broker-0", "acked", position=200, epoch=1, value={"confirm": confirmed})
    lost = history.send(2.0, 1, 1, "broker-0", 1)
    history.role(3.0, "broker-1", "master", 2)
    history.append(4.0, "broker-1", 2, 1, 100, 2)
    other = history.send(4.0, 2, 1, "broker-1", 2)
    history.role(5.0, "broker-0", "slave", 2)
    if cut:
        history.trace(5.0, "broker-0", "truncate", position=100, value={"old_end": 200})
        history.append(5.5, "broker-0", 2, 1, 100, 2)
    history.phase(6.0, "heal")
    history.phase(6.5, "drain")
    history.read(7.0, 0, 0, "drain-0.0")
    history.read(7.0, 2, 1, "drain-0.0")
    return {"lost": lost, "other": other, "drain": history.drain(7.5, 0, 2)}


def anomaly(law: str, name: str, rows: Iterable[int], **more: int) -> Anomaly:
    return Anomaly(law=law, name=name, explanation=f"{name} was found.", rows=tuple(rows), **more)


def rest(law: str, name: str, count: int) -> Anomaly:
    """The one that stands for all that the verdict only counts."""
    return anomaly(law, name, (), count=count)


def in_large(page: str) -> str:
    """A page without what a large run's tells less exactly: the panel of latencies, and the places of dots."""
    page = re.sub(r'<h3 id="panel-\d">Latency of.*?(?=<div class="panel">|</details>)', "", page)
    return re.sub(r'<path class="dots [^>]*>', "", page)
