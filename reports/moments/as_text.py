"""A curve for a terminal, and for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from reports.moments.curve import Curve, Moment
from reports.printable import argument
from reports.sweeps.chances import Share

#: Letters of a bar that stands for certainty; the part between the bounds is shaded.
BAR = 20


def text(curve: Curve) -> Iterator[str]:
    """Yield lines for people: one for each moment, then where the probability jumps, and what happened there."""
    yield f"{curve.name} ({curve.law}), violation {curve.number}: {curve.text}"
    yield ""
    what = f"the same violation ({curve.about})" if curve.about else "the same failure"
    yield f"Replayed up to a row, then on with fresh randomness: how often {what} came again (Wilson's bounds, 95 %)"
    yield ""
    for moment in curve.moments:
        mark = ">" if curve.jump and moment in curve.jump else " "
        alike = f", alike {moment.alike}" if curve.about and moment.alike != moment.same else ""
        yield (
            f"{mark}{moment.at_s:>9.3f} s  {bar(moment.same)}  {_share(moment.same)}{alike}"
            f"  [{moment.row}] {moment.event}"
        )
    yield ""
    yield verdict(curve)
    yield from (f"   {line}" for line in curve.happened)
    if curve.may_be_chance:
        yield "note: the bounds on both sides of it overlap, so it may be chance; ask for more --tries"
    yield from (f"note: {note}" for note in curve.notes)


def bar(share: Share) -> str:
    """Draw a bar: full up to the share, shaded to its upper bound."""
    full, high = round(BAR * share.value), round(BAR * share.high)
    return "█" * full + "░" * (high - full) + " " * (BAR - max(full, high))


def verdict(curve: Curve) -> str:
    """Say where it jumps, in a sentence."""
    if curve.jump is None:
        if not curve.moments:
            return "No moment was measured."
        first = curve.moments[0].same
        return f"It never rises: {first} already at the first moment, which is when the load began."
    before, after = curve.jump
    rise = f"from {100 * before.same.value:.0f} % to {100 * after.same.value:.0f} %"
    return (
        f"The largest jump, {rise}, lies between the rows {before.row} and {after.row}"
        f" ({before.at_s:.6f} s and {after.at_s:.6f} s):"
        f" stormproof explain {shlex.quote(argument(curve.run.name))} --rows {before.row}..{after.row}"
    )


def as_object(curve: Curve) -> dict[str, Any]:
    """Return the same as JSON; probabilities are between 0 and 1."""
    jump = curve.jump
    return {
        "run": str(curve.run), "law": curve.law, "anomaly": curve.name, "number": curve.number,
        "explanation": curve.text, "about": curve.about,
        "moments": [_moment(moment) for moment in curve.moments],
        "jump": None if jump is None else {"after_row": jump[0].row, "by_row": jump[1].row,
                                           "from": jump[0].same.value, "to": jump[1].same.value},
        "happened": list(curve.happened), "faults": [list(fault) for fault in curve.faults],
        "notes": list(curve.notes),
    }  # fmt: skip


def _moment(moment: Moment) -> dict[str, Any]:
    return {"row": moment.row, "at_s": round(moment.at_s, 9), "text": moment.event,
            "same": _chance(moment.same), "alike": _chance(moment.alike)}  # fmt: skip


def _chance(share: Share) -> dict[str, float]:
    return {"hits": share.hits, "tries": share.tries, "low": share.low, "high": share.high}


def _share(share: Share) -> str:
    return f"{share.hits:>3} of {share.tries} ({100 * share.low:3.0f} to {100 * share.high:3.0f} %)"
