"""What manifests name is held once, however many versions name it, and read as if each version listed it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from chaos.judging.shard import Shard
from checkers._facts import retention, tier
from checkers._facts.manifests.segments import extended, part, places, size, without
from checkers._facts.tier import Version, Versions
from reference.objectstore.changes import Traced
from tests.checkers.histories import History

#: What a manifest may list besides segments that tell all that they should.
ODD: Sequence[Any] = ("k0", None, 7, {}, {"key": 3}, {"key": "k1", "base": 1, "count": True}, {"base": 2, "count": 1})
#: What may stand in the place of the list.
NO_LISTS: Sequence[Any] = (None, "ab", 7, {"key": "k"})


class Uploader:
    """Makes versions of the manifest of one queue: it goes on, trims, cuts back, takes over; most of it in order."""

    def __init__(self, rng: Random, queue: int) -> None:
        self.rng, self.queue, self.version, self.start = rng, queue, 0, rng.randrange(3)
        self.end = self.start
        self.segments: list[Any] = []
        self.odd = rng.choice((0, 0, 0.05))

    def next(self) -> dict[str, Any]:
        rng = self.rng
        self.version += rng.choice((1, 1, 1, 1, 0, 2))
        kind = rng.choice(("append",) * 8 + ("trim", "cut", "take over"))
        plain = [one for one in self.segments if isinstance(one, dict) and isinstance(one.get("base"), int)]
        if kind == "append":
            self.segments = [*self.segments, self._segment()]
        elif kind == "trim" and plain:
            self.start = rng.choice(plain)["base"]
            self.segments = [one for one in self.segments if one not in plain or one["base"] >= self.start]
        elif kind == "cut" and plain:
            self.end = rng.choice(plain)["base"] + rng.choice((0, 0, 1))
            kept = [one for one in plain if one["base"] < self.end]
            self.segments = [one | {"count": min(one.get("count", 1), self.end - one["base"])} for one in kept]
        listed: Any = self.segments
        if rng.random() < self.odd:
            listed = rng.choice(NO_LISTS)
        told = {"version": self.version, "start": self.start, "end": self.end, "writer": rng.choice(("a", "b", ""))}
        return {**told, "confirm": rng.choice((self.end, 1 << 70, -1)), "segments": listed}

    def _segment(self) -> Any:
        rng = self.rng
        if rng.random() < self.odd:
            return rng.choice(ODD)
        base, count = self.end + (rng.random() < 0.02), rng.choice((1, 2, 5))
        self.end = base + count + (rng.random() < 0.02)
        key = f"k{base if rng.random() < 0.95 else 0}"
        return {"key": key, "base": base, "count": count, "bytes": count * 9, "hash": base * 7, "epoch": 1}


def told(rng: Random, versions: int = 60, *, by_changes: float = 0.9) -> tuple[Shard, dict[int, dict[str, Any]]]:
    """Rows that tell versions of two queues, and the manifest of each."""
    history, known, wanted = History(), dict[int, Traced](), dict[int, dict[str, Any]]()
    uploaders = [Uploader(rng, queue) for queue in range(2)]
    for number in range(versions):
        uploader = rng.choice(uploaders)
        content, queue = uploader.next(), uploader.queue
        changes = known[queue].changes(content) if queue in known and rng.random() < by_changes else None
        outcome = rng.choice(("applied",) * 5 + ("conflict",))
        value = {"content": content} if changes is None else {"changes": changes}
        value |= {"version": content["version"], "outcome": outcome, "caller": "c"}
        history.trace("store-0", "store_cas", queue=queue, offset=content["end"], hash=number, epoch=1, value=value)
        if outcome == "applied":
            known[queue] = Traced.of(number, content)
        wanted[number] = content
    rows = Shard(history.table())
    return rows, {at: wanted[int(rows.column("hash")[at])] for at in rows.where(f="store_cas").tolist()}


def listed(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The segments of a manifest, one by one: nothing of what is none."""
    found = content.get("segments") or []
    return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list | str) else [{}]


def in_order(version: Version, segments: Sequence[Mapping[str, Any]]) -> bool:
    expected = version.start
    for segment in segments:
        if segment.get("base") != expected or type(segment.get("count")) is not int:
            return False
        expected += segment["count"]
    return expected == version.end or not (segments or version.start >= 0)


def check(rows: Shard, wanted: Mapping[int, dict[str, Any]]) -> int:
    """Returns how many versions were out of order."""
    out_of_order = 0
    for at, content in wanted.items():
        assert retention.content(rows, at) == content
    for queue, versions in tier.manifests(rows).items():
        lists = [listed(wanted[version.at]) for version in versions]
        for version, segments in zip(versions, lists, strict=True):
            _reads_like(version.segments, segments)
            assert (version.queue, version.confirm) == (queue, wanted[version.at]["confirm"])
            assert version.writer == (wanted[version.at]["writer"] or "c")
            same, first = (
                versions.find(version.version),
                next(one for one in versions if one.version == version.version),
            )
            assert same is not None and same.at == first.at
        out = {version.at for version in versions.out_of_order()}
        for version, segments in zip(versions, lists, strict=True):
            is_right = in_order(version, segments)
            assert is_right or version.at in out
            plain = all(len(one) == 6 for one in segments)
            assert version.at not in out or not (is_right and plain), "else each version is read whole"
        out_of_order += len(out)
        _tells_what_changes(versions, lists)
    return out_of_order


def _reads_like(found: Sequence[Mapping[str, Any]], wanted: list[Mapping[str, Any]]) -> None:
    assert [*found] == wanted and len(found) == len(wanted)
    assert [*found[1:]] == wanted[1:] and [*found[::-1]] == wanted[::-1]
    assert [found[at] for at in range(-len(wanted), len(wanted))] == wanted * 2
    with pytest.raises(IndexError):
        found[len(wanted)]


def _tells_what_changes(versions: Versions, lists: list[list[Mapping[str, Any]]]) -> None:
    before: set[str] = set()
    for (_, added), segments in zip(versions.added(), lists, strict=True):
        assert [*added] == [one for one in segments if str(one.get("key", "")) not in before]
        before = {str(one.get("key", "")) for one in segments}
    last = {str(one.get("key")): place for place, segments in enumerate(lists) for one in segments}
    assert versions.last_named() == last


def test_manifests_are_read_as_they_were_told() -> None:
    assert sum(check(*told(Random(f"manifests {seed}"))) for seed in range(60)) > 60


@pytest.mark.full
def test_hundreds_of_manifests_are_read_as_they_were_told() -> None:
    for seed in range(750):
        rng = Random(f"many manifests {seed}")
        check(*told(rng, by_changes=rng.choice((0, 0.5, 1))))


def test_a_number_of_a_version_that_nobody_has_is_not_found() -> None:
    rows, _ = told(Random(3))
    for versions in tier.manifests(rows).values():
        assert [versions.find(number) for number in (-5, 1 << 70, 1_000)] == [None] * 3


def test_spans_are_parted_and_joined_like_lists() -> None:
    for seed in range(500):
        rng = Random(seed)
        spans, others = (tuple(sorted(rng.sample(range(40), 2 * rng.randrange(6)))) for _ in range(2))
        every = [at for at in range(40) if sum(edge <= at for edge in spans) % 2]
        first, many = rng.randrange(len(every) + 1), rng.randrange(10)
        assert [*places(spans)] == every and size(spans) == len(every)
        assert [*places(part(spans, first, many))] == every[first : first + many]
        assert [*without(spans, others)] == [at for at in every if at not in [*places(others)]]
        end = spans[-1] if spans and rng.random() < 0.5 else 40
        assert [*places(extended(spans, end, end + 3))] == [*every, end, end + 1, end + 2]


def grown(versions: int) -> Shard:
    """A queue whose manifest names one segment more with each version."""
    history = History()
    for number in range(versions):
        segment = {"key": f"queues/0/data/{number:020}", "base": number, "count": 1, "bytes": 9, "hash": 7, "epoch": 1}
        content = {"version": number, "start": 0, "end": number + 1, "writer": "a", "confirm": 5, "segments": [segment]}
        changes = {"since": number - 1, "kept": [0, number], "content": content}
        value: dict[str, Any] = {"changes": changes} if number else {"content": content}
        value |= {"version": number, "outcome": "applied"}
        history.trace("store-0", "store_cas", queue=0, offset=number + 1, hash=number, epoch=1, value=value)
    return Shard(history.table())


def held(versions: int) -> int:
    """How many bytes the manifests of so many versions take, what was parsed for them not counted."""
    rows = grown(versions)
    for at in rows.where(f="store_cas").tolist():
        rows.value(at)
    tracemalloc.start()
    found = tier.manifests(rows)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(found[0][-1].segments) == versions and not [*found[0].out_of_order()]
    return taken


def test_what_a_version_takes_does_not_grow_with_what_it_names() -> None:
    few, many = held(500), held(4_000)
    assert (many - few) / 3_500 < 500
