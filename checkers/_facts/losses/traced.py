"""Losses as the logs of replicas explain them: which master's log first lacked a record, and how it came to lack it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from chaos.driver import Evidence
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, parts
from checkers._facts.faults import faults
from checkers._facts.losses import weakness
from checkers._facts.losses.explained import Explained, Lost
from checkers._facts.losses.lineage import EVENTS, Held, Lineage, Records, copies, lineage
from checkers._facts.losses.terms import Term, elections, terms
from checkers._facts.nodes.logs import node_traces
from checkers._facts.run import ENDS_LACKING, may_lack_ends, replica_groups

_UNREPORTED = "and no controller reports whether the election of {} (epoch {}) was from the SyncStateSet"


def explain(rows: Rows, context: RunContext, records: Records, at: Ints, found: Explained, *, acked: bool) -> None:
    """Explain losses by the logs of replicas. ``at``: the rows that reported the records to clients."""
    every, records = rows.memo(terms), records.placed(rows)
    line = lineage(rows, records, every)
    loss = _first_without(rows, records, at, every, line)
    for number, mine in parts(loss).items():
        if number >= 0:
            cut = _Cut(rows, context, records, at, found, every, number, line)
            cut.explain(mine, acked=acked)
    if may_lack_ends(rows):
        found.say(np.flatnonzero(loss < 0), Lost.UNDECIDED, "and " + ENDS_LACKING.format("a replica"))


def _first_without(rows: Rows, records: Records, at: Ints, every: Sequence[Term], line: Lineage) -> Ints:
    """For each record the term from which on no master has had it, -1 where there is none: the first one after the last
    whose master had it, and after the one in which it was acknowledged."""
    loss = np.full(len(records), -1, dtype=np.int64)
    groups, node = rows.memo(replica_groups), rows.column("node")[at]
    acked_by = {code: rows.text("node", int(at[mine[0]])) for code, mine in parts(node).items()}
    for number, (term, held) in enumerate(zip(every, line.at_terms, strict=True)):
        later = records.epoch < term.epoch
        for code, name in acked_by.items():
            if groups.get(name, "") != groups.get(term.node, "") and name in groups and term.node in groups:
                later &= node != code
        loss[later & held.has] = -1
        loss[later & ~held.has & (loss < 0)] = number
    return loss


class _Cut:
    """A master began a term with a log that lacked some records."""

    def __init__(
        self,
        rows: Rows,
        context: RunContext,
        records: Records,
        at: Ints,
        found: Explained,
        every: Sequence[Term],
        number: int,
        line: Lineage,
    ) -> None:
        self._rows, self._records, self._at, self._found = rows, records, at, found
        self._profile, self._every, self._line = context.profile, every, line
        self._term, self._held = every[number], line.at_terms[number]
        self._time = rows.column("time_ns")
        self._elections_reported = Evidence.ELECTIONS in context.evidence

    def explain(self, mine: Ints, *, acked: bool) -> None:
        """Try each weakness of the profile on these records."""
        term, profile = self._term, self._profile
        if profile.unclean:
            if term.clean is False:
                self._permit(mine, f"{weakness.UNCLEAN} allows at the election of {self._who()}")
            elif term.clean is None:
                self._undecided(mine, _UNREPORTED.format(term.node, term.epoch))
        if profile.flush == "async":
            self._by_crash(mine)
        if acked and profile.acks != "all":
            self._by_few_copies(mine)
        if profile.min_in_sync < 2:
            self._by_one_in_sync(mine)

    def _who(self) -> str:
        when = weakness.at_time(self._rows, int(self._time[self._term.at]))
        return f"{self._term.node} (epoch {self._term.epoch}) at {when}"

    def _permit(self, which: Ints, why: str) -> None:
        self._found.say(which, Lost.PERMITTED, why)

    def _undecided(self, which: Ints, why: str) -> None:
        self._found.say(which, Lost.UNDECIDED, why)

    def _lost_by(self, which: Ints, held: Held) -> Mapping[int, Ints]:
        """Return the rows by which a replica came back from a crash without records that it had taken: row → these
        records."""
        gone = held.gone[which]
        back = (gone >= 0) & (self._rows.column("f")[np.maximum(gone, 0)] == self._rows.code("f", "recovered"))
        return {row: which[back][mine] for row, mine in parts(gone[back]).items()}

    def _lives_lost(self, mine: Ints) -> Iterator[tuple[int, int, Ints]]:
        """Yield the same, with since when the replica had had them in the life that ended then; those apart between
        which faults ended."""
        node, ends = self._term.node, np.sort([fault.until_ns for fault in self._rows.memo(faults)])
        lived = node_traces(self._rows, node, "recovered").tolist()
        for row, which in self._lost_by(mine, self._held).items():
            began_ns = int(self._time[lived[lived.index(row) - 1]]) if lived.index(row) else 0
            since_ns = np.maximum(self._time[self._line.takers[node][which]], began_ns)
            for some in parts(np.searchsorted(ends, since_ns)).values():
                yield row, int(since_ns[some].min()), which[some]

    def _since_ns(self, node: str, which: Ints) -> int:
        """Return when the replica took the first of these records."""
        return int(self._time[self._line.takers[node][which]].min())

    def _by_crash(self, mine: Ints) -> None:
        """Explain losses by a crash: the replica had taken the record, and crashed before that was on its disk. That it
        was not yet on its disk, the law ``in-sync`` proves: what was reported as durable and is gone after a crash is
        ``false-sync``."""
        node = self._term.node
        for row, since_ns, which in self._lives_lost(mine):
            until_ns = int(self._time[row])
            sure, perhaps = weakness.struck(self._rows, node, since_ns, until_ns, weakness.crashed(node))
            if sure is not None:
                self._permit(which, f"{weakness.ASYNC} allows at {weakness.described(self._rows, sure, node)}")
            elif perhaps is not None:
                self._undecided(which, f"and it is unknown whether {perhaps.process} crashed {node}")

    def _by_few_copies(self, mine: Ints) -> None:
        """Explain losses by few copies: the acknowledgement stood on as many as it must, and the new master is none of
        them, or not any more: its disk was lost since."""
        by_master = self._copies(mine)
        other = mine[self._is_true(mine, by_master) & ~self._is_copy(mine, by_master) & ~self._dropped(mine)]
        if self._term.clean is None and self._elections_reported:
            self._undecided(other, _UNREPORTED.format(self._term.node, self._term.epoch))
        elif self._term.clean is not False:
            self._permit(other, f"{weakness.acks(self._profile)} allows at the switch to {self._who()}")

    def _is_true(self, mine: Ints, by_master: Sequence[frozenset[str] | None]) -> Flags:
        """Of which acknowledgements as many replicas took the record as ``acks`` demands, by their own word, of those
        that the master named."""
        taken = {name: rows[mine] >= 0 for name, rows in self._line.takers.items()}
        named = {
            name: np.array([names is None or name in names for names in by_master], dtype=np.bool_) for name in taken
        }
        number = np.sum([taken[name] & named[name] for name in taken], axis=0, dtype=np.int64)
        needed = 1 if self._profile.acks == "master" else int(self._profile.acks)
        enough: Flags = np.broadcast_to(number >= needed, mine.shape)
        return enough

    def _is_copy(self, mine: Ints, copies: Sequence[frozenset[str] | None]) -> Flags:
        """Return which of these records the new master held for the producer. Where the copies are not named, and the
        master that answered is not one alone, every replica that took the record counts."""
        node, taken = self._term.node, self._held.taken[mine]
        is_copy = taken.copy()
        for place, names in enumerate(copies):
            if names is not None:
                is_copy[place] = node in names
            elif self._profile.acks == "master":
                is_copy[place] = self._rows.text("node", int(self._at[mine[place]])) == node
        for row, which in self._lost_by(mine, self._held).items():
            since_ns, until_ns = self._since_ns(node, which), int(self._time[row])
            if weakness.struck(self._rows, node, since_ns, until_ns, weakness.lost_disk(node))[0] is not None:
                is_copy &= ~np.isin(mine, which)
        return is_copy

    def _dropped(self, mine: Ints) -> Flags:
        """Return which of these records the new master had taken and cut off, though no other master lacked them:
        whether it was counted or not, it would have them if it had not. A replica that begins again drops its whole
        log."""
        lacked = np.zeros(len(mine), dtype=np.bool_)
        for term, held in zip(self._every, self._line.at_terms, strict=True):
            if term.group == self._term.group and term.epoch < self._term.epoch:
                lacked |= (self._records.epoch[mine] < term.epoch) & ~held.has[mine]
        f, gone = self._rows.column("f"), self._held.gone[mine]
        cut = (gone >= 0) & (f[np.maximum(gone, 0)] == self._rows.code("f", "truncate"))
        lived = node_traces(self._rows, self._term.node, *EVENTS)
        for row in np.unique(gone[cut]).tolist():
            later = lived[int(np.flatnonzero(lived == row)[0]) + 1 :]
            if len(later) and self._rows.text("f", int(later[0])) == "bootstrap":
                cut &= gone != row
        return cut & ~lacked

    def _copies(self, mine: Ints) -> list[frozenset[str] | None]:
        found: list[frozenset[str] | None] = [None] * len(mine)
        node = self._rows.column("node")[self._at[mine]]
        for places in parts(node).values():
            name = self._rows.text("node", int(self._at[mine[places[0]]]))
            for epoch, some in parts(self._records.epoch[mine[places]]).items():
                which = places[some]
                by_master = copies(self._rows, name, epoch, self._records.position[mine[which]])
                for place, names in zip(which.tolist(), by_master, strict=True):
                    found[place] = names
        return found

    def _by_one_in_sync(self, mine: Ints) -> None:
        """Explain losses by a single copy: the acknowledgement stood on it alone, as the whole SyncStateSet, and it is
        gone: its disk was lost or, under asynchronous flush, it crashed. A replica that has joined the set since had
        the record, too; and where two copies are demanded at least, none stands on one."""
        if self._profile.acks not in ("all", "master"):
            return
        did = [("lost its disk", weakness.lost_disk)]
        did += [("crashed", weakness.crashed)] if self._profile.flush == "async" else []
        until_ns = int(self._time[self._term.at])
        for place, names in enumerate(self._copies(mine)):
            if names is None or len(names) != 1:
                continue
            [only], number = names, mine[place : place + 1]
            if not self._rows.memo(elections).alone(self._term, only):
                continue
            since_ns = int(self._time[self._at[number[0]]])
            for what, is_what in did:
                sure, perhaps = weakness.struck(self._rows, only, since_ns, until_ns, is_what(only))
                if sure is not None:
                    at = weakness.described(self._rows, sure, only)
                    self._permit(number, f"{weakness.ONE_IN_SYNC} allows at {at}")
                elif perhaps is not None:
                    self._undecided(number, f"and it is unknown whether {only} {what} by {perhaps.process}")
