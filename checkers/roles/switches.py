"""What an operator had as the answer about a switch, against what the controllers have made of it."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import Elect, FaultRow, FindMaster, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts.arrays import NEVER
from checkers.roles.promise import ACKNOWLEDGED_SWITCH_UNDONE, PROMISE, REFUSED_SWITCH_DONE

#: So long after a fault the system may still elect somebody because of it.
AFTER_FAULT_NS = 30_000_000_000


class Switches(Law):
    """The answers to operators."""

    promise = PROMISE
    key = Key.RUN
    reads = (Elect, FindMaster, HarnessRow, FaultRow)
    uses = (Use.SWITCHES,)
    part = "answers to operators"

    def examine(self, given: LawRows) -> Partial:
        """Compare each switch with the last answer about its group that came before it was asked for, and with those
        that were asked for between its end and the next switch."""
        rows = given.columns
        found = Findings(PROMISE)
        asked, looks = rows.memo(_asked), rows.memo(_looks)
        for number, switch in enumerate(asked):
            others = [one for one in asked if one.group == switch.group and one is not switch]
            until = min((one.began for one in others if one.began > switch.began), default=NEVER)
            of_group = [look for look in looks if look.group == switch.group]
            before = [look for look in of_group if look.ended < switch.began]
            after = [look for look in of_group if switch.ended < look.began and look.ended < until]
            unsure = any(one.target == switch.target and one.ended == NEVER for one in asked[:number])
            if switch.ended == NEVER or unsure or not before or not after:
                continue
            if _disturbed(rows, before[-1], after[-1]):
                found.count("disturbed_switches", 1)
                continue
            found.count("judged_switches", 1)
            _judge(rows, found, switch, before[-1], after)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        why = "no operator's switch could be judged: none ended and was looked for while no fault was near"
        return decide(PROMISE, partial, needs=[("judged_switches", why)])


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch that was asked for: its rows, and when it began and ended, as indices in the history."""

    group: str
    target: str
    invoke: int
    done: int
    began: int
    ended: int
    ok: bool


@dataclass(frozen=True, slots=True)
class _Look:
    """Who was the master of a group, and of which epoch."""

    group: str
    master: str
    epoch: int
    invoke: int
    done: int
    began: int
    ended: int


def _asked(rows: Rows) -> list[_Switch]:
    calls = facts.calls(rows, "elect")
    switches = zip(
        rows.words("group", calls.invoke),
        rows.words("target", calls.invoke),
        *(part.tolist() for part in (calls.invoke, calls.done, calls.began, calls.ended, calls.ok)),
        strict=True,
    )
    return [_Switch(*one) for one in switches]


def _looks(rows: Rows) -> list[_Look]:
    """In the order in which they were answered; of answers that make sense."""
    calls = facts.calls(rows, "find_master")
    ok = calls.ok
    looks = zip(
        rows.words("group", calls.invoke[ok]),
        rows.words("master", calls.done[ok]),
        rows.numbers("epoch", calls.done[ok]).tolist(),
        *(part[ok].tolist() for part in (calls.invoke, calls.done, calls.began, calls.ended)),
        strict=True,
    )
    return sorted((_Look(*one) for one in looks if one[1] and one[2] >= 0), key=lambda look: look.ended)


def _disturbed(rows: Rows, before: _Look, after: _Look) -> bool:
    """Return whether the system may have elected somebody by itself."""
    times = rows.column("time_ns")
    from_ns, until_ns = int(times[before.invoke]) - AFTER_FAULT_NS, int(times[after.done])
    return any(fault.began_ns <= until_ns and fault.until_ns >= from_ns for fault in rows.memo(facts.faults))


def _judge(rows: Rows, found: Findings, switch: _Switch, before: _Look, after: list[_Look]) -> None:
    """``after`` are all answers until the next switch. An election by the system itself makes another epoch or another
    master. A switch may take its time: of one that was acknowledged the last answer counts, of a refused one any."""
    if before.master == switch.target:
        return
    last = after[-1]
    done = [look for look in after if look.master == switch.target and look.epoch == before.epoch + 1]
    what = f"{switch.target} was to become the master of {switch.group or 'its group'}"
    was = f"Before, {before.master} was the master of epoch {before.epoch}"
    if not switch.ok and done:
        kind, seen = REFUSED_SWITCH_DONE, done[0]
        said = f"{what}, and at {facts.at_s(rows, switch.done)} the operator got the answer that this was not done"
    elif switch.ok and last.epoch <= before.epoch:
        kind, seen = ACKNOWLEDGED_SWITCH_UNDONE, last
        said = f"{what}, and at {facts.at_s(rows, switch.done)} the operator got the answer that this was done"
    else:
        return
    index = rows.column("index")
    found.add(
        kind,
        f"{said}. {was}, and at {facts.at_s(rows, seen.done)} {seen.master} that of epoch {seen.epoch}.",
        *(int(index[at]) for at in (before.done, switch.invoke, switch.done, seen.done)),
    )
