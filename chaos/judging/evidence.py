"""What a run shows, and why that is not enough: whatever the laws say, it can't be VALID then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos import plugins
from chaos.events import MalformedMessage
from chaos.history import unanswered
from chaos.history.columns import Kind
from chaos.history.run_meta import RUNNING, RunMeta
from chaos.judging.shard import are_accidents
from chaos.kernel import Needs
from chaos.law import RunContext
from chaos.ops import OpType
from chaos.verdict import UnknownReason

#: How the names of clients begin by which the harness asks whether there is service; they are no load.
PROBE = "probe."
#: What counts as a write of a workload that operates on anything but queues with offsets.
CHANGES = ("write", "cas", "acquire", "create_topic", "enqueue", "put")
#: A title has so many letters of what a node said at its end.
LETTERS = 80
#: Fields of ``run.json`` without which it is unknown what was promised, to whom, and what was to be survived.
NEEDED = ("seed", "profile", "queues", "nodes", "workloads", "faults", "bounds")


def lacking(table: pa.Table, meta: RunMeta) -> list[UnknownReason]:
    """Why this run can't be VALID, whatever the laws say of what it recorded: it is torn, or it shows nothing. The most
    telling reason stands first."""
    by_harness = _rows(table, Kind.HARNESS)
    return [
        *(UnknownReason(text=f"run.json has no field {name!r}") for name in NEEDED if name not in meta.json),
        *_cut_short(by_harness, meta),
        *_trouble(by_harness),
        *_nothing_to_keep(_rows(table, Kind.OP), meta),
        *_without_effect(table, meta),
    ]


def _cut_short(by_harness: pa.Table, meta: RunMeta) -> Iterator[UnknownReason]:
    ends, phases = (_values_of(by_harness, f) for f in ("end", "phase"))
    if not ends:
        last = phases[-1].get("phase") if phases else "none"
        yield UnknownReason(text=f"the run did not come to its end: its last phase was {last}")
    elif ends[-1].get("interrupted"):
        yield UnknownReason(
            text="the run was interrupted", title="The run was interrupted", advice="Let it come to its end."
        )
    elif meta.state == RUNNING:
        yield UnknownReason(text="the harness was ended before it had sealed all that the run left")
    elif meta.state == "failed":
        error = meta.error or "no reason is recorded"
        yield UnknownReason(
            text=f"the harness failed: {error}",
            title=f"The run failed: {error}",
            advice="`error.txt` in the run says where, if it is a bug.",
        )


def _nothing_to_keep(operations: pa.Table, meta: RunMeta) -> Iterator[UnknownReason]:
    """Without a write nothing was promised, and without the final read nobody looked whether it was kept."""
    uses_queues = RunContext(run="", seed=-1, meta=meta).uses_queues
    f, process = (operations[name].cast(pa.string()) for name in ("f", "process"))
    is_ok = pc.equal(operations["type"].cast(pa.string()), str(OpType.OK))
    is_write = pc.is_in(f, pa.array(["send"] if uses_queues else CHANGES))
    if not pc.any(pc.and_(pc.and_(is_ok, is_write), pc.invert(pc.starts_with(process, PROBE)))).as_py():
        yield UnknownReason(
            text="no write of a workload was acknowledged, so there was nothing to keep",
            title="No write was acknowledged: there was nothing to keep",
            advice="Look whether clients reach the system without faults.",
        )
    if uses_queues and not pc.any(pc.and_(is_ok, pc.equal(f, "drain"))).as_py():
        yield UnknownReason(
            text="no queue was drained, so what is missing can't be distinguished from what was not read",
            title="No queue was read to its end: what is missing can't be distinguished from what was not read",
            advice="Let the run come to its end, and give `bounds: {drain_s: …}` more time.",
        )


def _trouble(by_harness: pa.Table) -> Iterator[UnknownReason]:
    """Yield what the harness saw go wrong that is no fault of the experiment."""
    for value in _values_of(by_harness, "crash"):
        what = str(value.get("what", "it is not recorded which"))
        yield UnknownReason(
            text=f"a node died of its own error: {what}",
            title=f"A node died of its own error: {what[:LETTERS]}",
            advice="Its log is in `logs/`.",
            detailed=len(what) > LETTERS,
        )
    for text in _other_trouble(by_harness):
        yield UnknownReason(text=text)


def _other_trouble(by_harness: pa.Table) -> Iterator[str]:
    for value in _values_of(by_harness, "killed"):
        yield f"it is unknown whether a node killed itself: {value.get('what', 'it is not recorded which')}"
    yield from unanswered.sentences(_values_of(by_harness, unanswered.F))
    for value in _values_of(by_harness, "host_lost"):
        yield str(value.get("what", "a host could not be reached"))
    for value in _values_of(by_harness, "bypass"):
        yield str(value.get("what", "a client went round the proxies"))
    for value in _values_of(by_harness, "overrun"):
        yield f"the phase {value.get('phase', '?')} was cut off after {value.get('seconds', '?')} s"


def _without_effect(table: pa.Table, meta: RunMeta) -> Iterator[UnknownReason]:
    effective, drawn = effective_faults(table), set(meta.drawn_faults)
    if not _values_of(_rows(table, Kind.HARNESS), "end"):  # what is in force was not undone, and not looked at
        effective |= Counter(name for name, value in _done(table) if value.get("phase") == "inject")
    for name in sorted(set(meta.faults) - set(effective) - drawn):
        yield UnknownReason(
            text=f"no {name} took effect, though the experiment asks for it",
            title=f"No {name} took effect",
            advice="`stormproof doctor` says what this machine can do.",
        )
    if drawn and not drawn & set(effective):
        yield UnknownReason(text="no fault of the swarm took effect")


def _rows(table: pa.Table, kind: Kind) -> pa.Table:
    return table.filter(pc.equal(table["kind"].cast(pa.string()), str(kind)))


def _values_of(rows: pa.Table, f: str) -> list[dict[str, Any]]:
    return _values(rows.filter(pc.equal(rows["f"].cast(pa.string()), f)))


def effective_faults(table: pa.Table) -> Counter[str]:
    """How often each fault was injected and had an effect."""
    return Counter(name for name, value in _done(table) if value.get("phase") == "undo" and value.get("effective"))


def _done(table: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what was done of each fault, with its name: it was injected, or undone."""
    of_faults = _rows(table, Kind.FAULT)
    done = of_faults.filter(pc.equal(of_faults["type"].cast(pa.string()), str(OpType.OK)))
    yield from zip(done["f"].cast(pa.string()).to_pylist(), _values(done), strict=True)


def misunderstood(table: pa.Table) -> list[UnknownReason]:
    """Nodes that sent one another what the other could not understand: one of them has a bug. What anybody else sends
    is nobody's fault here."""
    traced = _rows(table, Kind.TRACE)
    nodes = {str(node) for node in pc.unique(traced["node"].cast(pa.string())).to_pylist()}
    refused = traced.filter(pc.equal(traced["f"].cast(pa.string()), MalformedMessage.f))
    by_node = zip(refused["node"].cast(pa.string()).to_pylist(), _values(refused), strict=True)
    pairs = {(value.get("source"), node): value.get("error") for node, value in by_node if value.get("source") in nodes}
    return [
        UnknownReason(text=f"{source} sent {node} what it can't understand: {error}")
        for (source, node), error in pairs.items()
    ]


def accidents(table: pa.Table) -> tuple[str, ...]:
    """Return what befell which nodes by accident (:mod:`chaos.run.accidents`)."""
    began = table.filter(pc.and_(are_accidents(table), pc.equal(table["type"].cast(pa.string()), str(OpType.INVOKE))))
    details = (detail if isinstance(detail := value.get("detail"), dict) else {} for value in _values(began))
    return tuple(str(detail.get("what", "it is not recorded what befell whom")) for detail in details)


def _values(table: pa.Table) -> list[dict[str, Any]]:
    """Of each row; what is not an object counts as an empty one, and as damage (:func:`_odd`)."""
    return [_object(text) or {} for text in table["value"].to_pylist()]


def _object(text: str | None) -> dict[str, Any] | None:
    """None for what is not an object."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def odd_values(reports: pa.Table) -> list[str]:
    """Return a sentence, if any of the rows that say what became of a run says nothing that can be read."""
    odd = [row for row, text in zip(reports["index"].to_pylist(), reports["value"].to_pylist(), strict=True)
           if _object(text) is None]  # fmt: skip
    return [f"the value of {len(odd)} rows is not a JSON object, first that of row {odd[0]}"] if odd else []


def unjudgeable(laws: Iterable[str], evidence: Iterable[str], uses: Iterable[str]) -> list[str]:
    """Return why laws that an experiment demands can't be judged: with the ``evidence`` that its driver reports, of
    what its workloads use (:class:`chaos.workload.Use`). Empty when all can. Raises :class:`BadInput` when our own
    laws can't be loaded."""
    from chaos.judging.registry import registry

    known, reported, used = registry(), frozenset(evidence), frozenset(uses)
    names = [promise.name for promise in known.promises]
    why = []
    for law in laws:
        if law in known.broken:
            why.append(f"the law {law!r} is broken: {known.broken[law]}")
        elif law not in names:
            why.append(f"there is no law {law!r}; {plugins.nearest(law, names)}")
        else:
            reasons = [_missing(known.kernels[number].needs, reported, used) for number in known.of(law)]
            if all(reasons):
                why.append(f"the law {law!r} can't be judged: {'; '.join(dict.fromkeys(reasons))}")
    return why


def _missing(needs: Needs, reported: Set[str], uses: Set[str]) -> str:
    """Return why a kernel has nothing to judge; "" when it has."""
    lacks = sorted(set(map(str, needs.evidence)) - reported)
    if lacks:
        return f"the driver does not report {', '.join(lacks)}"
    if needs.uses and not uses & set(map(str, needs.uses)):
        return f"no workload uses {' or '.join(needs.uses)}"
    return ""
