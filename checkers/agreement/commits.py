"""The commits of groups as replicas report them, and which of them have to be in what replicas know."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaos.kernel import Reads, Sieve
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Ints, parts
from checkers._facts.reads import own


def group_numbers(rows: Rows, at: Ints) -> Ints:
    """For each row of a replica a number that those of its group share."""
    groups = rows.memo(facts.replica_groups)
    names = sorted({"", *groups.values()})
    found = np.zeros(len(at), dtype=np.int64)
    for mine in parts(rows.column("node")[at]).values():
        found[mine] = names.index(groups.get(rows.text("node", int(at[mine[0]])), ""))
    return found


def confirmed(rows: Rows) -> dict[str, int]:
    """Return what each node that was read to its end calls confirmed after the run."""
    return {
        rows.text("node", at): int(rows.value(at).get("confirm", -1))
        for at in rows.where(kind="final", f="node")
        if rows.text("node", at) in facts.complete_nodes(rows)
    }


def last_commits(rows: Rows) -> Iterator[tuple[int, dict[tuple[str, int], int]]]:
    """Yield the rows that report the groups' offsets of a replica, each with the commits that took effect last below
    where that replica begins or ends, by group and queue."""
    confirm, position, queue = confirmed(rows), rows.column("position"), rows.column("queue")
    every = rows.where(kind="trace", f="commit")
    every = every[(position[every] >= 0) & (queue[every] >= 0)]
    every = every[np.argsort(position[every], kind="stable")]
    committed = {number: every[mine] for number, mine in parts(group_numbers(rows, every)).items()}
    said = {number: rows.words("group", some) for number, some in committed.items()}
    began, ended = rows.where(kind="trace", f="bootstrap"), rows.where(kind="final", f="offsets")
    bounds = [
        *((at, int(position[at])) for at in began.tolist()),
        *((at, confirm.get(rows.text("node", at), -1)) for at in ended.tolist()),
    ]
    numbers = group_numbers(rows, np.append(began, ended)).tolist()
    for (at, bound), of in zip(bounds, numbers, strict=True):
        commits, groups = committed.get(of, every[:0]), said.get(of, [])
        until = int(np.searchsorted(position[commits], bound))
        known = zip(groups[:until], commits[:until].tolist(), strict=True)
        yield at, {(group, int(queue[row])): row for group, row in known}


def needed_commits(rows: Rows) -> Ints:
    """Keep of the commits of groups those that took effect last before a replica begins or ends. A sieve."""
    return np.array([row for _, last in last_commits(rows) for row in last.values()], dtype=np.int64)


#: The commits of groups that decide what a replica has to know.
LAST_COMMITS = Reads(
    kind="trace",
    f=("commit",),
    everywhere=True,
    sieve=Sieve(
        rows=(own("trace", "commit", "bootstrap"), own("final", "offsets", "complete", "node")),
        columns=("node", "position", "value"),
        keep=needed_commits,
    ),
)
