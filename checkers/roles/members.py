"""Whom name servers leave out: a living broker is in the route of each of them, from a bound on after it has a role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.events import Crash, Role, Route, Start
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.faults import calm_times
from checkers.roles.promise import MISSING_FROM_ROUTE, PROMISE
from checkers.roles.routes import ROUTE_BOUND_S

#: Roles in which a broker registers at name servers.
SERVES = ("master", "slave")


class Members(Law):
    """Only calm time counts: who is cut off, or down, can't register. What heals a route later excuses nothing."""

    promise = PROMISE
    key = Key.RUN
    reads = (Route, Role, Start, Crash, HarnessRow, FaultRow)
    evidence = (Evidence.ROUTES, Evidence.ROLES)
    part = "who is in routes"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        if context.unfinished:  # which faults were in force may be known only when they are undone
            return found.partial()
        bound_s = facts.bound(context, "route_s", ROUTE_BOUND_S)
        calm, serving = calm_times(rows), list(_serving(rows))
        gaps = list(_gaps(rows, context))
        strange = _of_others({gap.group for gap in gaps}, gaps, {broker for broker, *_ in serving})
        for gap in (gap for gap in gaps if gap.group not in strange):
            for broker, group, since_ns, until_ns, role in serving:
                if broker in gap.named or (group and gap.group and group != gap.group):
                    continue
                begin, end = max(gap.since_ns, since_ns), min(gap.until_ns, until_ns)
                longest_ns = max((min(end, two) - max(begin, one) for one, two in calm), default=0)
                if longest_ns > bound_s * 1e9:
                    _report_missing(rows, found, gap, broker, role, longest_ns, bound_s)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        """Whether any name server reported its routes is another kernel's to say."""
        return decide(PROMISE, partial, needs=())


@dataclass(frozen=True, slots=True)
class _Gap:
    """From when until when a name server named just these brokers of a group, by the row ``at``; -1: it never
    reported any."""

    nameserver: str
    group: str
    named: frozenset[str]
    since_ns: int
    until_ns: int
    at: int


def _of_others(groups: set[str], gaps: Sequence[_Gap], brokers: set[str]) -> set[str]:
    """Return the groups that never had any of these brokers, beside one that had: somebody else has registered them, as
    the questions of the workload ``limits`` do."""
    ours = {gap.group for gap in gaps if gap.named & brokers}
    return groups - ours - {""} if ours else set()


def _gaps(rows: Rows, context: RunContext) -> Iterator[_Gap]:
    """Yield what each name server reported, until it reported something else of the same group. Those who don't report
    members say nothing here."""
    times, nodes = rows.column("time_ns"), rows.where(kind="trace", f="route")
    names = sorted({rows.text("node", at) for at in nodes})
    for name in names:
        last: dict[str, int] = {}
        for at in [*facts.node_traces(rows, name, "route").tolist(), -1]:
            fields = rows.value(at) if at >= 0 else {}
            group = str(fields.get("group", ""))
            ended = [group] if at >= 0 else [*last]
            for before in [last[one] for one in ended if one in last]:
                members = rows.value(before).get("brokers")
                until_ns = int(times[at]) if at >= 0 else facts.NEVER
                if isinstance(members, list):
                    of = str(rows.value(before).get("group", ""))
                    yield _Gap(name, of, frozenset(map(str, members)), int(times[before]), until_ns, before)
            last[group] = at
    for name in context.meta.named("nameserver"):
        if name not in names and names:
            yield _Gap(name, "", frozenset(), 0, facts.NEVER, -1)


def _serving(rows: Rows) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield which broker of which group had a role, from when until when, and the row by which it reported the first
    one."""
    times = rows.column("time_ns")
    traced = [rows.where(kind="trace", f=f).tolist() for f in ("role", "start", "crash")]
    for name in sorted({rows.text("node", at) for at in traced[0]}):
        since = -1
        for at in [*facts.node_traces(rows, name, "role", "start", "crash").tolist(), -1]:
            serves = at >= 0 and rows.text("f", at) == "role" and rows.value(at).get("role") in SERVES
            if since >= 0 and not serves:
                group = str(rows.value(since).get("group", ""))
                yield name, group, int(times[since]), int(times[at]) if at >= 0 else facts.NEVER, since
                since = -1
            elif since < 0 and serves:
                since = at


def _report_missing(
    rows: Rows, found: Findings, gap: _Gap, broker: str, role: int, longest_ns: int, bound_s: float
) -> None:
    index = rows.column("index")
    group = f" of {gap.group}" if gap.group else ""
    said = f"from {facts.at_s(rows, gap.at)} on named {', '.join(sorted(gap.named)) or 'nobody'}{group}"
    found.add(
        MISSING_FROM_ROUTE,
        f"{gap.nameserver} {said if gap.at >= 0 else 'never named anybody'}, and left out {broker}, which had its role "
        f"since {facts.at_s(rows, role)}, for {longest_ns / 1e9:.1f} s without any fault; {bound_s:g} s are permitted.",
        *sorted(int(index[at]) for at in (role, gap.at) if at >= 0),
    )
