"""The page ``benchmarks/results/coverage.md``: first the figures, then what was seen, then what never was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.coverage.branches import Branch, branches
from benchmarks.coverage.moments import Meeting, Phase

INTRODUCTION = """\
# What the storms reach

A law can only find what a storm brings about. `python -m benchmarks.coverage --seeds A..B --write` runs the examples in
the simulator and makes this page: which branches of the reference system's policy ran, which faults met which roles
in which phase, which goals were reached; and, more important, what never was. It is no proof of anything: a branch
that ran may have run where nothing depended on it.
"""


@dataclass(slots=True, kw_only=True)
class Totals:
    """In how many of the ``runs`` each thing was seen."""

    runs: int
    examples: tuple[str, ...]
    branches: Counter[Branch] = field(default_factory=Counter)
    meetings: Counter[Meeting] = field(default_factory=Counter)
    goals: Counter[str] = field(default_factory=Counter)


def write(totals: Totals, seeds: range, texts: Mapping[str, str], commit: str) -> str:
    """``texts``: the policy's files and what stands in them at ``commit``."""
    known = [branch for file, text in texts.items() for branch, _ in branches(file, text)]
    ran = sum(bool(totals.branches[branch]) for branch in known)
    lines = [
        INTRODUCTION,
        f"{totals.runs} runs of {len(totals.examples)} examples, with the seeds {seeds[0]} to {seeds[-1]} each; commit"
        f" {commit or '?'}, which the numbers of lines belong to.",
        "",
        f"{ran} of {len(known)} branches ran ({ran * 100 // max(1, len(known))} %).",
        "",
        *("## Branches", "", "An `if` has two: its condition held, or it didn't.", ""),
        *_files(totals, texts),
        *("", "### Never", "", "| where | condition | never |", "|---|---|---|"),
        *(
            f"| `{one.file}:{one.line}` | `{_cell(one.condition)}` | {'held' if one.held else 'failed'} |"
            for one in known
            if not totals.branches[one]
        ),
        *("", "## Faults, roles and phases", ""),
        "In how many runs a fault that hit a node of this role overlapped the phase; `–`: never.",
        "",
        *_meetings(totals),
        *("", "## Goals", "", "| goal | runs that reached it |", "|---|---|"),
        *(f"| `{goal}` | {totals.goals[goal] or '–'} |" for goal in sorted(totals.goals)),
    ]
    return "\n".join(lines) + "\n"


def _files(totals: Totals, texts: Mapping[str, str]) -> Iterator[str]:
    yield "| file | branches | ran | ran in every run | ran in one run only |"
    yield "|---|---|---|---|---|"
    for file, text in texts.items():
        own = [totals.branches[branch] for branch, _ in branches(file, text)]
        if own:
            ran, always, once = sum(map(bool, own)), own.count(totals.runs), own.count(1)
            yield f"| `{file}` | {len(own)} | {ran} | {always} | {once} |"


def _meetings(totals: Totals) -> Iterator[str]:
    yield f"| fault | role | {' | '.join(Phase)} |"
    yield "|---|---|" + "---|" * len(Phase)
    for fault, role in sorted({(one.fault, one.role) for one in totals.meetings}):
        cells = [totals.meetings[Meeting(fault=fault, role=role, phase=phase)] for phase in Phase]
        yield f"| `{fault}` | {role} | {' | '.join(str(cell or '–') for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
