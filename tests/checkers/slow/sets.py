"""What masters tell of their SyncStateSets, row by row: the oracle of ``told_sets``, and of a part of the law roles. It
tells no story: explanations are the kernel's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.committed import Told
from checkers._facts.masters import masters
from checkers.roles.group import Group
from checkers.roles.promise import METADATA_CONFLICT


def told_sets(rows: Rows) -> Mapping[tuple[str, int], Sequence[Told]]:
    """(node, epoch) of each master term → what the master told of its set, each time that it was another one, in the
    order of recording."""
    index, epoch = rows.column("index"), rows.column("epoch")
    found: dict[tuple[str, int], list[Told]] = {key: [] for key in sorted(rows.memo(masters))}
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("role", "set", "confirm")]))
    for row in at.tolist():
        key = (rows.text("node", row), int(epoch[row]))
        if key not in found:
            continue
        told = rows.value(row)
        if rows.text("f", row) != "role" or told.get("role") == "master":
            members = frozenset([*(told.get("set") or ()), *(told.get("proposed") or ())])
            if not found[key] or found[key][-1].members != members:
                found[key].append(Told(int(index[row]), row, members))
    return found


def sets(rows: Rows, found: Findings, groups: Mapping[str, Group], whole: bool) -> None:
    """Who a master counts on under a set epoch is who the controllers committed under that number."""
    index = rows.column("index")
    told_once: set[tuple[str, int]] = set()
    for at in np.concatenate([rows.where(kind="trace", f=f) for f in ("role", "set", "confirm")]).tolist():
        told = rows.value(at)
        members, number = frozenset(told.get("set") or ()), told.get("set_epoch")
        if (
            not members
            or not isinstance(number, int)
            or (rows.text("f", at) == "role" and told.get("role") != "master")
        ):
            continue
        committed = [group.sets[number] for group in groups.values() if number in group.sets]
        node = rows.text("node", at)
        if any(members == there for there, _ in committed) or (not committed and not whole) or not groups:
            continue
        if (node, number) in told_once:
            continue
        told_once.add((node, number))
        witness = committed[0][1] if committed else -1
        found.add(
            METADATA_CONFLICT,
            "",
            *([int(index[witness])] if witness >= 0 else []),
            int(index[at]),
        )
