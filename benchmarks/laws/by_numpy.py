"""The same questions in plain numpy, of some queues in each process, with arrays that are addressed by queue, offset
and message.

It only counts, keeps no witness, and trusts the generator: one epoch, offsets and ids without gaps, a single group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.laws.histories import READ, Made, read
from chaos.history.pieces import Piece

Ints = npt.NDArray[np.int64]
_SEQUENCE = (1 << 40) - 1


def create(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    pool = stack.enter_context(ProcessPoolExecutor(threads, get_context("spawn")))
    share = partial(count, made.pieces, threads)
    return lambda: sum(pool.map(share, range(threads)), Counter())


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of some queues; texts as codes. ``slot``: queue and offset as one number below ``slots``; ``id``: queue
    and sequence likewise."""

    numbers: dict[str, Ints]
    codes: dict[str, tuple[npt.NDArray[Any], list[str]]]
    value: Any
    base: Ints

    @classmethod
    def read(cls, pieces: Sequence[Piece], shares: int, share: int) -> _Rows:
        tables = []
        for piece in pieces:
            table = read(piece)
            queue = table["queue"].to_numpy()
            tables.append(table.filter(pa.array((queue < 0) | (queue % shares == share))))
        table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        numbers = {name: table[name].to_numpy() for name in READ[:6]}
        codes = {}
        for name in ("kind", "f", "type"):
            chunk = table[name].chunk(0)
            codes[name] = (chunk.indices.to_numpy(), chunk.dictionary.to_pylist())
        top = np.zeros(numbers["queue"].max() + 2, dtype=np.int64)
        for column in (numbers["offset"], numbers["message"] & _SEQUENCE):
            known = (numbers["queue"] >= 0) & (column >= 0) & (column < _SEQUENCE)
            np.maximum.at(top, numbers["queue"][known] + 1, column[known] + 2)
        return cls(numbers, codes, table["value"].combine_chunks(), np.cumsum(top))

    def at(self, f: str, *types: str) -> Ints:
        column, texts = self.codes["f"]
        found = np.flatnonzero(column == texts.index(f))
        kinds, words = self.codes["type"]
        return found[np.isin(kinds[found], [words.index(one) for one in types if one in words])] if types else found

    def slot(self, at: Ints) -> Ints:
        return self.base[self.numbers["queue"][at]] + self.numbers["offset"][at]

    def id(self, at: Ints) -> Ints:
        return self.base[self.numbers["queue"][at]] + (self.numbers["message"][at] & _SEQUENCE)

    def reported(self, key: str, at: Ints) -> Ints:
        texts = self.value.take(pa.array(at)).dictionary_encode()
        found = pc.struct_field(pc.extract_regex(texts.dictionary, rf'"{key}":(?P<n>\d+)'), "n")
        numbers = pc.cast(pc.fill_null(found, "-1"), "int64").to_numpy()
        return np.asarray(numbers[texts.indices.to_numpy()])

    def has(self, text: str, at: Ints) -> npt.NDArray[np.bool_]:
        texts = self.value.take(pa.array(at)).dictionary_encode()
        known = pc.match_substring(texts.dictionary, text).to_numpy(zero_copy_only=False)
        return np.asarray(known[texts.indices.to_numpy()])


def count(pieces: Sequence[Piece], shares: int, share: int) -> Counter[str]:
    """Count in one of so many shares of the queues."""
    rows = _Rows.read(pieces, shares, share)
    counted: Counter[str] = Counter()
    if not (rows.numbers["queue"] >= 0).any():
        return counted
    _content(rows, counted)
    _order(rows, counted)
    _groups(rows, counted)
    return counted


def _calls(rows: _Rows, f: str) -> tuple[Ints, Ints]:
    """Return the invocations of one kind, and the place of each one's completion, -1 without one."""
    asked, ended = rows.at(f, "invoke"), rows.at(f, "ok", "info", "fail")
    done = np.full(len(asked), -1, dtype=np.int64)
    done[np.searchsorted(rows.numbers["index"][asked], rows.numbers["op"][ended])] = ended
    return asked, done


def _is(rows: _Rows, done: Ints, word: str) -> npt.NDArray[np.bool_]:
    kinds, words = rows.codes["type"]
    return (done >= 0) & (kinds[done] == (words.index(word) if word in words else -2))


def _begin(rows: _Rows) -> int:
    phases = rows.at("phase")
    return int(rows.numbers["index"][phases[rows.has("drain", phases)][0]])


def _content(rows: _Rows, counted: Counter[str]) -> None:
    size = int(rows.base[-1])
    content, message = rows.numbers["hash"], rows.numbers["message"]
    asked, done = _calls(rows, "send")
    ok, failed = _is(rows, done, "ok"), _is(rows, done, "fail")
    read = rows.at("delivered")
    final = rows.numbers["op"][read] >= _begin(rows)
    slot, last = rows.slot(read), np.full(size, -1, dtype=np.int64)
    last[slot[final]] = content[read[final]]
    acked = rows.slot(done[ok])
    counted["lost"] += int((last[acked] != content[asked[ok]]).sum())
    there, held = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    there[rows.id(read[final])] = True
    held[rows.id(asked[ok])] = True
    unclear = np.unique(rows.id(asked[~ok & ~failed]))
    counted["recovered"] += int((there[unclear] & ~held[unclear]).sum())
    attempts, origin = np.zeros(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    np.add.at(attempts, rows.id(asked[~failed]), 1)
    origin[rows.id(asked)] = content[asked]
    who = rows.id(read)
    unexpected = (origin[who] < 0) | (attempts[who] == 0)
    counted["unexpected"] += len(np.unique(slot[unexpected]))
    counted["corrupt"] += len(np.unique(slot[~unexpected & (origin[who] != content[read])]))
    copies = np.bincount(who[final], minlength=size)
    counted["duplicate-append"] += int((copies > np.maximum(attempts, 1)).sum())
    places = np.concatenate([acked, slot])
    contents = np.concatenate([content[asked[ok]], content[read]])
    counted["offset-conflict"] += _conflicts(places, contents, size)
    counted["rollback"] += _conflicts(slot, content[read], size)
    gone = np.zeros(size, dtype=np.bool_)
    gone[slot[~final]] = True
    counted["rollback"] += int((gone & (last < 0)).sum())
    assert len(message)


def _conflicts(slot: Ints, content: Ints, size: int) -> int:
    one = np.empty(size, dtype=np.int64)
    one[slot] = content
    other = np.flatnonzero(one[slot] != content)
    return len(set(zip(slot[other].tolist(), content[other].tolist(), strict=True)))


def _order(rows: _Rows, counted: Counter[str]) -> None:
    index, queue, offset = (rows.numbers[name] for name in ("index", "queue", "offset"))
    asked, done = _calls(rows, "send")
    ok = _is(rows, done, "ok")
    asked, done = asked[ok], done[ok]
    ends = [(index[asked], index[done], queue[done], offset[done] + 1, offset[done])]
    for f in ("pull", "bounds"):
        begun, answers = _calls(rows, f)
        maximum = rows.reported("maximum", answers)
        ends.append((index[begun], index[answers], queue[answers], maximum, maximum))
    for name, (began, ended, of, least, most) in {
        "reorder": ends[0],
        "max-offset-regression": tuple(np.concatenate(column) for column in zip(*ends, strict=True)),
    }.items():
        for one in np.unique(of):
            mine = of == one
            order = np.argsort(ended[mine])
            highest = np.maximum.accumulate(least[mine][order])
            place = np.searchsorted(ended[mine][order], began[mine]) - 1
            counted[name] += int((most[mine] < np.where(place >= 0, highest[place], -1)).sum())


def _groups(rows: _Rows, counted: Counter[str]) -> None:
    """Count what one group was given, and what it committed."""
    index, queue, offset = (rows.numbers[name] for name in ("index", "queue", "offset"))
    asked, done = _calls(rows, "pull")
    read = rows.at("delivered")
    pull = np.searchsorted(index[asked], rows.numbers["op"][read])
    order = np.argsort(pull, kind="stable")
    sorted_pull, given = pull[order], offset[read[order]]
    first = np.append(True, sorted_pull[1:] != sorted_pull[:-1])
    expected = np.where(
        first,
        np.maximum(offset[asked][sorted_pull], rows.reported("minimum", done)[sorted_pull]),
        np.roll(given, 1) + 1,
    )
    counted["consumer-reorder"] += int((given != expected).sum())
    limit = rows.reported("limit", asked)
    counted["over-full"] += int(((limit >= 0) & (np.bincount(pull, minlength=len(asked)) > limit)).sum())
    grouped = rows.has('"group"', asked)
    got = read[grouped[pull]]
    times = np.bincount(rows.slot(got), minlength=int(rows.base[-1]))
    counted["redelivery"] += int((times - (times > 0)).sum())
    tried, acked = _calls(rows, "commit")
    question, found = _calls(rows, "committed")
    sends, stored = _calls(rows, "send")
    good = _is(rows, stored, "ok")
    for one in np.unique(queue[tried]):
        mine, his = queue[tried] == one, queue[question] == one
        commits, wanted = offset[tried[mine]], offset[found[his]]
        order = np.argsort(index[acked[mine]])
        place = np.searchsorted(index[acked[mine]][order], index[question[his]])
        counted["commit-regression"] += int(
            (wanted < np.append(-1, np.maximum.accumulate(commits[order]))[place]).sum()
        )
        place = np.searchsorted(index[tried[mine]], index[found[his]])
        counted["never-committed"] += int((wanted > np.append(0, np.maximum.accumulate(commits))[place]).sum())
        begin, end = (
            rows.base[one] + offset[asked[grouped & (queue[asked] == one)]].min(),
            rows.base[one] + commits.max(),
        )
        counted["skipped"] += int((times[begin:end] == 0).sum())
    content = np.full(int(rows.base[-1]), -1, dtype=np.int64)
    content[rows.slot(got)] = rows.numbers["hash"][got]
    where, sent = rows.slot(stored[good]), rows.numbers["hash"][sends[good]]
    missing = (content[where] >= 0) & (content[where] != sent)
    hashes = rows.numbers["hash"][got] if missing.any() else sent[:0]
    counted["skipped"] += int((~np.isin(sent[missing], hashes)).sum())
