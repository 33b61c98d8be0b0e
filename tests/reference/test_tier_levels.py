"""From where readers are given messages, at each of the tier's levels (RocketMQ's ``tieredStorageLevel``, RIP-57)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.mutants import run
from chaos.deployment import CanKill
from chaos.verdict import Validity
from drivers.reference.driver import Options, create
from reference.broker.records import decode_all
from reference.tier.interface import Level
from reference.wire.codes import Response
from tests.reference.broker_cluster import Cluster

MESSAGES = 120


class Reading:
    """A group of which a queue stands in the tier up to ``tiered``, whose log begins at ``first``."""

    def __init__(self, level: Level, **options: object) -> None:
        self.group = Cluster(tier=True, tier_level=str(level), **options)
        self.master, self.tiered, self.first = "", 0, 0

    async def fill(self) -> None:
        self.master = await self.group.master()
        for _ in range(MESSAGES):
            answer = await self.group.send(self.master)
            assert answer is not None and answer.code == 0
        for _ in range(400):
            state = await self.group.state(self.master)
            self.tiered, self.first = state["tier"].get("0", 0), state["queues"]["0"][0]
            if self.tiered == MESSAGES:
                break
            await asyncio.sleep(0.05)
        assert self.tiered == MESSAGES

    async def source(self, offset: int, **more: str) -> tuple[str, bytes]:
        """From where the message at this offset came, and its body."""
        answer = await self.group.pull(self.master, offset, **more)
        assert answer is not None and answer.code == 0, answer
        return answer.fields["source"], decode_all(answer.body)[0].body


@pytest.mark.parametrize(
    ("level", "sources"),
    [
        (Level.DISABLE, ("local", "local", "local")),
        (Level.NOT_IN_DISK, ("local", "local", "local")),
        (Level.NOT_IN_MEM, ("tier", "tier", "local")),
        (Level.FORCE, ("tier", "tier", "tier")),
    ],
)
def test_each_level_has_its_source_for_what_both_hold(level: Level, sources: tuple[str, ...]) -> None:
    reading = Reading(level)

    async def test() -> None:
        await reading.fill()
        found = [await reading.source(offset) for offset in (0, MESSAGES // 2, MESSAGES - 1)]
        assert tuple(source for source, _ in found) == sources
        demanded = [
            await reading.source(offset, demandSource=source)
            for offset in (0, MESSAGES // 2, MESSAGES - 1)
            for source in ("local", "tier")
        ]
        assert [source for source, _ in demanded] == ["local", "tier"] * 3
        assert [body for _, body in demanded][::2] == [body for _, body in found]
        assert [body for _, body in demanded][1::2] == [body for _, body in found]
        end = await reading.group.pull(reading.master, MESSAGES)
        assert end is not None and (end.code, end.fields["nextBeginOffset"]) == (
            Response.PULL_NOT_FOUND,
            str(MESSAGES),  # RocketMQ's FORCE would send readers back to where the tier ends
        )

    reading.group.run(test)


@pytest.mark.parametrize("level", Level)
def test_what_the_log_has_no_more_comes_from_the_tier_unless_that_is_disabled(level: Level) -> None:
    reading = Reading(level, segment_bytes=2048, retain_bytes=4096)

    async def test() -> None:
        await reading.fill()
        for _ in range(400):
            reading.first = (await reading.group.state(reading.master))["queues"]["0"][0]
            if reading.first:
                break
            await asyncio.sleep(0.05)
        answer = await reading.group.pull(reading.master, 0, anyReplica="true")
        assert answer is not None
        local = await reading.group.pull(reading.master, 0, demandSource="local")
        assert local is not None and local.code == Response.PULL_OFFSET_MOVED
        if level is Level.DISABLE:
            assert (answer.code, answer.fields) == (local.code, local.fields)
            assert int(answer.fields["minOffset"]) == int(answer.fields["nextBeginOffset"]) > 0
        else:
            assert (answer.code, answer.fields["source"], answer.fields["minOffset"]) == (0, "tier", "0")

    reading.group.run(test)


@pytest.mark.parametrize("level", [Level.NOT_IN_MEM, Level.FORCE])
def test_the_log_answers_while_the_tier_can_not(level: Level) -> None:
    reading = Reading(level, tier_cache_bytes=0)

    async def test() -> None:
        await reading.fill()
        world = reading.group.world
        assert isinstance(world, CanKill)
        await world.kill("store-0")
        assert (await reading.source(0))[0] == "local"

    reading.group.run(test)


def test_a_slave_gives_no_more_from_the_tier_than_its_readers_may_see() -> None:
    reading = Reading(Level.FORCE)

    async def test() -> None:
        await reading.fill()
        for name in reading.group.brokers:
            answer = await reading.group.pull(name, MESSAGES - 5, anyReplica="true")
            assert answer is not None and int(answer.fields["nextBeginOffset"]) <= int(answer.fields["maxOffset"])

    reading.group.run(test)


STORM = """\
name: tier-levels
system:
  reference:
    queues: 2
    tier_segment_bytes: 4096
    segment_bytes: 16384
    retain_bytes: RETAIN
    broker_options: {tier_level: LEVEL}
duration: 16s
workloads:
  - queue: {producers: 3, consumers: 3, rate_per_s: 100}
  - tier_read: {readers: 2, rate_per_s: 15}
faults:
  - kill: {target: master}
    at: [3s, 10s]
    for: 1s
  - tier_outage: {mode: drop}
    at: 5s
    for: 2s
  - tier_answer_lost: {per_mille: 300}
    at: 8s
    for: 1500ms
  - switch: {}
    at: 12500ms
"""


@pytest.mark.parametrize("level", Level)
def test_the_promises_hold_at_each_level(level: Level, tmp_path: Path) -> None:
    file = tmp_path / "levels.yaml"
    file.write_text(STORM.replace("LEVEL", level).replace("RETAIN", "0" if level is Level.DISABLE else "32768"))
    verdict = run(file, "", 1)
    assert verdict.validity is Validity.VALID, (verdict.anomaly_counts(), verdict.why)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"broker_options": {"tier_level": "force"}}, "tier_level: expected DISABLE, NOT_IN_DISK, NOT_IN_MEM, FORCE"),
        ({"broker_options": {"tier_level": 3}}, "tier_level: expected"),
        ({"broker_options": {"tier_level": "DISABLE"}}, "retain_bytes: 0"),
    ],
)
def test_a_level_that_makes_no_sense_is_refused(options: Mapping[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        create(Options(**options)).cluster("")  # type: ignore[arg-type]
    create(Options(tier=False, broker_options={"tier_level": "FORCE"})).cluster("")
