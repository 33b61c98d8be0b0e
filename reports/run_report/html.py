"""One self-contained HTML page about a run: what happened and why, the time axis, and how to run it again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from chaos import guarded
from chaos.history.directory import EXPERIMENT
from chaos.verdict import Anomaly, RunVerdict, Validity
from reports.moments.kept import kept
from reports.parts import Parts
from reports.run_report.acts import acts
from reports.run_report.axis import Axis
from reports.run_report.cards import cards
from reports.run_report.chain import grouped
from reports.run_report.diagnosis import Diagnosis
from reports.run_report.figure import Figure, axis_of, draw
from reports.run_report.first_screen import FirstScreen
from reports.run_report.judged import JudgedRun
from reports.run_report.lags import lags
from reports.run_report.master_terms import master_terms, two_masters
from reports.run_report.promises import Promises, promises
from reports.run_report.shrunk import shrunk
from reports.run_report.states import as_json, states
from reports.run_report.storage import storage_story
from reports.run_report.story import environment
from reports.templates import template
from reports.timeline.from_run import background
from reports.timeline.page import digest, part

#: Calls of the timeline that one page holds; each takes about 50 bytes of it.
CALLS = 2_500
#: Promises about when something happens: the panels that show that are open when one is broken.
ABOUT_TIME = {"availability", "progress", "controllers"}
#: The parts of the page's script.
SCRIPTS = ("report_axis.js", "report_strips.js")


def write(run: Path, judged: JudgedRun, screen: FirstScreen) -> Path:
    """Write ``report.html`` into the run directory and return its path. ``screen``: what stands first."""
    verdict, meta, story, objects = judged.verdict, judged.history.meta, judged.story, judged.objects
    broken = verdict.violations
    shown = cards(judged, kept(run, broken))
    marks = [(card["number"], one["at_s"]) for card in shown for one in card["occurrences"] if one["at_s"] is not None]
    figure, script = figure_of(judged, axis_of(story), marks), script_of(*SCRIPTS)
    page = template("run_report/report.html.j2").render(
        verdict=verdict,
        screen=screen,
        qualifiers=coded("; ".join(verdict.qualifiers)),
        coded=coded,
        unbroken=unbroken,
        promises=promises_of(verdict, screen),
        meta=meta,
        replay=meta.replay_command,
        environment=environment(meta),
        experiment=_experiment(run),
        damage=judged.found.drawn.damage,
        shrunk=shrunk(run),
        story=story,
        cards=shown,
        allowed=_allowed([one for one in verdict.findings if one.lawful]),
        figure=draw(story, figure),
        states=as_json(states(judged.history, story, axis_of(story), marks, figure.storage)),
        style=Markup(_file("report.css")),
        script=script,
        script_hash=digest(script),
        timeline=part(list(objects.values()), background(story), calls=CALLS, unit="row") if objects else None,
        meta_json=json.dumps(meta.json, indent=2, sort_keys=True),
    )  # fmt: skip
    path = run / "report.html"
    guarded.replace(path, page.encode())  # a full disk must not leave half a page
    return path


def promises_of(verdict: RunVerdict, screen: FirstScreen) -> Promises:
    """Return the promises of a run as its page shows them."""
    return promises(verdict, _by_policy(verdict), _reasons(screen.diagnosis))


def _by_policy(verdict: RunVerdict) -> dict[str, Markup]:
    """Return what each law found that the profile permits, or the experiment waives."""
    found: dict[str, list[str]] = {}
    for one in verdict.permitted:
        found.setdefault(one.law, []).append(one.words)
    for waived in verdict.waived:
        for law in sorted({anomaly.law for anomaly in verdict.findings if anomaly.name == waived.anomaly}):
            found.setdefault(law, []).append(waived.words)
    return {law: coded("; ".join(words)) for law, words in found.items()}


def _reasons(found: Diagnosis | None) -> dict[str, list[str]]:
    """Return why promises are UNKNOWN beside what concerns the whole run."""
    by_law: dict[str, list[str]] = {}
    for reason in found.reasons if found else ():
        for law in reason.promises:
            by_law.setdefault(law, []).append(reason.text)
    return by_law


def _allowed(findings: Sequence[Anomaly]) -> list[dict[str, Any]]:
    """Return what was found and is not a violation: of each kind, and each policy that permits it or reason for which
    it is waived, how many there are and those that are listed one by one."""
    found: dict[tuple[str, str, str, str], list[Anomaly]] = {}
    for anomaly in findings:
        found.setdefault((anomaly.law, anomaly.name, anomaly.policy, anomaly.waived), []).append(anomaly)
    return [
        {
            "law": law,
            "name": name,
            "policy": coded(policy),
            "waived": waived,
            "count": sum(one.count for one in each),
            "explanations": [one.explanation for one in each],
        }
        for (law, name, policy, waived), each in found.items()
    ]


def unbroken(text: str) -> str:
    """Return a text with its long numbers grouped, and no line between a number and its unit."""
    return re.sub(r"(\d) (m?s)\b", "\\1\N{NO-BREAK SPACE}\\2", grouped(text))


def coded(text: str) -> Markup:
    """Return a text in which what stands between backquotes is code."""
    pieces = [
        Markup("<code>{}</code>").format(one) if odd % 2 else escape(one) for odd, one in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


def figure_of(run: JudgedRun, axis: Axis, marks: Sequence[tuple[int, float]]) -> Figure:
    """Return what an axis shows of a run besides its story."""
    story = run.story
    overall, replicas = run.found.fates
    terms = master_terms(run.history, story.faults)
    broken = {law.law for law in run.verdict.laws if law.validity is Validity.INVALID}
    return Figure(
        marks=marks,
        fates=overall,
        replicas=replicas,
        lags=lags(run.history, terms),
        two_masters=two_masters(terms),
        acts=acts(run.verdict.laws, story, overall, Parts(axis.left_s, axis.right_s)),
        storage=storage_story(run.history, story.faults),
        controllers_first=bool(run.objects),
        opened=bool(broken & ABOUT_TIME),
    )


def script_of(*names: str) -> Markup:
    """Return the script of a page, made of these files."""
    return Markup("(() => {\n" + "\n".join(map(_file, names)) + "})();")


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _experiment(run: Path) -> str:
    """Return the experiment as it ran; "" where the run doesn't hold it."""
    try:
        return guarded.read(run / EXPERIMENT).decode("utf-8", "replace")
    except OSError:
        return ""
