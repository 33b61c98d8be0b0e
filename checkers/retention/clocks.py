"""Whether a group's logged time followed the clocks of a minority.

"Now" is the median of the members' clocks. So while the clocks of fewer than half of them are wrong, it is right. What
is right shows the fault itself, which reads a clock before it sets it: in the simulator all clocks agree until then.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.raft.group import node_of
from checkers._facts.storage.memberships import memberships
from checkers._facts.storage.trims import trims
from checkers.retention.promise import ONE_CLOCK

#: Clocks drift apart by so much, and a message with a clock's reading may be so old.
TOLERANCE_NS = 2_000_000_000
_MS = 1_000_000


def followed(rows: Rows, found: Findings) -> None:
    """Report trims whose logged time lies ahead, although most clocks never did. For runs with one clock."""
    offset_ns = _wall_offset_ns(rows)
    if offset_ns is None:
        return
    times = rows.column("time_ns")
    for trim in trims(rows):
        now_ns = int(times[trim.at])
        ahead_ns = trim.now_ms * _MS - now_ns - offset_ns
        if ahead_ns <= TOLERANCE_NS or _most_were_wrong(rows, trim.group, now_ns):
            continue
        found.add(
            ONE_CLOCK,
            f"Entry {trim.index} of group {trim.group}'s log deleted messages of topic {trim.topic} at "
            f"{facts.at_s(rows, trim.at)} by a logged time that lies {ahead_ns / 1e9:.1f} s ahead, although the clocks "
            "of most of its members were right.",
            int(rows.column("index")[trim.at]),
        )


def _wall_offset_ns(rows: Rows) -> int | None:
    """Return what a right clock shows at time 0, as the first fault that sets any has read it; None without one."""
    times = rows.column("time_ns")
    for at in rows.where(kind="fault", type="ok").tolist():
        proof = rows.value(at).get("proof")
        for shown in proof.values() if isinstance(proof, Mapping) else ():
            before = shown.get("wall_before_ns") if isinstance(shown, Mapping) else None
            if isinstance(before, int):
                return before - int(times[at])
    return None


def _most_were_wrong(rows: Rows, group: int, now_ns: int) -> bool:
    """Return whether faults may have set the clocks of half of the members by then: logged time never falls, so one
    that was wrong long ago counts too."""
    known = memberships(rows).get(group, ())
    nodes = {node_of(name) for one in known for name in one.members.voters}
    least = min((len(one.members.voters) for one in known), default=0)
    before = [one for one in rows.memo(facts.faults) if one.began_ns <= now_ns]
    wrong = {node for one in before for node in one.hits(Effect.SKEWS_CLOCKS)} & nodes
    return any(one.effects is None for one in before) or 2 * len(wrong) >= least
