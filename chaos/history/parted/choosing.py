"""Which rows stand together in the shards of a large run: how a part of its plan says so, and who finds them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.ends import NEEDED
from chaos.history.parted import numbers
from chaos.history.parted import places as _places
from chaos.history.parted.words import coded, named

#: Columns by which rows are chosen and distinguished, and by which beginnings are made of ends.
ALWAYS = ("kind", "f", "queue", *NEEDED)
#: Columns by which the rows of a node are ordered.
LIVED = ("node", "incarnation", "step")
#: More shards of one part than this help nobody: some key has more rows than a shard should have.
MOST_SHARDS = 1 << 12
#: Parts of less than a queue: keys that follow one another share shards.
OF_QUEUES = ("offset", "call", "message")
#: Keys that stand in the ``value`` of a row, under this name.
OF_VALUES = ("group", "object")

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows of one kind with one of these ``f``, or all of that kind; ``queueless``: only those without a queue."""

    kind: str
    f: tuple[str, ...] = ()
    queueless: bool = False


@dataclass(frozen=True, slots=True)
class Sieve:
    """Chooses rows that each shard holds: ``keep`` is given all ``rows``, with these ``columns``, and returns the
    ``index`` of those that are kept. One of ``Part.summaries`` is given those of one shard, and one of ``Part.sifted``
    those of all, with those that must be known ``before`` ahead of all others. ``remember`` and ``sure`` are for sieves
    of nodes' rows (:mod:`chaos.history.parted.lived`): they return the ``index`` of what must be known of these rows to
    choose among later ones, and of what is kept whatever these are. ``streamed``: what it keeps of what it has kept of
    some rows and of others is what it keeps of all of them; one that has ``apart`` must know what came before a row,
    and is given what that keeps of the rows of each piece by themselves."""

    rows: tuple[Chosen, ...]
    columns: tuple[str, ...]
    keep: Callable[[pa.Table], Ints]
    remember: Callable[[pa.Table], Ints] | None = None
    sure: Callable[[pa.Table], Ints] | None = None
    apart: Sieve | None = None
    before: tuple[Chosen, ...] = ()
    streamed: bool = False

    def only(self, rows: pa.Table) -> pa.Table:
        """Return the rows with no more columns than it is given."""
        read = (*self.columns, *ALWAYS, *(LIVED if self.remember is not None else ()))
        return rows.select([name for name in rows.column_names if name in read])


@dataclass(frozen=True, slots=True)
class Lookup:
    """What all shards of parts of queues are given: ``make`` is given all ``rows`` of a queue."""

    rows: tuple[Chosen, ...]
    make: Callable[[Any], Mapping[int, Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """Shards ``NAME-0``, ``NAME-1``, … of which each holds all the ``own`` rows of some keys, of ``everywhere`` all
    rows, and all that the ``sieves`` keep. ``key``: the column ``queue`` or ``node``, one of :data:`OF_VALUES`, or
    ``offset``, ``message`` and ``call`` for less than a queue (:mod:`chaos.history.parted.places`);
    ``run`` is one shard for all. Rows without a key stand together. ``split``: what takes its place where a key has
    more rows than a shard should have; together they want the same rows. ``sifted``: what these keep are own rows too.

    Beside its own rows each shard holds all of ``beside``, what the ``summaries`` keep of each shard, and of
    ``callers`` those operations of which it has deliveries. ``lookups``: what it is given besides rows."""

    name: str
    key: str
    own: tuple[Chosen, ...] = ()
    everywhere: tuple[Chosen, ...] = ()
    sieves: tuple[Sieve, ...] = ()
    split: tuple[Part, ...] = ()
    beside: tuple[Chosen, ...] = ()
    callers: tuple[Chosen, ...] = ()
    summaries: tuple[Sieve, ...] = ()
    sifted: tuple[Sieve, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    @property
    def maybe_own(self) -> tuple[Chosen, ...]:
        """Which rows are its own, and those of which sieves may keep some."""
        return (*self.own, *(one for sieve in self.sifted for one in sieve.rows))

    @property
    def has_beside(self) -> bool:
        """Whether its shards distinguish their own rows from others."""
        return bool(self.beside or self.callers or self.summaries)


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """In which shard of a part the rows of each key stand. ``keys`` ascend."""

    keys: Ints
    number: Ints

    @classmethod
    def of(cls, part: Part, keys: Ints, rows: Ints, most: int) -> Buckets:
        """For these different keys, which ascend, of so many rows each: as few shards as it takes until none has too
        many, or each key stands alone. Of parts of a queue, keys that follow one another share shards."""
        if part.key in OF_QUEUES:
            return cls(keys, (np.cumsum(rows) - rows) // most)
        count = 1
        while count < min(len(keys), MOST_SHARDS) and int(np.bincount(keys % count, rows).max(initial=0)) > most:
            count *= 2
        return cls(keys, keys % count)

    @property
    def filled(self) -> list[int]:
        """The shards that have rows of their own, or the first one where none has: what stands in every shard is
        examined once at least."""
        found: list[int] = numbers.distinct(self.number).tolist()
        return found or [0]

    def numbers(self, key: Ints, own: Flags) -> Ints:
        """In which shard the rows of these keys stand, -1 for those that aren't ``own`` ones of the part."""
        if not len(self.keys):
            return np.full(len(key), -1, dtype=np.int64)
        return np.where(own, self.number[np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)], -1)


class Chooser:
    """Finds rows of a table by kind and ``f``, and their keys."""

    def __init__(
        self, table: pa.Table, kept: Mapping[Sieve, Ints] | None = None, places: _places.Places | None = None
    ) -> None:
        self._table = table
        self._kept = kept or {}
        self._places = places or _places.Places()
        self._keys: dict[str, Ints] = {}
        self._parts: dict[Part, tuple[Flags, Flags]] = {}
        self._words: dict[str, tuple[npt.NDArray[Any], list[str]]] = {}
        self._pairs: npt.NDArray[Any] | None = None

    def of(self, part: Part) -> tuple[Flags, Flags]:
        """Which rows are a part's own, and which it needs everywhere."""
        if part not in self._parts:
            self._parts[part] = self._chosen(part)
        return self._parts[part]

    def _chosen(self, part: Part) -> tuple[Flags, Flags]:
        everywhere = self.any_of(part.everywhere) | self._kept_by(part.sieves)
        own = self.any_of(part.own) | self._kept_by(part.sifted)
        return own & ~everywhere, everywhere

    def _kept_by(self, sieves: Sequence[Sieve]) -> Flags:
        found = np.zeros(self._table.num_rows, dtype=np.bool_)
        for sieve in sieves:
            wanted = self._kept.get(sieve)
            if wanted is not None and len(wanted):
                found |= numbers.wanted(self._table["index"].to_numpy(), wanted)
        return found

    def any_of(self, chosen: Sequence[Chosen]) -> Flags:
        if not chosen:
            return np.zeros(self._table.num_rows, dtype=np.bool_)
        found = self._looked_up([one for one in chosen if not one.queueless])
        if queueless := [one for one in chosen if one.queueless]:
            found |= self._looked_up(queueless) & (self.keys("queue") < 0)
        return found

    def _looked_up(self, chosen: Sequence[Chosen]) -> Flags:
        """Which rows have these kinds and ``f``: one look for each row into a table of all pairs of them."""
        kinds, fs = (self._coded(column)[1] for column in ("kind", "f"))
        wanted = np.zeros((len(kinds) + 1, len(fs) + 1), dtype=np.bool_)
        for one in chosen:
            of_kind = np.array([*(kind == one.kind for kind in kinds), False], np.bool_)
            of_f = np.array([*(not one.f or f in one.f for f in fs), not one.f], np.bool_)
            wanted |= np.outer(of_kind, of_f)
        if self._pairs is None:
            (kind, _), (f, _) = self._coded("kind"), self._coded("f")
            self._pairs = np.where(kind < 0, len(kinds), kind) * (len(fs) + 1) + np.where(f < 0, len(fs), f)
        found: Flags = wanted.ravel()[self._pairs]
        return found

    def are(self, column: str, *words: str) -> Flags:
        """Which rows have one of these words in a column."""
        codes, texts = self._coded(column)
        found: Flags = np.array([*(text in words for text in texts), False], np.bool_)[codes]
        return found

    def _coded(self, column: str) -> tuple[npt.NDArray[Any], list[str]]:
        if column not in self._words:
            self._words[column] = coded(self._table, column)
        return self._words[column]

    def keys(self, key: str, own: Flags | None = None) -> Ints:
        """Return a number for each row that rows of one key share, also in another process. ``own``: nobody asks about
        other rows than these, which may have any."""
        if own is not None and key in OF_VALUES:  # to look for a word takes longer than to know which rows are wanted
            found = np.zeros(len(own), np.int64)
            found[own] = _hashed(*named(self._table.filter(pa.array(own)), key))
            return found
        if key not in self._keys:
            self._keys[key] = self._found(key)
        return self._keys[key]

    def _found(self, key: str) -> Ints:
        if key == "queue":
            return np.asarray(self._table["queue"].to_numpy(), dtype=np.int64)
        if key == "run":
            return np.zeros(self._table.num_rows, dtype=np.int64)
        if key == "offset":
            return self._places.of(self._table)
        if key == "call":
            return self._places.calls(self._table)
        if key == "message":
            return self._places.messages(self._table)
        return _hashed(*(named(self._table, key) if key in OF_VALUES else coded(self._table, key)))


def _hashed(codes: npt.NDArray[Any], texts: Sequence[str]) -> Ints:
    hashes = (zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts)
    return np.array([*hashes, 0], dtype=np.int64)[codes]


def is_split(part: Part, rows: Ints, most: int) -> bool:
    """Return whether others take the place of a part whose keys have so many rows."""
    return bool(part.split) and int(rows.max(initial=0)) > most
