"""The workload that creates topics: each has a name of its own, is tried again, and is looked for at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Failed, Unknown
from chaos.services import CanCreateTopics, CanDeleteTopics
from chaos.tasks import gather
from chaos.workload import Use, uses_of
from tests.workloads.test_workloads import FakeLoad, System
from workloads import topics


@dataclass
class Registry:
    """Topics in memory. ``trouble`` may raise before a call."""

    made: dict[str, int] = field(default_factory=dict)
    trouble: Callable[[str], Exception | None] = lambda call: None
    asked: Counter[str] = field(default_factory=Counter)

    async def called(self, call: str) -> None:
        await asyncio.sleep(0.002)
        self.asked[call] += 1
        error = self.trouble(call)
        if error is not None:
            raise error

    async def create(self, topic: str, queues: int) -> Answer:
        await self.called("create")
        self.made.setdefault(topic, queues)
        return Answer()

    async def delete(self, topic: str) -> Answer:
        await self.called("delete")
        self.made.pop(topic, None)
        return Answer()

    async def find(self, topic: str) -> Answer:
        await self.called("find")
        return Answer(value={"queues": self.made.get(topic, 0)})


def play(registry: Registry, *, seconds: float = 5.0, **options: Any) -> FakeLoad:
    loop = VirtualLoop()
    load = FakeLoad(loop, System())
    load.topics = load.deleting_topics = lambda name: registry  # type: ignore[attr-defined]
    made = topics.create(topics.Options(**options))
    assert uses_of(made) == (Use.TOPICS,)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await gather(stop(), made.run(load))
        await made.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def test_topics_have_names_of_their_own_and_are_found_at_the_end() -> None:
    registry = Registry()
    load = play(registry, rate_per_s=10.0, queues=3)
    names = [row["value"]["topic"] for row in load.where(f="create_topic", type="ok")]
    assert 30 < len(names) == len(set(names)) and set(registry.made.values()) == {1, 2, 3}
    assert [row["value"]["topic"] for row in load.where(f="find_topic", type="ok")] == names
    assert len(play(Registry(), rate_per_s=10.0, most=4).where(f="create_topic", type="ok")) == 4


def test_what_was_refused_or_unclear_is_tried_again() -> None:
    registry = Registry()
    registry.trouble = lambda call: {1: Failed("no"), 2: Unknown("who knows")}.get(registry.asked["create"])
    load = play(registry, most=1, rate_per_s=10.0)
    asked = load.where(f="create_topic", type="invoke")
    assert {row["value"]["topic"] for row in asked} == {"made-0"}
    assert [row["process"] for row in asked] == ["topics.0", "topics.0", "topics.1"]
    refused = Registry(trouble=lambda call: Failed("no"))
    play(refused, most=1, rate_per_s=10.0)
    assert refused.asked == {"create": 3}  # and nobody looks for it


def test_a_topic_that_is_missing_is_waited_for() -> None:
    registry = Registry()
    registry.trouble = lambda call: registry.made.clear() if call == "find" else None
    load = play(registry, seconds=1.0, most=1, rate_per_s=10.0, drain_s=7.0)
    looks = load.where(f="find_topic", type="ok")
    assert {row["value"]["queues"] for row in looks} == {0} and 7.5e9 < looks[-1]["time_ns"] < 8.5e9


def test_some_topics_are_deleted_again_and_looked_for_until_they_are_gone() -> None:
    registry = Registry()
    load = play(registry, rate_per_s=10.0, delete_each=3, lives_s=1.0)
    gone = [row["value"]["topic"] for row in load.where(f="delete_topic", type="ok")]
    assert len(gone) > 5 and all(int(name.removeprefix("made-")) % 3 == 2 for name in gone)
    assert not {*gone} & {*registry.made}
    born = {row["value"]["topic"]: row["time_ns"] for row in load.where(f="create_topic", type="ok")}
    died = {row["value"]["topic"]: row["time_ns"] for row in load.where(f="delete_topic", type="invoke")}
    assert all(died[name] - born[name] >= 1e9 for name in gone)
    assert {row["value"]["topic"] for row in load.where(f="find_topic", type="ok")} == {*born}


def test_deleted_topics_are_made_again_with_as_many_queues_and_looked_for() -> None:
    registry = Registry()
    load = play(registry, rate_per_s=10.0, delete_each=2, lives_s=0.5, again_s=0.5)
    born = [(row["value"]["topic"], row["value"]["queues"]) for row in load.where(f="create_topic", type="invoke")]
    twice = {name: queues for name, queues in born if born.count((name, queues)) == 2}
    assert len(twice) > 5 and all(registry.made[name] == queues for name, queues in twice.items())
    died = {row["value"]["topic"]: row["time_ns"] for row in load.where(f="delete_topic", type="ok")}
    last = {row["value"]["topic"]: row["time_ns"] for row in load.where(f="create_topic", type="invoke")}
    assert all(last[name] - died[name] >= 0.5e9 for name in twice)
    seen = {row["value"]["topic"]: row["value"]["queues"] for row in load.where(f="find_topic", type="ok")}
    assert all(seen[name] == queues for name, queues in twice.items())


def test_a_deletion_is_tried_again_and_only_of_topics_that_nobody_may_still_create() -> None:
    registry = Registry()
    registry.trouble = lambda call: {1: Unknown("who knows")}.get(registry.asked[call]) if call != "find" else None
    load = play(registry, rate_per_s=10.0, most=8, delete_each=1, lives_s=0.1)
    asked = [row["value"]["topic"] for row in load.where(f="delete_topic", type="invoke")]
    assert "made-0" not in asked and asked.count("made-1") == 2 and "made-0" in registry.made


def test_a_topic_that_returns_is_waited_for_and_one_whose_deletion_is_unclear_is_not_looked_for() -> None:
    registry = Registry()
    registry.trouble = lambda call: registry.made.update({"made-0": 1}) if call == "find" else None
    load = play(registry, seconds=2.0, most=1, rate_per_s=10.0, delete_each=1, lives_s=0.0, drain_s=7.0)
    assert load.where(f="delete_topic") == []  # it is deleted when the next one is made, and there was none
    load = play(registry, seconds=2.0, most=2, rate_per_s=10.0, delete_each=2, lives_s=0.0, drain_s=7.0)
    assert load.where(f="delete_topic") == []
    load = play(registry, seconds=2.0, most=2, rate_per_s=10.0, delete_each=1, lives_s=0.0, drain_s=7.0)
    looks = load.where(f="find_topic", type="ok")
    assert {row["value"]["topic"] for row in looks[2:]} == {"made-0"} and looks[-1]["time_ns"] > 8.5e9
    unclear = Registry(trouble=lambda call: Unknown("who knows") if call == "delete" else None)
    load = play(unclear, seconds=2.0, most=2, rate_per_s=10.0, delete_each=1, lives_s=0.0)
    assert {row["value"]["topic"] for row in load.where(f="find_topic")} == {"made-1"}


def test_only_a_system_that_deletes_topics_is_asked_to() -> None:
    assert topics.create(topics.Options()).needs == (CanCreateTopics,)
    assert topics.create(topics.Options(delete_each=2)).needs == (CanCreateTopics, CanDeleteTopics)
