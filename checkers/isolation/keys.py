"""Transactions over keys, lists or registers: no cycles, and nothing read that was aborted, half done or lost."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts.reads import own
from checkers.isolation import lists, registers
from checkers.isolation.evidence import Found
from checkers.isolation.promise import LOG, PROMISE
from checkers.isolation.steps import Step, Transactions, levels, of_keys, transactions

#: Transactions over queues may be as many as messages.
KEYED = Sieve(rows=(own("op", "txn"),), columns=("op", "type", "value"), keep=of_keys, streamed=True)
NEEDS = Needs(
    part="transactions over keys",
    key=Key.RUN,
    rows=(Reads(kind="op", f=("txn",), sieve=KEYED),),
    columns=("op", "type", "process", "value"),
    uses=(Use.TRANSACTIONS,),
)
READ = ("reads_of_keys", "no transaction over keys was committed that read anything")


@dataclass(frozen=True, slots=True)
class Keys:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        given = transactions(rows, found)
        found.not_owed("" if given.every else "no transaction over keys was begun")
        if given.every:
            forbidden = levels(given, found)
            found.count(READ[0], sum(txn.ok and any(one.step is Step.READ for one in txn.steps) for txn in given.every))
            evidence = Found(given, found, forbidden, only_reads=given.levels == {LOG})
            of_lists, of_registers = _kinds(given)
            lists.examine(given, of_lists, evidence)
            registers.examine(given, of_registers, evidence)
            evidence.cycles()
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[READ])


def _kinds(given: Transactions) -> tuple[set[Hashable], set[Hashable]]:
    """Return the keys that hold lists, and those that hold registers, by what is written to them; by what was read
    where nothing is."""
    steps = [one for txn in given.every for one in txn.steps]
    of_lists = {one.key for one in steps if one.step is Step.APPEND}
    of_registers = {one.key for one in steps if one.step is Step.WRITE}
    written = of_lists | of_registers
    only_read = {one.key: one.value for one in steps if one.step is Step.READ and one.key not in written}
    of_lists |= {key for key, value in only_read.items() if isinstance(value, tuple)}
    return of_lists, (of_registers | only_read.keys()) - of_lists
