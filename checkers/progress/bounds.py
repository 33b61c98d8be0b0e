"""Where a queue begins and ends as its readers are told, by masters and slaves: not as it was long ago."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings, decide
from chaos.law import Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import Flags, Highest, Ints
from checkers._views.faults import was_calm
from checkers._views.garbage import REAL_TIME
from checkers._views.reads import everywhere, own
from checkers.progress.promise import PROMISE, STALE_MAXIMUM, STALE_MINIMUM

#: So old may be in calm time what a node tells of a queue's ends, unless the experiment says otherwise
#: (``bounds.route_s``); elsewhere than in virtual time so many times that.
OLD_S = 5.0
NEEDS = Needs(
    part="where queues begin and end as readers are told",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "pull", "bounds"),
        reads.FIRST_ANSWERS,
        reads.MANIFESTS_OF_PARTS,
        everywhere("trace", "retention", "bootstrap", "role"),
        *(reads.RUN, reads.FAULTS),
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
)


def old_ns(context: RunContext) -> int:
    """How old what a node tells may be in calm time."""
    bound_s = views.bound(context, "route_s", OLD_S) * (1.0 if context.one_clock else REAL_TIME)
    return int(bound_s * 1e9)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Each answer is judged by itself: by what was deleted, and by what masters had told, for longer than the bound
    before it was asked for, in a time without faults."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.unfinished:  # which faults were in force may be known only when they are undone
            return found.partial()
        answers = _Answers.of(rows)
        _begin(rows, context, found, answers.only(answers.minimum >= 0))
        if context.strict:
            _end(rows, context, found, answers.only(answers.maximum >= 0))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Whether any read was answered is another kernel's to say."""
        return decide(PROMISE, partial, needs=(), unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _Answers:
    """Answers about queues, as rows that asked and that answered, with the ends that they tell (-1: none)."""

    asked: Ints
    done: Ints
    queue: Ints
    minimum: Ints
    maximum: Ints

    @classmethod
    def of(cls, rows: Rows) -> _Answers:
        made = [views.calls(rows, f) for f in ("pull", "bounds")]
        asked = np.concatenate([one.invoke[one.ok | one.failed] for one in made])
        done = np.concatenate([one.done[one.ok | one.failed] for one in made])
        told = (rows.numbers(name, done) for name in ("minimum", "maximum"))
        return cls(asked, done, rows.column("queue")[asked], *told)

    def only(self, keep: Flags) -> _Answers:
        return _Answers(*(getattr(self, name)[keep] for name in self.__slots__))


# Where a queue begins


def _begin(rows: Rows, context: RunContext, found: Findings, answers: _Answers) -> None:
    """A node that has deleted the beginning of a queue from its own log, and whose tier has as well, says so."""
    times, life, old = rows.column("time_ns"), rows.column("incarnation"), old_ns(context)
    local, manifests = rows.memo(_deletions), _Trims.of_all(rows)
    nodes = rows.column("node")
    wrong: list[int] = []
    due: dict[int, tuple[int, list[int]]] = {}
    for item, (done, queue, minimum) in enumerate(zip(answers.done, answers.queue, answers.minimum, strict=True)):
        known = local.get((int(nodes[done]), int(life[done])), _NONE).get(int(queue), ())
        by_ns = int(times[answers.asked[item]]) - old
        mine = [one for one in known if one[0] <= by_ns]
        if not mine or mine[-1][1] <= minimum:
            continue
        begin, witnesses = mine[-1][1], [mine[-1][2]]
        if queue in manifests or bool((rows.value(mine[-1][2]).get("inputs") or {}).get("tiered")):
            trimmed = manifests[int(queue)].by(by_ns) if queue in manifests else (0, -1)
            begin, witnesses = min(begin, trimmed[0]), [*witnesses, trimmed[1]]
        if minimum < begin and was_calm(rows, by_ns, int(times[done])):
            wrong.append(item)
            due[item] = begin, witnesses

    def tell(item: int) -> None:
        done, (begin, witnesses) = int(answers.done[item]), due[item]
        said = (
            f"{rows.text('node', done)} said at {views.at_s(rows, done)} that queue {int(answers.queue[item])} begins "
            f"at offset {int(answers.minimum[item])}, although it had deleted what is below offset {begin} itself more "
            f"than {old / 1e9:g} s before, with no fault in the way, and no tier held it any more."
        )
        index = rows.column("index")
        story = sorted(int(index[at]) for at in (*witnesses, int(answers.asked[item]), done) if at >= 0)
        found.add(STALE_MINIMUM, said, *story, queue=int(answers.queue[item]), offset=begin)

    at = np.array(wrong, dtype=np.int64)
    found.add_each(STALE_MINIMUM, at, tell, queues=answers.queue[at])


_NONE: Mapping[int, list[tuple[int, int, int]]] = {}


def _deletions(rows: Rows) -> Mapping[tuple[int, int], Mapping[int, list[tuple[int, int, int]]]]:
    """Node and life → queue → (when, where its own log begins since then, row), by time. A log that was begun anew in
    this life has forgotten all that."""
    times, node, life = rows.column("time_ns"), rows.column("node"), rows.column("incarnation")
    found: dict[tuple[int, int], dict[int, list[tuple[int, int, int]]]] = {}
    at = np.concatenate([rows.where(kind="trace", f=f) for f in ("retention", "bootstrap")])
    begins_anew = rows.code("f", "bootstrap")
    for one in at[np.argsort(times[at], kind="stable")].tolist():
        of = (int(node[one]), int(life[one]))
        if rows.column("f")[one] == begins_anew:
            found.pop(of, None)
            continue
        for queue, minimum in (rows.value(one).get("minimums") or {}).items():
            found.setdefault(of, {}).setdefault(int(queue), []).append((int(times[one]), int(minimum), one))
    return found


@dataclass(frozen=True, slots=True)
class _Trims:
    """Of one queue, when which version of its manifest was applied: ``start`` is where it began, in row ``at``."""

    time_ns: Ints
    start: Ints
    at: Ints

    @classmethod
    def of_all(cls, rows: Rows) -> dict[int, _Trims]:
        times, known = rows.column("time_ns"), rows.beside.memo(retention.headers)
        found = {}
        for queue, versions in rows.beside.memo(retention.versions).items():
            at = np.array(versions, dtype=np.int64)
            start = np.array([int(known[one].trimmed_to) for one in versions], dtype=np.int64)
            found[queue] = cls(times[at], np.maximum.accumulate(start), at)
        return found

    def by(self, now_ns: int) -> tuple[int, int]:
        """Where the tier began for sure by then, and the row that shows it; 0 and -1 before the first version."""
        place = int(np.searchsorted(np.maximum.accumulate(self.time_ns), now_ns, "right")) - 1
        return (int(self.start[place]), int(self.at[place])) if place >= 0 else (0, -1)


# Where a queue ends


def _end(rows: Rows, context: RunContext, found: Findings, answers: _Answers) -> None:
    """A replica that is asked for a queue's end tells no less than a master had told long ago. (What masters tell is
    compared at once, by the law about rollbacks.)"""
    times, old, beside = rows.column("time_ns"), old_ns(context), rows.beside
    certain = answers.only(_names_replica(rows, answers.asked) & ~views.from_masters(rows, answers.done))
    if not len(certain.done):
        return
    told = _Answers.of(beside)
    told = told.only((told.maximum >= 0) & views.from_masters(beside, told.done))
    done, end, queue = told.done, told.maximum, told.queue
    if Evidence.CONFIRM in context.tells:  # else readers may see a message later than it is acknowledged
        sends = views.calls(beside, "send")
        acked = sends.done[sends.ok]
        acked = acked[views.from_masters(beside, acked)]
        done, end = np.append(done, acked), np.append(end, rows.column("offset")[acked] + 1)
        queue = np.append(queue, rows.column("queue")[acked])
    by_ns = np.maximum(times[certain.asked] - old, 0)
    span = int(max(times[done].max(initial=0), by_ns.max(initial=0))) + 1
    high = Highest(queue, times[done], end, span)
    behind = np.flatnonzero(high.before(certain.queue, by_ns) > certain.maximum)
    calm = [was_calm(rows, int(by_ns[one]), int(times[certain.done[one]])) for one in behind.tolist()]
    behind = behind[np.array(calm, dtype=np.bool_)]

    def tell(item: int) -> None:
        highest, places = high.records(int(certain.queue[item]))
        witness = int(done[places[np.searchsorted(highest, certain.maximum[item], side="right")]])
        at, index = int(certain.done[item]), rows.column("index")
        found.add(
            STALE_MAXIMUM,
            f"{rows.text('node', at)} said at {views.at_s(rows, at)} that queue {int(certain.queue[item])} ends at "
            f"offset {int(certain.maximum[item])}, although {rows.text('node', witness)} had shown at "
            f"{views.at_s(rows, witness)} that it goes further, more than {old / 1e9:g} s before, with no fault in the "
            "way.",
            int(index[witness]),
            int(index[certain.asked[item]]),
            int(index[at]),
            queue=int(certain.queue[item]),
            offset=int(certain.maximum[item]),
        )

    found.add_each(STALE_MAXIMUM, behind, tell, queues=certain.queue[behind])


def _names_replica(rows: Rows, asked: Ints) -> Flags:
    code, words = rows.labels("from", asked)
    return np.array([word != "" for word in words], dtype=np.bool_)[code]
