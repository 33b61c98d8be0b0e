"""A broker alone and in a group, in the simulator."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chaos.node import Message
from reference.codes import Request, Response
from reference.records import decode_all

HERE = Path(__file__).parent


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(HERE))
    import broker_cluster  # type: ignore[import-not-found]

    assert isinstance(sys.modules["broker_cluster"], ModuleType)
    return broker_cluster  # type: ignore[no-any-return]


def bodies(answer: Message | None) -> list[bytes]:
    assert answer is not None and answer.code == 0, answer
    return [record.body for record in decode_all(answer.body)]


def test_one_broker_takes_sends_and_gives_them_back_in_order(cluster: ModuleType) -> None:
    group = cluster.Cluster(brokers=1)

    async def test() -> None:
        for number in range(40):
            answer = await group.send("broker-0", number % 2)
            assert answer.code == 0 and int(answer.fields["queueOffset"]) == number // 2, answer
        assert bodies(await group.pull("broker-0", 0)) == [b"body-%d" % (2 * n + 1) for n in range(20)]
        assert (await group.pull("broker-0", 20)).code == Response.PULL_NOT_FOUND

    group.run(test)


def test_all_replicas_hold_the_same_log(cluster: ModuleType) -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for number in range(100):
            assert (await group.send(master, number % 2)).code == 0
        await group.settled(group.brokers)
        logs = [await group.log(name) for name in group.brokers]
        messages = [[row for row in log if not row[7]] for log in logs]
        assert messages[0] == messages[1] == messages[2] and len(messages[0]) == 100
        for name in group.brokers:
            assert len(bodies(await group.pull(name, 10, anyReplica="true"))) == 32

    group.run(test)
