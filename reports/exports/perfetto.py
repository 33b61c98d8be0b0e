"""For ui.perfetto.dev and chrome://tracing: nodes and clients as tracks, messages as flows, offsets as counters.

The format is Chrome's "Trace Event Format", in its JSON object form, which Perfetto reads as its legacy JSON format.
What is used of it: ``M`` names processes and threads; ``X`` is a slice of a thread, and slices of one thread nest or
stand apart; ``b`` and ``e`` are the ends of a slice that may overlap others, paired by ``cat``, ``id`` and ``name``;
``i`` is an instant; ``C`` a counter of a process; ``s``, ``t`` and ``f`` are steps of a flow, which with ``bp: "e"``
belong to the slice around them. Times are whole microseconds from the run's first row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput
from chaos.events import Append
from chaos.history.directory import VERDICT, read_verdict
from chaos.history.history import History
from chaos.history.row import Row
from reports.run_report.storage import storage_story
from reports.run_report.story import message_name
from reports.summary import Bar, Story, summarise

FILE = "perfetto.json"
#: "Processes" of the trace, which Perfetto shows one below the other; nodes have the numbers from NODES on.
RUN, FAULTS, CLIENTS, NODES = 1, 2, 3, 10
#: "Threads" of a node, and of the run.
ROLES, TERMS, LOG, EVENTS = 1, 2, 3, 4
PHASES, FINDINGS = 1, 2
#: Traces that are steps of a message, or so many that a track of them shows nothing.
QUIET = ("append", "synced", "confirm", "acked", "raft", "role", "group_append", "group_synced", "group_acked")
#: Offsets that polls show, in the order of the counters.
OFFSETS = ("end", "confirm", "first")
#: Columns of rows that are shown.
NUMBERS = ("index", "epoch", "queue", "offset", "position", "incarnation")

Event = dict[str, Any]


class _Clock:
    """From a run's times to the trace's."""

    def __init__(self, history: History) -> None:
        self.zero_ns = history.zero_ns
        times = history.table["time_ns"].to_numpy()
        self.first_ns = int(times.min()) if len(times) else 0

    def at(self, time_ns: int) -> int:
        return (time_ns - self.first_ns) // 1000

    def second(self, second: float) -> int:
        """Return a second since the load began in the trace's time."""
        return self.at(self.zero_ns + round(second * 1e9))


def export(run: Path) -> bytes:
    """Return the trace of a run as JSON. A run that was judged shows its violations too."""
    history = History.open(run)
    meta, story = history.meta, summarise(history, ())
    if not history.num_rows:
        raise BadInput(f"{run}: nothing was recorded, so there is nothing to export")
    clock, nodes = _Clock(history), _nodes(history, story)
    events = [
        *_run(story, clock),
        *_faults(story, clock),
        *_roles(story, [*story.roles, *storage_story(history, story.faults).roles], clock, nodes),
        *_log(history, clock, nodes),
        *_counters(history, clock, nodes),
        *_clients(history, clock),
        *_flows(history, clock, nodes),
        *_findings(history, clock),
    ]
    about = {name: meta.json[name] for name in ("run", "name", "seed", "deployment", "mutant") if meta.json.get(name)}
    about |= {"replay": again} if (again := meta.replay_command) else {}
    whole = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {**about, "load_began_us": clock.at(clock.zero_ns)},
    }
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _nodes(history: History, story: Story) -> dict[str, int]:
    """Return the number of each node that traced something, or was polled."""
    named = {str(node) for kind in ("trace", "poll") for node in history.rows(kind)["node"].to_pylist()}
    lanes = {bar.lane for bar in (*story.roles, *story.terms)}
    return {node: NODES + number for number, node in enumerate(sorted((named | lanes) - {""}))}


def _named(pid: int, name: str, threads: Mapping[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for tid, thread in threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _slice(pid: int, tid: int, name: str, start: int, end: int, cat: str, args: Mapping[str, Any]) -> Event:
    duration = max(0, end - start)
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": start, "dur": duration,
            "args": dict(args)}  # fmt: skip


def _run(story: Story, clock: _Clock) -> Iterator[Event]:
    yield from _named(RUN, "run", {PHASES: "phases", FINDINGS: "findings"})
    for bar in story.phases:
        yield _slice(RUN, PHASES, bar.label, clock.second(bar.start_s), clock.second(bar.end_s), "phase", {})


def _faults(story: Story, clock: _Clock) -> Iterator[Event]:
    """Yield the faults. They overlap, so that each is a pair of events with an id."""
    yield from _named(FAULTS, "faults", {})
    for fault in story.faults:
        args = {"targets": fault.targets, "effective": fault.effective, "proof": fault.proof, "seen": fault.seen}
        both = {"name": fault.name, "cat": "fault", "id": fault.id, "pid": FAULTS, "tid": 0}
        yield {"ph": "b", **both, "ts": clock.second(fault.asked_s), "args": args}
        yield {"ph": "e", **both, "ts": clock.second(max(fault.asked_s, fault.end_s)), "args": {}}


def _roles(story: Story, roles: Sequence[Bar], clock: _Clock, nodes: Mapping[str, int]) -> Iterator[Event]:
    for node, pid in nodes.items():
        yield from _named(pid, node, {ROLES: "role", TERMS: "raft", LOG: "log", EVENTS: "events"})
    for tid, bars in ((ROLES, roles), (TERMS, story.terms)):
        for bar in bars:
            start, end = clock.second(bar.start_s), clock.second(bar.end_s)
            yield _slice(nodes[bar.lane], tid, bar.label, start, end, "role", {})


def _log(history: History, clock: _Clock, nodes: Mapping[str, int]) -> Iterator[Event]:
    """Yield what nodes traced: each append as the shortest slice, so that flows have something to go through; the rest
    as instants."""
    for row in history.each("trace"):
        pid, at = nodes.get(row.node), clock.at(row.time_ns)
        if pid is None:
            continue
        if row.f == "append" and row.message >= 0:
            yield _slice(pid, LOG, f"append {message_name(row.message)}", at, at + 1, "log", row.numbers(*NUMBERS))
        elif row.f not in QUIET:
            args = {**row.numbers(*NUMBERS), **row.value}
            yield {"ph": "i", "name": row.f, "cat": "trace", "pid": pid, "tid": EVENTS, "ts": at, "s": "t",
                   "args": args}  # fmt: skip


def _counters(history: History, clock: _Clock, nodes: Mapping[str, int]) -> Iterator[Event]:
    for row in history.each("poll", "state"):
        for name in OFFSETS:
            position = row.value.get(name)
            if row.node in nodes and type(position) is int and position >= 0:
                yield {"ph": "C", "name": name, "pid": nodes[row.node], "tid": 0, "ts": clock.at(row.time_ns),
                       "args": {"position": position}}  # fmt: skip


def _clients(history: History, clock: _Clock) -> Iterator[Event]:
    """Yield what clients did. A client has one operation at a time; one that never ended lasts as long as the run."""
    table = history.each("op")
    threads = _threads(table)
    yield from _named(CLIENTS, "clients", {tid: name for name, tid in threads.items()})
    ends = {row.op: row for row in table if row.type != "invoke" and row.f != "delivered"}
    last = clock.second(history.end_s)
    for row in table:
        if row.type != "invoke":
            continue
        end = ends.get(row.index)
        until = clock.at(end.time_ns) if end is not None else last
        outcome = end.type if end is not None else "never ended"
        args = {**row.numbers(*NUMBERS), **(end.numbers(*NUMBERS) if end is not None else {}), "outcome": outcome}
        if end is not None and end.node:
            args["node"] = end.node
        name = row.f if row.message < 0 else f"{row.f} {message_name(row.message)}"
        yield _slice(CLIENTS, threads[row.process], name, clock.at(row.time_ns), until, "op", args)


def _threads(ops: Sequence[Row]) -> dict[str, int]:
    return {name: tid for tid, name in enumerate(sorted({row.process for row in ops}), 1)}


def _flows(history: History, clock: _Clock, nodes: Mapping[str, int]) -> Iterator[Event]:
    """Yield the way of each message: sent, appended on one replica after the other, read. A step binds to the slice
    around it; a read stands in the pull that brought it."""
    ops = history.each("op")
    threads = _threads(ops)
    invoked = {row.index: row for row in ops if row.type == "invoke"}
    steps: dict[int, list[tuple[int, int, int, int]]] = {}  # message → (time, order of rows, process, thread)

    def step(message: int, time_ns: int, index: int, pid: int, tid: int) -> None:
        steps.setdefault(message, []).append((clock.at(time_ns), index, pid, tid))

    for row in ops:
        if row.message < 0:
            continue
        if row.f == "send" and row.type == "invoke":
            step(row.message, row.time_ns, row.index, CLIENTS, threads[row.process])
        elif row.f == "delivered" and row.op in invoked:
            pull = invoked[row.op]
            step(row.message, row.time_ns, row.index, CLIENTS, threads[pull.process])
    for row in history.each(Append):
        if row.message >= 0 and row.node in nodes:
            step(row.message, row.time_ns, row.index, nodes[row.node], LOG)
    for message, places in sorted(steps.items()):
        places.sort()
        for number, (at, _, pid, tid) in enumerate(places if len(places) > 1 else []):
            phase = "s" if number == 0 else "f" if number == len(places) - 1 else "t"
            yield {"ph": phase, "name": "message", "cat": "message", "id": message, "pid": pid, "tid": tid, "ts": at,
                   "bp": "e", "args": {"message": message_name(message)}}  # fmt: skip


def _findings(history: History, clock: _Clock) -> Iterator[Event]:
    if not guarded.is_there(history.run / VERDICT):
        return
    verdict = read_verdict(history.run)
    times = dict(zip(history.table["index"].to_pylist(), history.table["time_ns"].to_pylist(), strict=True))
    for anomaly in verdict.violations:
        at = [times[index] for index in anomaly.rows if index in times]
        if at:
            args = {"law": anomaly.law, "explanation": anomaly.explanation, "rows": list(anomaly.rows)}
            yield {"ph": "i", "name": anomaly.name, "cat": "finding", "pid": RUN, "tid": FINDINGS,
                   "ts": clock.at(max(at)), "s": "g", "args": args}  # fmt: skip
