"""What clients were given stays, and a queue's end does not fall: answer by answer. The oracle of the kernels in
``checkers/no_rollback/read.py`` and ``content.py``. It tells no story: explanations are the kernels' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers._facts.reads import RETENTION, own
from checkers._facts.retention import TRIMMED
from checkers.no_rollback.content import CONTENT
from checkers.no_rollback.promise import MAX_OFFSET_REGRESSION, PROMISE, ROLLBACK
from checkers.no_rollback.read import READ
from tests.checkers.slow import retention, stands
from tests.checkers.slow.plain import Row, calls, read, some

#: What both kernels need that this is the oracle of.
BOTH = replace(READ, rows=(*READ.rows, own("op", "drain"), *RETENTION, *TRIMMED.rows, *CONTENT.rows))
READERS = ("pull", "bounds")


@dataclass(frozen=True, slots=True)
class Read:
    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        content, answers = Findings(PROMISE), Findings(PROMISE)
        content.count("read", len(stands.delivered(rows)))
        _stays(rows, content)
        if Evidence.CONFIRM in context.evidence:
            _do_not_fall(rows, answers, ("send", *READERS), ("send", *READERS), by_slaves=True)
        else:  # an acknowledgement may come before readers see the message
            _do_not_fall(rows, answers, READERS, READERS, by_slaves=False)
            _do_not_fall(rows, answers, ("send",), ("send", *READERS), by_slaves=False)
        _does_not_vanish(rows, context, answers)
        return content.partial().merge(answers.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, unless=context.no_queues)


def _report(found: Findings, at: Row, *others: Row) -> None:
    story = (at.index, *(other.index for other in others))
    found.add(ROLLBACK, "", *story, queue=at.queue, offset=at.offset, message=at.message)


def _stays(rows: Rows, found: Findings) -> None:
    """What was read at an offset is what is read there later, and what stands there, confirmed, in a log."""
    said = stands.delivered(rows) + stands.once_confirmed(rows) + stands.in_the_end(rows)
    for one, other in stands.contradictions(said):
        if one.row.f == "delivered":
            _report(found, one.row, other.row)


@dataclass(frozen=True, slots=True)
class _End:
    """An answer of ``epoch`` by which its queue ended at ``least`` when it came, and at ``most`` when it was asked."""

    asked: Row
    answer: Row
    least: int
    most: int
    by_master: bool


def _ends(rows: Rows, names: Sequence[str]) -> list[_End]:
    terms = {(one.node, one.epoch) for one in some(rows, "trace", "role") if one.value.get("role") == "master"}
    found = []
    for f in names:
        for call in calls(rows, f):
            if call.end is None or not call.ok:
                continue
            end, to_replica = call.end, bool(call.begin.value.get("from"))
            by_master = (end.node, end.epoch) in terms if terms else not end.value.get("from")
            most = end.offset if f == "send" else end.number("maximum")
            if most >= 0 and (by_master or (to_replica and end.epoch >= 0)):
                found.append(_End(call.begin, end, most + (f == "send"), most, by_master))
    return found


def _do_not_fall(rows: Rows, found: Findings, of: Sequence[str], by: Sequence[str], *, by_slaves: bool) -> None:
    """No answer of a master is behind what another one, of its epoch or an older one, had shown before it was asked."""
    every = [one for one in _ends(rows, by) if one.by_master or by_slaves]
    judged = [one for one in every if one.by_master and one.answer.f in of]
    found.count("ends", len(judged))
    wrong = []
    for number, one in enumerate(judged):
        before = [
            other
            for other in every
            if other.answer.queue == one.answer.queue
            and other.answer.epoch <= one.answer.epoch
            and other.answer.index < one.asked.index
            and other.least > one.most
        ]
        if before:
            shown = min(before, key=lambda other: other.answer.index)
            wrong.append((one.answer.queue, one.answer.epoch, number, shown, one))
    for queue, _, _, shown, one in sorted(wrong, key=lambda found: found[:3]):
        story = (shown.answer.index, one.asked.index, one.answer.index)
        found.add(MAX_OFFSET_REGRESSION, "", *story, queue=queue, offset=one.most)


def _does_not_vanish(rows: Rows, context: RunContext, found: Findings) -> None:
    """Whoever read a queue to its end after the run was given something at each offset that had been read before, from
    where the queue lawfully begins by then."""
    given, drains = read(rows, "delivered"), calls(rows, "drain")
    begins = [one.index for one in some(rows, "harness", "phase") if one.value.get("phase") == "drain"]
    provers = {one.process for one in read(rows, "drain")}
    final = {one.at for one in given if (one.op >= begins[0] if begins else one.process in provers)}
    for drain in drains:
        if drain.end is None or not drain.ok:
            continue
        queue, end = drain.begin.queue, drain.end
        floor = max(drain.begin.offset, retention.lawful_floor(rows, context, queue)[0])
        there = {one.offset for one in given if one.at in final and one.queue == queue}
        for one in given:
            is_due = one.queue == queue and one.at not in final and floor <= one.offset < end.offset
            if is_due and one.offset not in there:
                _report(found, one, end)
                there.add(one.offset)
