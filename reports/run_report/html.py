"""One self-contained HTML page about a run: the verdict, why, the time axis, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from chaos import guarded
from chaos.history.directory import EXPERIMENT
from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly, RunVerdict, Validity
from reports.explanation.subject import WITNESSES
from reports.moments import picture
from reports.moments.curve import Curve
from reports.moments.kept import kept
from reports.run_report import strip_svg
from reports.run_report.causes import Cause, group
from reports.run_report.explained import WORDS, Explained, explained, subjects
from reports.run_report.fates import Fates
from reports.run_report.figure import Figure, axis_of, draw
from reports.run_report.gathered import gather, with_details
from reports.run_report.lags import lags
from reports.run_report.master_terms import master_terms
from reports.run_report.run_summary import Summarised
from reports.run_report.shrunk import shrunk
from reports.run_report.states import states
from reports.run_report.story import calm, environment, facts, message_name, sentence, title
from reports.run_report.strip import strip
from reports.summary import Story, Witness, fault_lines, summarise
from reports.templates import template
from reports.timeline.from_run import background, timelines
from reports.timeline.model import ObjectTimeline
from reports.timeline.page import digest, graph, part
from reports.timeline.static import draw as static_timeline

#: A page quotes at most this many rows behind one anomaly.
WITNESS_ROWS = 12
#: Calls of the timeline that one page holds; each takes about 50 bytes of it.
CALLS = 2_500
#: The parts of the page's script.
SCRIPTS = ("report_axis.js", "report_strips.js")
#: So many causes have a strip of their own.
STRIPS = 20


def write(run: Path, verdict: RunVerdict, meta: RunMeta, summarised: Summarised | None = None) -> Path:
    """Write ``report.html`` into the run directory and return its path. ``summarised``: what a large run came to when
    it was judged."""
    broken = verdict.violations
    quoted = {index for anomaly in verdict.findings for index in anomaly.rows[:WITNESS_ROWS]}
    followed = {index for anomaly in broken for index in anomaly.rows[:WITNESSES]}
    found = gather(run, quoted | followed, broken, summarised)
    drawn = found.drawn
    objects = timelines(drawn, broken)
    causes = group(drawn, fault_lines(drawn), broken, alone=objects)
    history = with_details(found, causes[:STRIPS], subjects(causes, drawn))
    why = explained(causes, broken, history)
    operations = found.operations
    story = summarise(history, quoted.union(*(one.rows for one in why.values())), operations)
    cards = [_card(number, cause, history, story, objects, why.get(number)) for number, cause in enumerate(causes, 1)]
    curves = kept(run, broken)
    for card, cause in zip(cards, causes, strict=True):
        card["curves"] = [_curve(curves[one.place + 1]) for one in cause.violations if one.place + 1 in curves]
    marks = {card["number"]: card["at_s"] for card in cards if card["at_s"] is not None}
    script = "(() => {\n" + "\n".join(_file(name) for name in SCRIPTS) + "})();"
    page = template("run_report/report.html.j2").render(
        verdict=verdict,
        line=verdict.line,
        qualifiers=coded("; ".join(verdict.qualifiers)),
        by_policy=_by_policy(verdict),
        not_judged=_not_judged(verdict),
        weaker="" if meta.promises.strict else meta.promises.words,
        meta=meta,
        replay=meta.replay_command,
        facts=facts(meta, verdict.seed),
        environment=environment(meta),
        experiment=_experiment(run),
        damage=drawn.damage,
        shrunk=shrunk(run),
        story=story,
        calm=calm(story),
        cards=cards,
        lost_in_all=sum(len(cause.acknowledged) for cause in causes) if len([c for c in causes if c.tails]) > 1 else 0,
        violations=sum(anomaly.count for anomaly in broken),
        broken=list(dict.fromkeys(anomaly.law for anomaly in broken)),
        allowed=_allowed([one for one in verdict.findings if one.lawful]),
        figure=_figure(found.fates, history, story, marks, broken, about_objects=bool(objects)),
        states=Markup(states(history, story, axis_of(story), marks)),
        style=Markup(_file("report.css")),
        script=Markup(script),
        script_hash=digest(script),
        timeline=part(list(objects.values()), background(story), calls=CALLS, unit="row") if objects else None,
        meta_json=json.dumps(meta.json, indent=2, sort_keys=True),
    )  # fmt: skip
    path = run / "report.html"
    guarded.replace(path, page.encode())  # a full disk must not leave half a page
    return path


def _by_policy(verdict: RunVerdict) -> dict[str, Markup]:
    """Return what each law found that the profile permits."""
    found: dict[str, list[str]] = {}
    for one in verdict.permitted:
        found.setdefault(one.law, []).append(one.words)
    return {law: coded("; ".join(words)) for law, words in found.items()}


def _not_judged(verdict: RunVerdict) -> str:
    """Say how much of the promises was not judged."""
    whole = sum(law.validity is Validity.NOT_APPLICABLE for law in verdict.laws)
    parts = sum(len(law.unjudged) for law in verdict.laws)
    said = [f"{whole} of {len(verdict.laws)} promises"] if whole else []
    said += [f"{parts} part{'' if parts == 1 else 's'} of {'the others' if whole else 'promises'}"] if parts else []
    return " and ".join(said) or "some"


def _allowed(findings: Sequence[Anomaly]) -> list[dict[str, Any]]:
    """Return what was found and is not a violation: of each kind, and each policy that permits it, how many there are
    and those that are listed one by one."""
    found: dict[tuple[str, str, str], list[Anomaly]] = {}
    for anomaly in findings:
        found.setdefault((anomaly.law, anomaly.name, anomaly.policy), []).append(anomaly)
    return [
        {
            "law": law,
            "name": name,
            "policy": coded(policy),
            "count": sum(one.count for one in each),
            "explanations": [one.explanation for one in each],
        }
        for (law, name, policy), each in found.items()
    ]


def coded(text: str) -> Markup:
    """Return a text in which what stands between backquotes is code."""
    pieces = [
        Markup("<code>{}</code>").format(one) if odd % 2 else escape(one) for odd, one in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


def _figure(
    of_messages: Fates,
    history: History,
    story: Story,
    marks: Mapping[int, float],
    broken: Sequence[Anomaly],
    *,
    about_objects: bool,
) -> Markup:
    found: dict[str, list[Anomaly]] = {}
    for anomaly in broken:
        found.setdefault(anomaly.name, []).append(anomaly)
    seconds = {
        name: [story.witnesses[row].at_s for one in each for row in one.rows[-1:] if row in story.witnesses]
        for name, each in found.items()
    }
    overall, replicas = of_messages
    figure = Figure(
        marks=marks,
        fates=overall,
        replicas=replicas,
        lags=lags(history, master_terms(history, story.faults)),
        found=[(name, sum(one.count for one in each), seconds[name]) for name, each in found.items()],
        controllers_first=about_objects,
    )
    return draw(story, figure)


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _experiment(run: Path) -> str:
    """Return the experiment as it ran; "" where the run doesn't hold it."""
    try:
        return guarded.read(run / EXPERIMENT).decode("utf-8", "replace")
    except OSError:
        return ""


def _card(
    number: int,
    cause: Cause,
    history: History,
    story: Story,
    objects: Mapping[int, ObjectTimeline],
    why: Explained | None,
) -> dict[str, Any]:
    """Return what the page shows of one cause. Only the first violations of each kind are shown with their rows."""
    drawn = strip(cause, history) if number <= STRIPS else None
    alone = next((objects[violation.place] for violation in cause.violations if violation.place in objects), None)
    found = [{**_finding(v.anomaly, story), "first": False} for v in cause.violations]
    for kind in cause.kinds:
        next(one for one in found if (one["law"], one["name"]) == (kind.law, kind.name))["first"] = True
    at_s = found[0]["at_s"] if found else None
    return {
        "number": number,
        "title": title(cause),
        "sentence": sentence(cause),
        "example": message_name(cause.example[0]) if cause.example is not None else "",
        "kinds": cause.kinds,
        "lossy": bool(cause.acknowledged or cause.read),
        "strip": strip_svg.draw(drawn, number) if drawn is not None and alone is None else None,
        "findings": found,
        "why": why,
        "why_rows": [_quoted(story.witnesses[row]) for row in why.rows if row in story.witnesses] if why else [],
        "at_s": cause.change.at_s if cause.change is not None else at_s,
        **_drawn(alone, number),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    """Show when a violation became inevitable, where that was measured."""
    return {"curve": curve, "picture": picture.draw(curve)}


def _quoted(row: Witness) -> Witness:
    """Shorten a row beside a picture that shows most of it already."""
    return row if len(row.detail) <= WORDS else replace(row, detail=row.detail[: WORDS - 1] + "…")


def _drawn(timeline: ObjectTimeline | None, number: int) -> dict[str, Any]:
    if timeline is None:
        return {"timeline": None, "graph": None, "key": "", "contradiction": ""}
    return {
        "timeline": static_timeline(timeline, f"calls-{number}"),
        "graph": graph(timeline, f"order-{number}"),
        "key": timeline.key,
        "contradiction": _contradiction(timeline),
    }


def _contradiction(timeline: ObjectTimeline) -> str:
    """Say why the last call of the minimal witness can't come after the others; "" where several could be last."""
    last = max(timeline.minimal, default=-1)
    reasons = {order.illegal.get(last, "") for order in timeline.minimal_orders}
    return reasons.pop() if len(reasons) == 1 and last == timeline.blocked else ""


def _finding(anomaly: Anomaly, story: Story) -> dict[str, Any]:
    witnesses: Sequence[Any] = [
        story.witnesses[index] for index in anomaly.rows[:WITNESS_ROWS] if index in story.witnesses
    ]
    return {
        "law": anomaly.law,
        "name": anomaly.name,
        "explanation": anomaly.explanation,
        "count": anomaly.count,
        "rows": sorted(anomaly.rows[:WITNESS_ROWS]),
        "more": max(0, len(anomaly.rows) - len(witnesses)),
        "witnesses": witnesses,
        "at_s": witnesses[-1].at_s if witnesses else None,
    }
