"""The tier of the reference broker, against the real object store, over a network that loses, delays and repeats."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from reference.tier.interface import Stored, TierAnswer, TopicQueue, View
from reference.tier.manifest import Manifest, Stamp
from reference.tier.objects import content_hash, decode, manifest_key
from reference.tier.storage import QueueUpload, Tier
from tests.reference.tier_world import (
    MS,
    OPTIONS,
    QUEUES,
    SECOND,
    STORE,
    FakeBroker,
    FakeEnv,
    World,
    calm,
    corrupt,
    storm,
)


@pytest.mark.parametrize("seed", [*range(25), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(25, 60))])
def test_everything_confirmed_is_tiered_once_and_only_by_masters_in_any_storm(seed: int) -> None:
    world = storm(seed)
    assert world.violations() == []
    assert world.rows("tier_stop") == []
    for queue, records in enumerate(world.queues):
        assert world.manifest(queue).end == world.base + len(records)
        for broker in world.brokers:
            assert broker.tier.view(queue).content == world.contents()[manifest_key(queue)]


@pytest.mark.parametrize("seed", range(10))
def test_after_a_storm_no_orphan_of_an_earlier_epoch_is_left(seed: int) -> None:
    world = storm(seed)
    named = {segment.key for queue in range(QUEUES) for segment in world.manifest(queue).segments}
    objects = {key for key in world.contents() if "/data/" in key}
    late = {row["key"] for row in world.rows("store_put")}
    assert named <= objects
    assert all(f"-{world.master.epoch}-" in key for key in objects - named), late


class NoFence(Tier):
    def fence(self, upload: QueueUpload, manifest: Manifest | None) -> bool:
        return manifest is None


class WritesOn(Tier):
    def may_write(self, upload: QueueUpload) -> bool:
        return True


class FromZero(Tier):
    def resume_offset(self, upload: QueueUpload, manifest: Manifest) -> int:
        return self.broker.local_start(upload.queue.index)


class FromLocalEnd(Tier):
    def resume_offset(self, upload: QueueUpload, manifest: Manifest) -> int:
        return self.broker.local_end(upload.queue.index)


class NoBound(Tier):
    def commit_confirm(self, upload: QueueUpload) -> int:
        return 2**62

    def _verify(self, env: object, upload: QueueUpload, manifest: Manifest | None) -> None:
        upload.verified = True


class DeletesTheNewest(Tier):
    def may_delete(self, upload: QueueUpload, key: str) -> bool:
        upload.garbage.append(upload.manifest.segments[-1].key)
        return True


class MixesViews(Tier):
    def adopt_view(self, held: View | None, new: View) -> View | None:
        return new if held is None else replace(new, content=held.content)


@pytest.mark.parametrize(
    ("mutant", "violation"),
    [
        (NoFence, "put before the epoch was raised"),
        (WritesOn, "isn't master"),
        (FromZero, "begins at"),
        (FromLocalEnd, "begins at"),
        (NoBound, "P beyond confirm"),
        (DeletesTheNewest, "a named object was deleted"),
        (MixesViews, "a view differs"),
    ],
)
def test_each_policy_is_what_a_promise_rests_on(mutant: type[Tier], violation: str) -> None:
    options = {"tier_retain_bytes": 2000} if mutant is DeletesTheNewest else {}
    assert any(violation in found for seed in range(12) for found in storm(seed, mutant, **options).violations())


def test_a_lost_answer_to_a_commit_is_read_again_and_recognised() -> None:
    world = World(1)
    world.promote(world.brokers[0])
    world.run(SECOND)
    lost: list[int] = []
    world.lose = lambda source, to, message: (
        source == STORE and message.fields.get("version") == "2" and not message.body and not lost.append(1)
    )
    world.append(10)
    world.confirm_to(world.brokers[0], world.log_end)
    world.run(5 * SECOND)
    assert lost
    assert world.violations() == []
    created = [row["key"] for row in world.rows("store_put")]
    assert sorted(created) == sorted(s.key for queue in range(QUEUES) for s in world.manifest(queue).segments)


def test_uploads_go_on_by_themselves_after_an_outage() -> None:
    world = World(1)
    world.down = True
    world.promote(world.brokers[0])
    world.append(30)
    world.confirm_to(world.brokers[0], world.log_end)
    world.run(30 * SECOND)
    assert world.contents() == {}
    world.down = False
    world.run(6 * SECOND)
    assert [world.manifest(queue).end for queue in range(QUEUES)] == [len(records) for records in world.queues]


def test_an_idle_tail_is_uploaded_by_age_and_then_nothing_moves() -> None:
    world = calm(records=1)
    before = world.count()
    world.run(600 * SECOND)
    assert world.count() - before < 10
    assert not world.env("broker-0")._timers


def test_no_write_and_no_upload_timer_is_left_after_a_demotion() -> None:
    world = World(1)
    world.promote(world.brokers[0])
    world.append(20)
    world.confirm_to(world.brokers[0], world.log_end)
    for _ in range(40):
        world.run(MS)
        if any(row["verb"] == "put" for row in world.rows("tier_request")):
            break
    world.demote()
    writes = len([row for row in world.rows("tier_request") if row["verb"] != "get"])
    assert "tier-uploads" not in world.env("broker-0")._timers
    world.run(10 * SECOND)
    assert len([row for row in world.rows("tier_request") if row["verb"] != "get"]) == writes


def test_a_new_epoch_of_the_same_master_fences_its_former_self() -> None:
    world = calm()
    world.demote()
    world.promote(world.brokers[0])
    world.run(SECOND)
    assert all(world.manifest(queue).epoch == 2 for queue in range(QUEUES))
    assert world.violations() == []


def test_who_takes_over_gives_the_manifest_the_name_that_its_queue_has_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world = calm()
    late = [TopicQueue(index=index, topic="late", queue_id=index) for index in range(QUEUES)]
    monkeypatch.setattr(FakeBroker, "queues", lambda self: late)
    assert {world.manifest(queue).topic for queue in range(QUEUES)} == {"orders"}
    world.demote()
    world.promote(world.brokers[1])
    world.run(SECOND)
    assert {world.manifest(queue).topic for queue in range(QUEUES)} == {"late"}


def test_a_demoted_uploader_that_was_not_told_stops_at_the_newer_epoch() -> None:
    world = calm()
    old, new = world.brokers[0], world.brokers[1]
    new.epoch = 2
    new.confirm = world.log_end
    new.is_master = True
    new.tier.promoted(world.env(new.name))
    world.run(SECOND)
    world.append(10)  # the old master believes that it goes on
    world.confirm_to(old, world.log_end)
    world.run(10 * SECOND)
    assert all(world.manifest(queue).writer == new.name for queue in range(QUEUES))
    assert [row["outcome"] for row in world.rows("store_cas") if row["caller"] == old.name][-1] == "conflict"


def test_uploads_stop_where_the_log_holds_other_bytes_than_the_tier() -> None:
    world = calm()
    world.demote()
    queue = next(queue for queue in range(QUEUES) if world.queues[queue])
    last = world.queues[queue][-1]
    world.queues[queue][-1] = replace(last, data=bytes(len(last.data)))
    before = world.manifest(queue)
    world.promote(world.brokers[1], lose_tail=False)
    world.run(5 * SECOND)
    assert [(row["queue"], row["reason"]) for row in world.rows("tier_stop")] == [
        (queue, f"bytes differ at offset {last.offset}")
    ]
    assert world.manifest(queue) == before


def test_longer_bytes_in_the_log_are_found_behind_equal_ones() -> None:
    """The last record counts: a comparison that ends where the bytes asked for end would miss it."""
    world = calm(records=60, tier_segment_bytes=3000)
    world.demote()
    queue = next(queue for queue in range(QUEUES) if world.manifest(queue).segments[-1].count > 2)
    segment = world.manifest(queue).segments[-1]
    for offset in range(segment.base + 1, segment.end):
        record = world.queues[queue][offset]
        world.queues[queue][offset] = replace(record, data=record.data + bytes(500), position=record.position - 500)
    world.promote(world.brokers[1], lose_tail=False)
    world.run(5 * SECOND)
    assert [row["reason"] for row in world.rows("tier_stop")] == [f"bytes differ at offset {segment.base + 1}"]


def test_uploads_stop_where_t_is_past_the_log() -> None:
    world = calm()
    world.demote()
    queue = max(range(QUEUES), key=lambda queue: len(world.queues[queue]))
    world.queues[queue].pop()
    world.promote(world.brokers[1], lose_tail=False)
    world.run(5 * SECOND)
    stops = world.rows("tier_stop")
    assert [row["queue"] for row in stops] == [queue]
    assert "past the log" in str(stops[0]["reason"])


def test_a_gap_between_the_tier_and_the_log_stops_uploads() -> None:
    world = calm()
    world.demote()
    world.append(0)
    queue = 0
    world.brokers[1].starts[queue] = world.manifest(queue).end + 1
    world.promote(world.brokers[1])
    world.run(5 * SECOND)
    assert [row["queue"] for row in world.rows("tier_stop")] == [queue]


def test_every_record_is_read_from_every_replica_as_the_log_holds_it() -> None:
    world = calm(records=80)
    for broker in world.brokers:
        for queue, records in enumerate(world.queues):
            offset = 0
            for _ in range(len(records)):
                answers = world.read(broker, queue, offset, max_bytes=300)
                world.run(SECOND)
                (answer,) = answers
                assert list(answer.records) == records[offset : offset + len(answer.records)]
                assert answer.records and (answer.start, answer.end) == (0, len(records))
                offset += len(answer.records)
                if offset == len(records):
                    break
            assert offset == len(records)


def test_a_replica_without_a_view_fetches_the_manifest() -> None:
    world = calm()
    slave = FakeBroker(world, "broker-9", Tier, OPTIONS)
    world.nodes[slave.name] = slave
    world._envs[slave.name] = FakeEnv(world, slave.name)
    slave.start(world.env(slave.name))
    answers = world.read(slave, 0, 0)
    world.run(SECOND)
    assert answers[0].records[0] == world.queues[0][0]
    assert slave.tier.view(0).content == world.contents()[manifest_key(0)]


def test_in_an_outage_a_read_says_retry_and_never_too_small() -> None:
    world = calm()
    world.down = True
    trimmed = world.read(world.brokers[1], 0, -5)
    held = world.read(world.brokers[1], 0, 0)
    past = world.read(world.brokers[1], 0, 10_000)
    world.run(SECOND)
    assert [answer for (answer,) in (trimmed, held, past)] == [TierAnswer(retry=True)] * 3


def test_a_silent_store_ends_a_read_in_a_few_time_limits() -> None:
    world = calm()
    world.lose = lambda source, to, message: to == STORE
    reads = [world.read(world.brokers[1], 0, -5) for _ in range(50)]
    world.run(500 * MS)
    assert reads == [[TierAnswer(retry=True)]] * 50


def test_nothing_is_tiered_from_t_on() -> None:
    world = calm()
    end = world.manifest(0).end
    answers = world.read(world.brokers[2], 0, end)
    world.run(SECOND)
    assert answers == [TierAnswer(start=0, end=end)]


def test_a_flipped_byte_in_an_object_is_never_served() -> None:
    world = calm()
    corrupt(world, world.manifest(0).segments[0].key)
    answers = world.read(world.brokers[1], 0, 0)
    world.run(SECOND)
    assert answers == [TierAnswer(retry=True)]


def test_many_reads_of_one_object_fetch_it_once() -> None:
    world = calm()
    before = len(world.rows("store_get"))
    reads = [world.read(world.brokers[1], 0, 0) for _ in range(50)]
    world.run(SECOND)
    assert all(answer.records[0] == world.queues[0][0] for (answer,) in reads)
    assert len(world.rows("store_get")) == before + 1


def test_too_small_is_said_only_after_the_manifest_was_fetched_again() -> None:
    world = calm(records=120, tier_retain_bytes=1500)
    manifest = world.manifest(0)
    assert 0 < manifest.start < manifest.end
    before = len(world.rows("store_get"))
    answers = world.read(world.brokers[1], 0, manifest.start - 1)
    assert answers == []
    world.run(SECOND)
    assert answers == [TierAnswer(start=manifest.start, end=manifest.end, too_small=True)]
    assert len(world.rows("store_get")) == before + 1


def test_retention_trims_the_manifest_first_and_deletes_later() -> None:
    world = calm(records=120, tier_retain_bytes=1500)
    assert world.violations() == []
    assert world.rows("store_delete")
    data = {key for key in world.contents() if "/data/" in key}
    assert data == {segment.key for queue in range(QUEUES) for segment in world.manifest(queue).segments}


def test_a_record_larger_than_a_segment_is_uploaded_alone() -> None:
    world = World(1)
    world.promote(world.brokers[0])
    world.run(SECOND)
    data = bytes(5000)
    record = Stored(queue=0, offset=0, position=1000, epoch=1, hash=content_hash(data), data=data)
    world.queues[0].append(record)
    world.log_end = record.end
    world.confirm_to(world.brokers[0], world.log_end)
    world.run(SECOND)
    assert decode(world.contents()[world.manifest(0).segments[0].key]) == (record,)


def test_views_outlive_a_restart_and_a_torn_one_is_dropped() -> None:
    world = calm()
    slave = world.brokers[1]
    env = world.env(slave.name)
    again = FakeBroker(world, slave.name, Tier, OPTIONS)
    again.start(env)
    assert again.tier.views() == slave.tier.views()
    env.disk.files["tier/views/1"][-1] ^= 1
    torn = FakeBroker(world, slave.name, Tier, OPTIONS)
    torn.start(env)
    assert sorted(torn.tier.views()) == [0, 2]


def test_a_view_never_goes_back_in_version() -> None:
    world = calm()
    slave = world.brokers[1]
    held = slave.tier.view(0)
    old = Manifest.first(
        slave.queues()[0], 0, Stamp(writer="broker-0", epoch=1, generation=1, attempt=1, confirm=1000)
    ).view()
    slave.tier.received(world.env(slave.name), old)
    assert slave.tier.view(0) is held


def test_every_request_names_itself_in_both_traces() -> None:
    world = calm()
    asked = {row["request"]: (row["verb"], row["key"]) for row in world.rows("tier_request")}
    stored = {
        row["request"]: (str(row["f"]).removeprefix("store_"), row["key"])
        for row in world.traces
        if str(row["f"]).startswith("store_")
    }
    assert asked == stored
    commits = {row["request"]: row["version"] for row in world.rows("tier_commit")}
    assert commits == {row["request"]: row["version"] for row in world.rows("store_cas")}


def test_traces_are_plain_json() -> None:
    world = calm(records=5)
    assert json.loads(json.dumps(world.traces)) == world.traces
    assert {row["verb"] for row in world.rows("tier_request")} >= {"get", "put", "cas", "list"}


def test_one_seed_is_one_history() -> None:
    assert storm(7).traces == storm(7).traces


@pytest.mark.parametrize("seed", range(20))
def test_where_losses_are_lawful_the_manifest_is_cut_back_to_the_log(seed: int) -> None:
    """An unclean election: the new master lacks some of what was confirmed, and goes on with other records."""
    world = calm(records=80, seed=seed, tier_cut_back=True)
    held = [world.manifest(queue).end for queue in range(QUEUES)]
    world.demote()
    rng = Random(seed)
    cut = rng.randint(1000, world.log_end)
    world.confirmed = cut
    for broker in world.brokers:
        broker.confirm = 1000
    world.promote(world.brokers[1])
    if rng.random() < 0.5:
        world.run(rng.randrange(8 * SECOND))
    world.append(rng.randrange(60))
    world.confirm_to(world.brokers[1], world.log_end)
    world.run(30 * SECOND)
    assert world._content_violations() == []
    assert world._role_violations() == []
    assert world.rows("tier_stop") == []
    assert [world.manifest(queue).end for queue in range(QUEUES)] == [len(records) for records in world.queues]
    for row in world.rows("tier_cut"):
        assert row["lost"][1] == held[row["queue"]] > row["offset"]


def test_a_cut_is_recorded_and_its_objects_are_deleted() -> None:
    world = calm(records=80, tier_cut_back=True)
    world.demote()
    world.confirmed = 1000
    for broker in world.brokers:
        broker.confirm = 1000
    world.promote(world.brokers[1])
    world.run(30 * SECOND)
    assert sorted(row["queue"] for row in world.rows("tier_cut")) == [0, 1, 2]
    assert [key for key in world.contents() if "/data/" in key] == []
    assert [world.manifest(queue).end for queue in range(QUEUES)] == [0, 0, 0]


@pytest.mark.parametrize("shorter", [False, True], ids=["other records", "no records"])
def test_a_cut_within_an_object_keeps_its_beginning_which_the_log_has_no_more(shorter: bool) -> None:
    world = calm(records=80, tier_cut_back=True)
    world.demote()
    queue = next(q for q in range(QUEUES) if world.manifest(q).segments[-1].count > 3)
    segment = world.manifest(queue).segments[-1]
    lost = segment.end - 1
    taken = world.queues[queue].pop()
    if not shorter:
        world.queues[queue].append(
            replace(taken, data=bytes(len(taken.data)), hash=content_hash(bytes(len(taken.data))))
        )
    for broker in world.brokers:
        broker.starts[queue] = segment.base + 2
    world.promote(world.brokers[1], lose_tail=False)
    world.run(10 * SECOND)
    assert world.rows("tier_stop") == []
    assert [(row["queue"], row["offset"]) for row in world.rows("tier_cut")] == [(queue, lost)]
    world.append(30)
    world.confirm_to(world.brokers[1], world.log_end)
    world.run(30 * SECOND)
    cut = next(found for found in world.manifest(queue).segments if found.key == segment.key)
    assert cut == replace(segment, count=segment.count - 1)
    assert world.manifest(queue).end == len(world.queues[queue])
    assert world._content_violations() == []
    for broker in world.brokers:
        for offset in (segment.base, lost - 1, lost):
            answers = world.read(broker, queue, offset)
            world.run(SECOND)
            (answer,) = answers
            assert answer.records[0] == world.queues[queue][offset]


def test_where_the_log_has_no_records_any_more_their_epochs_tell_which_were_lost() -> None:
    world = calm(records=80, tier_cut_back=True)
    world.demote()
    queue = next(q for q in range(QUEUES) if world.manifest(q).segments[-1].count > 3)
    segment = world.manifest(queue).segments[-1]
    for offset in range(segment.base + 1, segment.end):
        world.queues[queue][offset] = replace(world.queues[queue][offset], epoch=9, hash=1)
    world.brokers[1].starts[queue] = segment.base + 2
    world.promote(world.brokers[1], lose_tail=False)
    world.run(10 * SECOND)
    assert [(row["queue"], row["offset"]) for row in world.rows("tier_cut")] == [(queue, segment.base + 1)]
    assert [row["reason"] for row in world.rows("tier_stop")] == [
        f"the log begins at {segment.base + 2}, {segment.base + 1} was never uploaded"
    ]
    cut = world.manifest(queue)
    assert cut.segments[-1] == replace(segment, count=1) and cut.end == segment.base + 1
