"""Replication under faults: what was acknowledged stays, and all replicas tell the same story."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from chaos.effects.links import Drop, LinkRule
from chaos.fault import NotNow, Undo, Verb
from reference.broker.records import decode_all, message_number
from reference.wire.codes import Response
from tests.reference import broker_cluster as cluster


class Load:
    """Sends to whoever claims to be master; keeps what was acknowledged: (queue, offset) → message."""

    def __init__(self, group: Any, rng: Random) -> None:
        self.group = group
        self.rng = rng
        self.acked: dict[tuple[int, int], int] = {}
        self.sent = 0
        self.resting = False
        self.stopping = False

    async def run(self) -> None:
        node = self.group.brokers[0]
        while not self.stopping:
            if self.resting:
                await asyncio.sleep(0.05)
                continue
            queue = self.rng.randrange(2)
            self.sent += 1
            number = self.group._sent + 1
            answer = await self.group.send(node, queue, b"x" * self.rng.randrange(1, 300))
            if answer is not None and answer.code == 0:
                place = (queue, int(answer.fields["queueOffset"]))
                assert place not in self.acked, f"{place} was given twice"
                self.acked[place] = number
            else:
                node = self.rng.choice(self.group.brokers)
            await asyncio.sleep(self.rng.uniform(0.0, 0.02))


async def faults(group: Any, rng: Random, rounds: int) -> None:
    for number in range(rounds):
        await asyncio.sleep(rng.uniform(0.5, 2.5))
        target = rng.choice(group.brokers)
        kind = rng.choice(("kill", "kill", "pause", "isolate", "one-way"))
        try:
            if kind == "kill":
                await group.world.kill(target)
            elif kind == "pause":
                await group.world.pause(target)
            else:
                others = (frozenset(group.brokers) | {"controller-0"}) - {target}
                await group.world.set_rule(f"out-{number}", LinkRule(frozenset({target}), others, Drop()))
                if kind == "isolate":
                    await group.world.set_rule(f"in-{number}", LinkRule(others, frozenset({target}), Drop()))
        except NotNow:
            continue
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        if kind == "kill":
            await group.start(target)
        elif kind == "pause":
            await group.world.undo(Undo(verb=Verb.RESUME, subject=target))
        else:
            await group.world.undo(Undo(verb=Verb.CLEAR_RULE, subject=f"out-{number}"))
            await group.world.undo(Undo(verb=Verb.CLEAR_RULE, subject=f"in-{number}"))


async def check_logs(group: Any, load: Load) -> None:
    """Acknowledged messages are in every log at their place, and the logs are equal where they overlap."""
    logs = {name: await group.log(name) for name in group.brokers}
    common = max(log[0][1] for log in logs.values())
    shared = [[row for row in log if row[1] >= common] for log in logs.values()]
    assert all(log == shared[0] for log in shared)
    for name, log in logs.items():
        held = {(row[3], row[4]): row[5] for row in log if not row[7]}
        lowest = {queue: min((o for q, o in held if q == queue), default=1 << 60) for queue in (0, 1)}
        lost = [place for place, number in load.acked.items() if held.get(place, number) != number]
        assert lost == [], f"{name} holds other messages at {lost}"
        gone = [place for place in load.acked if place not in held and place[1] >= lowest[place[0]]]
        assert gone == [], f"{name} lost {gone}"


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_survives_kills_pauses_and_partitions(seed: int) -> None:
    group = cluster.Cluster(seed=seed)
    rng = Random(f"faults/{seed}")
    load = Load(group, rng)

    async def test() -> None:
        task = asyncio.get_running_loop().create_task(load.run())
        await faults(group, rng, 6)
        load.resting = True  # while records gather, the replicas never stand at one place
        await group.settled(group.brokers)
        load.resting = False
        before = len(load.acked)
        await asyncio.sleep(0.5)
        load.stopping = True
        await task
        assert len(load.acked) > before
        await group.settled(group.brokers)
        await check_logs(group, load)

    group.run(test)


async def read_all(group: Any, node: str, queue: int) -> dict[int, int]:
    """Every message of a queue from offset 0 on, through whatever holds it."""
    found: dict[int, int] = {}
    offset = 0
    for _ in range(2000):
        answer = await group.pull(node, offset, queue, anyReplica="true")
        if answer is None or answer.code == Response.PULL_RETRY_IMMEDIATELY:
            await asyncio.sleep(0.05)
            continue
        assert answer.code in (0, Response.PULL_NOT_FOUND), answer
        for record in decode_all(answer.body):
            found[record.offset] = message_number(record.properties)
        if answer.code:
            return found
        offset = int(answer.fields["nextBeginOffset"])
    raise AssertionError(f"no end of queue {queue} on {node}")


@pytest.mark.parametrize("seed", range(4))
def test_every_replica_serves_all_history_from_tier_and_log(seed: int) -> None:
    group = cluster.Cluster(seed=seed, tier=True, retain_bytes=8192, segment_bytes=2048)
    rng = Random(f"tier/{seed}")
    load = Load(group, rng)

    async def test() -> None:
        task = asyncio.get_running_loop().create_task(load.run())
        await asyncio.sleep(2.0)
        master = await group.master()
        slave = rng.choice([name for name in group.brokers if name != master])
        await group.world.wipe(slave)
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        await group.start(slave)
        await group.settled_set(group.brokers)
        await faults(group, rng, 4)
        await asyncio.sleep(1.0)
        load.stopping = True
        await task
        await group.settled(group.brokers)
        await check_logs(group, load)
        for name in group.brokers:
            for queue in (0, 1):
                found = await read_all(group, name, queue)
                assert list(found) == list(range(len(found)))
                mine = {offset: number for (q, offset), number in load.acked.items() if q == queue}
                assert {offset: found.get(offset) for offset in mine} == mine

    group.run(test)
    assert group.rows("retention")
    assert any(row["position"] > 0 for row in group.rows("bootstrap"))


def test_a_lost_proposal_of_a_replica_that_died_again_does_not_hold_the_group_up() -> None:
    """The controller never hears that a returning slave shall join, and the slave is gone before it could be asked
    again: the set stays as it is, and still the master must learn that the slave doesn't count."""
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        away, stays = (name for name in group.brokers if name != master)
        await group.world.kill(away)
        await group.settled_set((master, stays))
        to_controller = frozenset({master}), frozenset({"controller-0"})
        await group.start(away)
        await group.world.set_rule("cut", LinkRule(*to_controller, Drop()))
        for _ in range(200):
            if away in group.rows("set", master)[-1]["value"]["proposed"]:
                break
            await asyncio.sleep(0.01)
        assert away in group.rows("set", master)[-1]["value"]["proposed"]
        await group.world.kill(away)
        await group.world.kill("controller-0")
        await group.world.undo(Undo(verb=Verb.CLEAR_RULE, subject="cut"))
        await group.start("controller-0")
        for _ in range(10):
            answer = await group.send(master)
            if answer is not None and answer.code == 0:
                return
        raise AssertionError("the master waits for the dead slave for ever")

    group.run(test)
