"""A cluster in the simulator goes on serving while anybody sends it anything: no frame ends a node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments import sim
from chaos.deployments.sim import SimDeployment
from chaos.ops import Failed, QueueRef, Unknown
from drivers.reference.driver import Options, Reference, create
from reference.wire.codec import RemotingCodec
from reference.wire.command import Command
from tests.reference.frames import Fuzzer, is_own

QUEUE = QueueRef(index=0, topic="storm", queue_id=0)
#: So many frames come at once; then the cluster has this much time for them.
AT_ONCE, TIME_S = 100, 0.02
SERVED_WITHIN_S = 20.0
SEEN_OF_EACH_KIND = 20


class Fire:
    """A cluster, what its nodes say to one another, and strangers."""

    def __init__(self, seed: int) -> None:
        self.world: SimDeployment = sim.create(run_id="fire", directory=Path("/nonexistent"), seed=seed)
        self.driver: Reference = create(Options(nameservers=2, metadata=True))
        self.codec = RemotingCodec()
        self.seed = seed
        self.aim = Random(f"{seed}/aim")
        self.heard: list[tuple[str, str, Command]] = []
        self.refused = self.answered = self.taken = self.acknowledged = 0

    def run(self, frames: int, of_peers: int) -> None:
        async def main() -> int:
            await self.world.start(self.driver.cluster(""), lambda row: None)
            self._listen()
            for number in range(10):
                await self._must_serve(number)
            fuzzer = Fuzzer(self.seed, [message for _, _, message in self.heard])
            for number in range(frames // AT_ONCE):
                for _ in range(AT_ONCE):
                    self._throw(fuzzer.frame())
                await asyncio.sleep(TIME_S)
                if number % 10 == 0:
                    await self._must_serve(1000 + number)
            await self._break_peers(fuzzer, of_peers)
            await self._must_serve(999)
            await self.world.stop()
            return 0

        self.world.execute(main())
        assert [str(crash) for crash in self.world.crashes] == []

    def _listen(self) -> None:
        """Keep some of each kind of message that nodes get."""
        seen: dict[tuple[str, int, bool], int] = {}
        for node in self.world._nodes.values():

            def arrive(source: str, message: Command, node: Any = node, arrive: Any = node.arrive) -> None:
                kind = (node.spec.role, message.code, message.is_response)
                if seen.setdefault(kind, 0) < SEEN_OF_EACH_KIND:
                    seen[kind] += 1
                    self.heard.append((source, node.name, message))
                arrive(source, message)

            node.arrive = arrive

    def _throw(self, frame: bytes) -> None:
        """Somebody sends these bytes to some node, and hears what comes of it."""
        node = self.aim.choice(list(self.world._nodes))
        stranger = self.world.connect(f"stranger-{self.aim.randrange(20)}", node)._client
        try:
            messages = self.codec.decode(bytearray(frame))
        except ValueError:
            self.refused += 1  # the shell closes the connection
            stranger.net.close(stranger, node)
            return
        for message in messages:
            self.taken += 1
            self.world._net.send(stranger, node, message)

    async def _break_peers(self, fuzzer: Fuzzer, count: int) -> None:
        """The nodes' own messages come broken, over the connections on which they belong."""
        own = [heard for heard in self.heard if is_own(heard[2]) and heard[0] in self.world._nodes]
        for number in range(count):
            source, target, message = own[number % len(own)]
            self.world._nodes[target].arrive(source, fuzzer.broken(message))
            await asyncio.sleep(0.05)

    async def _must_serve(self, number: int) -> None:
        """A send is acknowledged, however often a client must ask."""
        client = self.driver.client(self.world, "client-0")
        until_ns = self.world.now_ns() + int(SERVED_WITHIN_S * 1e9)
        while True:
            try:
                await client.send(QUEUE, f"{number:032X}", b"served")
            except (Failed, Unknown):
                assert self.world.now_ns() < until_ns, "the cluster serves nobody any more"
                await asyncio.sleep(0.05)
            else:
                self.acknowledged += 1
                return


@pytest.mark.parametrize("seed", [1, 2])
def test_no_frame_ends_a_node_and_the_cluster_serves_throughout(seed: int) -> None:
    fire = Fire(seed)
    fire.run(frames=300, of_peers=20)
    assert fire.refused > 10
    assert fire.taken > 100


@pytest.mark.full
def test_a_hundred_thousand_frames_end_no_node() -> None:
    fire = Fire(3)
    fire.run(frames=100_000, of_peers=2000)
    assert fire.acknowledged > 100
