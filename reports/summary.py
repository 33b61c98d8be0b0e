"""Turns the rows of a run into what a person looks at: bars, curves and witness rows, already reduced in number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.events import RaftRole, Role, StoreCas
from chaos.history.history import History
from chaos.history.row import Row
from chaos.history.values import value_of
from reports.fault_latency import FaultLatencies, FaultLatency
from reports.faults import FaultLine, fault_lines, shortened
from reports.operations import OF_OBJECTS, WRITES, Operations
from reports.send_summary import Sends, SendSummary
from reports.served import OUTAGE_S

#: Throughput is drawn in no more pieces than that: 36 hours of seconds. A row may claim any time.
MOST_PIECES = 1 << 17
#: What is drawn of the latencies of one second.
QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}

#: How the operations on objects that were answered are called.
OBJECT_LABELS = {
    "read": "reads answered",
    "write": "acknowledged changes",
    "cas": "compare-and-set answered",
    "acquire": "locks taken",
    "release": "locks given back",
}
#: One number each, of few or of many.
Numbers = Sequence[float] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that lasted, in seconds since the load began."""

    lane: str
    start_s: float
    end_s: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart; ``x`` in seconds since the load began."""

    label: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One row behind an anomaly."""

    index: int
    at_s: float
    who: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that the report draws of one run. ``roles`` are those of the brokers, ``terms`` those of the controllers
    among themselves; ``outages`` those of queues and of single clients; ``latency`` has quantiles of each second,
    ``latencies`` every acknowledged send, and ``fault_latencies`` how long they took around each fault; ``zero_ns`` is
    the moment from which all times are counted. ``piece_s``: of a run with very many sends and of hours, throughput and
    quantiles are those of so many seconds each."""

    duration_s: float
    phases: Sequence[Bar]
    faults: Sequence[FaultLine]
    roles: Sequence[Bar]
    terms: Sequence[Bar]
    outages: Sequence[Bar]
    throughput: Sequence[Curve]
    latency: Sequence[Curve]
    counts: Mapping[str, int]
    latencies: Curve | None = None
    fault_latencies: Sequence[FaultLatency] = ()
    piece_s: int = 1
    witnesses: Mapping[int, Witness] = field(default_factory=dict)
    zero_ns: int = 0


def summarise(history: History, witness_rows: Iterable[int], operations: Operations | None = None) -> Story:
    """Reduce the rows of a run to what is drawn of it. ``witness_rows`` are the ``index`` values whose rows the report
    will quote; ``operations`` are those of the run, where the history doesn't hold them."""
    operations = operations or Operations.of(history)
    sends = operations.sends
    curves, points = _latency(sends)
    faults = fault_lines(history)
    return Story(
        duration_s=history.end_s,
        phases=_phases(history),
        faults=faults,
        roles=_roles(history, Role),
        terms=_roles(history, RaftRole),
        outages=_all_outages(sends, _load_end(history)),
        throughput=_throughput(operations, _piece_s(sends)),
        latency=curves,
        latencies=points,
        fault_latencies=_around_faults(sends, faults, history.load_end_s),
        piece_s=_piece_s(sends),
        counts=_counts(history, operations),
        witnesses={row.index: witness(row) for row in history.numbered(sorted(set(witness_rows)))},
        zero_ns=history.zero_ns,
    )


def _phases(history: History) -> list[Bar]:
    starts = [(row.at_s, str(row.value.get("phase", "?"))) for row in history.each("harness", "phase")]
    return [
        Bar(lane="phase", start_s=start, end_s=end, label=name, kind=name)
        for (start, name), end in zip(starts, _ends(starts, history), strict=True)
    ]


def _load_end(history: History) -> float:
    return next((phase.end_s for phase in _phases(history) if phase.kind == "load"), history.end_s)


def _all_outages(sends: Sends | SendSummary, end_s: float) -> list[Bar]:
    """Return those of queues, then those of clients."""
    if isinstance(sends, Sends):
        return _outages(sends, end_s) + _client_outages(sends, end_s)
    return [_out(f"queue {queue}", start, end) for queue, start, end in sends.outages()] + [
        _out(client, start, end) for client, start, end in sends.waits()
    ]


def _out(lane: str, start_s: float, end_s: float) -> Bar:
    return Bar(lane=lane, start_s=start_s, end_s=end_s, label=f"{end_s - start_s:.1f} s", kind="out")


def _outages(sends: Sends, end_s: float) -> list[Bar]:
    """Return, per queue, the stretches of the load in which no send was acknowledged; a queue that never was has
    none."""
    acked = sends.ok & (sends.second <= end_s)
    bars = []
    for queue in np.unique(sends.queue[acked]).tolist():
        moments = np.sort(np.append(sends.second[acked & (sends.queue == queue)], [0.0, end_s]))
        for at in np.flatnonzero(np.diff(moments) > OUTAGE_S).tolist():
            start, end = float(moments[at]), float(moments[at + 1])
            bars.append(_out(f"queue {queue}", start, end))
    return bars


def _client_outages(sends: Sends, end_s: float) -> list[Bar]:
    """Return, per client, the stretches of the load in which it had asked for sends and none was acknowledged."""
    known = ~np.isnan(sends.latency_ms)
    bars: list[tuple[str, float, float]] = []
    for code in np.unique(sends.client[known]).tolist():
        mine = np.flatnonzero(known & (sends.client == code))
        mine = mine[np.argsort(sends.second[mine], kind="stable")]
        second, is_ok = sends.second[mine], sends.ok[mine]
        begins = np.flatnonzero(np.append(True, is_ok[:-1]))  # after each acknowledgement it waits again
        ends = np.append(begins[1:], len(mine)) - 1
        asked = second[begins] - sends.latency_ms[mine[begins]] / 1e3
        until = np.where(is_ok[ends], second[ends], end_s)
        long = np.flatnonzero(np.minimum(until, end_s) - asked > OUTAGE_S)
        bars += [(sends.clients[code], float(asked[at]), float(until[at])) for at in long.tolist()]
    return [_out(client, start, min(end, end_s)) for client, start, end in sorted(bars)]


def _ends(changes: Sequence[tuple[Any, ...]], history: History) -> list[float]:
    """Return when each change ends: with the next one, the last with the end of the run."""
    return [change[0] for change in changes[1:]] + [history.end_s][: len(changes)]


def _roles(history: History, event: type[Role | RaftRole]) -> list[Bar]:
    """Return one bar per (node, role, epoch) from these events; a node that was killed has a gap until its
    next life. A node of many groups has a role in each: these have bars of their own, by group."""
    ends_of_lives = {(fault.start_s, node) for fault in fault_lines(history) for node in fault.ended}
    changes_of: dict[str, list[tuple[float, str, int]]] = {}
    for row in history.each(event):
        if event is Role or row.value.get("group") is None:
            changes_of.setdefault(row.node, []).append((row.at_s, str(row.value.get("role", "?")), row.epoch))
    bars = []
    for node in sorted(changes_of):
        changes = sorted([*changes_of[node], *((at, "", -1) for at, name in ends_of_lives if name == node)])
        for (start, role, epoch), end in zip(changes, _ends(changes, history), strict=True):
            if role:
                label = f"{role} {epoch}" if epoch >= 0 else role
                bars.append(Bar(lane=node, start_s=start, end_s=end, label=label, kind=role))
    return bars


def _throughput(operations: Operations, piece_s: int) -> list[Curve]:
    """Return curves until the end of the load: the final reading is no load. Where several seconds are drawn together,
    they show the mean."""
    first = int(np.floor(min(0.0, operations.first_s)))
    span = int(np.ceil(operations.load_end_s)) - first
    piece_s = max(piece_s, -(-span // MOST_PIECES))
    begins = np.arange(0, span, piece_s)
    lasts = np.diff(begins, append=span)
    curves = []
    for (f, kind), ended in operations.by_second.items():
        if ended and span > 0:
            counts = np.zeros(len(begins))
            for second, count in ended.items():
                counts[min(second - first, span - 1) // piece_s] += count
            curves.append(
                Curve(label=f"{f} {kind}", x=(first + begins + lasts / 2).tolist(), y=(counts / lasts).tolist())
            )
    return curves


def _latencies(sends: Sends) -> Curve | None:
    """Return every acknowledged send: when, and after how many ms."""
    chosen = sends.ok & ~np.isnan(sends.latency_ms)
    if not chosen.any():
        return None
    return Curve(label="each send", x=sends.second[chosen], y=sends.latency_ms[chosen])


def _piece_s(sends: Sends | SendSummary) -> int:
    return 1 if isinstance(sends, Sends) else sends.latencies.piece_s


def _latency(sends: Sends | SendSummary) -> tuple[list[Curve], Curve | None]:
    """Return the quantiles, and all single latencies."""
    if isinstance(sends, Sends):
        return _quantiles(sends), _latencies(sends)
    curves = [Curve(label=label, x=x, y=y) for label, x, y in sends.latencies.quantiles() if x]
    x, y = sends.latencies.dots()
    return curves, Curve(label="each send", x=x, y=y) if len(x) else None


def _around_faults(sends: Sends | SendSummary, faults: Sequence[FaultLine], load_end_s: float) -> list[FaultLatency]:
    if isinstance(sends, SendSummary):
        return sends.around_faults.lines()
    found = FaultLatencies(faults, load_end_s)
    if (every := _latencies(sends)) is not None:
        found.add(np.asarray(every.x), np.asarray(every.y))
    return found.lines()


def _quantiles(sends: Sends) -> list[Curve]:
    every_send = _latencies(sends)
    if every_send is None:
        return []
    whole, latencies = np.floor(np.asarray(every_send.x)), np.asarray(every_send.y)
    order = np.argsort(whole, kind="stable")
    seconds, starts = np.unique(whole[order], return_index=True)
    windows = np.split(latencies[order], starts[1:])
    x = (seconds + 0.5).tolist()
    every = [np.quantile(window, list(QUANTILES.values())).tolist() for window in windows]
    return [Curve(label=label, x=x, y=[*y]) for label, y in zip(QUANTILES, zip(*every, strict=True), strict=True)]


def _counts(history: History, operations: Operations) -> dict[str, int]:
    """Count what this system has: no messages where nobody used a queue, no manifests where no store reported one, no
    master terms where nobody reported a role."""
    ended = operations.completed
    counts: dict[str, int] = {}
    if any(f in (*WRITES, "pull") for f, _ in ended) or operations.delivered:
        counts["acknowledged writes"] = sum(ended[f, "ok"] for f in WRITES)
        counts["writes of unknown outcome"] = sum(ended[f, "info"] for f in WRITES)
        counts["messages read"] = operations.delivered + ended["came_out", "ok"]
    if objects := {f: ended[f, "ok"] for f in OF_OBJECTS if any(name == f for name, _ in ended)}:
        counts |= {OBJECT_LABELS[f]: number for f, number in objects.items()}
    manifests, manifest_values = operations.manifests, history.rows(StoreCas)["value"].to_pylist()
    if manifests is None:
        manifests = sum(value_of(value).get("outcome") == "applied" for value in manifest_values)
    if manifests or manifest_values:
        counts["manifest versions"] = int(manifests)
    if masters := _masters(history):
        counts["master terms"] = masters
    return counts | {"effective faults": sum(fault.effective == "yes" for fault in fault_lines(history))}


def _masters(history: History) -> int:
    """Count the master terms that nodes reported, in traces or else when they were asked; 0 where nobody did."""
    return _terms(history.each(Role)) or _terms(history.each("poll", "state"))


def _terms(rows: Iterable[Row]) -> int:
    masters = (row for row in rows if row.value.get("role") == "master" and row.epoch >= 0)
    return len({(str(row.value.get("group", "")), row.epoch, row.node) for row in masters})


def witness(row: Row) -> Witness:
    """Return a row as pages quote it."""
    who = row.process if row.kind == "op" else row.node
    columns = row.numbers("epoch", "queue", "offset", "position")
    numbers = [f"{name} {number}" for name, number in columns.items()]
    if row.node and row.kind == "op":
        numbers.append(f"answered by {row.node} (incarnation {row.incarnation})")
    numbers += [
        f"{key} {shortened(item if isinstance(item, str) else json.dumps(item), 80)}" for key, item in row.value.items()
    ]
    what = f"{row.f} {row.type}".strip()
    return Witness(index=row.index, at_s=row.at_s, who=who or "harness", what=what, detail=", ".join(numbers))
