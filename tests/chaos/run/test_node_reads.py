"""Every copy is read to its end: one that lags, one that is down, and one for which another node answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from chaos.deployment import CanReadFiles
from chaos.deployments.attach import AttachDeployment
from chaos.deployments.process import ProcessDeployment
from chaos.driver import CanReadThroughNodes, Evidence, evidence_of
from chaos.errors import BadInput
from chaos.experiment.capabilities import can
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.run import node_reads
from chaos.run.node_reads import read_copies
from chaos.workload import Load

QUEUE = QueueRef(index=0, topic="t", queue_id=0)
DONE = 100  # messages that the leader holds


@dataclass
class Cluster:
    """``lag`` says how many messages a node lacks; each time it is asked it has caught up with five of them, if it
    ``catches_up``. Time passes in sleeps alone."""

    lag: dict[str, int] = field(default_factory=dict)
    catches_up: bool = True
    down: tuple[str, ...] = ()
    forwards: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    shared: dict[str, dict[int, int]] = field(default_factory=lambda: {"acked": {0: DONE - 1}})
    now: int = 0

    def client(self, name: str) -> Cluster:
        return self

    def close(self) -> None: ...

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, **columns})
        return len(self.rows) - 1

    def now_ns(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> bool:
        self.now += round(seconds * 1e9)
        return False

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await asyncio.gather(*coroutines)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        if node in self.down:
            raise Failed("connection refused")
        return Answer(node="leader" if node in self.forwards else node, minimum=0, maximum=self._end(node))

    async def pull(self, queue: QueueRef, offset: int, *, limit: int, node: str = "") -> Answer:
        self.now += 1_000_000
        end = self._end(node)
        found = tuple(Delivered(offset=at, message=at, hash=at) for at in range(offset, min(offset + limit, end)))
        if not found and self.catches_up:
            self.lag[node] = max(0, self.lag.get(node, 0) - 5)
        return Answer(node=node, minimum=0, maximum=end, following=offset + len(found), messages=found)

    def _end(self, node: str) -> int:
        return DONE - self.lag.get(node, 0)


def read(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Read three copies; for each node the row that tells how far it was read."""
    asyncio.run(read_copies(cast(Load, cluster), QUEUE, ("a", "b", "c")))
    assert cluster.rows[0] | {"f": "holders", "value": {"nodes": ["a", "b", "c"]}} == cluster.rows[0]
    return {row["node"]: row for row in cluster.rows if row["f"] == "node_end"}


def offsets(cluster: Cluster, node: str) -> list[int]:
    return [row["offset"] for row in cluster.rows if row["f"] == "node_read" and row["node"] == node]


def test_a_copy_that_lags_is_read_until_it_has_caught_up() -> None:
    cluster = Cluster(lag={"b": 40})
    ends = read(cluster)
    assert {node: (row["offset"], row["value"]) for node, row in ends.items()} == {
        node: (DONE, {"minimum": 0}) for node in "abc"
    }
    assert offsets(cluster, "a") == offsets(cluster, "b") == [*range(DONE)]  # each message once


def test_a_copy_that_stays_behind_is_told_with_its_reason() -> None:
    ends = read(Cluster(lag={"b": 40}, catches_up=False))
    assert ends["b"]["offset"] == 60
    assert ends["b"]["value"]["reason"] == "it ended at 60, another one at 100"
    assert "reason" not in ends["a"]["value"]


def test_a_node_that_is_down_is_asked_until_time_runs_out() -> None:
    cluster = Cluster(down=("c",))
    ends = read(cluster)
    assert ends["c"]["value"]["reason"] == "connection refused" and not offsets(cluster, "c")
    assert offsets(cluster, "a") == [*range(DONE)]
    assert cluster.now >= node_reads.CATCH_UP_S * 1e9


def test_an_answer_of_another_node_is_none() -> None:
    ends = read(Cluster(forwards=("c",)))
    assert ends["c"]["value"]["reason"] == "leader answered in its place"


def test_all_copies_that_lack_what_was_acknowledged_are_waited_for() -> None:
    """Who lost it is not for this reading to say: the copies agree."""
    cluster = Cluster(lag=dict.fromkeys("abc", 1), catches_up=False)
    ends = read(cluster)
    assert cluster.now >= node_reads.CATCH_UP_S * 1e9 and not any("reason" in row["value"] for row in ends.values())


def test_an_end_that_is_never_reached_is_told() -> None:
    class Liar(Cluster):
        async def pull(self, queue: QueueRef, offset: int, *, limit: int, node: str = "") -> Answer:
            self.now += 1_000_000
            if node == "b" and offset == 50:
                return Answer(node=node, minimum=0, maximum=DONE, following=50)
            limit = 50 - offset if node == "b" and offset < 50 else limit
            return await super().pull(queue, offset, limit=limit, node=node)

    assert read(Liar())["b"]["value"]["reason"] == "it gave nothing at offset 50, though it said that it ends at 100"


@pytest.mark.parametrize("error", [Failed("no"), Unknown("no")])
def test_trouble_in_mid_reading_is_no_end(error: Exception) -> None:
    class Troubled(Cluster):
        async def pull(self, queue: QueueRef, offset: int, *, limit: int, node: str = "") -> Answer:
            self.now += 1_000_000
            if node == "b" and offset >= 64:
                raise error
            return await super().pull(queue, offset, limit=limit, node=node)

    assert read(Troubled())["b"]["value"]["reason"] == "no"


def test_the_power_declares_its_evidence_and_no_word_does_without_it() -> None:
    class Able:
        def holders(self, queue: QueueRef) -> tuple[str, ...]:
            return ("a",)

    class Liar:
        def evidence(self) -> list[str]:
            return ["node-reads"]

    assert isinstance(Able(), CanReadThroughNodes)
    assert evidence_of(cast(Any, Able())) == {Evidence.OPERATIONS, Evidence.NODE_READS}
    with pytest.raises(BadInput, match=r"node-reads needs the power CanReadThroughNodes, a method holders\(queue\)"):
        evidence_of(cast(Any, Liar()))


def test_what_is_read_from_files_is_not_visible_where_there_are_none() -> None:
    class Reader:
        def evidence(self) -> list[str]:
            return ["final-logs", "polls"]

        def evidence_from_files(self) -> frozenset[Evidence]:
            return frozenset({Evidence.FINAL_LOGS})

    seen = {Evidence.OPERATIONS, Evidence.POLLS}
    assert evidence_of(cast(Any, Reader()), has_files=False) == seen
    assert evidence_of(cast(Any, Reader())) == seen | {Evidence.FINAL_LOGS}
    assert not can(AttachDeployment, CanReadFiles) and can(ProcessDeployment, CanReadFiles)
