"""Requests at the system's limits are answered as its documents say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos import law
from chaos.events import Applied
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow, Question
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import Ints, reads
from checkers._facts.reads import own

#: A column of words: a code for each row, and the texts behind the codes.
Labels = tuple[npt.NDArray[np.int64], list[str]]

#: So long after recovery a node may still have no answer.
ANSWER_S = 5.0
#: So long after a fault requests may go unanswered, unless the experiment says otherwise (``bounds.available_s``).
AVAILABLE_S = 10.0
#: Fewer requests than this may all have met something else.
LEAST_TRIES = 3
#: For longer than this the harness must have stood still, for its clients to be no witnesses.
STALL_MS = 1_000
WRONG_ANSWER = "wrong-answer"
UNANSWERED = "unanswered"
PROMISE = Promise(
    name="answers",
    place=115,
    meaning="Requests at the limits of what the system takes, and beyond them, are answered as documented.",
    anomalies=(
        AnomalyKind(
            name=WRONG_ANSWER,
            meaning="a request was answered otherwise than the system's documents say",
            headline=("A request was answered wrongly", "{n} requests were answered wrongly"),
            decision=(Question,),
        ),
        AnomalyKind(
            name=UNANSWERED,
            meaning="a request was never answered as documented, however often it was made without faults",
            headline=("A request was never answered as documented", "{n} requests were never answered as documented"),
        ),
    ),
)


#: Sends are as many as messages: they are looked at where their queues are, each with its answer.
MESSAGES = Needs(
    part="messages that are questions",
    key=Key.OFFSET,
    rows=(own("op", "send"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS),
    uses=(Use.LIMITS,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


#: Without this count the law is UNKNOWN, for this reason.
ANSWERED = ("answers", "no request at a limit was answered")


class Questions(Law):
    """Requests that are made for their answer alone."""

    promise = PROMISE
    key = law.Key.RUN
    reads = (Question, Applied, HarnessRow, FaultRow)
    uses = (Use.LIMITS,)
    part = "questions"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        calls = facts.calls(rows, "question")
        _as_documented(rows, found, calls)
        if len(calls.invoke) and not facts.has_recovered(rows):
            found.gap("the system did not recover, so it owes no answer")
        elif len(calls.invoke) and facts.phase_index(rows, "drain") < 0:
            found.gap("the run ended before anybody could ask without faults")
        elif len(calls.invoke):
            _answered_in_the_end(rows, found, calls)
        if len(calls.invoke) and not context.unfinished:  # which faults there were may be known only later
            _answered_in_quiet(rows, context, found, calls)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[ANSWERED])


@dataclass(frozen=True, slots=True)
class Messages:
    """Sends of messages at a limit. A system may have questions alone, so these say whether anything was answered."""

    promise: Promise = PROMISE
    needs: Needs = MESSAGES

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        _as_documented(rows, found, rows.memo(facts.sends))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        unless = _nothing_owed(context)
        return decide(PROMISE, partial, needs=[ANSWERED] if unless else [], unless=unless)


def _nothing_owed(context: RunContext) -> str:
    return "" if Use.LIMITS in context.uses else f"no workload uses {Use.LIMITS}"


def _as_documented(rows: Rows, found: Findings, calls: facts.Calls) -> None:
    """Check that every answer, at any time, is the documented one. A refusal for the moment says nothing, and gives no
    words; nor does a node that was asked for what it had kept on a disk that a fault may have changed since."""
    ended = np.flatnonzero(calls.ok | calls.failed)
    done = calls.done[ended]
    expected, said = rows.labels("expected", done), rows.labels("told", done)
    asked = _is_word(expected) | _is_word(said)
    found.count("answers", int(np.count_nonzero(asked)))
    index = rows.column("index")
    for at in np.flatnonzero(asked & ~_same(expected, said)).tolist():
        call, end = int(ended[at]), int(done[at])
        if _may_have_lost(rows, end):
            continue
        wanted, got = (texts[codes[at]] for codes, texts in (expected, said))
        invoke = calls.invoke[call]
        found.add(
            WRONG_ANSWER,
            f"{rows.text('node', end) or 'The system'} was asked for {rows.words('question', invoke[None])[0]} at "
            f"{facts.at_s(rows, int(invoke))}. Documented is: {wanted or 'nothing'}. It said: {got or 'nothing'}.",
            int(index[invoke]),
            int(index[end]),
        )


def _may_have_lost(rows: Rows, at: int) -> bool:
    """Return whether the answer of this row rests on a disk that may not hold any more what it had promised to keep."""
    if not rows.value(at).get("kept"):
        return False
    node, time_ns = rows.text("node", at), int(rows.column("time_ns")[at])
    return facts.may_lack_ends(rows) or facts.disk_may_be_harmed(rows, node, time_ns)


def _is_word(labels: Labels) -> npt.NDArray[np.bool_]:
    codes, texts = labels
    return np.array([text != "" for text in texts], dtype=np.bool_)[codes]


def _same(one: Labels, other: Labels) -> npt.NDArray[np.bool_]:
    """Return where two columns have the same word."""
    place = {text: code for code, text in enumerate(one[1])}
    its: npt.NDArray[np.bool_] = (
        np.array([place.get(text, -1) for text in other[1]], dtype=np.int64)[other[0]] == one[0]
    )
    return its


#: The calls for each question of each node that was asked, in order.
Tries = Mapping[tuple[str, str], Ints]


def _tries(rows: Rows, calls: facts.Calls) -> Tries:
    tries: dict[tuple[str, str], list[int]] = {}
    every = zip(rows.words("question", calls.invoke), rows.words("to", calls.invoke), strict=True)
    for number, what in enumerate(every):
        tries.setdefault(what, []).append(number)
    return {what: np.array(made, dtype=np.int64) for what, made in tries.items()}


def _answered_in_the_end(rows: Rows, found: Findings, calls: facts.Calls) -> None:
    """Check that each request that was made after the run was answered, if it was made again and for long enough."""
    due_ns = facts.phase_time(rows, "drain") + int(ANSWER_S * 1e9)
    begin, times = facts.phase_index(rows, "drain"), rows.column("time_ns")
    tries = {what: made[calls.began[made] >= begin] for what, made in _tries(rows, calls).items()}
    if not any(map(len, tries.values())):
        found.gap("no request at a limit was made after the run")
        return
    for (question, node), made in tries.items():
        if not len(made):
            found.gap(f"{question}: {node or 'the system'} was not asked after the run")
        elif calls.ok[made].any():
            continue
        elif len(made) == 1:
            found.gap(f"{question}: {node or 'the system'} was asked once after the run, which says little")
        elif int(times[calls.invoke[made[-1]]]) < due_ns:
            found.gap(f"{question}: {node or 'the system'} was not asked for as long as {ANSWER_S:g} s")
        else:
            _report_silent(rows, found, calls, made, question, node, "after the recovery")


def _answered_in_quiet(rows: Rows, context: RunContext, found: Findings, calls: facts.Calls) -> None:
    """Check that each request that was made again and again, while no fault had been in force for the bound of service,
    and a replica could be master, was answered. Real machines are late now and then: there it must have been made for
    as long as service may pause."""
    bound_ns = int(facts.bound(context, "available_s", AVAILABLE_S) * 1e9)
    least_ns = int(ANSWER_S * 1e9) if context.one_clock else max(int(ANSWER_S * 1e9), bound_ns)
    begin, end = facts.phase_time(rows, "load"), facts.phase_time(rows, "heal")
    asked_ns = rows.column("time_ns")[calls.invoke]
    quiet = (asked_ns >= begin + bound_ns) & (asked_ns < end) & (begin >= 0)
    stretch = np.zeros(len(asked_ns), dtype=np.int64)  # how many faults were over by then
    for began_ns, over_ns in _unquiet(rows, context):
        until_ns = min(over_ns, end) + bound_ns
        quiet &= (asked_ns < began_ns) | (asked_ns >= until_ns)
        stretch += asked_ns >= until_ns
    for (question, node), made in _tries(rows, calls).items():
        for number in np.unique(stretch[made]).tolist():
            mine = made[quiet[made] & (stretch[made] == number)]
            if len(mine) < LEAST_TRIES or calls.ok[mine].any():
                continue
            if asked_ns[mine[-1]] - asked_ns[mine[0]] >= least_ns:
                _report_silent(rows, found, calls, mine, question, node, "while no fault was in force")


def _unquiet(rows: Rows, context: RunContext) -> list[tuple[int, int]]:
    """Return from when until when faults were in force, the harness itself stood still, or no replica could be master,
    since a fault had destroyed the only sure copy."""
    stalls = rows.where(kind="harness", f="stall").tolist()
    ended = [(int(rows.column("time_ns")[at]), float(rows.value(at).get("ms", 0))) for at in stalls]
    faults = [(fault.began_ns, fault.until_ns) for fault in rows.memo(facts.faults)]
    stood_still = [(now - int(ms * 1e6), now) for now, ms in ended if ms > STALL_MS]
    destroyed, (_, led_again_ns, _) = facts.only_copy_destroyed(rows, context), facts.service_ended(rows, context)
    return [*faults, *stood_still, *([(destroyed.fault.began_ns, led_again_ns)] if destroyed else [])]


def _report_silent(
    rows: Rows, found: Findings, calls: facts.Calls, made: Ints, question: str, node: str, when: str
) -> None:
    last, done = int(calls.invoke[made[-1]]), int(calls.done[made[-1]])
    reason = str(rows.value(done).get("reason") or "") if done >= 0 else ""
    found.add(
        UNANSWERED,
        f"{node or 'The system'} was asked for {question} {len(made)} times {when}, the last time at "
        f"{facts.at_s(rows, last)}, and never gave the documented answer{f' ({reason})' if reason else ''}.",
        *(int(rows.column("index")[at]) for at in (last, done) if at >= 0),
    )


def create(options: Options) -> Sequence[Questions | Messages]:
    return (Questions(), Messages())
