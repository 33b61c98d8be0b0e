"""The steps that led to a loss, as data for the page, the terminal and JSON: the fault, why it did harm, what the
system did then, and what is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reports.explanation.sequence import Arrow, Explanation
from reports.faults import FaultLine
from reports.run_report.causes import Cause
from reports.run_report.headlines import worst
from reports.run_report.master_terms import EpochChange, MasterTerm
from reports.run_report.story import gone, joined, named_fault, numbered, seconds, took

#: What stands in the place of a reason that no row shows.
NOT_KNOWN = "not known; see `stormproof explain`"
#: So many faults that were in force are named in a step, and so many letters are shown of what a law says.
NAMED, WORDS = 3, 240


class StepKind(StrEnum):
    """What a step is: a fault that rows link with the rest, one that was only in force; the decision that contradicted
    a promise; what the system did; what came of it."""

    FAULT = "fault"
    MEANWHILE = "meanwhile"
    WHY = "why"
    REACTION = "reaction"
    OUTCOME = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, in seconds since the load began (None: not known). ``decided``: the methods of the system's code that
    took the decision, as ``Class.method``, where that is known; ``row``: its row in the history, -1 for none.
    ``label``: its kind for people."""

    kind: StepKind
    at_s: float | None
    text: str
    decided: tuple[str, ...] = ()
    row: int = -1
    is_loss: bool = False

    @property
    def label(self) -> str:
        return "outcome" if self.kind is StepKind.OUTCOME and not self.is_loss else str(self.kind)

    @property
    def json(self) -> dict[str, Any]:
        """The step as ``--json`` prints it."""
        at_s = None if self.at_s is None else round(self.at_s, 6)
        decided = {"decided_by": list(self.decided)} if self.kind is StepKind.WHY else {}
        return {"kind": str(self.kind), "at_s": at_s, "text": self.text, **decided}


def chain(cause: Cause, explanation: Explanation | None) -> list[Step]:
    """Return the steps of a cause in their order. ``explanation``: of one of its violations, if any has one. A step
    :attr:`StepKind.WHY` is always there, and says so where rows show no reason; but not after a power cut, which says
    itself what it took."""
    faults = list(_faults(cause))
    why = why_of(explanation)
    known = [*_reaction(cause.change), *_outcome(cause, explanation, why)]
    unknown = (
        [] if why or cause.power else [Step(kind=StepKind.WHY, at_s=None, text=_acknowledged_alone(cause) or NOT_KNOWN)]
    )
    known += [why] if why else []
    known.sort(key=lambda step: (step.at_s is None, step.at_s, step.kind is StepKind.OUTCOME))
    at = next((place for place, step in enumerate(known) if step.kind is StepKind.OUTCOME), len(known))
    return [*faults, *known[:at], *unknown, *known[at:]]


def _acknowledged_alone(cause: Cause) -> str:
    """Say what rows show of a message that a deposed master had acknowledged; "" where that is not the cause."""
    before = cause.change.before if cause.change and cause.deposed else None
    if before is None:
        return ""
    return f"{before.node} had acknowledged it, and no reader was given it once {before.node} was no longer master"


def why_of(explanation: Explanation | None) -> Step | None:
    """Return the first step of a sequence that contradicts a promise by itself; None where there is none."""
    wrong = wrong_of(explanation)
    if wrong is None:
        return None
    decided = () if wrong.unplaced else wrong.decided
    text = shown(wrong.why.rstrip("."))
    return Step(kind=StepKind.WHY, at_s=wrong.at_s, text=text, decided=decided, row=wrong.rows[0])


def wrong_of(explanation: Explanation | None) -> Arrow | None:
    """Return the first event that contradicts a promise by itself."""
    return next((arrow for arrow in explanation.arrows if arrow.why), None) if explanation else None


def shown(text: str) -> str:
    """Return words for people: long numbers grouped, long texts cut."""
    whole = grouped(text)
    return whole if len(whole) <= WORDS else whole[: WORDS - 1] + "…"


def grouped(text: str) -> str:
    """Return a text with commas in its long numbers, but not in names."""
    return re.sub(r"(?<![\w./-])\d{5,}(?![\w/]|\.\d)", lambda found: f"{int(found[0]):,}", text)


def _briefly(text: str) -> str:
    """Return what a law says; of a long story its beginning and its last event."""
    head, colon, rest = text.partition(": ")
    last = rest.rpartition("; then ")[2]
    return f"{head}: … then {last}" if colon and len(text) > WORDS and len(last) < len(rest) else text


def _faults(cause: Cause) -> Iterator[Step]:
    if cause.power is not None:
        yield Step(kind=StepKind.FAULT, at_s=cause.power.asked_s, text=took(cause.power))
    elif cause.faults and cause.proven:
        fault = cause.faults[0]
        yield Step(kind=StepKind.FAULT, at_s=fault.asked_s, text=_deed(fault, cause.change))
    elif cause.faults:
        first, *others = [f"{named_fault(one)} (to {one.end_s:.1f} s)" for one in cause.faults[:NAMED]]
        texts = [first, *(other[0].lower() + other[1:] for other in others)]
        more = len(cause.faults) - NAMED
        text = joined([*texts, *([numbered(more, "more fault")] if more > 0 else [])])
        yield Step(kind=StepKind.MEANWHILE, at_s=cause.faults[0].asked_s, text=text)
    elif cause.always:
        yield Step(kind=StepKind.MEANWHILE, at_s=None, text="It also shows while no fault is in force")


def _deed(fault: FaultLine, change: EpochChange | None) -> str:
    """Say what a fault did, and that it hit the master."""
    before = change.before if change else None
    hit = before is not None and before.node in fault.targets.split(", ")
    return named_fault(fault) + (f"; {_as_master(before)}" if hit and before else "")


def _as_master(term: MasterTerm) -> str:
    return f"{term.node} was the master" + (f" of epoch {term.epoch}" if term.epoch >= 0 else "")


def _reaction(change: EpochChange | None) -> Iterator[Step]:
    if change is None or change.after is None:
        return
    after = change.after
    text = f"{after.node} becomes master" + (f" in epoch {after.epoch}" if after.epoch >= 0 else "")
    if change.two_masters_s > 0:
        text += f"; two masters for {seconds(change.two_masters_s)}"
    yield Step(kind=StepKind.REACTION, at_s=change.at_s, text=text)


def _outcome(cause: Cause, explanation: Explanation | None, why: Step | None) -> Iterator[Step]:
    """Yield what came of it: lost ends of logs with what is gone, or the violation in its law's words."""
    if cause.tails:
        cuts = [
            f"{tail.node} {'cuts {} off its log' if tail.cut else 'comes back without {}'}".format(
                numbered(tail.records, "record")
            )
            for tail in cause.tails[:NAMED]
        ]
        yield Step(
            kind=StepKind.OUTCOME, at_s=cause.tails[-1].at_s, text=f"{joined(cuts)}; {gone(cause)}", is_loss=True
        )
        return
    name = worst({violation.anomaly.name: 1 for violation in cause.violations})
    found = next((one.anomaly for one in cause.violations if one.anomaly.name == name), None)
    if explanation is not None and (found is None or not found.rows):
        text = explanation.text
    else:
        text = found.explanation if found else ""
    text = shown(_briefly(text.rstrip(".")))
    if text and (why is None or text != why.text):
        own = set(found.rows) if found is not None and found.rows else None
        arrows = [arrow for arrow in explanation.arrows if arrow.named] if explanation else []
        named = [arrow.at_s for arrow in arrows if own is None or own.intersection(arrow.rows)]
        yield Step(kind=StepKind.OUTCOME, at_s=max(named, default=None), text=text)
