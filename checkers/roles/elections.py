"""The controllers' committed entries, and what brokers make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.committed import set_rows
from checkers._facts.reads import own
from checkers.roles.group import Group
from checkers.roles.lives import EPOCH_REGRESSION
from checkers.roles.promise import METADATA_CONFLICT, PROMISE, TWO_MASTERS

ELECTIONS = Needs(
    part="elections as committed",
    key=Key.RUN,
    rows=(own("trace", "applied", "start", "raft"), *reads.SETS, reads.RUN),
    columns=(*reads.BASIC, *reads.LIVES, "process", "type", "epoch", "position"),
    evidence=(Evidence.ELECTIONS,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True)
class Elections:
    """The controllers' committed entries, and what brokers make of them."""

    promise: Promise = PROMISE
    needs: Needs = ELECTIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        entries = _committed(rows, found)
        if context.unfinished:
            entries = _settled(rows, context, entries)
        groups: dict[str, Group] = {}
        for index in sorted(entries):
            at = entries[index]
            entry = rows.value(at).get("entry") or {}
            name = entry.get("group")
            if isinstance(name, str) and not entry.get("unattended"):  # there nobody can believe to be master
                group = groups.setdefault(name, Group(rows=rows, found=found, unclean=context.profile.unclean))
                group.apply(at, entry, whole=index - 1 in entries or index <= 1)
        found.count("entries", len(entries))
        found.count("elections", sum(len(group.elected) for group in groups.values()))
        whole = len(entries) == max(entries, default=0)
        if not whole:
            found.gap("some of the controllers' committed entries are missing")
        _believers(rows, found, {} if context.unfinished else groups, whole)  # who was elected may be reported later
        if not context.unfinished:
            _sets(rows, found, groups, whole)
        _raft_leaders(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("elections", "cannot judge: no committed election was found")]
        if Evidence.ROLES in context.evidence:
            needs.append(("roles_told", "no broker reported its role"))
        return decide(PROMISE, partial, needs=needs)


def _settled(rows: Rows, context: RunContext, entries: Mapping[int, int]) -> dict[int, int]:
    """Return the entries from the first of the log on, up to the first that is missing, or of which a controller may
    still report something else that would count: where controllers disagree, the word of the first of them does."""
    first = min(context.meta.controllers or ("",))

    def is_known(number: int) -> bool:
        return number in entries and (context.one_clock or rows.text("node", entries[number]) == first)

    return {number: entries[number] for number in takewhile(is_known, count(1))}


def _committed(rows: Rows, found: Findings) -> dict[int, int]:
    """Log index → a row of its entry; the same entry stands at an index on every controller."""
    position, index, epoch = rows.column("position"), rows.column("index"), rows.column("epoch")
    known: dict[int, tuple[int, str]] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        text = json.dumps([int(epoch[at]), rows.value(at).get("entry")], sort_keys=True)
        first, same = known.setdefault(int(position[at]), (at, text))
        if text != same:
            found.add(
                METADATA_CONFLICT,
                f"The controllers {rows.text('node', first)} and {rows.text('node', at)} have applied different "
                f"entries at index {int(position[at])} of their log.",
                int(index[first]),
                int(index[at]),
            )
    return {number: first for number, (first, _) in known.items()}


def _believers(rows: Rows, found: Findings, groups: Mapping[str, Group], whole: bool) -> None:
    """Check that no two brokers believe to be master of one epoch, none believes what was not elected, none goes back.
    ``whole``: no entry is missing, so that every broker that was elected is known."""
    index, epoch = rows.column("index"), rows.column("epoch")
    first: dict[tuple[str, int], int] = {}
    roles = rows.where(kind="trace", f="role")
    found.count("roles_told", len(roles))
    for node in sorted({rows.text("node", at) for at in roles}):
        known: dict[str, tuple[int, int]] = {}  # of each group that the node is of: the highest epoch, and its row
        generation, disk = -1, ""
        for at in facts.node_traces(rows, node, "role", "start").tolist():
            fields = rows.value(at)
            if rows.text("f", at) == "start":
                now, word = int(fields.get("generation", generation + 1)), str(fields.get("disk", ""))
                known = {} if now <= generation or word != disk else known
                generation, disk = now, word
                continue
            mine, role, group = int(epoch[at]), fields.get("role"), str(fields.get("group", ""))
            highest, witness = known.get(group, (-1, -1))
            if 0 <= mine < highest and role != "fenced":  # who is fenced plays no part in the epoch that its disk knows
                found.add(
                    EPOCH_REGRESSION,
                    f"{node} took the role {role} of epoch {mine} at {facts.at_s(rows, at)}, although it had known "
                    f"epoch {highest}.",
                    int(index[witness]),
                    int(index[at]),
                )
            if mine > highest:
                known[group] = mine, at
            if role != "master":
                continue
            other = first.setdefault((group, mine), at)
            elected = _elected(groups, group)
            wrong = node not in elected.get(mine, {node} if not whole or not elected else set())
            if rows.text("node", other) != node or wrong:
                whom = rows.text("node", other) if not wrong else " and ".join(sorted(elected.get(mine, ["nobody"])))
                found.add(
                    TWO_MASTERS,
                    f"{node} believes to be master of epoch {mine} ({facts.at_s(rows, at)}), and so was {whom}.",
                    int(index[other]),
                    int(index[at]),
                )


def _elected(groups: Mapping[str, Group], name: str) -> Mapping[int, Set[str]]:
    """Epoch → whom the controllers elected, in this group; in any, where a broker names none that they know."""
    elected: dict[int, set[str]] = {}
    for group in [groups[name]] if name in groups else groups.values():
        for number, (master, _) in group.elected.items():
            elected.setdefault(number, set()).add(master)
    return elected


def _sets(rows: Rows, found: Findings, groups: Mapping[str, Group], whole: bool) -> None:
    """Check that who a master counts on under a set epoch is who the controllers committed under that number."""
    index = rows.column("index")
    reported: set[tuple[str, int]] = set()
    claims = rows.memo(set_rows)
    order, firsts = facts.groups(rows.column("node")[claims.at], claims.code, claims.number)
    for place in np.sort(order[firsts]).tolist():  # what a node repeats is judged once
        at, number, (members, _) = int(claims.at[place]), int(claims.number[place]), claims.sets[claims.code[place]]
        committed = [group.sets[number] for group in groups.values() if number in group.sets]
        node = rows.text("node", at)
        if not members or number == facts.NEVER:
            continue
        if any(members == there for there, _ in committed) or (not committed and not whole) or not groups:
            continue
        if (node, number) in reported:
            continue
        reported.add((node, number))
        there, witness = committed[0] if committed else (frozenset(), -1)
        found.add(
            METADATA_CONFLICT,
            f"{node} counts on {', '.join(sorted(members))} as the SyncStateSet of set epoch {number} "
            f"({facts.at_s(rows, at)}), where the controllers have committed {', '.join(sorted(there)) or 'none'}.",
            *([int(index[witness])] if witness >= 0 else []),
            int(index[at]),
        )


def _raft_leaders(rows: Rows, found: Findings) -> None:
    """Check that no two controllers lead one term, and that each follower follows the one that leads its term."""
    index, term = rows.column("index"), rows.column("epoch")
    traced = rows.where(kind="trace", f="raft").tolist()
    leading = [at for at in traced if rows.value(at).get("role") == "leader"]
    first: dict[int, tuple[int, str]] = {}
    for at in leading:
        node = rows.text("node", at)
        other, leader = first.setdefault(int(term[at]), (at, node))
        if leader != node:
            found.add(
                TWO_MASTERS,
                f"The controllers {leader} and {node} both led term {int(term[at])}.",
                int(index[other]),
                int(index[at]),
            )
    for at in traced:
        named = rows.value(at).get("leader")
        if not isinstance(named, str) or not named or rows.value(at).get("role") == "leader":
            continue
        other, leader = first.setdefault(int(term[at]), (at, named))
        if leader != named:
            found.add(
                TWO_MASTERS,
                f"{rows.text('node', at)} followed {named} in term {int(term[at])} at {facts.at_s(rows, at)}, but "
                f"{leader} led that term, as {rows.text('node', other)} reported.",
                *sorted((int(index[other]), int(index[at]))),
            )
