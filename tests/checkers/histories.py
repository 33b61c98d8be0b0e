"""Write histories tersely: each method adds the rows of one event; the result is an Arrow table of a history."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS, WORDS
from chaos.history.ends import with_beginnings, without_beginnings
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import parted, shards
from chaos.judging.engine import judge_rows
from chaos.judging.plan import plan
from chaos.judging.shard import Shard
from chaos.kernel import Kernel
from chaos.law import RunContext
from chaos.ops import message_id
from chaos.shard_rows import Rows
from chaos.verdict import Validity, Verdict

BROKERS = ("broker-0", "broker-1", "broker-2")
#: What such a history may tell; no polls, and nothing of routes, topics and groups unless a test writes it.
REPORTED = ("operations", "final-logs", "confirm", "retention", "roles", "elections", "tier")
MILLISECOND = 1_000_000
SIZE = 100


Effects = dict[str, list[str]]
DOWN = ("takes_down", "may_crash")
#: The effects that faults of these names have on their targets; a test may call a fault anything else.
EFFECTS = {
    "kill": DOWN,
    "restart": DOWN,
    "pause": ("takes_down",),
    "stop": ("takes_down",),
    "wipe": (*DOWN, "loses_disk"),
    "slow_link": ("slows",),
    "tier_outage": ("harms_tier",),
    "membership": ("adds_replica",),
    "noop": (),
}


def usual_effects(name: str, targets: tuple[str, ...], detail: dict[str, Any]) -> Effects:
    kinds: tuple[str, ...] = EFFECTS.get(name, ())
    if name == "partition":
        isolates = detail.get("shape") in ("isolate", "halves")
        kinds = ("cuts_clients",) if "client" in targets else ("isolates",) if isolates else ("cuts",)
    return {kind: list(targets) for kind in kinds}


def m(sequence: int, queue: int = 0) -> int:
    return message_id(queue, sequence)


def content(message: int) -> int:
    return 1_000_003 * (message + 1) % (1 << 62)


@dataclass
class History:
    """``step_ms`` passes between two rows. Positions are ``SIZE`` bytes apart."""

    step_ms: int = 10
    meta: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    now_ns: int = 0
    steps: dict[str, int] = field(default_factory=dict)
    injections: int = 0

    def row(self, kind: str, *, value: dict[str, Any] | None = None, **columns: Any) -> int:
        index = len(self.rows)
        self.now_ns += self.step_ms * MILLISECOND
        row: dict[str, Any] = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "")
        row |= {"index": index, "time_ns": self.now_ns, "kind": kind, **columns}
        row["value"] = json.dumps(value) if value else ""
        self.rows.append(row)
        return index

    def wait(self, seconds: float) -> History:
        self.now_ns += int(seconds * 1e9)
        return self

    # Clients

    def invoke(self, f: str, *, process: str = "client", value: dict[str, Any] | None = None, **columns: Any) -> int:
        return self.row("op", type="invoke", f=f, process=process, value=value, **columns)

    def complete(self, op: int, type: str = "ok", *, value: dict[str, Any] | None = None, **columns: Any) -> int:
        asked = self.rows[op]
        same = {name: asked[name] for name in ("f", "process", "queue", "message", "hash")}
        told = (json.loads(asked["value"]) if asked["value"] else {}) | (value or {})
        return self.row("op", type=type, op=op, value=told, **{**same, **columns})

    def send(
        self,
        sequence: int,
        offset: int = -1,
        *,
        queue: int = 0,
        type: str = "ok",
        node: str = "broker-0",
        epoch: int = 1,
        process: str = "producer-0.0",
    ) -> int:
        """A send and its completion; an ok without an offset stands at the offset of its sequence."""
        message = m(sequence, queue)
        op = self.invoke("send", process=process, queue=queue, message=message, hash=content(message))
        stands = sequence if type == "ok" and offset < 0 else offset
        return self.complete(op, type, offset=stands, position=stands * SIZE, node=node, epoch=epoch, incarnation=1)

    def pull(
        self,
        offset: int,
        *sequences: int,
        queue: int = 0,
        maximum: int = -1,
        minimum: int = 0,
        node: str = "broker-0",
        epoch: int = 1,
        source: str = "local",
        process: str = "consumer-0.0",
        group: str = "",
        from_: str = "",
        hashes: dict[int, int] | None = None,
        offsets: tuple[int, ...] = (),
        size: int = -1,
        **limits: int,
    ) -> int:
        """A pull from ``offset`` that delivered these messages, one offset after the other."""
        asked: dict[str, Any] = {"group": group} if group else {}
        asked |= limits
        if from_:
            asked["from"] = from_
        op = self.invoke("pull", process=process, queue=queue, offset=offset, value=asked)
        end = offset + len(sequences)
        told = {"source": source, "minimum": minimum, "maximum": max(maximum, end), "following": end, "asked": offset}
        told |= {"size": size} if size >= 0 else {}
        self.complete(op, value=told, node=node, epoch=epoch, incarnation=1)
        for number, sequence in enumerate(sequences):
            message = m(sequence, queue)
            self.row(
                "op",
                type="ok",
                op=op,
                process=process,
                f="delivered",
                queue=queue,
                offset=offsets[number] if offsets else offset + number,
                message=message,
                hash=(hashes or {}).get(sequence, content(message)),
                node=node,
                epoch=epoch,
                incarnation=1,
            )
        return op

    def commit(self, offset: int, *, type: str = "ok", epoch: int = 1, queue: int = 0, group: str = "g") -> int:
        op = self.invoke("commit", queue=queue, offset=offset, value={"group": group})
        return self.complete(op, type, node="broker-0", epoch=epoch)

    def committed(self, offset: int, *, epoch: int = 1, queue: int = 0, group: str = "g") -> int:
        op = self.invoke("committed", queue=queue, value={"group": group})
        return self.complete(op, offset=offset, node="broker-0", epoch=epoch)

    def bounds(self, minimum: int, maximum: int, *, node: str = "broker-0", epoch: int = 1, queue: int = 0) -> int:
        op = self.invoke("bounds", queue=queue)
        return self.complete(op, value={"minimum": minimum, "maximum": maximum}, node=node, epoch=epoch)

    def drain(
        self, *sequences: int, queue: int = 0, begin: int = 0, type: str = "ok", epoch: int = 1, end: int = 0
    ) -> int:
        op = self.invoke("drain", process="drain-0.0", queue=queue, offset=begin, value={"by": "queue"})
        if sequences:
            self.pull(begin, *sequences, queue=queue, process="drain-0-reader.0", epoch=epoch)
        return self.complete(op, type, offset=max(begin + len(sequences), end))

    # Nodes

    def trace(self, node: str, f: str, *, incarnation: int = 1, **columns: Any) -> int:
        self.steps[node] = self.steps.get(node, 0) + 1
        value = columns.pop("value", None)
        step = columns.pop("step", self.steps[node])
        return self.row("trace", f=f, node=node, incarnation=incarnation, step=step, value=value, **columns)

    def append(self, node: str, sequence: int, offset: int = -1, *, queue: int = 0, epoch: int = 1, **more: Any) -> int:
        stands = sequence if offset < 0 else offset
        message = m(sequence, queue)
        return self.trace(
            node,
            "append",
            epoch=epoch,
            queue=queue,
            offset=stands,
            position=more.pop("position", stands * SIZE),
            message=message,
            hash=content(message),
            value={"size": SIZE},
            **more,
        )

    def master(self, node: str, epoch: int, *, start: int = 0, **more: Any) -> int:
        value = {"role": "master", "master": node, "set": list(BROKERS), "set_epoch": 1, "start": start}
        return self.trace(node, "role", epoch=epoch, value=value, **more)

    def role(self, node: str, role: str, epoch: int, **more: Any) -> int:
        return self.trace(node, "role", epoch=epoch, value={"role": role}, **more)

    def confirm(self, node: str, position: int, epoch: int = 1, **more: Any) -> int:
        return self.trace(node, "confirm", position=position, epoch=epoch, **more)

    # The harness

    def phase(self, name: str) -> int:
        return self.row("harness", f="phase", value={"phase": name})

    def recovered(self) -> int:
        return self.row("harness", f="recovered", value={"seconds": 1.0})

    def inject(self, name: str, *targets: str, effects: Effects | str | None = "usual", **detail: Any) -> str:
        """A fault with the effects that one of this name has, all of them proven, or with these; None declares
        nothing."""
        process = f"fault-{self.injections}"
        self.injections += 1
        known = usual_effects(name, targets, detail) if isinstance(effects, str) else effects
        told = {} if known is None else {"effects": known}
        proven = {} if known is None else {"proven": known}
        asked = {"targets": list(targets), "detail": detail, **told}
        self.row("fault", type="invoke", f=name, process=process, value=asked)
        done = {"phase": "inject", "proof": {"seen": True}, **proven}
        self.row("fault", type="ok", f=name, process=process, value=done)
        return process

    def undo(self, name: str, process: str, proven: Effects | None = None) -> None:
        """The end of a fault; ``proven`` are the effects that only showed while it lasted."""
        told = {"phase": "undo", "effective": True, **({"proven": proven} if proven else {})}
        self.row("fault", type="ok", f=name, process=process, value=told)

    # After the run

    def log(self, node: str, *sequences: int, begin: int = 0, queue: int = 0, epoch: int = 1) -> None:
        for offset, sequence in enumerate(sequences, begin):
            message = m(sequence, queue)
            self.row(
                "final",
                f="log",
                node=node,
                epoch=epoch,
                queue=queue,
                offset=offset,
                position=offset * SIZE,
                message=message,
                hash=content(message),
            )

    def node(self, node: str, *, role: str = "slave", confirm: int = 0, **value: Any) -> None:
        self.row("final", f="node", node=node, epoch=1, value={"role": role, "confirm": confirm, **value})
        self.row("final", f="complete", node=node)

    def finish(self, *sequences: int, logs: bool = True, epoch: int = 1) -> History:
        """Recover, drain queue 0 (of the master of this epoch), and read three equal replicas to their ends."""
        self.phase("heal")
        self.phase("recover")
        self.recovered()
        self.phase("drain")
        acked = [row["offset"] for row in self.rows if (row["f"], row["type"], row["queue"]) == ("send", "ok", 0)]
        self.drain(*sequences, end=max(acked, default=-1) + 1, epoch=epoch)
        self.phase("collect")
        for node in BROKERS:
            if logs:
                self.log(node, *sequences)
            role = "master" if node == "broker-0" else "slave"
            self.node(node, role=role, confirm=len(sequences) * SIZE, maximums={"0": len(sequences)})
        self.phase("stop")
        return self

    # Judging

    def context(self) -> RunContext:
        meta = {"deployment": "sim", "brokers": list(BROKERS), "bounds": {}, "tells": list(REPORTED), **self.meta}
        return RunContext(run="test", seed=1, meta=RunMeta.of(meta))

    def table(self) -> pa.Table:
        """The rows as laws are given them: without the beginnings that ends repeat."""
        return ends_of(self.rows)

    def recorded(self) -> pa.Table:
        """All rows."""
        return repeating(self.rows)

    def verdict(self, law: str) -> Verdict:
        return next(v for v in judge_rows([("all-0", self.table())], self.context()) if v.law == law)

    def expect(self, law: str, *names: str, validity: Validity | None = None) -> Verdict:
        """Judge, and hold that exactly these anomalies were found (or, without any, this validity)."""
        verdict = self.verdict(law)
        found = {anomaly.name for anomaly in verdict.anomalies}
        assert found == set(names), (found, verdict)
        assert validity is None or verdict.validity is validity, verdict
        return verdict


def repeating(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of which ends repeat their beginnings, as the recorder writes them."""
    return Beginnings().repeat(table_of(rows).select(GIVEN))


def ends_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as laws are given them: without the beginnings that ends repeat."""
    return without_beginnings(repeating(rows))[0]


def whole_of(table: pa.Table) -> pa.Table:
    """Rows as they were recorded, with the beginnings that their ends repeat."""
    return with_beginnings(table)[0].sort_by("index")


def harmed(whole: pa.Table) -> pa.Table:
    """Rows as laws are given them, of recorded ones of which some were changed."""
    return without_beginnings(Beginnings().repeat(whole.select(GIVEN)))[0]


def as_given(table: pa.Table) -> Shard:
    """These very rows, without beginnings that are made of ends."""
    return Shard(table.drop_columns(["began_value"]))


def parts_for(law: Kernel, table: pa.Table, most: int, offsets: int | None = None) -> list[pa.Table]:
    """The rows of the shards in which one law is given a run, each with so many rows of its own at most."""
    return [rows for _, rows in parted([table], plan({("law", 0): law}), most, offsets=offsets)]


def shards_for(law: Kernel, table: pa.Table, most: int, offsets: int | None = None) -> list[Shard]:
    """The same as the law is given it."""
    return [rows for _, rows in shards([table], plan({("law", 0): law}), most, offsets=offsets)]


def cut(table: pa.Table, rng: Random, places: Sequence[int]) -> list[pa.Table]:
    """The rows in pieces, cut at some of these places."""
    ends = sorted({rng.choice(places) for _ in range(rng.choice((1, 3, 12)))}) if places else []
    return [table[begin:end] for begin, end in zip([0, *ends], [*ends, table.num_rows], strict=True)]


def places_kept(table: pa.Table, choose: Callable[[Rows], Any]) -> npt.NDArray[np.int64]:
    """Where in a table the rows are that a sieve keeps of it; of an operation that is its end."""
    rows = Shard(table)
    return np.flatnonzero(np.isin(table["index"].to_numpy(), rows.recorded[choose(rows)]))


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in INTEGERS:
            columns[name] = pa.array(values, pa.int64())
        elif name in WORDS:
            columns[name] = pa.array(values, pa.string()).dictionary_encode()
        else:
            columns[name] = pa.array(values, pa.string())
    return pa.table(columns)
