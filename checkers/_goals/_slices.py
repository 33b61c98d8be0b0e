"""Who owned the slices of a storage cluster, and who voted in its groups, as several goals need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.driver import Evidence
from chaos.shard_rows import Rows

EVIDENCE = (Evidence.OPERATIONS, Evidence.GROUPS)


def owners(rows: Rows) -> Mapping[str, Sequence[str]]:
    """Return for each slice who opened it, by epoch; who opens it again at once stands there once."""
    epochs = rows.column("epoch")
    opened = sorted((int(epochs[at]), at) for at in rows.where(kind="trace", f="opened").tolist())
    found: dict[str, list[str]] = {}
    for _, at in opened:
        known, node = found.setdefault(str(rows.value(at).get("slice")), []), rows.text("node", at)
        if known[-1:] != [node]:
            known.append(node)
    return found


def voters(rows: Rows) -> Mapping[int, Sequence[Sequence[str]]]:
    """Return for each group the replicas that voted, by the index of the entry that made them so."""
    found: dict[int, dict[int, Sequence[str]]] = {}
    position = rows.column("position")
    for at in rows.where(kind="trace", f="members").tolist():
        value = rows.value(at)
        if (group := value.get("group")) is not None:
            found.setdefault(int(group), {})[int(position[at])] = [*map(str, value.get("voters") or ())]
    return {group: [by_index[index] for index in sorted(by_index)] for group, by_index in found.items()}
