"""What the first screen of a report says, as data: the page, the terminal and ``--json`` show the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.history.run_meta import SIMULATED, RunMeta
from chaos.verdict import RunVerdict, Validity
from reports.fault_latency import FaultLatency
from reports.printable import argument
from reports.run_report.cause_groups import CauseGroup, began_s
from reports.run_report.chain import NOT_KNOWN, Step, StepKind
from reports.run_report.diagnosis import Diagnosis, diagnosis
from reports.run_report.headlines import headline
from reports.run_report.judged import JudgedRun
from reports.run_report.story import facts, numbered, profile_words
from reports.summary import OBJECT_LABELS, Story

#: So many further occurrences of a cause are named.
AGAIN = 4
#: So many seeds are proposed after one that was VALID.
SEEDS = "0..19"
#: With fewer operations, or without a fault, what was kept says little.
FEW = 100
#: Roles of nodes as people write them.
ROLES = {"objectstore": "object store", "nameserver": "name server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A command to copy, and what it does in a few words."""

    command: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreen:
    """``title`` says what happened, ``counts`` stand beside the verdict, ``tested`` says what was tested. ``chain``:
    the steps of the first cause, and ``again`` where else it struck; ``more``: how many other causes there are.
    ``strength``: on how much a VALID rests. ``diagnosis``: of an UNKNOWN run. ``proposals``: what to do next.
    ``latencies``: of acknowledged sends around each fault."""

    verdict: Validity
    title: str
    counts: Sequence[str]
    tested: Sequence[str]
    chain: Sequence[Step] = ()
    again: Sequence[str] = ()
    also: Sequence[str] = ()
    more: int = 0
    strength: str = ""
    diagnosis: Diagnosis | None = None
    proposals: Sequence[Proposal] = ()
    latencies: Sequence[FaultLatency] = ()

    @property
    def json(self) -> dict[str, Any]:
        """The screen as ``--json`` prints it."""
        return {
            "title": self.title,
            "counts": list(self.counts),
            "tested": list(self.tested),
            "chain": [step.json for step in self.chain],
            "again": list(self.again),
            "also": list(self.also),
            "more_causes": self.more,
            "strength": self.strength,
            "diagnosis": self.diagnosis.json if self.diagnosis else None,
            "next": [{"command": one.command, "what": one.what} for one in self.proposals],
            "latency": [one.json for one in self.latencies],
        }


def first_screen(run: JudgedRun) -> FirstScreen:
    """Return the first screen of a judged run."""
    verdict, meta, causes = run.verdict, run.history.meta, run.causes
    invalid = verdict.validity is Validity.INVALID and causes
    return FirstScreen(
        verdict=verdict.validity,
        title=headline(verdict, run.story),
        counts=list(_counts(verdict, run.story)),
        tested=list(_tested(meta, verdict, run.story)),
        chain=_chain(causes) if invalid else (),
        again=_again(causes[0]) if invalid else (),
        also=causes[0].also if invalid else (),
        more=len(causes) - 1 if invalid else 0,
        strength=_strength(run.story) if verdict.validity is Validity.VALID else "",
        diagnosis=diagnosis(verdict) if verdict.validity is Validity.UNKNOWN else None,
        proposals=list(_proposals(verdict, meta)),
        latencies=run.story.fault_latencies,
    )


def _chain(causes: Sequence[CauseGroup]) -> list[Step]:
    """Return the steps of the first cause; where no row says why, with the first decision before its outcome that broke
    another promise."""
    steps = causes[0].chain
    ends = [step.at_s for step in steps if step.kind is StepKind.OUTCOME and step.at_s is not None]
    others = [(step, number) for number, cause in enumerate(causes[1:], 2) for step in cause.chain]
    made = [(step.at_s, number, step) for step, number in others if step.kind is StepKind.WHY and step.at_s is not None]
    at_s, number, before = min(made, default=(None, 0, None), key=lambda one: one[:2])
    if before is None or at_s is None or (ends and at_s > min(ends)):
        return steps
    text = f"{NOT_KNOWN}. Before it, at {at_s:.3f} s (cause {number}): {before.text}"
    return [replace(step, text=text) if step.text == NOT_KNOWN else step for step in steps]


def _counts(verdict: RunVerdict, story: Story) -> Iterator[str]:
    judged = [law for law in verdict.laws if law.validity is not Validity.NOT_APPLICABLE]
    broken = sum(law.validity is Validity.INVALID for law in judged)
    unknown = sum(law.validity is Validity.UNKNOWN for law in judged)
    if broken:
        yield f"{broken} of {numbered(len(judged), 'promise')} broken"
    if unknown:
        yield f"{unknown} of {numbered(len(judged), 'promise')} can't be judged"
    if not broken and not unknown:
        yield f"{numbered(len(judged), 'promise')} kept"
    if story.faults:
        effective = sum(fault.effective == "yes" for fault in story.faults)
        unproven = sum(fault.effective == "unproven" for fault in story.faults)
        but = f", {unproven} unproven" if unproven else ""
        yield f"{effective} of {numbered(len(story.faults), 'fault')} took effect{but}"


def _strength(story: Story) -> str:
    """Return on how much a VALID rests, and that it is weak where that is little."""
    counts = story.counts
    operations = counts.get("acknowledged writes", sum(counts.get(name, 0) for name in OBJECT_LABELS.values()))
    noun = "write" if "acknowledged writes" in counts else "answered call"
    faults, masters = counts.get("effective faults", 0), counts.get("master terms", 0)
    parts = [numbered(operations, noun), numbered(faults, "fault"), *([numbered(masters, "master")] if masters else [])]
    weak = operations < FEW or not faults
    return f"{'weak: ' if weak else ''}{', '.join(parts)}"


def _tested(meta: RunMeta, verdict: RunVerdict, story: Story) -> Iterator[str]:
    """Yield what was tested: the system in its version, a planted bug, its size, the load, its profile, where and
    when."""
    yield dict(facts(meta, verdict.seed)).get("system", "unknown system")
    if meta.mutant:
        yield f"planted bug {meta.mutant}"
    roles: dict[str, int] = {}
    for node in meta.nodes:
        roles[node.role] = roles.get(node.role, 0) + 1
    if roles:
        yield ", ".join(numbered(number, ROLES.get(role, role)) for role, number in roles.items())
    if profile := profile_words(meta):
        yield profile
    if meta.duration_s:
        yield f"{meta.duration_s:g} s of load"
    if "acknowledged writes" in story.counts:
        yield numbered(story.counts["acknowledged writes"], "acknowledged write")
    if not meta.imported:
        yield f"seed {verdict.seed}" + (f" on {meta.deployment}" if meta.deployment else "")
    if meta.started:
        yield meta.started[:16].replace("T", " ") + (" UTC" if meta.started.endswith("+00:00") else "")


def _again(group: CauseGroup) -> list[str]:
    """Return when the cause struck again."""
    moments = [f"{at:.1f} s" for cause in group.occurrences if (at := began_s(cause)) is not None]
    words = [*dict.fromkeys(moments)][1:]
    return words if len(words) <= AGAIN else [*words[:AGAIN], f"{len(words) - AGAIN} more times"]


def _proposals(verdict: RunVerdict, meta: RunMeta) -> Iterator[Proposal]:
    name = shlex.quote(argument(meta.run or verdict.run))
    exact = meta.deployment == SIMULATED
    again = Proposal(
        command=f"stormproof replay {name}", what="the same run, byte for byte" if exact else "the same schedule again"
    )
    match verdict.validity:
        case Validity.INVALID:
            yield Proposal(command=f"stormproof explain {name}", what="the events behind it")
            if not meta.imported:
                yield Proposal(command=f"stormproof shrink {name}", what="the smallest failing run")
                yield again
            yield Proposal(command=f"stormproof report {name} --as finding", what="a page for an issue")
        case Validity.VALID:
            seed = f"--seed {verdict.seed}"
            if exact and meta.replay_command.startswith("stormproof run ") and seed in meta.replay_command:
                more = meta.replay_command.replace(seed, f"--seeds {SEEDS}", 1)
                yield Proposal(command=more, what="twenty other histories")
            if not meta.imported:
                yield again
        case _ if meta.imported:
            yield Proposal(command="stormproof import --help", what="say what the history does not")
        case _:
            yield Proposal(command=again.command, what="record it again")
            yield Proposal(command=f"stormproof check {name}", what="judge it again")
            yield Proposal(command="stormproof doctor", what="what this machine can do")
