"""What clients saw of an object that only they change fits one order of its changes (Herlihy and Wing 1990).

The kernel gathers the operations on each object and searches them for such an order. A search that takes long is
deferred, so that it is done wherever a core is free: in Python first, which decides all but the hardest, and by the
search that the law was made with where that gives up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chaos.errors import MachineError
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Deferred, Harm, Key, Law, Partial, Promise
from chaos.law import Rows as LawRows
from chaos.operations import Acquire, CompareAndSet, CreateObject, HarnessRow, ReadObject, Release, WriteObject
from chaos.shard_rows import Rows
from chaos.verdict import Anomaly, DeadEnd, Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers.linearizable.history import Argument, Function, History, Operation, Result
from checkers.linearizable.python import checker as sequential
from checkers.linearizable.witness.clauses import clauses
from checkers.linearizable.witness.known_patterns import known_pattern
from checkers.linearizable.witness.partial_linearization import PartialLinearization, dead_ends, minimal_dead_ends

FUNCTIONS = ("read", "write", "cas", "acquire", "release")
#: What the search for one object may cost where its rows are: configurations in all, and for each operation.
EASY, EASY_EACH = 5_000, 4
#: What the search in Python may cost for one object before the other one is asked.
MAX_CONFIGS = 200_000
MAX_SECONDS = 10.0
#: So many dead ends of a violation are reported.
DEAD_ENDS = 4

NOT_LINEARIZABLE = "not-linearizable"
PROMISE = Promise(
    name="linearizable",
    place=120,
    meaning="What clients saw of an object that only they change fits one order of its changes.",
    counts={"unclear": "of unknown outcome"},
    anomalies=(
        AnomalyKind(
            name=NOT_LINEARIZABLE,
            meaning="no order of the operations on one object explains what was seen",
            headline=(
                "No order of changes explains what clients saw of an object",
                "No order of changes explains what clients saw of {n} objects",
            ),
            harm=Harm.DATA,
        ),
    ),
)

Search = Callable[[Sequence[History]], Iterable[Result]]


class Linearizable(Law):
    """The law. ``search`` judges the histories that Python alone could not decide."""

    promise = PROMISE
    key = Key.OBJECT
    reads = (CreateObject, ReadObject, WriteObject, CompareAndSet, Acquire, Release, HarnessRow)
    uses = (Use.OBJECTS,)
    on_prefix = True

    def __init__(self, search: Search | None = None) -> None:
        self.search = search

    def examine(self, given: LawRows) -> Partial:
        rows = given.columns
        found = Findings(PROMISE)
        calls: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for call in sorted(_calls(rows, found), key=lambda call: call["called"]):
            calls.setdefault((call["object"], call["model"]), []).append(call)
        decided = Partial()
        made = {(init["object"], init["model"]): init for init in _inits(rows)}
        for key, init in made.items():
            mine = calls.pop(key, [])
            found.count("objects", 1)
            found.count("completed", sum(call["ended"] >= 0 for call in mine))
            found.count("unclear", sum(call["ended"] < 0 for call in mine))
            fact = {**init, "calls": mine}
            history = _history(fact)
            result = sequential.examine(history, max_configs=max(EASY, EASY_EACH * len(mine)))
            if result.valid is None:
                found.defer(str(history.id), fact)
            else:
                decided = decided.merge(_partial(fact, history, result))
        owed = bool(calls or made or Use.OBJECTS in given.run.uses)
        found.not_owed("" if owed else "no workload changed objects")
        for name, model in sorted(calls):
            found.gap(f"nothing shows in which state {name} ({model}) began")
        return found.partial().merge(decided)

    def settle(self, deferred: Deferred) -> Partial:
        history = _history(deferred.given)
        return _partial(deferred.given, history, self._searched(history))

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("completed", "no operation on an object was completed")])

    def _searched(self, history: History) -> Result:
        result = sequential.examine(history, max_configs=MAX_CONFIGS, max_seconds=MAX_SECONDS)
        if result.valid is not None or self.search is None:
            return result
        try:
            (found,) = self.search([history])
            return found
        except MachineError as error:  # no Java, no jar
            explained = (replace(one, reason=f"{one.reason}; {error}") for one in result.undecided)
            return replace(result, undecided=tuple(explained))


def _partial(fact: Mapping[str, Any], history: History, result: Result) -> Partial:
    """Return what a search has found out about an object; what is undecided is a gap."""
    if result.valid is not None:
        return Partial(anomalies=() if result.valid else (_anomaly(fact, history, result),))
    far = ", ".join(f"{one.reason}; {one.placed} of {one.of} placed" for one in result.undecided)
    return Partial(gaps=(f"whether {history.id} is linearizable could not be decided ({far or 'no reason given'})",))


# From rows to operations


def _inits(rows: Rows) -> list[dict[str, Any]]:
    """Each object that a client made, with its first state, once for each model that its operations follow. ``part``:
    what people call that which the model is of; the whole object where it is ""."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for at in rows.where(kind="op", f="create", type="invoke").tolist():
        fields = rows.value(at)
        for model, state in (fields.get("init") or {}).items():
            part = fields.get("part", {"replica-info": "set", "register": "address"}.get(model, ""))
            made = {"object": fields["object"], "model": model, "init": state, "part": part}
            found.setdefault((fields["object"], model), made)
    return [found[key] for key in sorted(found)]


def _load_began_ns(rows: Rows) -> int:
    for at in rows.where(kind="harness", f="phase").tolist():
        if rows.value(at).get("phase") == "load":
            return int(rows.column("time_ns")[at])
    return int(rows.column("time_ns")[0]) if len(rows) else 0


def _calls(rows: Rows, found: Findings) -> Iterator[dict[str, Any]]:
    """Yield the operations that may have happened and restrict something, as JSON. ``called`` and ``ended`` are indices
    of rows, -1 where the end is unknown; the times are seconds since the load began, as the report counts them."""
    index, times = rows.column("index"), rows.column("time_ns")
    first = _load_began_ns(rows)
    for f in FUNCTIONS:
        calls = facts.calls(rows, f)
        _note_lost(rows, f, calls, found)
        for number, at in enumerate(calls.invoke.tolist()):
            asked = rows.value(at)
            if "object" not in asked or "model" not in asked:
                continue
            done, ok = int(calls.done[number]), bool(calls.ok[number])
            fields = rows.value(done) if done >= 0 else asked
            known = ok or bool(calls.failed[number])
            meaning = _meaning(f, fields, ok=ok, known=known)
            if meaning is None:
                continue
            if ok and None in meaning[1]:
                found.gap(f"the end of the {f} of {asked['object']} in row {int(index[done])} does not say what it saw")
                continue
            yield {
                "object": asked["object"],
                "model": asked["model"],
                "f": int(meaning[0]),
                "arguments": meaning[1],
                "process": rows.text("process", at),
                "node": rows.text("node", done) if done >= 0 else "",
                "to": asked.get("to", ""),
                "called": int(index[at]),
                "ended": int(index[done]) if known else -1,
                "row": int(index[done]) if done >= 0 else -1,
                "called_s": (int(times[at]) - first) / 1e9,
                "ended_s": (int(times[done]) - first) / 1e9 if known else -1.0,
            }


def _note_lost(rows: Rows, f: str, calls: facts.Calls, found: Findings) -> None:
    """Note ends that don't belong to any of the calls: a stranger's that names no object, or another one than the row
    where it began, so that it may stand in another shard."""
    index, op = rows.column("index"), rows.column("op")
    every = rows.where(kind="op", f=f)
    ends = every[~np.isin(every, calls.invoke) & ~np.isin(op[every], calls.began)]
    for at in ends.tolist():
        found.gap(f"where the {f} began that ended in row {int(index[at])} is not known")


def _meaning(f: str, fields: Mapping[str, Any], *, ok: bool, known: bool) -> tuple[Function, list[Argument]] | None:
    """Return what an operation did or saw; None for what surely did not happen and for reads that ended in nothing."""
    model = fields["model"]
    failed = known and not ok
    if f == "read":
        if not ok:
            return None
        if model == "register":
            return Function.READ, [_text(fields["address"]) if "address" in fields else None]
        return Function.READ, [fields.get("epoch"), *_members(fields)]
    if f == "cas" and failed:
        asked = [fields["expected"], fields["expected"] + 1, *_members(fields)]
        return (Function.CAS_FAILED, asked) if fields.get("refused") else None
    if failed:
        return None
    if f == "cas":
        return Function.CAS, [fields["expected"], fields.get("epoch"), *_members(fields)]
    if f == "write":
        return Function.WRITE, [_text(fields["address"])]
    return (Function.ACQUIRE if f == "acquire" else Function.RELEASE), [fields["holder"], fields.get("token")]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _members(fields: Mapping[str, Any]) -> list[str]:
    return sorted(_text(member) for member in fields.get("members", ()))


def _history(fact: Mapping[str, Any]) -> History:
    """Return the history of an object. The search sees a lock's holders as processes: a holder's later life may give
    back what an earlier one took."""
    locks = fact["model"] == "fenced-lock"
    operations = [
        Operation(
            process=str(call["arguments"][0]) if locks else call["process"],
            f=Function(call["f"]),
            arguments=tuple(call["arguments"]),
            call=call["called"],
            ret=call["ended"] if call["ended"] >= 0 else None,
            key=fact["object"],
            rows=(call["called"], call["row"]),
        )
        for call in fact["calls"]
    ]
    init = fact["init"]
    if fact["model"] == "register":
        init = [_text(value) for value in init]
    elif fact["model"] == "replica-info":
        init = [init[0], *sorted(_text(member) for member in init[1:])]
    name = f"{fact['object']} ({fact['model']})"
    return History(id=name, model=fact["model"], operations=operations, init=tuple(init))


def _anomaly(fact: Mapping[str, Any], history: History, result: Result) -> Anomaly:
    """Say what is wrong, in the fewest operations that show it: by a pattern that people know, else as the search
    found."""
    witness = result.witness
    calls = known_pattern(fact["model"], fact["init"], fact["calls"])
    if calls is None:
        calls = [fact["calls"][number] for number in sorted(witness.minimal)] if witness is not None else []
    part = f"The {fact['part']} of " if fact["part"] else ""
    text = f"{part}{fact['object']} is not linearizable: {clauses(calls)}."
    return Anomaly(
        law=PROMISE.name,
        name=NOT_LINEARIZABLE,
        explanation=text,
        rows=tuple(sorted({row for call in calls for row in (call["called"], call["row"]) if row >= 0})),
        dead_ends=_dead_ends(history, result, [fact["calls"].index(call) for call in calls]),
    )


def _dead_ends(history: History, result: Result, shown: Sequence[int]) -> tuple[DeadEnd, ...]:
    """Return where the search got stuck, with all operations and with those that are shown alone, for the report to
    draw."""
    row = [operation.rows[0] for operation in history.operations]

    def end(found: PartialLinearization, alone: bool) -> DeadEnd:
        return DeadEnd(
            order=tuple(row[number] for number in found.order),
            states=tuple(found.states),
            state=found.state,
            illegal=tuple((row[number], reason) for number, reason in found.illegal.items()),
            alone=alone,
        )

    whole = dead_ends(history, result.witness) if result.witness is not None else ()
    alone = minimal_dead_ends(history, shown)
    if all(len(found.order) < len(shown) - 1 for found in alone):  # a known pattern begins in the midst of the history
        alone = ()
    return (*(end(one, False) for one in whole[:DEAD_ENDS]), *(end(one, True) for one in alone[:DEAD_ENDS]))
