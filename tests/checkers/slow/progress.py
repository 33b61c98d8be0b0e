"""Readers are given what is there, are sent on to the next message, and do not poll in vain: pull by pull. Oracle of
``checkers/progress/advance.py``, ``held.py`` and ``answered.py``. It tells no story: explanations are the kernels'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chaos.findings import Findings
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, service, tier
from checkers._facts.reads import own
from checkers._facts.retention import TRIMMED
from checkers._facts.service import Stretch
from checkers.progress import advance
from checkers.progress.polls import Stall, after_recovery, bound_ns
from checkers.progress.promise import PROMISE, UNREADABLE, WRONG_NEXT_OFFSET
from tests.checkers.slow import retention, stands
from tests.checkers.slow.ends import Word, furthest, is_master, loose_words, strict_words
from tests.checkers.slow.plain import Row, calls, read, some

ALL = replace(
    advance.NEEDS,
    joins=(),
    rows=(
        own("op", *advance.DONE, "drain"),
        own("trace", "retention"),
        *(one for one in (*advance.NEEDS.rows, *TRIMMED.rows) if one.sieve is None),
    ),
    columns=(*advance.NEEDS.columns, "incarnation", "step", "message"),
)


@dataclass(frozen=True, slots=True)
class Progress:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        pulls = [
            Pull(call.begin, call.end, rows.memo(_given).get(call.begin.index, ())) for call in calls(rows, "pull")
        ]
        pulls = [pull for pull in pulls if pull.asked >= 0]
        found.count("answered_reads", sum(pull.is_answered and not pull.replica for pull in pulls))
        final = after_recovery(rows)
        owed = [*service.stretches(rows, context, bound_ns(context), of_reads=True), *final]
        reads, uploads = Stall.of_reads(context), Stall.of_uploads(context)
        waits, tier_waits = [0], [0]
        has_tier = bool(final) and tier.has_tier(context)
        for number in sorted({pull.begin.queue for pull in pulls}):
            queue = Queue(rows, context, number, [pull for pull in pulls if pull.begin.queue == number])
            queue.judge_answers(found)
            for reader in sorted({pull.reader for pull in queue.pulls} - {""}):
                waits += queue.stalls(found, reader, queue.polls(reader), owed, reads)
            for reader, polls in queue.polls_of_tier() if has_tier else ():
                tier_waits += queue.stalls(found, reader, polls, final, uploads)
        found.fact(**{reads.count: max(waits) // 1_000_000})
        if has_tier:
            found.fact(**{uploads.count: max(tier_waits) // 1_000_000})
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return advance.Progress().judge(partial, context)


def _given(rows: Rows) -> dict[int, list[int]]:
    """The offsets that each pull brought."""
    given: dict[int, list[int]] = {}
    for row in read(rows, "delivered"):
        given.setdefault(row.op, []).append(row.offset)
    return given


def _reader(begin: Row) -> str:
    """Who reads on and on: a group, or what a workload reads in the end."""
    group, by = begin.value.get("group", ""), begin.value.get("by", "")
    return f"group {group}" if group else f"the final reading by {by}" if by else ""


@dataclass(frozen=True)
class Pull:
    """A pull that asked for an offset, and the offsets that came."""

    begin: Row
    end: Row | None
    given: Sequence[int]

    @property
    def asked(self) -> int:
        return self.begin.offset

    @property
    def replica(self) -> str:
        return str(self.begin.value.get("from", ""))

    @property
    def demand(self) -> str:
        return str(self.begin.value.get("demand", ""))

    @property
    def reader(self) -> str:
        return _reader(self.begin)

    @property
    def is_ok(self) -> bool:
        return self.end is not None and self.end.type == "ok"

    @property
    def is_answered(self) -> bool:
        return self.end is not None and self.end.type in ("ok", "fail")

    def said(self, key: str) -> int:
        return self.end.number(key) if self.end is not None else -1

    @property
    def says_more(self) -> bool:
        """Whether its own answer does not deny that there is something at the offset."""
        return self.said("maximum") < 0 or self.said("maximum") > self.asked

    @property
    def due(self) -> int:
        """Behind what came; else where it was."""
        return max(self.given) + 1 if self.given else self.asked


@dataclass(frozen=True, slots=True)
class Poll:
    begin: Row
    end: Row | None
    in_vain: bool

    @property
    def ended_ns(self) -> int:
        return self.end.time_ns if self.end is not None else self.begin.time_ns


@dataclass
class Queue:
    rows: Rows
    context: RunContext
    number: int
    pulls: list[Pull]

    @cached_property
    def keeps_all(self) -> bool:
        """Whether what one master confirmed each later one has, and what is acknowledged is confirmed."""
        return self.context.profile.acks == "all" and losses.keeps(self.rows, self.context, confirmed=False)

    @cached_property
    def words(self) -> list[Word]:
        every = self.rows.memo(strict_words if self.keeps_all else loose_words)
        return [word for word in every if word.by_master and word.row.queue == self.number]

    @cached_property
    def held(self) -> set[int]:
        """Where there is, or was, a message that readers must be given; where a loss is permitted, what is there in the
        end."""
        delivered = stands.delivered(self.rows)
        if losses.keeps(self.rows, self.context, confirmed=False):
            there = [*delivered, *stands.acknowledged(self.rows)]
        else:
            there = [one for one in delivered if _is_final(self.rows, one.row)]
        return {one.offset for one in there if one.queue == self.number}

    @cached_property
    def deleted_to(self) -> tuple[int, bool]:
        return retention.lawful_floor(self.rows, self.context, self.number)

    def floor(self, pull: Pull) -> int:
        """Below it messages may be gone. Where nothing shows what went, answers are believed: a replica's too by who
        asks one."""
        floor, is_known = self.deleted_to
        if is_known:
            return floor
        believed = [one for one in self.pulls if one.is_answered and (pull.replica or not one.replica)]
        return max(floor, *(one.said("minimum") for one in believed), 0)

    # What is there is given, and readers are sent on to it

    def judge_answers(self, found: Findings) -> None:
        for pull in self.pulls:
            if pull.end is not None and pull.is_answered:
                story = self.denied(pull)
                if story:
                    found.add(UNREADABLE, "", *story, queue=self.number, offset=pull.asked)
                elif self.is_sent_wrong(pull):
                    next_offset = pull.said("following")
                    story = (pull.begin.index, pull.end.index)
                    found.add(WRONG_NEXT_OFFSET, "", *story, queue=self.number, offset=next_offset)

    def denied(self, pull: Pull) -> tuple[int, ...]:
        """The rows of an answer that gives nothing from where something is; none of another. "Later" is no denial."""
        assert pull.end is not None
        denies = not pull.given if pull.is_ok else pull.said("following") not in (-1, pull.asked)
        if not denies or not pull.says_more or pull.demand or pull.asked < self.floor(pull):
            return ()
        if is_master(self.rows, pull.end):
            binding = [word for word in self.words if self.binds(word, pull.end.epoch)]
            witness = furthest(binding, pull.asked, pull.begin.at)
            if witness is not None:
                return witness.row.index, pull.begin.index, pull.end.index
        admits = pull.replica and pull.said("maximum") > pull.asked
        return (pull.begin.index, pull.end.index) if admits else ()

    def binds(self, word: Word, epoch: int) -> bool:
        return word.row.epoch <= epoch if self.keeps_all else word.row.epoch == epoch

    def is_sent_wrong(self, pull: Pull) -> bool:
        """Back, but for one who is beyond the end, or forth over a message, but for one who wants no other than what is
        local."""
        following, maximum, due = pull.said("following"), pull.said("maximum"), pull.due
        if following < 0 or following == due:
            return False
        if following < due:
            is_beyond = 0 <= maximum < pull.asked or (maximum < 0 and not self.keeps_all)
            return bool(pull.given) or not is_beyond
        if pull.demand == "local" and not pull.given:
            return False
        return any(max(due, self.floor(pull)) <= offset < following for offset in self.held)

    # Nobody polls in vain

    def goes_beyond(self, offset: int, begin: Row, maximum: int) -> bool:
        """Whether there was more: by any word before, where each binds all; else by the answer's own."""
        return furthest(self.words, offset, begin.at) is not None if self.keeps_all else maximum > offset

    def polls(self, reader: str) -> list[Poll]:
        """A reader's pulls, and its questions for what it committed that failed; who knows no offset has come as far as
        it asked at most."""
        mine = [pull for pull in self.pulls if (pull.reader, pull.demand, pull.replica) == (reader, "", "")]
        polls = []
        for pull in mine:
            moved = pull.is_answered and pull.said("following") > pull.asked
            more = self.goes_beyond(pull.asked, pull.begin, pull.said("maximum"))
            polls.append(Poll(pull.begin, pull.end, more and not pull.given and not moved))
        furthest_asked = max((pull.asked for pull in mine), default=0)
        for call in calls(self.rows, "committed"):
            if not call.ok and (_reader(call.begin), call.begin.queue) == (reader, self.number):
                polls.append(Poll(call.begin, call.end, self.goes_beyond(furthest_asked, call.begin, -1)))
        return sorted(polls, key=lambda poll: poll.begin.at)

    def polls_of_tier(self) -> Iterator[tuple[str, list[Poll]]]:
        """What the tier alone was asked for, by who asked; a process that was left without an answer goes on under the
        next number. A queue of which a tier that is no node gave nothing need not be there."""
        mine = [pull for pull in self.pulls if pull.demand == "tier" and pull.is_ok and not pull.replica]
        if any(pull.given for pull in mine) or tier.has_store(self.context):
            asking: dict[str, list[Poll]] = {}
            for pull in mine:
                more = self.goes_beyond(pull.asked, pull.begin, pull.said("maximum"))
                in_vain = more and not pull.given and pull.said("following") <= pull.asked
                name = f"the reader {pull.begin.process.partition('.')[0]} of the tier alone"
                asking.setdefault(name, []).append(Poll(pull.begin, pull.end, in_vain))
            yield from sorted(asking.items())

    def stalls(
        self, found: Findings, reader: str, polls: Sequence[Poll], owed: Sequence[Stretch], stall: Stall
    ) -> Iterator[int]:
        """Yield how long each row of polls in vain took within a time in which reads are owed."""
        for stretch in owed:
            inside = [poll for poll in polls if stretch.begin <= poll.begin.time_ns < stretch.end]
            for series in _in_vain(inside, stall.bound_ns // 2):
                waited_ns = min(series[-1].ended_ns, stretch.end) - series[0].begin.time_ns
                yield waited_ns
                if waited_ns > stall.bound_ns and len(series) >= 3:
                    self.report(found, reader, series, stretch, stall, waited_ns)

    def report(
        self, found: Findings, reader: str, series: Sequence[Poll], stretch: Stretch, stall: Stall, waited_ns: int
    ) -> None:
        first, last = series[0].begin, series[-1].begin
        said = (
            f"{reader[0].upper()}{reader[1:]} polled queue {self.number} {len(series)} times in "
            f"{waited_ns / 1e9:.1f} s, from {facts.at_s(self.rows, first.at)} on, and got nothing"
        )
        stood = some(self.rows, "harness", "stall")
        if not stretch.certain:
            found.gap(
                f"{said}, while a fault was in force that declares no effects: it is unknown whether reads were owed"
            )
        elif any(first.time_ns <= row.time_ns <= series[-1].ended_ns for row in stood):
            found.gap(f"{said}, but the harness itself stood still meanwhile")
        else:
            found.add(stall.name, "", stretch.cause, first.index, last.index, queue=self.number)


def _is_final(rows: Rows, delivered: Row) -> bool:
    """Whether this was read in the end: after the drain began, or by somebody who drained."""
    phases = [row for row in some(rows, "harness", "phase") if row.value.get("phase") == "drain"]
    if phases:
        return delivered.op >= phases[0].index
    return delivered.process in {row.process for row in read(rows, "drain")}


def _in_vain(polls: Sequence[Poll], apart_ns: int) -> Iterator[list[Poll]]:
    """Yield the rows of polls in vain: nothing was given between them, and none came long after the one before."""
    series: list[Poll] = []
    before: Poll | None = None
    for poll in polls:
        is_apart = before is not None and poll.begin.time_ns - before.ended_ns > apart_ns
        if series and (not poll.in_vain or is_apart):
            yield series
            series = []
        if poll.in_vain:
            series.append(poll)
        before = poll
    if series:
        yield series
