"""Controllers serve changes and reads while a majority of them is well."""

from __future__ import annotations

from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import CompareAndSet, FaultRow, HarnessRow, ReadObject, WriteObject
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts.causes import AFTER_S
from checkers.controllers import requests
from checkers.controllers.promise import PROMISE, UNANSWERED, UNSERVED


class Service(Law):
    """What clients of objects were answered."""

    promise = PROMISE
    key = Key.RUN
    reads = (ReadObject, WriteObject, CompareAndSet, HarnessRow, FaultRow)
    uses = (Use.OBJECTS,)
    part = "service"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        bound_ns = int(1e9 * facts.bound(context, "available_s", AFTER_S))
        asked = requests.of(rows)
        number = sum(len(facts.calls(rows, f).invoke) for f in requests.KINDS)
        found.count("requests", number)
        if not number:
            found.not_owed("no client read or changed an object by itself")
        else:
            found.not_owed("" if context.meta.controllers else "the system has no controllers")
        found.count("answered", int(asked.ok.sum()))
        owed = requests.owed(rows, context)
        found.count("owed", len(owed))
        for one in owed:
            _changes(rows, found, asked, one, bound_ns)
            _reads(rows, found, asked, one, bound_ns)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [
            ("answered", "no request about an object was answered"),
            ("owed", "at no time is it known that enough controllers were well for service to be owed"),
        ]
        return decide(PROMISE, partial, needs=needs)


def _changes(rows: Rows, found: Findings, asked: requests.Requests, owed: requests.Owed, bound_ns: int) -> None:
    # A controller that does not lead refuses changes, so the one that led must have been asked.
    nodes = owed.well if owed.well & {*asked.to} else frozenset()
    for first, last in asked.in_vain(asked.changes, owed, bound_ns, nodes=nodes):
        found.add(
            UNSERVED,
            f"No change of an object took effect for {(last.ended_ns - first.began_ns) / 1e9:.1f} s, from "
            f"{facts.at_s(rows, first.at)} on, although clients tried and a majority of the controllers was well; "
            f"{bound_ns / 1e9:g} s are permitted.",
            first.index,
            last.index,
        )


def _reads(rows: Rows, found: Findings, asked: requests.Requests, owed: requests.Owed, bound_ns: int) -> None:
    for node in sorted(owed.well):
        for first, last in asked.in_vain(asked.unanswered_by(node), owed, bound_ns):
            found.add(
                UNANSWERED,
                f"{node} answered no read for {(last.ended_ns - first.began_ns) / 1e9:.1f} s, from "
                f"{facts.at_s(rows, first.at)} on, although it and a majority of the controllers were well; "
                f"{bound_ns / 1e9:g} s are permitted.",
                first.index,
                last.index,
            )
