"""What brokers said of themselves when the harness asked."""

from __future__ import annotations

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import BrokerState, FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers.roles.lives import EPOCH_REGRESSION
from checkers.roles.promise import ELECTION_OUTSIDE_SET, PROMISE, TWO_MASTERS


class Polled(Law):
    """What brokers said of themselves when the harness asked."""

    promise = PROMISE
    key = Key.RUN
    reads = (BrokerState, HarnessRow, FaultRow)
    evidence = (Evidence.POLLS,)
    part = "roles as polled"
    on_prefix = True

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        states = rows.where(kind="poll", f="state", type="ok")
        found.count("polls", len(states))
        index, epoch = rows.column("index"), rows.column("epoch")
        masters: dict[tuple[str, int], int] = {}
        outside: set[tuple[str, str, int]] = set()
        for at in states.tolist():
            fields, node, number = rows.value(at), rows.text("node", at), int(epoch[at])
            if fields.get("role") != "master" or number < 0:
                continue
            group = str(fields.get("group", ""))
            other = masters.setdefault((group, number), at)
            if rows.text("node", other) != node:
                found.add(
                    TWO_MASTERS,
                    f"{node} said at {facts.at_s(rows, at)} that it is the master of epoch {number}, and so had "
                    f"{rows.text('node', other)} at {facts.at_s(rows, other)}.",
                    int(index[other]),
                    int(index[at]),
                )
            if fields.get("set") and node not in fields["set"] and (group, node, number) not in outside:
                outside.add((group, node, number))
                found.add(
                    ELECTION_OUTSIDE_SET,
                    f"{node} said at {facts.at_s(rows, at)} that it is the master of epoch {number}, with the "
                    f"SyncStateSet {', '.join(sorted(fields['set']))}.",
                    int(index[at]),
                )
        if not context.unfinished:  # that a fault took a node's disk may be proven later
            for node in facts.nodes_of(rows, states):
                _epochs_as_polled(rows, found, node)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("polls", "no broker was polled")])


def _epochs_as_polled(rows: Rows, found: Findings, node: str) -> None:
    """Check that a node never goes back to an older epoch of a group, unless its disk was taken from it meanwhile. Who
    is fenced plays no part in the epoch that its disk knows."""
    index, epoch, asked = rows.column("index"), rows.column("epoch"), rows.column("op")
    times = rows.column("time_ns")
    known: dict[str, int] = {}
    for at in rows.where(kind="poll", f="state", type="ok", node=node).tolist():
        if epoch[at] < 0 or rows.value(at).get("role") == "fenced":
            continue
        group = str(rows.value(at).get("group", ""))
        highest = known.setdefault(group, at)
        if epoch[at] >= epoch[highest]:
            known[group] = at
            continue
        if asked[at] < index[highest]:  # it may have been asked before it gave the other answer
            continue
        between = [
            fault
            for fault in rows.memo(facts.faults)
            if fault.began_ns <= times[at] and fault.until_ns >= times[highest]
        ]
        if any(node in fault.hits(Effect.LOSES_DISK) for fault in between):
            known[group] = at
        elif any(fault.may_hit(node) for fault in between):
            found.gap(f"{node} went back to an older epoch, but a fault hit it that declares no effects")
            known[group] = at
        else:
            found.add(
                EPOCH_REGRESSION,
                f"{node} said at {facts.at_s(rows, at)} that it is {rows.value(at).get('role', 'there')} in epoch "
                f"{int(epoch[at])}, although it had known epoch {int(epoch[highest])} at {facts.at_s(rows, highest)}.",
                int(index[highest]),
                int(index[at]),
            )
