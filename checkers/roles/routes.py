"""Whom name servers name: no older master for longer than the bound, and never an older epoch than before."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.driver import Evidence
from chaos.events import Role, Route
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.faults import disturbs, quiet
from checkers.roles.promise import PROMISE, ROUTE_REGRESSION, STALE_ROUTE

#: A route may be stale for so long, unless the experiment says otherwise (``bounds.route_s``).
ROUTE_BOUND_S = 5.0


class Routes(Law):
    """Whom name servers name."""

    promise = PROMISE
    key = Key.RUN
    reads = (Route, Role, HarnessRow, FaultRow)
    evidence = (Evidence.ROUTES, Evidence.ROLES)
    part = "routes"
    on_prefix = True

    def examine(self, given: LawRows) -> Partial:
        """Check that no name server goes on naming the master of an older epoch for longer than the bound after a newer
        one has taken over. Only time without any fault counts: who is cut off can't report anything."""
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        bound_s = facts.bound(context, "route_s", ROUTE_BOUND_S)
        times, epoch = rows.column("time_ns"), rows.column("epoch")
        routes = rows.where(kind="trace", f="route")
        found.count("routes", len(routes))
        nodes = sorted({rows.text("node", at) for at in routes})
        for node in nodes:
            _epoch_stays(rows, found, node, facts.node_traces(rows, node, "route").tolist())
        if context.unfinished:  # which faults disturbed a name server may be known only when they are undone
            return found.partial()
        took_over = sorted(
            (int(times[at]), int(epoch[at]), int(at), str(rows.value(at).get("group", "")))
            for at in rows.where(kind="trace", f="role")
            if rows.value(at).get("role") == "master"
        )
        over = facts.phase_time(rows, "stop")
        last = over if over >= 0 else int(times[-1]) if len(rows) else 0
        known = rows.memo(facts.faults)
        surely = quiet([fault for fault in known if fault.effects is None or disturbs(fault)], last)
        perhaps = quiet([fault for fault in known if fault.effects is not None and disturbs(fault)], last)
        for node in nodes:
            mine = facts.node_traces(rows, node, "route").tolist()
            for number, at in enumerate(mine):
                fields = rows.value(at)
                of = ("", fields.get("group", ""))
                newer = next((one for one in took_over if one[1] > epoch[at] >= 0 and one[3] in of), None)
                if not fields.get("master") or newer is None:
                    continue
                later = (int(times[n]) for n in mine[number + 1 :] if rows.value(n).get("group") == fields.get("group"))
                stale = (max(int(times[at]), newer[0]), next(later, last))
                if _overlap(stale, surely) > bound_s * 1e9:
                    _report_stale(rows, found, at, newer[2], _overlap(stale, surely), bound_s)
                elif _overlap(stale, perhaps) > bound_s * 1e9:
                    found.gap(
                        f"{node} named {fields['master']}, master of epoch {int(epoch[at])}, for too long, but a fault "
                        "was in force that declares no effects"
                    )
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("routes", "no name server reported its routes")])


def _epoch_stays(rows: Rows, found: Findings, node: str, routes: Sequence[int]) -> None:
    """Check that in one life of a name server the epoch of a group does not fall. Another life begins with nothing: it
    may hear of an older master first, for as long as a route may be stale."""
    index, epoch, life = rows.column("index"), rows.column("epoch"), rows.column("incarnation")
    highest: dict[tuple[int, str], int] = {}
    for at in routes:
        key = (int(life[at]), str(rows.value(at).get("group", "")))
        before = highest.setdefault(key, at)
        if epoch[at] >= epoch[before]:
            highest[key] = at
        elif epoch[at] >= 0:
            found.add(
                ROUTE_REGRESSION,
                f"{node} gave epoch {int(epoch[at])} for the group {key[1]} at {facts.at_s(rows, at)}, although it had "
                f"given epoch {int(epoch[before])} at {facts.at_s(rows, before)}.",
                int(index[before]),
                int(index[at]),
            )


def _overlap(time: tuple[int, int], quiet: Sequence[tuple[int, int]]) -> int:
    """Return how long at most, in ns, this time overlaps with one of the quiet ones."""
    return max((min(time[1], end) - max(time[0], begin) for begin, end in quiet), default=0)


def _report_stale(rows: Rows, found: Findings, at: int, newer: int, stale_ns: int, bound_s: float) -> None:
    index, epoch = rows.column("index"), rows.column("epoch")
    found.add(
        STALE_ROUTE,
        f"{rows.text('node', at)} named {rows.value(at)['master']}, master of epoch {int(epoch[at])}, for "
        f"{stale_ns / 1e9:.1f} s without any fault, although {rows.text('node', newer)} had taken over in epoch "
        f"{int(epoch[newer])} at {facts.at_s(rows, newer)}; {bound_s:g} s are permitted.",
        int(index[newer]),
        int(index[at]),
    )
