"""Groups with many members: all of them hear of a change at once, and share the queues out alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial

from chaos.ops import QueueRef
from drivers.reference.deliveries import share
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster

MEMBERS, QUEUES = 50, 128
GROUP = "many"


def test_fifty_members_share_the_queues_within_two_seconds_of_each_change() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, topics={TOPIC: QUEUES})
    queues = [QueueRef(index=number, topic=TOPIC, queue_id=number) for number in range(QUEUES)]
    noticed: set[str] = set()
    names = [f"member-{number:02d}" for number in range(MEMBERS)]

    async def test() -> None:
        node = await cluster.master()

        def note(name: str, request: Command) -> None:
            noticed.add(name)

        async def join(name: str) -> None:
            connection = cluster.world.connect(name, node)
            connection.on_request(partial(note, name))
            beat = {"clientID": name, "consumerDataSet": [{"groupName": GROUP}]}
            await connection.request(Command(code=Request.HEART_BEAT, body=json.dumps(beat).encode()), 1.0)

        async def own(name: str) -> list[int]:
            """Return what a member takes for its own queues, as it is told now."""
            asked = Command(code=Request.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": GROUP})
            answer: Command = await cluster.world.connect(name, node).request(asked, 1.0)
            members: Sequence[str] = json.loads(answer.body)["consumerIdList"]
            return [queue.index for queue in share(members, name, queues)]

        async def settle(living: Sequence[str], but: str = "") -> None:
            """Wait at most so long until all have heard of it, and the queues are shared out."""
            began_s = asyncio.get_running_loop().time()
            while not {*living} - {but} <= noticed:
                assert asyncio.get_running_loop().time() < began_s + 2.0, {*living} - noticed
                await asyncio.sleep(0.05)
            shares = await asyncio.gather(*(own(name) for name in living))
            assert sorted(index for mine in shares for index in mine) == list(range(QUEUES))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
            assert asyncio.get_running_loop().time() < began_s + 2.0
            noticed.clear()

        for name in names[:-1]:
            await join(name)
        await asyncio.sleep(1.0)
        noticed.clear()
        await join(names[-1])
        await settle(names, but=names[-1])
        cluster.world.connect(names[7], node).close()
        await settle([name for name in names if name != names[7]])
        goodbye = Command(code=Request.UNREGISTER_CLIENT, fields={"consumerGroup": GROUP})
        await asyncio.gather(*(cluster.world.connect(name, node).request(goodbye, 1.0) for name in names[20:23]))
        await settle([name for number, name in enumerate(names) if number != 7 and not 20 <= number < 23])

    cluster.run(test)


def test_the_broker_computes_the_shares_of_members_that_do_not() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, topics={TOPIC: 7}, group="broker-a")

    async def test() -> None:
        node = await cluster.master()
        for name in ("b", "a", "c"):
            beat = {"clientID": name, "consumerDataSet": [{"groupName": GROUP}]}
            request = Command(code=Request.HEART_BEAT, body=json.dumps(beat).encode())
            await cluster.world.connect(name, node).request(request, 1.0)

        async def ask(client: str, **more: str) -> Command:
            body = {"topic": TOPIC, "consumerGroup": GROUP, "clientId": client, **more}
            answer = await cluster.ask(node, Request.QUERY_ASSIGNMENT, {}, json.dumps(body).encode())
            assert answer is not None
            return answer

        async def own(client: str, **more: str) -> list[int]:
            found = json.loads((await ask(client, **more)).body)["messageQueueAssignments"]
            assert all(one["mode"] == "PULL" and one["messageQueue"]["brokerName"] == "broker-a" for one in found)
            return [one["messageQueue"]["queueId"] for one in found]

        assert [await own(name) for name in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]
        circle = [await own(name, strategyName="AVG_BY_CIRCLE") for name in "abc"]
        assert circle == [[0, 3, 6], [1, 4], [2, 5]]
        assert await own("stranger", messageModel="BROADCASTING") == list(range(7))
        assert (await ask("stranger")).code == 1
        assert (await ask("a", strategyName="MACHINE_ROOM")).code == Response.INVALID_PARAMETER
        assert (await ask("a", topic="none")).code == Response.TOPIC_NOT_EXIST

    cluster.run(test)
