"""One offset of a queue holds one message, on every replica, in every answer and in the tier: statement by statement.
The oracle of the kernel in ``checkers/agreement/content.py``. It tells no story: explanations are the kernel's own."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers.agreement.content import CONTENT
from checkers.agreement.promise import OFFSET_CONFLICT, PROMISE, REPLICA_DIVERGENCE
from tests.checkers.slow import stands
from tests.checkers.slow.plain import Row, some


@dataclass(frozen=True, slots=True)
class Content:
    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        found = Findings(PROMISE)
        answers = stands.acknowledged(rows) + stands.delivered(rows)
        logs = stands.once_confirmed(rows) + stands.in_the_end(rows)
        tiered = stands.tiered(rows)
        records = some(rows, "trace", "append") + some(rows, "final", "log")
        found.count("answers", len(answers))
        found.count("log_records", len(logs))
        found.count("tiered_records", len(tiered))
        found.count("records_told", sum(record.queue >= 0 for record in records))
        if context.uses_queues:
            of_answers, of_logs = (
                {(one.queue, one.offset) for one in said} for said in (answers, stands.by_rows(records))
            )
            said = {"answers": of_answers, "logs": of_logs, "both": of_answers & of_logs}
            found.fact(**{name: sorted({queue for queue, _ in places}) for name, places in said.items()})
        diverged = set()
        for one, other in stands.contradictions(logs):
            diverged.add((one.queue, one.offset))
            _report(found, REPLICA_DIVERGENCE, one.row, other.row)
        for one, other in stands.contradictions(answers + logs + tiered):
            if (one.queue, one.offset) not in diverged:
                _report(found, OFFSET_CONFLICT, one.row, other.row)
        _nothing_is_missing(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, unless=context.no_queues)


def _report(found: Findings, name: str, one: Row, *others: Row) -> None:
    story = (one.index, *(other.index for other in others))
    found.add(name, "", *story, queue=one.queue, offset=one.offset, message=one.message)


@dataclass(frozen=True, slots=True)
class _Log:
    """What a replica says of its log after the run, in these rows, and its records by where they stand."""

    words: list[Row]
    records: dict[tuple[int, int, int], Row]

    @property
    def first(self) -> int:
        return self.words[-1].number("first")

    @property
    def end(self) -> int:
        return self.words[-1].number("end")

    @property
    def confirm(self) -> int:
        return self.words[-1].number("confirm")


def _nothing_is_missing(rows: Rows, found: Findings) -> None:
    """After recovery, what one replica has and calls confirmed, all of its group have, from where their logs begin to
    where they end, and of the same epoch. Only logs that were read to their ends are known."""
    if not some(rows, "harness", "recovered"):
        return
    complete = {one.node for one in some(rows, "final", "complete")}
    groups: dict[str, dict[str, list[Row]]] = {}
    for word in some(rows, "final", "node"):
        groups.setdefault(str(word.value.get("group", "")), {}).setdefault(word.node, []).append(word)
    records = [one for one in some(rows, "final", "log") if one.queue >= 0]
    for _, members in sorted(groups.items()):
        logs = {
            node: _Log(words, {(one.queue, one.offset, one.position): one for one in records if one.node == node})
            for node, words in sorted(members.items())
            if node in complete and {"first", "end", "confirm"} <= words[-1].value.keys()
        }
        due: dict[tuple[int, int, int], Row] = {}
        for record in records:
            if record.node in logs and stands.end_of(record) <= logs[record.node].confirm:
                due.setdefault((record.queue, record.offset, record.position), record)
        for node, log in logs.items():
            for record in (one for one in records if one.node == node):
                other = due.get((record.queue, record.offset, record.position))
                if other is not None and other.epoch != record.epoch:
                    _report(found, REPLICA_DIVERGENCE, record)
            for place, record in sorted(due.items()):
                if place not in log.records and log.first <= record.position and stands.end_of(record) <= log.end:
                    _report(found, REPLICA_DIVERGENCE, record, *log.words)
