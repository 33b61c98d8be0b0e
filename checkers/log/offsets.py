"""Offsets that a group commits in a transaction count if its messages do, and only then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Facts, Findings, decide, joined
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import NEVER, Flags, Ints, Line, slots
from checkers._facts.reads import own
from checkers.log import asked, queues
from checkers.log.early import early_answers
from checkers.log.promise import OFFSET_WITHOUT_OUTPUT, OUTPUT_WITHOUT_OFFSET, PROMISE, no_logs
from checkers.log.unknown import Known

#: Of transactions of unknown outcome shards know only what their own groups, or queues, show.
NEEDS = Needs(
    part="what groups committed in transactions",
    key=Key.QUEUE,
    joins=(queues.NEEDS.part, asked.NEEDS.part),
    rows=(own("op", "commit", "committed"), *losses.TERMS, *reads.REPLICAS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "position"),
    uses=(Use.TRANSACTIONS,),
)
#: What is reported of an answer that offsets of one transaction of unknown outcome alone explain.
_SHOWN = ("shown", "queue", "offset", "row", "answer")
#: And of such offsets: the last answer to that group, when it was asked for, and whether it proves anything.
_HELD = ("held", "queue", "offset", "row", "answer", "asked", "given")


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits of offsets, and answers to groups that asked for theirs. ``key``: of the group and queue, ``place``: of
    key and offset. ``until``: by which ``index`` it counts, NEVER where unknown."""

    at: Ints
    key: Ints
    place: Ints
    offset: Ints
    txn: Ints
    ok: Flags
    failed: Flags
    began: Ints
    until: Ints


@dataclass(frozen=True, slots=True)
class Answers:
    """``at``: the row that has the answer; ``began``: the ``index`` of the question."""

    at: Ints
    key: Ints
    place: Ints
    offset: Ints
    began: Ints
    group: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if no_logs(context) or not any(len(rows.where(kind="op", f=f)) for f in ("commit", "committed")):
            return found.partial()
        commits, answers, count = _paired(rows)
        found.count("log_offsets", len(commits.at))
        explained = _without_output(rows, found, commits, answers, count)
        _note_shown(rows, found, commits, answers, count, explained)
        _without_offset(rows, context, found, commits, answers, count)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """What a shard that was not examined would have reported proves nothing: only what is reported does."""
        merged = partial.merge(unknown_outcome(partial.facts)).merge(early_answers(partial.facts))
        needs = [("log_offsets", "")] if no_logs(context) else []
        return decide(PROMISE, merged, needs=needs, unless=no_logs(context))


def _paired(rows: Rows) -> tuple[Commits, Answers, int]:
    """Return commits, answers, and a number above all places."""
    queue, offset, index = (rows.column(name) for name in ("queue", "offset", "index"))
    commits, asked = facts.calls(rows, "commit"), facts.calls(rows, "committed")
    done, begun = asked.done[asked.ok], asked.invoke[asked.ok]
    group, names = rows.labels("group", np.append(commits.invoke, begun))
    key, _ = slots(group, np.append(queue[commits.invoke], queue[begun]))
    offsets = np.append(offset[commits.invoke], offset[done])
    place, count = slots(key, offsets)
    own_, txn = slice(len(commits.invoke)), rows.numbers("txn", commits.invoke)
    made = Commits(
        at=commits.invoke,
        key=key[own_],
        place=place[own_],
        offset=offsets[own_],
        txn=txn,
        ok=commits.ok,
        failed=commits.failed,
        began=commits.began,
        until=np.where(commits.ok, commits.ended, NEVER),
    )
    rest = slice(len(commits.invoke), None)
    called = tuple(names[code] for code in group[rest].tolist())
    return made, Answers(done, key[rest], place[rest], offsets[rest], index[begun], called), count


def _least(place: Ints, count: int, values: Ints) -> Ints:
    """Return the least of the values at each place, NEVER where none is."""
    table = np.full(count, NEVER, dtype=np.int64)
    np.minimum.at(table, place, values)
    return table


def _without_output(rows: Rows, found: Findings, commits: Commits, answers: Answers, count: int) -> Flags:
    """Find answers that only an aborted transaction explains, and note those that one explains whose commit may not
    have been asked for yet. Returns which answers anything but an aborted transaction explains."""
    maybe, tried, index = ~commits.failed, commits.txn >= 0, rows.column("index")
    sure = np.where(tried, commits.until, commits.began)

    def explains(some: Flags, since: Ints) -> Flags:
        found_: Flags = _least(commits.place[some], count, since[some])[answers.place] < index[answers.at]
        return found_

    explained = explains(maybe, commits.began)
    _note_early(rows, found, commits, answers, np.flatnonzero(explained & ~explains(maybe, sure)))
    wrong = np.flatnonzero(~explained & explains(tried, commits.began) & (answers.offset >= 0))

    def report(number: int) -> None:
        one = int(np.flatnonzero(tried & (commits.place == answers.place[number]))[0])
        at = int(answers.at[number])
        queue = int(rows.column("queue")[at])
        found.add(
            OFFSET_WITHOUT_OUTPUT,
            f"Group {answers.group[number]} was given offset {int(answers.offset[number])} of queue {queue} at "
            f"{facts.at_s(rows, at)}, which was committed in transaction {int(commits.txn[one])} "
            "alone, and that was aborted.",
            int(index[commits.at[one]]),
            int(index[at]),
            queue=queue,
            offset=int(answers.offset[number]),
        )

    queue, acted_ns = rows.column("queue")[answers.at[wrong]], facts.since_load_ns(rows, answers.at[wrong])
    found.add_each(OFFSET_WITHOUT_OUTPUT, wrong, report, queues=queue, acted_ns=acted_ns)
    return explained


def _note_early(rows: Rows, found: Findings, commits: Commits, answers: Answers, early: Ints) -> None:
    """Report answers that came before the transactions which explain them are known to be committed."""
    index = rows.column("index")
    for number in early.tolist():
        mine = np.flatnonzero((commits.place == answers.place[number]) & ~commits.failed & (commits.txn >= 0))
        at = int(answers.at[number])
        found.fact(
            early_answer=int(index[at]),
            txn=commits.txn[mine].tolist(),
            began=commits.began[mine].tolist(),
            row=int(index[commits.at[mine[0]]]),
            queue=int(rows.column("queue")[at]),
            offset=int(answers.offset[number]),
            what=f"Group {answers.group[number]} was given offset {int(answers.offset[number])} of queue "
            f"{int(rows.column('queue')[at])} at {facts.at_s(rows, at)}",
        )


def _note_shown(rows: Rows, found: Findings, commits: Commits, answers: Answers, count: int, explained: Flags) -> None:
    """Report the first answer that shows an offset which one transaction of unknown outcome alone explains."""
    maybe = np.flatnonzero(~commits.failed)
    single = np.bincount(commits.place[maybe], minlength=count) == 1
    unclear = maybe[single[commits.place[maybe]] & ~commits.ok[maybe] & (commits.txn[maybe] >= 0)]
    first = np.full(count, -1, dtype=np.int64)
    shown = np.flatnonzero(explained)[::-1]
    first[answers.place[shown]] = rows.column("index")[answers.at[shown]]
    unclear = unclear[first[commits.place[unclear]] >= 0]
    _fact(rows, found, _SHOWN, commits, unclear, (first[commits.place[unclear]],))


def _fact(
    rows: Rows, found: Findings, names: tuple[str, ...], commits: Commits, mine: Ints, more: tuple[Ints, ...]
) -> None:
    if len(mine):
        at = commits.at[mine]
        columns = (commits.txn[mine], rows.column("queue")[at], commits.offset[mine], rows.column("index")[at], *more)
        found.fact(**{name: column.tolist() for name, column in zip(names, columns, strict=True)})


def _without_offset(
    rows: Rows, context: RunContext, found: Findings, commits: Commits, answers: Answers, count: int
) -> None:
    """Find answers that are older than what a transaction had committed before the question, and that no commit after
    it explains. Note of transactions of unknown outcome what the last answer was."""
    mine = np.flatnonzero(commits.ok & (commits.txn >= 0))
    mine = mine[np.lexsort((commits.until[mine], commits.key[mine]))]
    line = Line.of(commits.until[mine], answers.began)
    known = line.places(commits.key[mine], commits.until[mine])
    last = np.searchsorted(known, line.places(answers.key, answers.began)) - 1
    before = np.flatnonzero(last >= 0)
    before = before[commits.key[mine[last[before]]] == answers.key[before]]
    one = mine[last[before]]
    older = (commits.offset[one] > answers.offset[before]) & ~_replaced(commits, one, answers, before, count)
    destroyed = facts.all_destroyed(rows, context)
    if destroyed and older.any():
        found.gap(f"what groups had committed in transactions holds no longer, but {destroyed}")
    elif losses.keeps_read(rows, context):  # else what was committed may be taken back, wherever that is kept
        _report_older(rows, found, commits, one[older], answers, before[older])
        _note_held(rows, found, commits, answers, count)


def _ends(rows: Rows, commits: Commits, one: Ints) -> Ints:
    """Return the rows that ended these commits."""
    return np.searchsorted(rows.column("index"), commits.until[one])


def _replaced(commits: Commits, one: Ints, answers: Answers, answer: Ints, count: int) -> Flags:
    """Return which answers a commit of just that offset explains which may have come after the other commit."""
    latest = np.full(count, -1, dtype=np.int64)
    maybe = ~commits.failed
    np.maximum.at(latest, commits.place[maybe], commits.until[maybe])
    found: Flags = latest[answers.place[answer]] >= commits.began[one]
    return found


def _report_older(rows: Rows, found: Findings, commits: Commits, one: Ints, answers: Answers, answer: Ints) -> None:
    index, ends = rows.column("index"), _ends(rows, commits, one)
    queues_ = rows.column("queue")[answers.at[answer]]

    def report(number: int) -> None:
        place, at = int(answer[number]), int(answers.at[answer[number]])
        found.add(
            OUTPUT_WITHOUT_OFFSET,
            f"Group {answers.group[place]} had committed offset {int(commits.offset[one[number]])} of queue "
            f"{int(queues_[number])} in transaction {int(commits.txn[one[number]])}, which was committed at "
            f"{facts.at_s(rows, int(ends[number]))}, but was given offset {int(answers.offset[place])} at "
            f"{facts.at_s(rows, at)}.",
            int(index[commits.at[one[number]]]),
            int(index[ends[number]]),
            int(index[at]),
            queue=int(queues_[number]),
            offset=int(answers.offset[place]),
        )

    acted_ns = facts.since_load_ns(rows, answers.at[answer])
    found.add_each(OUTPUT_WITHOUT_OFFSET, np.arange(len(one)), report, queues=queues_, acted_ns=acted_ns)


def _note_held(rows: Rows, found: Findings, commits: Commits, answers: Answers, count: int) -> None:
    mine = np.flatnonzero(~commits.ok & ~commits.failed & (commits.txn >= 0))
    keys = int(max(commits.key.max(initial=-1), answers.key.max(initial=-1))) + 1
    last = np.full(keys, -1, dtype=np.int64)
    last[answers.key] = np.arange(len(answers.at))
    mine = mine[last[commits.key[mine]] >= 0]
    answer = last[commits.key[mine]]
    older = (commits.offset[mine] > answers.offset[answer]) & ~_replaced(commits, mine, answers, answer, count)
    mine, answer = mine[older], answer[older]
    more = (rows.column("index")[answers.at[answer]], answers.began[answer], answers.offset[answer])
    _fact(rows, found, _HELD, commits, mine, more)


def unknown_outcome(reported: Facts) -> Partial:
    """Find what offsets and messages together show of transactions of unknown outcome."""
    found, known = Findings(PROMISE), Known.of_facts(reported)
    lacks = {int(one) for one in known.of[(known.seen < 0) & (known.ended > 0)]}
    for one in np.stack(joined(reported, *_SHOWN)).T.tolist():
        txn, queue, offset, row, answer = one
        if txn in lacks:
            why = f"its group was given offset {offset} of queue {queue}, but a message of it is missing"
            _add(found, OFFSET_WITHOUT_OUTPUT, txn, why, (row, answer), queue, offset)
    proofs = dict(zip(known.of[known.proof >= 0].tolist(), known.proof[known.proof >= 0].tolist(), strict=True))
    for one in np.stack(joined(reported, *_HELD)).T.tolist():
        txn, queue, offset, row, answer, asked, given = one
        if proofs.get(txn, asked) < asked:
            why = f"a message of it was read, but its group was given offset {given} of queue {queue}, not {offset}"
            _add(found, OUTPUT_WITHOUT_OFFSET, txn, why, (row, proofs[txn], answer), queue, given)
    return found.partial()


def _add(found: Findings, name: str, txn: int, why: str, rows: tuple[int, ...], queue: int, offset: int) -> None:
    found.add(name, f"Transaction {txn} had no known outcome; {why}.", *sorted(rows), queue=queue, offset=offset)
