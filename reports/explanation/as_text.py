"""An explanation for a terminal, for an issue, and for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reports.explanation.sequence import Arrow, Explanation
from reports.markdown import code, escaped


def text(told: Explanation) -> Iterator[str]:
    """Lines for people: one for each arrow, with the numbers of its rows; ``*`` marks rows that the law names."""
    yield f"{told.name} ({told.law}), violation {told.number} of {told.of}: {told.text}"
    yield ""
    wide = max(len(_way(arrow)) for arrow in told.arrows)
    for arrow in told.arrows:
        mark = "*" if arrow.named else " "
        yield f"{arrow.at_s:>10.3f} s {mark} {_way(arrow):<{wide}}  {arrow.told}{decided(arrow)}  [{_rows(arrow)}]"
    yield ""
    yield from (f"note: {note}" for note in told.notes)
    named = next(arrow for arrow in told.arrows if arrow.named)
    yield f"The law names the rows marked *; any can be printed: {named.link(told.run.name)}"


def markdown(told: Explanation) -> str:
    """A page to be pasted into an issue, with a table of the arrows."""
    lines = [f"# {escaped(told.name)} ({escaped(told.law)})", "", escaped(told.text), ""]
    lines += ["| second | from → to | what | rows |", "|---|---|---|---|"]
    for arrow in told.arrows:
        what = f"**{escaped(arrow.told)}**" if arrow.named else escaped(arrow.told)
        what += escaped(decided(arrow))
        way = escaped(_way(arrow))
        lines.append(f"| {arrow.at_s:.3f} | {way} | {what} | {code(arrow.link(told.run.name))} |")
    lines += ["", "The law names the rows of the bold lines.", *(f"\n{escaped(note)}" for note in told.notes)]
    return "\n".join(lines) + "\n"


def as_object(told: Explanation) -> dict[str, Any]:
    """The same as JSON."""
    arrows = [
        {"at_s": round(one.at_s, 9), "from": one.source, "to": one.target, "what": one.what, "text": one.text,
         "count": one.count, "rows": list(one.rows), "decided_by": list(one.decided), "named": one.named,
         "link": one.link(told.run.name)}
        for one in told.arrows
    ]  # fmt: skip
    return {"run": str(told.run), "law": told.law, "anomaly": told.name, "number": told.number, "of": told.of,
            "explanation": told.text, "arrows": arrows, "notes": list(told.notes)}  # fmt: skip


def decided(arrow: Arrow) -> str:
    """Which methods of the nodes' code decided it; "" where that isn't known."""
    return f", decided by {' and '.join(arrow.decided)}" if arrow.decided else ""


def _way(arrow: Arrow) -> str:
    return arrow.target if arrow.source == arrow.target else f"{arrow.source} → {arrow.target}"


def _rows(arrow: Arrow) -> str:
    return re.sub(r"^.*? rows \S+ ", "", arrow.link("RUN"))
