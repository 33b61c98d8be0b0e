"""An explanation for a terminal, for an issue, and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reports.explanation.sequence import Arrow, Explanation
from reports.markdown import code, escaped


def text(found: Explanation) -> Iterator[str]:
    """Yield lines for people: one for each arrow, with the numbers of its rows; ``*`` marks rows that the law names."""
    yield f"{found.name} ({found.law}), violation {found.number} of {found.of}: {found.text}"
    yield ""
    wide = max(len(_way(arrow)) for arrow in found.arrows)
    for arrow in found.arrows:
        mark = "*" if arrow.named else " "
        yield f"{arrow.at_s:>10.3f} s {mark} {_way(arrow):<{wide}}  {arrow.phrase}{decided(arrow)}  [{_rows(arrow)}]"
    yield ""
    yield from (f"note: {note}" for note in found.notes)
    named = next(arrow for arrow in found.arrows if arrow.named)
    yield f"The law names the rows marked *; any can be printed: {named.link(found.run.name)}"


def markdown(found: Explanation) -> str:
    """Return a page to be pasted into an issue, with a table of the arrows."""
    lines = [f"# {escaped(found.name)} ({escaped(found.law)})", "", escaped(found.text), ""]
    lines += ["| second | from → to | what | rows |", "|---|---|---|---|"]
    for arrow in found.arrows:
        what = f"**{escaped(arrow.phrase)}**" if arrow.named else escaped(arrow.phrase)
        what += escaped(decided(arrow))
        way = escaped(_way(arrow))
        lines.append(f"| {arrow.at_s:.3f} | {way} | {what} | {code(arrow.link(found.run.name))} |")
    lines += ["", "The law names the rows of the bold lines.", *(f"\n{escaped(note)}" for note in found.notes)]
    return "\n".join(lines) + "\n"


def as_object(found: Explanation) -> dict[str, Any]:
    """Return the same as JSON."""
    arrows = [
        {"at_s": round(one.at_s, 9), "from": one.source, "to": one.target, "what": one.what, "text": one.text,
         "count": one.count, "rows": list(one.rows), "decided_by": list(one.decided), "named": one.named,
         "contradicts": bool(one.why),
         "link": one.link(found.run.name)}
        for one in found.arrows
    ]  # fmt: skip
    return {"run": str(found.run), "law": found.law, "anomaly": found.name, "number": found.number, "of": found.of,
            "explanation": found.text, "arrows": arrows, "notes": list(found.notes)}  # fmt: skip


def decided(arrow: Arrow) -> str:
    """Say which methods of the nodes' code decided it; "" where that isn't known."""
    return f", decided by {' and '.join(arrow.decided)}" if arrow.decided else ""


def _way(arrow: Arrow) -> str:
    return arrow.target if arrow.source == arrow.target else f"{arrow.source} → {arrow.target}"


def _rows(arrow: Arrow) -> str:
    return arrow.numbers.replace(",", " ")
