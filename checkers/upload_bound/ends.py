"""Where the versions of manifests end, and when they were sent: what shards of a parted queue must know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from chaos.kernel import Lookup
from chaos.shard_rows import Rows
from checkers._facts import tier
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import own


@dataclass(frozen=True, slots=True)
class Moment:
    """When nodes did something, in the order in which each of them lived its rows."""

    incarnation: Ints
    step: Ints
    index: Ints

    @classmethod
    def of(cls, rows: Rows, at: Ints) -> Self:
        return cls(*(rows.column(name)[at] for name in ("incarnation", "step", "index")))

    def one(self, place: int) -> Moment:
        at = slice(place, place + 1)
        return Moment(self.incarnation[at], self.step[at], self.index[at])

    def is_before(self, other: Moment) -> Flags:
        """Compare each with each, or with one; both of one node."""
        earlier: Flags = self.index < other.index
        for mine, its in ((self.step, other.step), (self.incarnation, other.incarnation)):
            earlier = (mine < its) | ((mine == its) & earlier)
        return earlier


@dataclass(frozen=True, slots=True)
class End:
    """Where one version of a manifest ends, by its row's ``index``: up to which offset of its ``queue``, at which
    ``position`` of the ``writer``'s log. ``names_any``: it names segments. ``sent``: when its writer sent it (and
    ``sent_ns``), None where that is unknown. ``repeats``: the version before it, of which ``before_index`` is the row
    and ``before_position`` the end in the log, ends at the same offset."""

    queue: int
    index: int
    version: int
    end: int
    position: int
    writer: str
    names_any: bool
    sent: Moment | None
    sent_ns: int
    repeats: bool
    before_index: int
    before_position: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The same of all versions of a queue, in their order. ``sent.index`` is -1 where it is unknown when one was sent;
    ``names_request``: who sent it named the request, so that it was this one and not the same sent again."""

    queue: int
    index: Ints
    version: np.ndarray
    end: Ints
    position: Ints
    writer: Ints
    writers: tuple[str, ...]
    names_any: Flags
    sent: Moment
    sent_ns: Ints
    names_request: Flags

    @property
    def repeats(self) -> Flags:
        return np.append(np.zeros(1, np.bool_), self.end[1:] == self.end[:-1])[: len(self.end)]

    def one(self, place: int, is_sent: bool) -> End:
        """Return one of them. ``is_sent``: it is known when it was sent."""
        before = max(0, place - 1)
        return End(
            queue=self.queue,
            index=int(self.index[place]),
            version=int(self.version[place]),
            end=int(self.end[place]),
            position=int(self.position[place]),
            writer=self.writers[self.writer[place]],
            names_any=bool(self.names_any[place]),
            sent=self.sent.one(place) if is_sent else None,
            sent_ns=int(self.sent_ns[place]),
            repeats=place > 0 and bool(self.end[place] == self.end[before]),
            before_index=int(self.index[before]),
            before_position=int(self.position[before]),
        )


def ends_of_versions(rows: Rows) -> Mapping[int, Ends]:
    """Return the ends of each queue's versions."""
    sent = _sent(rows)
    return {queue: _of_queue(rows, versions, sent) for queue, versions in rows.memo(tier.manifests).items()}


#: What :func:`ends_of_versions` knows.
ENDS = Lookup(rows=(own("trace", "store_cas", "tier_commit"),), make=ends_of_versions)


def _of_queue(rows: Rows, versions: tier.Versions, sent: Mapping[_Request, int]) -> Ends:
    requests = [*_requests(rows, versions)]
    commits = np.array([sent.get(one, -1) for one in requests], dtype=np.int64)
    known, moment = commits >= 0, Moment.of(rows, commits)
    return Ends(
        queue=versions.queue,
        index=rows.column("index")[versions.at],
        version=versions.number,
        end=versions.end,
        position=versions.position,
        writer=versions.writer,
        writers=tuple(versions.writers),
        names_any=np.array([bool(spans) for spans in versions.spans], dtype=np.bool_),
        sent=Moment(moment.incarnation, moment.step, np.where(known, moment.index, -1)),
        sent_ns=np.where(known, rows.column("time_ns")[commits], -1),
        names_request=np.array([isinstance(one, _Named) for one in requests], dtype=np.bool_),
    )


class _Named(NamedTuple):
    """What the row of a commit and the store's row of it have in common, where both name the request."""

    queue: int
    request: str


#: Or else: the queue, who sent the version, and its number.
_Request = _Named | tuple[int, str, int]


def _request(value: Mapping[str, Any], writer: str, queue: int) -> _Request:
    if value.get("request"):
        return _Named(queue, str(value["request"]))
    return queue, writer, int(value.get("version", -1))


def _requests(rows: Rows, versions: tier.Versions) -> Iterator[_Request]:
    for value, writer in zip(rows.values(versions.at), versions.writer.tolist(), strict=True):
        yield _request(value, versions.writers[writer], versions.queue)


def _sent(rows: Rows) -> Mapping[_Request, int]:
    """Return the rows by which uploaders report that they sent a manifest."""
    commits = rows.where(kind="trace", f="tier_commit")
    each = zip(commits.tolist(), rows.column("queue")[commits].tolist(), rows.values(commits), strict=True)
    return {_request(value, rows.text("node", at), queue): at for at, queue, value in each}
