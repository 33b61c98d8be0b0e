"""A finding in Markdown, to be pasted into an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reports.finding.model import Finding
from reports.markdown import code, escaped
from reports.printable import document
from reports.run_report.chain import Step


def markdown(finding: Finding) -> str:
    """Return the page of one cause, without its picture."""
    return "\n".join(_lines(finding)) + "\n"


def _lines(finding: Finding) -> Iterator[str]:
    yield f"# {escaped(finding.title)}"
    yield from ("", f"{escaped(finding.sentence)}.", "", *(f"1. {escaped(_step(step))}" for step in finding.chain), "")
    yield from (f"* {name}: {code(value)}" for name, value in finding.facts)
    found, whole = finding.often
    yield f"* seen in {found} of {whole} judged run{'' if whole == 1 else 's'} of this experiment"
    yield f"* cause {finding.number} of {finding.of} of this run"
    yield from ("", "## Run it again", "", *_fenced(finding.replay, "sh"))
    yield from ("", "## What happened", "", "| second | who | what |", "|---|---|---|")
    yield from (f"| {one.at_s:.3f} | {escaped(one.lane)} | {escaped(one.text)} |" for one in finding.events)
    yield from ("", "## What was broken", "")
    yield from (f"* {count:,} × **{escaped(name)}** ({escaped(law)})" for law, name, count in finding.kinds)
    for _, words, rows in finding.quoted:
        yield from ("", f"> {escaped(words)} (rows {', '.join(map(str, rows))})")
    yield from ("", "## What the nodes reported at those moments")
    for node, traced in finding.traced.items():
        lines = "\n".join(f"{one.at_s:10.3f} s  {one.what}" for one in traced)
        yield from ("", f"{escaped(node)}:", "", *_fenced(lines, ""))
    if finding.logs:
        yield from ("", f"Logs in the run's directory: {', '.join(map(code, finding.logs))}")
    yield from ("", "## What is not known", "", *(f"* {escaped(one)}" for one in finding.unknown or ["Nothing more."]))
    versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
    yield from ("", "## Experiment", "", *_fenced(finding.experiment, "yaml"))
    yield from ("", "## Configuration and versions", "", escaped(versions), "", *_fenced(finding.configuration, "json"))


def _step(step: Step) -> str:
    at = "" if step.at_s is None else f"{step.at_s:.3f} s, "
    decided = f", decided by {' or '.join(step.decided)}" if step.decided else ""
    return f"{at}{step.label}: {step.text}{decided}"


def _fenced(text: str, language: str) -> list[str]:
    """Return a block of code, whatever backquotes are in it."""
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return [f"{fence}{language}", document(text).rstrip("\n"), fence]
