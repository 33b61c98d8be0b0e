"""What several parts of the law ask of a queue: where local logs begin."""

from __future__ import annotations

from chaos.shard_rows import Rows
from checkers import _facts as facts


def local_minimums(rows: Rows, queue: int) -> list[tuple[int, int]]:
    """(row, first local offset of the queue) of each replica that was read to its end."""
    complete = facts.complete_nodes(rows)
    found = []
    for at in rows.where(kind="final", f="node"):
        minimum = (rows.value(at).get("minimums") or {}).get(str(queue))
        if rows.text("node", at) in complete and minimum is not None:
            found.append((int(at), int(minimum)))
    return found
