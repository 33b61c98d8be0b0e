"""The manifest as a value: every change is the next version, and its bytes say all of it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reference.tier.interface import TopicQueue
from reference.tier.manifest import Manifest, ManifestError, Segment, Stamp
from reference.tier.objects import content_hash
from tests.damage import altered

QUEUE = TopicQueue(index=5, topic="orders", queue_id=1)


def stamp(attempt: int = 1, epoch: int = 1, writer: str = "broker-0") -> Stamp:
    return Stamp(writer=writer, epoch=epoch, generation=4, attempt=attempt, confirm=900)


def segment(base: int, count: int, size: int = 100) -> Segment:
    return Segment(key=f"queues/5/data/{base}", base=base, count=count, bytes=size, hash=base + 1, epoch=1)


def filled() -> Manifest:
    """Offsets 10 to 39 in three segments."""
    manifest = Manifest.first(QUEUE, 10, stamp())
    for index in range(3):
        manifest = manifest.append(segment(10 + 10 * index, 10), 100 * (index + 1), stamp(attempt=index + 2))
    return manifest


def test_the_first_version_holds_nothing_from_where_uploads_begin() -> None:
    first = Manifest.first(QUEUE, 10, stamp())
    assert (first.version, first.start, first.end, first.position, first.segments) == (1, 10, 10, 0, ())
    assert (first.queue, first.topic, first.queue_id) == (5, "orders", 1)
    assert first.problems() == []


def test_appending_moves_t_and_p_and_says_who_did_it() -> None:
    manifest = filled()
    assert (manifest.version, manifest.start, manifest.end, manifest.position) == (4, 10, 40, 300)
    assert (manifest.writer, manifest.epoch, manifest.generation, manifest.attempt) == ("broker-0", 1, 4, 4)
    assert manifest.confirm == 900
    assert manifest.problems() == []


def test_a_take_over_changes_the_writer_and_nothing_else() -> None:
    before = filled()
    after = before.take_over(stamp(epoch=2, writer="broker-1"))
    assert after.is_by("broker-1", 2, 4) and not after.is_by("broker-1", 2, 5) and not before.is_by("broker-1", 2, 4)
    assert replace(after, version=4, writer="broker-0", epoch=1, attempt=4) == before
    assert after.version == 5


def test_a_manifest_goes_to_the_queue_that_has_its_index_now() -> None:
    before = filled()
    assert before.of_queue(QUEUE) is before
    after = before.of_queue(TopicQueue(index=5, topic="invoices", queue_id=0))
    assert (after.topic, after.queue_id) == ("invoices", 0)
    assert replace(after, topic="orders", queue_id=1) == before


def test_a_trimmed_manifest_keeps_its_end_even_when_it_is_empty() -> None:
    trimmed = filled().trim(20, stamp(9))
    assert [s.base for s in trimmed.segments] == [20, 30]
    empty = trimmed.trim(40, stamp(10))
    assert (empty.start, empty.end, empty.position, empty.segments) == (40, 40, 300, ())
    assert trimmed.problems() == empty.problems() == []


def test_cutting_back_drops_what_lies_behind() -> None:
    cut = filled().cut_back(20, 100, stamp(9, epoch=2))
    assert (cut.start, cut.end, cut.position, [s.base for s in cut.segments]) == (10, 20, 100, [10])
    assert cut.problems() == []
    within = filled().cut_back(25, 150, stamp(9, epoch=2))
    assert [(s.base, s.count) for s in within.segments] == [(10, 10), (20, 5)]
    assert (within.end, within.segments[1].bytes, within.problems()) == (25, filled().segments[1].bytes, [])
    nothing = filled().trim(30, stamp(5)).cut_back(20, 100, stamp(9, epoch=2))
    assert (nothing.start, nothing.end, nothing.segments) == (20, 20, ())


@pytest.mark.parametrize(("retain", "start"), [(1, 30), (100, 30), (199, 30), (200, 20), (300, 10), (10_000, 10)])
def test_retention_keeps_the_newest_segments_within_its_bytes(retain: int, start: int) -> None:
    assert filled().retained_from(retain) == start


def test_an_empty_manifest_has_nothing_to_retain() -> None:
    assert Manifest.first(QUEUE, 10, stamp()).retained_from(1) == 10


def test_an_offset_is_found_in_its_segment_only() -> None:
    manifest = filled()
    found = [manifest.find(offset) for offset in (9, 10, 19, 20, 39, 40)]
    assert [s.base if s else None for s in found] == [None, 10, 10, 20, 30, None]
    assert manifest.names("queues/5/data/20") and not manifest.names("queues/5/data/21")


def test_gaps_overlaps_and_false_ends_are_told() -> None:
    assert filled().append(segment(41, 2), 400, stamp()).problems()
    assert filled().append(segment(39, 2), 400, stamp()).problems()
    assert filled().append(segment(40, 0), 400, stamp()).problems()
    assert replace(filled(), end=41).problems()
    assert replace(filled(), position=0).problems()


def test_the_bytes_say_all_of_it() -> None:
    manifest = filled()
    content = manifest.encode()
    assert Manifest.decode(content) == manifest
    assert Manifest.decode(content).encode() == content
    value = json.loads(content)
    assert list(value) == [f.name for f in fields(Manifest)]
    assert list(value["segments"][0]) == ["key", "base", "count", "bytes", "hash", "epoch"]


def test_a_view_is_of_exactly_these_bytes() -> None:
    view = filled().view()
    assert (view.queue, view.version, view.epoch, view.start, view.end, view.position) == (5, 4, 1, 10, 40, 300)
    assert view.content == filled().encode()
    assert view.hash == content_hash(view.content)


def test_numbers_beyond_32_and_53_bits_survive() -> None:
    manifest = Manifest.first(QUEUE, 2**53 - 1, stamp(epoch=2**31))
    manifest = manifest.append(segment(2**53 - 1, 3), 2**53 + 1, stamp(epoch=2**31))
    assert Manifest.decode(manifest.encode()) == manifest


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"segments":{}}',
        b'{"segments":[]}',
        filled().encode().replace(b'"version":4', b'"version":"4"'),
        filled().encode().replace(b'"version":4', b'"version":true'),
        filled().encode().replace(b'"version":4', b'"version":4,"extra":1'),
        filled().encode().replace(b'"count":10', b'"count":1.5'),
        filled().encode()[:-1],
    ],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ManifestError):
        Manifest.decode(content)


class ManifestMachine(RuleBasedStateMachine):
    """A manifest beside a dictionary: offset → the key of the segment that holds it. A crash leaves only its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.manifest = Manifest.first(QUEUE, 10, stamp())
        self.held: dict[int, str] = {}
        self.start = self.end = 10
        self.versions, self.uploads = 1, 0

    def next(self, manifest: Manifest) -> None:
        self.versions += 1
        self.manifest = manifest

    @rule(count=st.integers(1, 1 << 40), size=st.integers(1, 500), epoch=st.integers(1, 1 << 62))
    def upload(self, count: int, size: int, epoch: int) -> None:
        self.uploads += 1
        count = count if count > 1 << 39 else count % 9 + 1
        key = f"queues/5/data/{self.uploads}"
        made = Segment(key=key, base=self.end, count=count, bytes=size, hash=self.uploads, epoch=epoch)
        self.held |= dict.fromkeys((self.end, self.end + count - 1), key) | dict.fromkeys(
            range(self.end, self.end + min(count, 9)), key
        )
        self.end += count
        self.next(self.manifest.append(made, self.end * 100, stamp(self.uploads)))

    @rule(epoch=st.integers(1, 9), writer=st.text())
    def take_over(self, epoch: int, writer: str) -> None:
        self.next(self.manifest.take_over(stamp(epoch=epoch, writer=writer)))
        assert self.manifest.is_by(writer, epoch, 4)

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        self.trim_at(data.draw(st.sampled_from([*(one.base for one in self.manifest.segments), self.end])))

    @rule(most=st.integers(1, 2000))
    def retain(self, most: int) -> None:
        start, sizes = self.manifest.retained_from(most), [one.bytes for one in self.manifest.segments]
        kept = [one.bytes for one in self.manifest.segments if one.base >= start]
        assert len(kept) >= bool(sizes) and (sum(kept) <= most or len(kept) == 1)
        assert kept == sizes or sum(sizes[-len(kept) - 1 :]) > most
        self.trim_at(start)

    def trim_at(self, start: int) -> None:
        self.start = start
        self.held = {offset: key for offset, key in self.held.items() if offset >= start}
        self.next(self.manifest.trim(start, stamp()))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), below=st.integers(0, 3))
    def cut_back(self, data: st.DataObject, below: int) -> None:
        self.end = max(1, data.draw(st.sampled_from(sorted(self.held))) - below)
        self.held = {offset: key for offset, key in self.held.items() if offset < self.end}
        self.start = min(self.start, self.end)
        self.next(self.manifest.cut_back(self.end, self.end * 100, stamp()))

    @rule()
    def crash(self) -> None:
        content = self.manifest.encode()
        self.manifest = Manifest.decode(content)
        assert self.manifest.encode() == content

    @invariant()
    def it_holds_what_the_dictionary_does(self) -> None:
        it = self.manifest
        assert not it.problems() and (it.version, it.start, it.end) == (self.versions, self.start, self.end)
        for offset in (self.start - 1, self.end, *self.held):
            found = it.find(offset)
            assert (found.key if found else None) == self.held.get(offset)
            assert found is None or it.names(found.key)


TestManifest = ManifestMachine.TestCase


@given(st.data())
def test_other_bytes_are_refused_or_another_manifest_and_their_hash_tells_in_any_case(data: st.DataObject) -> None:
    content = filled().encode()
    damaged = data.draw(altered(content))
    assert (content_hash(damaged) == content_hash(content)) == (damaged == content)
    with suppress(ManifestError):
        read = Manifest.decode(damaged)
        assert Manifest.decode(read.encode()) == read
