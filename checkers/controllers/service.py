"""Controllers serve changes and reads while a majority of them is well."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.causes import AFTER_S
from checkers._facts.reads import own
from checkers.controllers import requests
from checkers.controllers.promise import PROMISE, UNANSWERED, UNSERVED

SERVICE = Needs(
    part="service",
    key=Key.RUN,
    rows=(own("op", *requests.KINDS), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, "op", "process", "type"),
    uses=(Use.OBJECTS,),
)


@dataclass(frozen=True, slots=True)
class Service:
    """What clients of objects were answered."""

    promise: Promise = PROMISE
    needs: Needs = SERVICE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        bound_ns = int(1e9 * facts.bound(context, "available_s", AFTER_S))
        asked = requests.of(rows)
        found.count("requests", sum(len(facts.calls(rows, f).invoke) for f in requests.KINDS))
        found.count("answered", int(asked.ok.sum()))
        owed = requests.owed(rows, context)
        found.count("owed", len(owed))
        for one in owed:
            _changes(rows, found, asked, one, bound_ns)
            _reads(rows, found, asked, one, bound_ns)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        asked = "requests" in partial.counts and partial.counts["requests"]
        unless = "" if asked else "no client read or changed an object by itself"
        needs = [
            ("answered", "no request about an object was answered"),
            ("owed", "at no time is it known that enough controllers were well for service to be owed"),
        ]
        none = "" if context.meta.controllers else "the system has no controllers"
        return decide(PROMISE, partial, needs=needs, unless=unless or none)


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
