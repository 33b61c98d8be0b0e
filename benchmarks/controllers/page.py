"""The page ``benchmarks/results/controllers.md``, made of what has been measured and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.controllers import correctness
from benchmarks.controllers.bench import ALTER, ELECT, HEARTBEAT, INFO, MIXED, REGISTER
from benchmarks.controllers.cluster import KINDS, ROCKETMQ
from benchmarks.controllers.failover import COUNTS, HOWS
from benchmarks.controllers.pictures import draw
from benchmarks.controllers.pieces import EXPLORATION, GROUPS, LOGGED, USUAL, pieces
from benchmarks.controllers.results import CORES, NAMES, Aim, Results
from benchmarks.controllers.words import (
    EXPLORED,
    FAILOVER,
    HOW,
    INTRODUCTION,
    LEFT_OUT,
    MEMORY,
    MODEL,
    NOT_TRIED,
    PROFILE,
    READ_NOTE,
    REAL_BROKERS,
)
from benchmarks.mutants import PAGE as MUTANTS_PAGE
from chaos import plugins
from chaos.plugins import PluginKind
from reference.controller.dispatch import PARALLEL

_PHASES = {
    HEARTBEAT: "heartbeat",
    REGISTER: "register",
    ALTER: "alter SyncStateSet",
    ELECT: "elect",
    INFO: "replica info",
    MIXED: "replica info, beside changes and heartbeats",
}
_NAMES = {**NAMES, LOGGED: "RocketMQ, logged reads"}


def write(folder: Path, page: Path) -> None:
    """Write the page, and its pictures into a folder of the same name."""
    results, pictures = Results(folder), page.with_suffix("")
    pictures.mkdir(exist_ok=True)
    drawn = draw(results)
    for name, svg in drawn.items():
        (pictures / name).write_text(svg, "utf-8")
    lines = [line for line in _page(results) if not line.startswith("![") or any(name in line for name in drawn)]
    page.write_text("\n".join(lines) + "\n", "utf-8")


def _page(results: Results) -> Iterator[str]:
    yield from (INTRODUCTION, "")
    yield from _headline(results)
    yield from _aims(results.aims())
    yield from _loads(results)
    yield from _failover(results)
    yield from _more_cores(results)
    yield from _profiles(results)
    yield from ("## How it was measured", "", HOW, "", *_machine(results), "")
    yield from _left_out(results)
    yield from _correctness(results)


def _headline(results: Results) -> Iterator[str]:
    """Yield what counts: the new mode against RocketMQ itself; and whether ``classic`` may stand for it."""
    ratios = results.straw_man()
    if not ratios:
        return
    far = [phase for phase, ratio in ratios.items() if not 0.5 <= ratio <= 2]
    words = ", ".join(f"{_PHASES[phase]} {ratio:.2f}" for phase, ratio in ratios.items())
    verdict = "is not within" if far else "is within"
    yield f"`classic` {verdict} a factor of two of RocketMQ's own controller (its throughput over RocketMQ's: {words};"
    yield "reads are compared with RocketMQ's logged ones). `parallel` against RocketMQ itself:"
    yield ""
    for phase in (REGISTER, ALTER, ELECT, INFO, HEARTBEAT):
        ratio, p99 = results.ratio(phase, PARALLEL, ROCKETMQ), results.ratio(phase, PARALLEL, ROCKETMQ, of="99")
        if ratio is not None and p99 is not None:
            yield f"* {_PHASES[phase]}: {ratio:.1f} times as many a second, {p99:.2f} times the p99"
    logged = results.ratio(INFO, PARALLEL, LOGGED)
    if logged is not None:
        yield f"* {_PHASES[INFO]}, against reads that are linearizable with RocketMQ, too: {logged:.0f} times as many"
    yield ""


def _aims(aims: Sequence[Aim]) -> Iterator[str]:
    yield from ("## The aims", "", "| aim | bound | measured | |", "|---|---|---|---|")
    for aim in aims:
        bound = f"{'≥' if aim.more_is_better else '≤'} {aim.bound:g} {aim.unit}"
        if aim.value is None:
            yield f"| {aim.what} | {bound} | not measured | |"
        else:
            verdict = "reached" if aim.is_reached else f"**{aim.missed_by}**"
            yield f"| {aim.what} | {bound} | {aim.value:.2f} {aim.unit} | {verdict} |"
    yield ""
    for aim in aims:
        if aim.value is not None and not aim.is_reached and aim.why:
            yield f"* *{aim.what}*: {aim.why}"
    yield ""


def _loads(results: Results) -> Iterator[str]:
    yield from ("## Under load", "")
    yield from _shown("throughput.svg", "Requests per second, by kind of request and controller")
    yield from _shown("latency.svg", "Latencies, by kind of request and controller")
    yield from _shown("processor.svg", "Processor time for a request, by kind of request and controller")
    yield from _shown("groups.svg", "Requests per second by the number of groups")
    yield from (READ_NOTE, "")
    head = "| request | controller | per s | p50 ms | p99 ms | p99.9 ms | processor µs | cores used | generator |"
    for groups in GROUPS:
        rows = list(_rows(results, groups))
        if rows:
            yield from (f"### {groups:,} groups", "", head, "|---|---|---|---|---|---|---|---|---|", *rows, "")
    yield from _memory(results)


def _rows(results: Results, groups: int) -> Iterator[str]:
    for phase, name in _PHASES.items():
        for kind in (*KINDS, LOGGED) if groups == USUAL else KINDS:
            found = results.phase(kind, phase, groups)
            if found is None:
                continue
            ms = (f"{found['ms'][percent]:.1f}" for percent in ("50", "99", "99.9"))
            cells = (name, _NAMES[kind], f"{found['per_s']:,.0f}", *ms, _us(phase, found["processor_us"]))
            yield f"| {' | '.join(cells)} | {found['cores']:.2f} | {found['generator_cores']:.2f} |"


def _us(phase: str, value: float) -> str:
    """Return a processor time as a cell; none for the mixed phase, whose reads are a small part of what the controllers
    do then."""
    return "" if phase == MIXED else f"{value:,.0f}"


def _memory(results: Results) -> Iterator[str]:
    rows = []
    for groups in GROUPS[2:]:
        found = {kind: results.bytes_per_group(kind, groups) for kind in (PARALLEL, ROCKETMQ)}
        rows += [
            f"| {groups:,} | {_NAMES[kind]} | {value / 1024:.1f} KiB |"
            for kind, value in found.items()
            if value is not None
        ]
    if rows:
        yield from (
            "### Memory of a group of three",
            "",
            "| groups | controller | memory |",
            "|---|---|---|",
            *rows,
            "",
        )
        yield from (MEMORY, "")


def _failover(results: Results) -> Iterator[str]:
    rows = []
    for how in HOWS:
        for count in COUNTS:
            for kind in KINDS:
                seconds = results.failover(kind, how, count)
                if seconds is not None:
                    cells = [f"{value:.2f}" for value in _spread(seconds)] if seconds else ["–"] * 3
                    rows.append(
                        f"| {how} | {count:,} | {_NAMES[kind]} | {' | '.join(cells)} | {count - len(seconds)} |"
                    )
    if rows:
        yield from ("## Failover of many masters at once", "", FAILOVER, "")
        yield from _shown("failover.svg", "Seconds until the last group has a master, by how many lost theirs")
        yield "| how | masters | controller | first s | median s | last s | none within 45 s |"
        yield from ("|---|---|---|---|---|---|---|", *rows, "")


def _spread(seconds: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(seconds)
    return ordered[0], ordered[len(ordered) // 2], ordered[-1]


def _more_cores(results: Results) -> Iterator[str]:
    readers = results.readers()
    if not readers:
        return
    yield from ("## Reads from followers, and more cores than there are", "", MODEL, "")
    yield f"| controllers that answer | measured per s | the model on these {CORES} cores | error |"
    yield from ("|---|---|---|---|",)
    for number, rates in readers.items():
        error = rates["here"] / rates["measured"] - 1
        yield f"| {number} | {rates['measured']:,.0f} | {rates['here']:,.0f} | {error:+.0%} |"
    yield from ("", "| controllers that answer | the model with a core each | over one |", "|---|---|---|")
    for number, rates in readers.items():
        ratio = rates["own_cores"] / readers[1]["own_cores"]
        yield f"| {number} | {rates['own_cores']:,.0f} | {ratio:.2f} |"
    yield ""


def _profiles(results: Results) -> Iterator[str]:
    names = {"a change": REGISTER, "a read": INFO}
    shares = {name: results.areas(phase) for name, phase in names.items()}
    if not any(shares.values()):
        return
    yield from ("## Where the time goes", "", PROFILE, "")
    yield from _shown("profile.svg", "Where the leader's processor time goes, for a change and for a read")
    for name, phase in names.items():
        profile = results.piece(f"profile-{phase}")
        if profile is None:
            continue
        counts: Counter[str] = Counter(profile["samples"])
        yield from (f"The places that take most, for {name}:", "", "| share | where |", "|---|---|")
        for place, times in counts.most_common(12):
            yield f"| {times / counts.total():.1%} | `{place}` |"
        yield ""


def _machine(results: Results) -> Iterator[str]:
    load = results.piece(f"load-{USUAL}")
    if load is not None:
        yield (
            "Machine: "
            + ", ".join(f"{what} {value}" for what, value in load["machine"].items() if what != "load")
            + "."
        )


def _left_out(results: Results) -> Iterator[str]:
    missing = [piece.name for piece in pieces() if results.piece(piece.name) is None]
    yield from ("## What was left out", "", LEFT_OUT)
    if missing:
        yield f"* Not measured when this page was made: {', '.join(f'`{name}`' for name in missing)}."
    yield ""


def _correctness(results: Results) -> Iterator[str]:
    judged = [found for name in correctness.examples() if (found := results.piece(f"seeds-{name}")) is not None]
    yield from ("## Correctness", "")
    runs = [run for found in judged for run in found["runs"]]
    validities = Counter(run["validity"] for run in runs)
    operations, unclear = (sum(run[key] for run in runs) for key in ("operations", "unclear"))
    yield f"The correct controllers in the simulator: {len(runs)} runs, {operations:,} operations judged linearizable,"
    yield f"and {unclear:,} whose outcome no client knew. Verdicts: {_listing(validities)}."
    yield from ("", "| example | seeds | verdicts | operations | faults |", "|---|---|---|---|---|")
    for found in judged:
        counts = Counter(run["validity"] for run in found["runs"])
        total = sum(run["operations"] for run in found["runs"])
        faults = ", ".join(found["faults"]) or "–"
        yield f"| `{found['example']}` | 1 to {len(found['runs'])} | {_listing(counts)} | {total:,} | {faults} |"
    yield ""
    yield from _odd(judged)
    yield from _explored(results)
    yield from (REAL_BROKERS, "")
    yield from _planted()
    used = {fault.split(" ")[0] for found in judged for fault in found["faults"]}
    unused = sorted(set(plugins.names(PluginKind.FAULT)) - used)
    yield from ("### What was not tried", "", NOT_TRIED)
    if unused:
        yield f"* Faults that no run of this page had: {', '.join(f'`{name}`' for name in unused)}."


def _odd(judged: Sequence[correctness.Result]) -> Iterator[str]:
    """Yield the runs that are not VALID, with the reason."""
    odd = [(found["example"], run) for found in judged for run in found["runs"] if run["validity"] != "VALID"]
    for example, run in odd:
        yield f"* `{example}`, seed {run['seed']}: {run['validity']}: {run['why']}"
    if odd:
        yield ""


def _explored(results: Results) -> Iterator[str]:
    found = results.piece(EXPLORATION)
    if found is None:
        return
    yield from ("### Every order of events", "", EXPLORED, "")
    yield from ("| beginning | states | steps | depth | | law broken |", "|---|---|---|---|---|---|")
    for scope in found["scopes"]:
        whole = "all states" if scope["is_complete"] else "the nearest states"
        counts = f"{scope['states']:,} | {scope['steps']:,} | {scope['depth']}"
        yield f"| {scope['scope']} | {counts} | {whole} | {scope['violation'] or 'none'} |"
    yield from ("", "| planted bug | beginning | states | events | law broken |", "|---|---|---|---|---|")
    for bug in found["bugs"]:
        cells = f"{bug['scope']} | {bug['states']:,} | {len(bug['path'])} | {bug['violation'] or 'none: not found'}"
        yield f"| `{bug['bug']}` | {cells} |"
    yield ""


def _planted() -> Iterator[str]:
    rows = correctness.found_bugs(MUTANTS_PAGE.read_text("utf-8"))
    found = [row for row in rows if row[3] != "–"]
    yield from ("### Planted bugs", "")
    yield f"{len(found)} of {len(rows)} bugs planted in controllers were found, as [recorded](mutants.md)"
    yield "with all others: the first seed that finds each, and with how many of the seeds that were tried it is found."
    yield from ("", "| bug | law | example | first seed | seeds | stands for |", "|---|---|---|---|---|---|")
    for bug, law, example, first, share, _, stands_for in rows:
        yield f"| {bug} | {law} | {example} | {first} | {share} | {stands_for} |"
    yield ""


def _listing(counts: Counter[str]) -> str:
    return ", ".join(f"{times} {word}" for word, times in counts.most_common()) or "none"


def _shown(name: str, words: str) -> tuple[str, str]:
    return (f"![{words}](controllers/{name})", "")
