"""Replicas agree on the offsets of groups and on topics, as their own records have them."""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Ints, distinct
from checkers._facts.reads import own
from checkers.agreement import commits
from checkers.agreement.commits import group_numbers
from checkers.agreement.holes import extents, no_holes
from checkers.agreement.promise import METADATA_CONFLICT, OFFSETS_LOST, PROMISE, REPLICA_DIVERGENCE

#: What replicas report after a run, and which of the system's own records they derive it from.
SYSTEM = {"offsets": "offsets", "topics": "topic"}

METADATA = Needs(
    part="what replicas derived from it",
    key=Key.RUN,
    rows=(
        own("final", "offsets", "topics", "complete"),
        own("trace", "bootstrap"),
        commits.LAST_COMMITS,
        Reads(kind="final", f=("log",), queueless=True),
        *losses.TERMS,
        *reads.REPLICAS,
    ),
    columns=(*reads.BASIC, *reads.RECORDS, *losses.COLUMNS),
    evidence=(Evidence.FINAL_LOGS,),
)


def _system_ends(rows: Rows, kind: str, group: Set[str]) -> Ints | None:
    """Return where the system's own records of one kind end, ascending, in any log of this group after the run; None
    where no log says which of its records are the system's own."""
    at = rows.where(kind="final", f="log", queue=-1)
    at = at[np.isin(rows.column("node")[at], [rows.code("node", name) for name in group])]
    kinds = rows.words("system", at)
    if not any(kinds):
        return None
    at = at[np.array([word == kind for word in kinds], dtype=np.bool_)]
    return distinct(rows.column("position")[at] + np.maximum(rows.numbers("size", at), 1))


@dataclass(frozen=True, slots=True)
class Metadata:
    """Topics, groups' offsets and the system's own records."""

    promise: Promise = PROMISE
    needs: Needs = METADATA

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        confirm = commits.confirmed(rows)
        unread = set(facts.brokers(rows, context)) - facts.complete_nodes(rows)
        reporting = {node for node, *_ in rows.memo(extents)}
        silent = facts.complete_nodes(rows) & set(facts.brokers(rows, context)) - reporting if reporting else ()
        if silent:
            found.gap(f"{', '.join(sorted(silent))} did not report where its log begins and ends after the run")
        if unread:
            found.gap(f"the content of {', '.join(sorted(unread))} was not read to its end after the run")
        if facts.has_recovered(rows):
            groups = rows.memo(facts.replica_groups)
            for group in sorted({*groups.values()}):
                members = {name for name, its in groups.items() if its == group}
                for f, key in (("offsets", "groups"), ("topics", "topics")):
                    self._compare(rows, found, f, key, {n: end for n, end in confirm.items() if n in members}, members)
            self._system_records(rows, found)
            if losses.keeps(rows, context, confirmed=True):
                _offsets_stay(rows, found)
        found.count("metadata_views", len(rows.where(kind="final", f="topics")))
        found.count("offset_views", len(rows.where(kind="final", f="offsets")))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("metadata_views", "no replica reported its topics after the run"),
            ("offset_views", "no replica reported its groups' offsets after the run"),
        ]
        return decide(PROMISE, partial, needs=needs if Evidence.FINAL_METADATA in context.evidence else ())

    def _compare(self, rows: Rows, found: Findings, f: str, key: str, confirm: dict[str, int], group: Set[str]) -> None:
        """Check that replicas of one group that have confirmed the same records of this kind have derived the same
        tables from them; where no log says which records those are, replicas that have confirmed the same log."""
        tables: dict[int, tuple[str, int]] = {}
        ends = _system_ends(rows, SYSTEM[f], group)
        begun = max((first for node, first, _, _ in rows.memo(extents) if node in group), default=-1)
        speakers = {rows.text("node", at) for at in rows.where(kind="final", f=f)}
        silent = set(confirm) - speakers if speakers else set()
        if silent:
            found.gap(f"{', '.join(sorted(silent))} did not report its {f} after the run")
        for at in rows.where(kind="final", f=f):
            node = rows.text("node", at)
            if confirm.get(node, -1) < max(0, begun):  # what has been removed between the two is unknown
                continue
            table = json.dumps(rows.value(at).get(key), sort_keys=True)
            had = confirm[node] if ends is None else int(np.searchsorted(ends, confirm[node], side="right"))
            known = tables.setdefault(had, (table, int(at)))
            if known[0] != table:
                index = rows.column("index")
                found.add(
                    METADATA_CONFLICT,
                    f"{rows.text('node', known[1])} and {node} confirm the same records of {f} (up to position "
                    f"{confirm[node]}), but know different ones: {known[0][:200]} and {table[:200]}.",
                    int(index[known[1]]),
                    int(index[at]),
                )

    def _system_records(self, rows: Rows, found: Findings) -> None:
        """Check that the system's own records stand at the same positions on all replicas of a group."""
        at = rows.where(kind="final", f="log", queue=-1)
        position, content, index = rows.column("position"), rows.column("hash"), rows.column("index")
        no_holes(rows, found, at)
        at = at[content[at] >= 0]
        known = facts.Claims.of(at, group_numbers(rows, at), position[at], content[at])
        found.count("system_records", len(at))
        for first, other in facts.conflicts(known):
            one, two = int(at[first]), int(at[other])
            found.add(
                REPLICA_DIVERGENCE,
                f"At position {int(position[one])} the logs of {rows.text('node', one)} and {rows.text('node', two)} "
                "hold different records of the system itself.",
                int(index[one]),
                int(index[two]),
            )


def _offsets_stay(rows: Rows, found: Findings) -> None:
    """Check that each replica has, of each group, the offset that took effect last on any replica, below what it
    confirms itself; and that one that begins again has it below where it begins, for those records will never be in its
    log."""
    for at, last in commits.last_commits(rows):
        groups = rows.value(at).get("groups")
        if not isinstance(groups, dict):
            continue
        for (group, number), row in sorted(last.items()):
            has = int((groups.get(group) or {}).get(str(number), -1))
            if has < rows.column("offset")[row]:
                _report_lost(rows, found, group, row, at, has)


def _report_lost(rows: Rows, found: Findings, group: str, commit: int, at: int, has: int) -> None:
    index, offset, queue = (int(rows.column(name)[commit]) for name in ("index", "offset", "queue"))
    when = "after the run" if rows.text("kind", at) == "final" else f"when it began again ({facts.at_s(rows, at)})"
    found.add(
        OFFSETS_LOST,
        f"{rows.text('node', at)} had {has} as the offset of the group {group} in queue {queue} {when}, but {offset} "
        f"had taken effect by the record at position {int(rows.column('position')[commit])} "
        f"({rows.text('node', commit)}, {facts.at_s(rows, commit)}), which lies below all that it has.",
        index,
        int(rows.column("index")[at]),
        queue=queue,
        offset=offset,
    )
