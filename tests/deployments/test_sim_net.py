"""Links keep the promises of TCP whatever breaks: in order, at most once, and no silent black holes."""

from __future__ import annotations

from random import Random

import pytest

from chaos.deployments._loop import VirtualLoop
from chaos.deployments._simnet import Pipe, SimNet
from chaos.links import Delay, Drop, LinkRule, Reset, Stall
from chaos.node import Message

MS = 1_000_000


class End:
    """A host that keeps all it hears; ``clients`` speak to nodes only."""

    def __init__(self, name: str, is_client: bool) -> None:
        self.name, self.is_client, self.alive = name, is_client, True
        self.pipes: dict[str, Pipe] = {}
        self.heard: list[tuple[str, int]] = []
        self.breaks: list[str] = []

    def arrive(self, source: str, message: Message) -> None:
        assert self.alive
        self.heard.append((source, message.opaque))

    def lost(self, peer: str, refused: bool) -> None:
        self.breaks.append(peer)


class Storm:
    """Random sends, crashes, closes and rules; then quiet."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.loop = VirtualLoop()
        self.net = SimNet(self.loop, seed)
        self.ends = [End(f"node-{i}", False) for i in range(3)] + [End(f"client-{i}", True) for i in range(2)]
        for end in self.ends:
            self.net.add(end)
        self.number = 0

    def send(self, source: End, target: End) -> int:
        self.number += 1
        self.net.send(source, target.name, Message(code=1, opaque=self.number))
        return self.number

    def pair(self) -> tuple[End, End]:
        source, target = self.rng.sample(self.ends, 2)
        return (target, source) if source.is_client and target.is_client else (source, target)

    def turn(self) -> None:
        source, target = self.pair()
        kind = self.rng.randrange(40)
        if kind < 30:
            if source.alive and not (source.is_client and target.is_client):
                self.send(source, target)
        elif kind < 34:
            if source.is_client:
                self.net.close(source, target.name)
            elif source.alive:
                source.alive = False
                self.net.leave(source, lose_sent=self.rng.random() < 0.5)
            else:
                source.alive = True
        elif kind == 34 and source.alive:
            self.net.close(source, target.name)
        elif kind < 38:
            action = self.rng.choice([Drop(), Drop(), Delay(2 * MS, 5 * MS), Reset(300), Stall(500, 3 * MS)])
            sides = frozenset({source.name}), frozenset({self.rng.choice([target.name, "*"])})
            self.net.set_rule(f"rule-{self.rng.randrange(3)}", LinkRule(*sides, action))
        else:
            self.net.clear_rule(f"rule-{self.rng.randrange(3)}")

    async def wait(self, delay_ns: int) -> None:
        done = self.loop.create_future()
        self.loop.post(delay_ns, done.set_result, None)
        await done

    async def run(self) -> None:
        for _ in range(400):
            self.turn()
            if self.rng.random() < 0.4:
                await self.wait(self.rng.randrange(2 * MS))
        for number in range(3):
            self.net.clear_rule(f"rule-{number}")
        for end in self.ends:
            end.alive = True
        await self.wait(100 * MS)


@pytest.mark.parametrize("batch", range(10))
def test_storms_keep_order_and_leave_no_black_hole(batch: int) -> None:
    for seed in range(batch * 20, batch * 20 + 20):
        storm = Storm(seed)
        storm.loop.run_until_complete(storm.run())
        for end in storm.ends:
            for peer in storm.ends:
                numbers = [number for source, number in end.heard if source == peer.name]
                assert numbers == sorted(set(numbers)), f"seed {seed}: {peer.name} to {end.name} out of order"
        storm.loop.run_until_complete(after_the_storm(storm, seed))
        storm.loop.close()


async def after_the_storm(storm: Storm, seed: int) -> None:
    """With everything healed, a message arrives, or its sender is told; the one after that arrives."""
    nodes, clients = storm.ends[:3], storm.ends[3:]
    for source in storm.ends:
        for target in nodes:
            if target is source:
                continue
            breaks = len(source.breaks)
            first = storm.send(source, target)
            await storm.wait(50 * MS)
            told = source.breaks[breaks:] == [target.name]
            assert ((source.name, first) in target.heard) != told, f"seed {seed}: {source.name} to {target.name}"
            second = storm.send(source, target)
            await storm.wait(50 * MS)
            assert (source.name, second) in target.heard, f"seed {seed}: {source.name} to {target.name}"
    for client in clients:
        for node in nodes:
            answer = storm.send(node, client)
            await storm.wait(50 * MS)
            assert (node.name, answer) in client.heard, f"seed {seed}: answer of {node.name} to {client.name}"


def test_a_node_cannot_reach_a_client_that_has_not_connected() -> None:
    storm = Storm(1)
    node, client = storm.ends[0], storm.ends[3]

    async def script() -> None:
        storm.send(node, client)
        await storm.wait(10 * MS)
        assert client.heard == [] and node.breaks == []
        storm.send(client, node)
        await storm.wait(10 * MS)
        answer = storm.send(node, client)
        await storm.wait(10 * MS)
        assert client.heard == [(node.name, answer)]

    storm.loop.run_until_complete(script())
    storm.loop.close()


def test_a_sender_whose_buffers_are_full_loses_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.deployments._simnet.MAX_WAITING_CHUNKS", 10)
    storm = Storm(1)
    source, target = storm.ends[:2]

    async def script() -> None:
        storm.net.set_rule("cut", LinkRule(frozenset({source.name}), frozenset({"*"}), Drop()))
        for _ in range(11):
            storm.send(source, target)
        await storm.wait(10 * MS)
        assert source.breaks == [target.name]
        storm.net.clear_rule("cut")
        await storm.wait(10 * MS)
        assert target.heard == []

    storm.loop.run_until_complete(script())
    storm.loop.close()
