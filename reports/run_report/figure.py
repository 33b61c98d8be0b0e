"""The time axis of a report, on top: below it faults, roles, fates and throughput; latency and lags on demand.

What stands here is a picture that needs no script; ``report_axis.js`` adds zoom and cursor to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from reports import svg
from reports.drawn import drawn_s
from reports.faults import FaultLine
from reports.run_report import axis as draw_axis
from reports.run_report import labels
from reports.run_report.acts import Acts
from reports.run_report.axis import LANE, USUAL, Axis, Panel, bar, hollow, mark, moments, shade, stretched, ticks
from reports.run_report.curves import LANES, each_piece, latency, replica_lags, throughput
from reports.run_report.fates import Fate, ReplicaFate
from reports.run_report.lags import Lag
from reports.run_report.storage import SealedSegments, StorageStory
from reports.summary import Bar, Story

#: Lanes of queues and clients without service.
OUTAGES = 6
#: Up to so many messages each has a dot of its own.
DOTS = 4000
#: So many waits of segments for the tier are drawn, the longest ones.
WAITS = 100
#: Pixels from one number of a cause to the next, at least.
BESIDE = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """All that the axis shows besides the story. ``marks``: the number of each cause, and a second at which it struck;
    ``acts``: the violations, by kind; ``two_masters``: from when to when there were two; ``storage``: what happened to
    slices and groups; ``controllers_first``: the run is about what the controllers agreed on; ``opened``: a broken
    promise is about what is folded else."""

    marks: Sequence[tuple[int, float]]
    fates: Sequence[Fate] = ()
    replicas: Sequence[ReplicaFate] = ()
    lags: Sequence[Lag] = ()
    acts: Sequence[Acts] = ()
    two_masters: Sequence[tuple[float, float]] = ()
    storage: StorageStory = field(default_factory=StorageStory)
    controllers_first: bool = False
    opened: bool = False


def axis_of(story: Story) -> Axis:
    """Return the axis: the seconds that the pictures show."""
    drain = next((phase.start_s for phase in story.phases if phase.kind == "drain"), float("inf"))
    left, right = drawn_s([phase.start_s for phase in story.phases], drain, story.duration_s)
    return Axis(left_s=left, right_s=right)


def draw(story: Story, figure: Figure) -> Markup:
    """Return the seconds and the panels below them as HTML."""
    axis = axis_of(story)
    lanes = draw_panels(axis, story, figure)
    return head(axis, figure.marks) + lanes if lanes else svg.element("p", "Nothing was recorded")


def head(axis: Axis, marks: Sequence[tuple[int, float]] = ()) -> Markup:
    """Return what stays on top: the numbers of the causes, and the seconds."""
    return svg.element("div", _causes(axis, marks), _seconds(axis), class_="axis-head")


def draw_panels(axis: Axis, story: Story, figure: Figure, name: str = "") -> Markup:
    """Return the panels of a run as HTML; nothing of one that recorded nothing. ``name``: of the run, where a page
    shows several."""
    shades = [shade(axis, fault.start_s, fault.end_s) for fault in story.faults if fault.effective != "no"]
    marks = [mark(axis, second) for _, second in figure.marks]
    behind = svg.element("g", draw_axis.grid(axis), *shades, *marks, id=f"behind{name}")
    again = svg.element("use", href=f"#behind{name}")
    panels = sorted(_panels(axis, story, figure), key=lambda panel: panel.folded)
    drawn = [
        draw_axis.draw(axis, panel, f"{name}{number}", again if number else behind)
        for number, panel in enumerate(panels)
    ]
    shown = sum(not panel.folded for panel in panels)
    return Markup("").join(drawn[:shown]) + _more(panels[shown:], drawn[shown:], figure.opened)


def _more(panels: Sequence[Panel], drawn: Sequence[Markup], opened: bool) -> Markup:
    """Fold what is looked at for some questions only."""
    if not panels:
        return Markup("")
    names = " · ".join(dict.fromkeys(panel.name for panel in panels))
    number = f"{len(panels)} more panel{'' if len(panels) == 1 else 's'}: {names}"
    return svg.element("details", svg.element("summary", number), *drawn, class_="more", open="" if opened else None)


def _panels(axis: Axis, story: Story, figure: Figure) -> Iterator[Panel]:
    """Yield each panel that has something to show, from top to bottom."""
    faults = [
        Bar(lane=fault.name, start_s=fault.start_s, end_s=fault.end_s, label=_masters_first(fault, story), kind="fault")
        for fault in story.faults
    ]
    if faults:
        nodes = list(dict.fromkeys(one.lane for one in [*story.roles, *story.terms]))
        yield _bars(axis, "Faults", faults, lambda fault: labels.of_targets(fault.label, nodes))
    if story.terms and figure.controllers_first:
        yield _bars(axis, "Controllers and their terms", story.terms, labels.of_role)
    if story.roles:
        doubled = [
            Bar(lane="two masters", start_s=start, end_s=end, label=f"2 masters for {end - start:.1f} s", kind="two")
            for start, end in figure.two_masters
        ]
        yield _bars(axis, "Roles and master epochs", [*story.roles, *doubled], labels.of_role)
    if figure.storage.owners:
        yield _bars(axis, "Slices: who served them, in which epoch", figure.storage.owners, labels.of_owner)
    if moved := figure.storage.moved:
        lanes = len({one.lane for one in moved})
        title = f"Groups that moved ({lanes:,} of {figure.storage.groups:,}): voters (+ learners)"
        yield _bars(axis, title, moved, labels.of_members)
    if figure.fates:
        yield replace(_fates(axis, figure.fates), name="messages", folded=figure.controllers_first)
    if figure.acts:
        yield _acts(axis, figure.acts)
    if story.throughput:
        yield throughput(axis, story.throughput, each_piece(story, "means"))
    yield from (replace(panel, folded=True) for panel in _others(axis, story, figure))


def _others(axis: Axis, story: Story, figure: Figure) -> Iterator[Panel]:
    """Yield the panels that some questions need only."""
    if story.latency:
        yield latency(axis, story.latency, story.latencies, each_piece(story, "quantiles"), story.piece_s)
    if story.outages:
        title = "Without an acknowledged send for more than a second"
        outages = _bars(axis, title, story.outages, lambda outage: (outage.label,), most=OUTAGES)
        yield replace(outages, name="outages")
    if figure.replicas:
        yield _replicas(axis, figure.replicas)
    if story.terms and not figure.controllers_first:
        terms = _bars(axis, "Controllers and their terms", story.terms, labels.of_role)
        yield replace(terms, name="controllers")
    if leaders := figure.storage.leaders:
        yield replace(
            _bars(axis, "Groups: who led them, in which term", leaders, labels.of_owner), name="group leaders"
        )
    if figure.storage.sealed:
        yield _sealed(axis, figure.storage.sealed)
    if figure.lags:
        yield replica_lags(axis, figure.lags)


def _masters_first(fault: FaultLine, story: Story) -> str:
    """Return the targets of a fault, those before the others that were master when it began: what has little room names
    them."""
    masters = {bar.lane for bar in story.roles if bar.kind == "master" and bar.start_s < fault.start_s <= bar.end_s}
    return ", ".join(sorted(fault.targets.split(", "), key=lambda node: node not in masters))


def _bars(
    axis: Axis, title: str, bars: Sequence[Bar], written: Callable[[Bar], Sequence[str]], *, most: int = LANES
) -> Panel:
    """Draw a lane for each name; ``written``: the labels of a bar, from long to short."""
    lanes = list(dict.fromkeys(one.lane for one in bars))
    shown = lanes[:most]
    left = len(lanes) - len(shown)
    more = f" ({left} more {'is' if left == 1 else 'are'} not drawn)" if left else ""
    words = "; ".join(f"{one.lane}: {one.label} from {one.start_s:.1f} s to {one.end_s:.1f} s" for one in bars[:20])
    return Panel(
        title=title + more,
        height=LANE * len(shown),
        names=shown,
        content=Markup("").join(
            bar(axis, shown.index(one.lane), one.start_s, one.end_s, one.kind, written(one))
            for one in bars
            if one.lane in shown
        ),
        words=words,
    )


def _fates(axis: Axis, fates: Sequence[Fate]) -> Panel:
    each = sum(fate.count for fate in fates) <= DOTS
    kinds = ["bad" if fate.bad else "kept" if not place else "other" for place, fate in enumerate(fates)]
    drawn = [
        stretched(axis, moments(axis, fate.sent_s, kind, each=each, counts=fate.counts), lane=place)
        for place, (fate, kind) in enumerate(zip(fates, kinds, strict=True))
    ]
    return Panel(
        title="Every message of the load when it was first sent, by its fate" + _missing(fates),
        height=LANE * len(fates),
        names=[fate.label for fate in fates],
        notes=[f"{fate.count:,}" for fate in fates],
        content=Markup("").join(drawn),
        words="; ".join(f"{fate.count:,} {fate.label}{_sent(fate)}" for fate in fates),
    )


def _missing(fates: Sequence[Fate]) -> str:
    return "; missing ones by their place in the queue" if any(fate.bad for fate in fates) else ""


def _sent(fate: Fate) -> str:
    return f", first sent {fate.sent_s[0]:.1f} s to {fate.sent_s[-1]:.1f} s" if fate.count else ""


def _replicas(axis: Axis, replicas: Sequence[ReplicaFate]) -> Panel:
    shown = replicas[:LANES]
    each = sum(one.count for one in replicas) <= DOTS
    drawn = [
        stretched(
            axis,
            moments(axis, one.kept_s, "kept", each=each, counts=one.kept),
            moments(axis, one.missing_s, "bad", each=each, counts=one.missing),
            lane=place,
        )
        for place, one in enumerate(shown)
    ]
    return Panel(
        title="Messages by who acknowledged them",
        name="messages by node",
        height=LANE * len(shown),
        names=[one.node for one in shown],
        notes=[f"{one.lost:,} of {one.count:,}" for one in shown],
        content=Markup("").join(drawn),
        legend=[("kept", "not missing"), ("bad", "missing (at the right: how many of all)")],
        words="; ".join(f"of {one.count:,} that {one.node} acknowledged {one.lost:,} are missing" for one in shown),
    )


def _acts(axis: Axis, acts: Sequence[Acts]) -> Panel:
    shown = acts[:LANES]
    partly = any(one.known < one.count for one in shown)
    late = any(one.proven_s is not None for one in shown)
    return Panel(
        title="Violations, at the moment of the act" + (" (where not all are drawn, the first ones)" if partly else ""),
        height=LANE * len(shown),
        names=[one.name for one in shown],
        notes=[f"{one.known:,} of {one.count:,}" if one.known < one.count else f"{one.count:,}" for one in shown],
        content=Markup("").join(
            stretched(axis, ticks(axis, one.acted_s, "bad"), lane=place) + _proof(axis, one, place)
            for place, one in enumerate(shown)
        ),
        legend=[("bad", "act"), ("proof", "proven here, later than the act")] if late else [],
        words="; ".join(f"{one.count:,} {one.name}{_proven(one)}" for one in shown),
    )


def _proof(axis: Axis, acts: Acts, place: int) -> Markup:
    """Draw a hollow tick where violations were proven long after they were done."""
    if acts.proven_s is None:
        return Markup("")
    return hollow(axis, place, acts.proven_s, f"proven here: {acts.name}, by the last row behind it")


def _proven(acts: Acts) -> str:
    return "" if acts.proven_s is None else f", proven by {acts.proven_s:.1f} s"


def _sealed(axis: Axis, groups: Mapping[int, SealedSegments]) -> Panel:
    """Draw a stroke for each SEAL, and a bar for what waited long for the tier."""
    shown = list(groups.items())[:LANES]
    more = f"; {len(groups) - len(shown):,} more groups are not drawn" if len(groups) > len(shown) else ""
    waits = sorted(
        ((until - at_s, place, at_s, until, end)
         for place, (_, found) in enumerate(shown)
         for at_s, until, end in found.seals if until - at_s >= draw_axis.INSTANT * axis.span_s),
        reverse=True,
    )  # fmt: skip
    bars = [
        bar(axis, place, at_s, until, "out", (f"segment up to {end:,} waits for the tier", f"{end:,}"))
        for _, place, at_s, until, end in waits[:WAITS]
    ]
    strokes = [
        stretched(axis, ticks(axis, [at for at, _, _ in found.seals if at <= axis.right_s], "sealed"), lane=place)
        for place, (_, found) in enumerate(shown)
    ]
    return Panel(
        title=f"Segments when they were sealed; bars wait for the tier (at the right: the sealed end{more})",
        name="sealed ends",
        height=LANE * len(shown),
        names=[f"group {group}" for group, _ in shown],
        notes=[f"{found.end:,}" for _, found in shown],
        content=Markup("").join([*bars, *strokes]),
        words="; ".join(f"group {group}: {len(found.seals)} segments up to {found.end:,}" for group, found in shown),
    )


def _causes(axis: Axis, marks: Sequence[tuple[int, float]]) -> Markup:
    """Draw the numbers of the causes over their dashed lines."""
    if not marks:
        return Markup("")
    links = []
    ordered = sorted((second, number) for number, second in marks)
    own = [USUAL * float(axis.share(second).rstrip("%")) / 100 for second, _ in ordered]
    for (second, number), at, free in zip(ordered, own, _apart(own), strict=True):
        place = {"x": axis.share(second), "dx": round(free - at), "y": 13, "text_anchor": "middle"}
        links.append(svg.element("a", svg.element("text", str(number), **place), href=f"#cause-{number}"))
    return _row("causes", 16, links, "The numbers of the causes, at their moment")


def _apart(own: Sequence[float]) -> list[float]:
    """Return places in order, moved to the right until none hides another, and to the left where the plot ends."""
    placed: list[float] = []
    for at in own:
        placed.append(max(at, placed[-1] + BESIDE if placed else at))
    last = USUAL - BESIDE / 2
    return [min(at, last - BESIDE * (len(placed) - 1 - place)) for place, at in enumerate(placed)]


def _seconds(axis: Axis) -> Markup:
    ticks = [
        svg.element("text", f"{round(second, 3):g}", x=axis.share(second), y=13, text_anchor="middle")
        for second in axis.ticks()
    ]
    return _row("seconds", 18, ticks, "Seconds since the load began")


def _row(kind: str, height: int, content: Sequence[Markup], words: str) -> Markup:
    name = svg.element("ol", svg.element("li", kind), class_="names")
    return draw_axis.row(kind, height, content, left=name, role="group", aria_label=words, overflow="visible")
