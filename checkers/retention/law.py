"""Judges each trim by what it counts on, and by what is left in the end."""

from __future__ import annotations

from chaos.driver import Evidence
from chaos.events import Applied, EntriesCut, GroupAppended, RaftMembers, RaftRole, Sealed, TermRaised, Trimmed, Vote
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, FinalGroup, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.storage.catalogue import TOPIC, Entry, catalogue
from checkers._facts.storage.entries import appends
from checkers._facts.storage.segments import sealed
from checkers._facts.storage.trims import BY_SIZE, BY_TIME, DELETED, Trim, entry_of, is_over, trims
from checkers.retention import clocks, kept
from checkers.retention.promise import ID_AGAIN, PROMISE, SIZE_OVERCOUNTED, TIME_WENT_BACK, TRIMMED_EARLY, WRONG_RULE


class Retention(Law):
    """Trims are ordered by the index in their group's log, and each names the version of its topic's entry."""

    promise = PROMISE
    key = Key.RUN
    reads = (
        *(Trimmed, Applied, Sealed, GroupAppended, FinalGroup, HarnessRow, FaultRow),
        *(RaftMembers, RaftRole, Vote, TermRaised, EntriesCut),
    )
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        known = trims(rows)
        found.count("trims", len(known))
        _ids_are_new(rows, found)
        _by_rule(rows, found)
        _time_grows(rows, found)
        _sizes(rows, found)
        if context.one_clock:
            clocks.followed(rows, found)
        kept.kept_too_long(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        unless = "no topic has a limit that deleted anything"
        return decide(PROMISE, partial, needs=[("trims", "nothing was deleted")], unless=unless)


def _ids_are_new(rows: Rows, found: Findings) -> None:
    """Check that no topic has the id of one that was deleted, or of one with another name: segments are kept, and
    deleted, by ids."""
    first: dict[int, Entry] = {}
    last: dict[int, Entry] = {}
    for entry in catalogue(rows).of(TOPIC):
        topic = entry.number("id")
        if topic < 0:
            continue
        before, born = last.get(topic, entry), first.setdefault(topic, entry)
        last[topic] = entry
        if before.name != entry.name or (before.value.get("deleted") is True and not entry.value.get("deleted")):
            found.add(
                ID_AGAIN,
                f"Revision {entry.revision} of meta's log makes topic {entry.name} with the id {topic}, which topic "
                f"{before.name} had until revision {before.revision}.",
                *sorted({int(rows.column("index")[one.at]) for one in (born, before, entry)}),
            )


def _by_rule(rows: Rows, found: Findings) -> None:
    """Check that each trim's rule is the one of its topic's entry at that version, and that it allows what went."""
    log = catalogue(rows)
    for trim in trims(rows):
        entry = entry_of(log, trim.topic, trim.version)
        if entry is None and not log.is_whole:
            found.gap("messages were deleted by an entry that is not in what is on record of meta's log")
            continue
        over = entry is not None and is_over(entry, trim.topic)
        if entry is None or over is not (trim.rule == DELETED):
            why = "which meta's log does not have" if entry is None else f"which says that it {_lives(over)}"
            said = f"by the rule `{trim.rule}` of version {trim.version} of its entry, {why}."
            _report(rows, found, WRONG_RULE, trim, said, *([entry.at] if entry else []))
            continue
        limit_ms, limit = entry.number("retain_ms"), entry.number("retain_bytes")
        if trim.rule == BY_TIME and trim.newest_ms >= 0 and (not limit_ms or trim.now_ms - trim.newest_ms < limit_ms):
            said = f"the newest of which was {trim.now_ms - trim.newest_ms} ms old by logged time; "
            said += f"they are to be kept for {limit_ms} ms." if limit_ms else "they are to be kept for ever."
            _report(rows, found, TRIMMED_EARLY, trim, said, entry.at)
        if trim.rule == BY_SIZE and trim.gone_bytes > 0 and (not limit or trim.left_bytes < limit):
            said = f"and {trim.left_bytes} bytes are left; "
            said += f"{limit} are to be kept." if limit else "all are to be kept."
            _report(rows, found, TRIMMED_EARLY, trim, said, entry.at)


def _lives(over: bool) -> str:
    return "was deleted" if over else "lives"


def _report(rows: Rows, found: Findings, name: str, trim: Trim, said: str, *witness: int) -> None:
    found.add(
        name,
        f"Entry {trim.index} of group {trim.group}'s log deleted messages of topic {trim.topic}, as "
        f"{rows.text('node', trim.at)} applied it at {facts.at_s(rows, trim.at)}, {said}",
        *sorted(int(rows.column("index")[at]) for at in (*witness, trim.at)),
    )


def _time_grows(rows: Rows, found: Findings) -> None:
    """Check that the logged time of a group never falls."""
    before: dict[int, Trim] = {}
    for trim in trims(rows):
        last = before.setdefault(trim.group, trim)
        if trim.now_ms < last.now_ms:
            said = f"at the logged time {trim.now_ms} ms, although entry {last.index} had logged {last.now_ms} ms."
            _report(rows, found, TIME_WENT_BACK, trim, said, last.at)
        else:
            before[trim.group] = trim


def _sizes(rows: Rows, found: Findings) -> None:
    """Check that what a trim counts on was there: not more than all that was sealed and appended before it, without
    what had gone."""
    taken = appends(rows).only(appends(rows).accepted)
    gone: dict[tuple[int, int], int] = {}
    for trim in trims(rows):
        mine = (taken.group == trim.group) & (taken.index < trim.index)
        end, ends, size = int(taken.end[mine].max(initial=0)), [0], 0
        for segment, reports in sealed(rows).items():
            if segment.group == trim.group and reports[0].index < trim.index:
                ends.append(segment.end)
                size += reports[0].size if segment.topic == trim.topic else 0
        most = size + max(0, end - max(ends)) - gone.get((trim.group, trim.topic), 0)
        if trim.size_bytes > most and not facts.may_lack_ends(rows):
            said = f"when it counted {trim.size_bytes} bytes of it; there were {most} at most."
            _report(rows, found, SIZE_OVERCOUNTED, trim, said)
        place = trim.group, trim.topic
        gone[place] = gone.get(place, 0) + trim.gone_bytes
