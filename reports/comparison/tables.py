"""What stands side by side of two runs, as rows of texts: what was run, what was found, what clients got."""

from __future__ import annotations

from collections.abc import Iterator

from reports.comparison.pair import Pair, Side

#: What is said of a run besides its verdicts.
FACTS = ("name", "experiment", "mutant", "deployment", "seed", "verdict")
#: A name and a text for each run.
TableRow = tuple[str, str, str]


def tables(pair: Pair) -> Iterator[tuple[str, list[TableRow]]]:
    """Yield each table: its title, and its rows."""
    a, b = pair.a.line, pair.b.line
    facts = [(name, str(getattr(a, name)), str(getattr(b, name))) for name in FACTS]
    yield "run", [fact for fact in facts if any(fact[1:])]
    yield "promise", pair.laws
    yield "violation", [(name, str(one), str(other)) for name, one, other in pair.anomalies]
    one, other = _measured(pair.a), _measured(pair.b)
    yield "during the load", [(name, one.get(name, ""), other.get(name, "")) for name in {**one, **other}]


def _measured(side: Side) -> dict[str, str]:
    measures = side.measures
    if measures is None:
        return {}
    measured = {}
    if measures.acknowledged is not None:
        measured["writes acknowledged"] = f"{measures.acknowledged:.2%}"
        measured["longest time without one (of a queue)"] = f"{measures.longest_gap_s:.3f} s"
    for name, calls in measures.calls.items():
        measured[f"{name}: ok of all"] = f"{calls.ok:,} of {calls.ended:,}"
        if calls.ok:
            measured[f"{name}: p50, p99, max in ms"] = f"{calls.p50_ms:.1f}, {calls.p99_ms:.1f}, {calls.max_ms:.1f}"
    return measured
