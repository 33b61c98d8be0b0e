"""What masters say that members have acknowledged, held against what the members' own disks held.

An acknowledgement is worth what the disk behind it holds. A false one need not show at once: as long as another member
is further behind, nothing is confirmed by it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints, groups, parts
from checkers._facts.run import ENDS_LACKING, at_s, may_lack_ends

FALSE_ACK = "false-ack"
#: What says how far a disk goes. A cut leaves durable what stands before it.
_DISK_ENDS = ("recovered", "bootstrap", "truncate")


def highest_appends(rows: Rows) -> Ints:
    """Keep of each node the record that stands last in its log. A sieve."""
    at = rows.where(kind="trace", f="append")
    by_position = at[np.lexsort((at, -rows.column("position")[at]))]
    order, starts = groups(rows.column("node")[by_position])
    return np.sort(by_position[order[starts]])


def false_acks(rows: Rows, context: RunContext, found: Findings) -> None:
    """All profiles. What a member is said to have acknowledged, its disk has held (under asynchronous flush: its log),
    whatever was cut off since: in the simulator by then, elsewhere at some time."""
    if context.unfinished and not context.one_clock:  # a disk may report it as long as the run goes on
        return
    is_async = context.profile.flush == "async"
    held = _held(rows, "append" if is_async else "synced")
    by_then = context.one_clock and not is_async
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("confirm", "set")]))
    index, wrong = rows.column("index"), dict[tuple[int, str], tuple[int, int]]()
    for form in rows.forms(at):
        acks = form.value.get("acks")
        for member, end in sorted(acks.items()) if isinstance(acks, dict) else ():
            said = form.whole(end)
            if member not in held:
                if (said > 0).any():
                    found.gap(f"{member} reported nothing of what its disk holds, and is said to have acknowledged it")
                continue
            indexes, ends = held[member]
            claims = at[form.at]
            place = np.searchsorted(indexes, index[claims], side="right") if by_then else len(indexes)
            has = np.append(0, ends)[place]
            lacks = np.flatnonzero(said > has)
            if len(lacks) and may_lack_ends(rows):
                found.gap(ENDS_LACKING.format(member))
                continue
            for n in lacks.tolist():
                had = int(np.broadcast_to(has, said.shape)[n])
                wrong.setdefault((int(claims[n]), member), (int(said[n]), had))
    for (claim, member), (end, had) in sorted(wrong.items()):  # forms come in an order that other rows decide, too
        _report(rows, found, claim, member, end, had)


def _report(rows: Rows, found: Findings, at: int, member: str, said: int, has: int) -> None:
    found.add(
        FALSE_ACK,
        f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, counted {member} as having "
        f"acknowledged position {said} ({at_s(rows, at)}), though {member} itself had had its log up to {has} at most.",
        int(rows.column("index")[at]),
    )


def _held(rows: Rows, grows: str) -> Mapping[str, tuple[Ints, Ints]]:
    """Node → (indexes, the furthest that its log has been held up to then)."""
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in (*_DISK_ENDS, grows)]))
    ends = rows.column("position")[at].copy()
    records = rows.column("f")[at] == rows.code("f", "append")
    ends[records] += np.maximum(rows.numbers("size", at[records]), 1)
    index, held = rows.column("index"), {}
    for mine in parts(rows.column("node")[at]).values():
        held[rows.text("node", int(at[mine[0]]))] = index[at[mine]], np.maximum.accumulate(ends[mine])
    return held


def proposed_behind(rows: Rows) -> list[tuple[int, str, int, int]]:
    """Proposals by which a master takes into the set who, by its own word, lacks what it has confirmed: the row, the
    member, what it had acknowledged, and what was confirmed."""
    found = []
    for at in rows.where(kind="trace", f="set").tolist():
        value = rows.value(at)
        acks, confirm = value.get("acks"), value.get("confirm")
        if isinstance(acks, dict) and isinstance(confirm, int):
            found += [(at, name, int(end), confirm) for name, end in sorted(acks.items()) if int(end) < confirm]
    return found
