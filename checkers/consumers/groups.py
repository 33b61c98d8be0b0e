"""What groups of consumers did: their calls, and what they were given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import NEVER, Flags, Ints, distinct, parts, places_in


@dataclass(frozen=True, slots=True)
class Calls:
    """Operations of consumers with their group. ``offset`` is what was committed, what was found, or what was asked
    for; ``number`` counts the calls of this kind, and those of one group share a ``code``."""

    number: Ints
    invoke: Ints
    done: Ints
    began: Ints
    ended: Ints
    ok: Flags
    failed: Flags
    offset: Ints
    epoch: Ints
    queue: Ints
    code: Ints
    group: npt.NDArray[np.object_]

    @classmethod
    def of(cls, rows: Rows, f: str) -> Calls:
        found = rows.memo(facts.pulls) if f == "pull" else facts.calls(rows, f)
        where = found.done if f == "committed" else found.invoke
        code, groups = rows.labels("group", found.invoke)
        return cls(
            number=np.arange(len(found.invoke)),
            invoke=found.invoke,
            done=found.done,
            began=found.began,
            ended=found.ended,
            ok=found.ok,
            failed=found.failed,
            offset=rows.column("offset")[where],
            epoch=np.where(found.done >= 0, rows.column("epoch")[found.done], -1),
            queue=rows.column("queue")[found.invoke],
            code=code,
            group=np.array(groups, dtype=np.object_)[code],
        )

    def only(self, keep: Flags | Ints) -> Calls:
        return Calls(*(getattr(self, name)[keep] for name in self.__slots__))

    def by_group(self) -> dict[str, Ints]:
        """Group → the places of its calls, ascending."""
        return {str(self.group[places[0]]): places for places in parts(self.code).values()}


@dataclass(frozen=True, slots=True)
class Group:
    """What one group committed. ``queues``: those in which it did, ascending. ``acked``: acknowledged commits, of which
    ``top`` has the highest in each queue, the first of several (-1: none there)."""

    name: str
    queues: Ints
    commits: Calls
    acked: Calls
    top: Ints

    @classmethod
    def of(cls, commits: Calls) -> Group:
        """Of a group's commits, of which there is one at least."""
        queues, acked = distinct(commits.queue), commits.only(commits.ok)
        by_offset = np.lexsort((-acked.offset, acked.queue))
        of_queue, first = np.unique(acked.queue[by_offset], return_index=True)
        top = np.full(len(queues), -1, dtype=np.int64)
        top[np.searchsorted(queues, of_queue)] = by_offset[first]
        return cls(str(commits.group[0]), queues, commits, acked, top)

    @property
    def highest(self) -> Ints:
        """The highest acknowledged commit in each queue, -1 where there is none."""
        return np.where(self.top >= 0, self.acked.offset[self.top], -1) if len(self.acked.offset) else self.top

    def place(self, queue: Ints) -> Ints:
        return places_in(self.queues, queue)[0]

    def own(self, calls: Calls) -> Calls:
        """Of calls of this group those in its queues."""
        return calls.only(places_in(self.queues, calls.queue)[1])


@dataclass(frozen=True, slots=True)
class Given:
    """What the pulls of a group were given, in the queues in which it committed. ``begin``: the lowest offset of each
    queue that it asked for, at least 0; -1 where it asked for none. ``at``: the rows of all messages that came, in
    order, and ``of`` the place of each one's queue."""

    pulls: Calls
    begin: Ints
    at: Ints
    of: Ints

    @classmethod
    def of_group(cls, rows: Rows, group: Group, pulls: Calls) -> Given:
        pulls = group.own(pulls)
        begin = np.full(len(group.queues), NEVER, dtype=np.int64)
        np.minimum.at(begin, group.place(pulls.queue), np.maximum(pulls.offset, 0))
        read = rows.memo(facts.delivered)
        place, mine = places_in(pulls.number, read.pull)
        return cls(
            pulls=pulls,
            begin=np.where(begin == NEVER, -1, begin),
            at=read.at[mine],
            of=group.place(pulls.queue)[place[mine]],
        )


def holds_no_longer(found: Findings, group: Group, queues: Ints, destroyed: str) -> None:
    """Note of each of these queues that it is unknown whether the commit may be gone."""
    for queue in distinct(queues).tolist():
        found.gap(f"what group {group.name} had committed in queue {queue} holds no longer, but {destroyed}")


def are_owned(rows: Rows, pulls: Calls) -> Flags:
    """Return which pulls brought an answer to somebody who owns the queue for a group."""
    code, names = rows.labels("owner", pulls.invoke)
    named = np.array([name != "" for name in names], dtype=np.bool_)[code]
    owned: Flags = named & (pulls.group != "") & pulls.ok
    return owned
