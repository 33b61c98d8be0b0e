"""Sets the clocks of a node that is a process, and has the node itself show that they are set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from chaos.fault import NotNow
from chaos.machines.machine import Address, Opener
from chaos.machines.real_time import ask_clocks

#: A node reports its clocks within this time, or it doesn't.
REPORT_S = 0.5
#: So far may a jump seem to be another one than it was: two clocks are not read in one moment.
NEARLY_NS = 200_000_000


async def skewed(
    where: Address, opener: Opener | None, jump_ns: int, set_clocks: Callable[[], Awaitable[object]]
) -> Mapping[str, object]:
    """Set the clocks of the node that listens there; return what it reports of them before and after.

    Raises :class:`NotNow` when it reports nothing, or another jump; the clocks are set all the same.
    """
    missing, before = "", {"wall_ns": 0, "mono_ns": 0}
    try:
        before = await ask_clocks(*where, REPORT_S, opener)
    except NotNow as reason:
        missing = str(reason)
    await set_clocks()
    after = await ask_clocks(*where, REPORT_S, opener)
    if missing:
        raise NotNow(missing)
    jumped_ns = after["wall_ns"] - before["wall_ns"] - (after["mono_ns"] - before["mono_ns"])
    if abs(jumped_ns - jump_ns) > NEARLY_NS:
        raise NotNow(f"its wall clock jumped by {jumped_ns / 1e9:.3f} s, not by {jump_ns / 1e9:.3f} s")
    walls = {"wall_before_ns": before["wall_ns"], "wall_after_ns": after["wall_ns"]}
    return {**walls, "jumped_ns": jumped_ns, "drift_ppm": after["drift_ppm"]}
