"""Links keep the promises of TCP whatever breaks: in order, at most once, and no silent black holes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.deployments._sim.network import Piece, Pipe, SimNet
from chaos.draws import Draws
from chaos.effects.links import (
    Action,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    LinkRule,
    Reorder,
    Reset,
    SlowClose,
    Stall,
    Throttle,
)
from chaos.plain import PlainCodec, PlainMessage

MS = 1_000_000
ACTIONS = [
    Drop(),
    Drop(),
    Delay(2 * MS, 5 * MS),
    Reset(300),
    Stall(500, 3 * MS),
    Throttle(50_000),
    SlowClose(10 * MS),
    Duplicate(300, 3 * MS),
    Reorder(300, 3 * MS),
    Corrupt(200),
]


class End:
    """A host that keeps all it hears; ``clients`` speak to nodes only. ``sent``: what it has sent to each peer over the
    connection that it has now. Being told that a connection was refused, it checks that none of that was heard."""

    def __init__(self, name: str, is_client: bool) -> None:
        self.name, self.is_client, self.alive = name, is_client, True
        self.pipes: dict[str, Pipe] = {}
        self.heard: list[tuple[str, int]] = []
        self.breaks: list[str] = []
        self.sent: defaultdict[str, list[int]] = defaultdict(list)
        self.peers: dict[str, End] = {}

    def arrive(self, source: str, message: PlainMessage) -> None:
        assert self.alive
        self.heard.append((source, message.number))

    def lost(self, peer: str, refused: bool) -> None:
        self.breaks.append(peer)
        sent = self.sent.pop(peer, [])
        heard = [number for source, number in self.peers[peer].heard if source == self.name and number in sent]
        assert not (refused and heard), f"{peer} took {heard} of {self.name}, which was told that nothing reached it"


class Storm:
    """Random sends, crashes, closes and rules; then quiet."""

    def __init__(self, seed: int, drawn_links: Collection[str] | None = None) -> None:
        self.rng = Random(seed)
        self.loop = VirtualLoop()
        self.net = SimNet(self.loop, Draws(seed), drawn_links=drawn_links)
        self.net.codec = PlainCodec()
        self.ends = [End(f"node-{i}", False) for i in range(3)] + [End(f"client-{i}", True) for i in range(2)]
        for end in self.ends:
            self.net.add(end)
            end.peers = {peer.name: peer for peer in self.ends}
        self.number = 0

    def send(self, source: End, target: End) -> int:
        self.number += 1
        source.sent[target.name].append(self.number)
        self.net.send(source, target.name, PlainMessage(kind=1, number=self.number))
        return self.number

    def close(self, source: End, target: End) -> None:
        source.sent.pop(target.name, None)
        self.net.close(source, target.name)

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
                self.close(source, target)
            elif source.alive:
                source.alive = False
                source.sent.clear()
                self.net.leave(source, lose_sent=self.rng.random() < 0.5)
            else:
                source.alive = True
        elif kind == 34 and source.alive:
            self.close(source, target)
        elif kind < 38:
            action = self.rng.choice(ACTIONS)
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


@pytest.mark.parametrize("rule", [None, Delay(2 * MS, 5 * MS), Stall(500, 3 * MS)])
def test_a_link_draws_for_itself(rule: Action | None) -> None:
    """What one link carries, and what a rule does to it, changes nothing on another."""

    def arrivals(others: int) -> list[int]:
        storm, times = Storm(1), []
        first, second, third = storm.ends[:3]
        heard = second.arrive
        second.arrive = lambda source, message: (heard(source, message), times.append(storm.loop.now_ns))  # type: ignore

        async def run() -> None:
            for one in (first, third) if rule and others else ():
                both = frozenset({one.name}), frozenset({"node-0", "node-2"})
                storm.net.set_rule(one.name, LinkRule(*both, rule))
            for _ in range(20):
                for _ in range(others):
                    storm.send(first, third)
                    storm.send(third, first)
                storm.send(first, second)
                await storm.wait(MS)

        storm.loop.run_until_complete(run())
        storm.loop.close()
        return times

    alone = arrivals(others=0)
    assert len(alone) == 20
    assert arrivals(others=1) == arrivals(others=7) == alone


def test_what_was_sent_first_arrives_first_but_on_the_links_that_are_drawn() -> None:
    def arrivals(drawn_links: Collection[str] | None) -> list[tuple[int, str, str]]:
        """The numbers of all messages, in the order of their arrival, each with the ends of its link."""
        storm, arrived = Storm(1, drawn_links), []
        for end in storm.ends:
            end.arrive = lambda source, message, to=end: arrived.append((message.number, source, to.name))  # type: ignore

        async def run() -> None:
            for _ in range(20):
                for one in storm.ends:
                    for other in storm.ends[:3]:
                        if one is not other:
                            storm.send(one, other)
                await storm.wait(MS // 10)
            await storm.wait(10 * MS)

        storm.loop.run_until_complete(run())
        storm.loop.close()
        assert len(arrived) == 240
        return arrived

    assert arrivals(()) == sorted(arrivals(()))
    drawn = arrivals(None)
    assert drawn != sorted(drawn)
    assert arrivals(["node-0", "node-1", "node-2", "client"]) == drawn
    one = arrivals(["node-1>node-2"])
    others = [message for message in one if message[1:] != ("node-1", "node-2")]
    assert one != sorted(one) and others == sorted(others)


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


def test_who_was_heard_before_two_crashes_is_not_told_that_it_was_refused() -> None:
    """The end of a connection is on a slow link when its node has come up and crashed again."""
    storm = Storm(1)
    node, client = storm.ends[0], storm.ends[3]

    async def script() -> None:
        number = storm.send(client, node)
        await storm.wait(10 * MS)
        assert node.heard == [(client.name, number)]
        storm.net.set_rule("slow", LinkRule(frozenset({node.name}), frozenset({client.name}), SlowClose(200 * MS)))
        for _ in range(2):
            node.alive = False
            storm.net.leave(node, lose_sent=True)
            await storm.wait(20 * MS)
            node.alive = True
        await storm.wait(500 * MS)
        assert client.breaks == [node.name]

    storm.loop.run_until_complete(script())
    storm.loop.close()


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
    monkeypatch.setattr("chaos.deployments._sim.network.MAX_WAITING_CHUNKS", 10)
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


def told(storm: Storm, act: Callable[[End, End], Coroutine[Any, Any, None]]) -> None:
    """Play a script with two nodes that know each other."""

    async def script() -> None:
        source, target = storm.ends[:2]
        storm.send(source, target)
        await storm.wait(10 * MS)
        target.heard.clear()
        await act(source, target)

    storm.loop.run_until_complete(script())
    storm.loop.close()


def rule(storm: Storm, action: Action) -> None:
    storm.net.set_rule("rule", LinkRule(frozenset({"node-0"}), frozenset({"node-1"}), action))


def test_a_throttled_link_carries_so_much_and_lets_go_at_once_when_the_rule_goes() -> None:
    storm = Storm(1)

    async def act(source: End, target: End) -> None:
        rule(storm, Throttle(100_000))
        for number in range(20):
            storm.net.send(source, target.name, PlainMessage(kind=1, number=number, body=bytes(9_900)))
        await storm.wait(550 * MS)
        assert [number for _, number in target.heard] == list(range(5))
        storm.net.clear_rule("rule")
        await storm.wait(10 * MS)
        assert [number for _, number in target.heard] == list(range(20))

    told(storm, act)


def test_a_cut_takes_a_throttled_link_over_and_hands_it_back() -> None:
    storm = Storm(1)

    async def act(source: End, target: End) -> None:
        rule(storm, Throttle(10_000))
        for number in range(4):
            storm.net.send(source, target.name, PlainMessage(kind=1, number=number, body=bytes(1_000)))
        rule(storm, Drop())
        await storm.wait(2000 * MS)
        assert target.heard == []
        rule(storm, Throttle(10_000))
        await storm.wait(2000 * MS)
        assert [number for _, number in target.heard] == list(range(4))

    told(storm, act)


def test_a_flipped_bit_breaks_the_connection_and_both_sides_hear_of_it() -> None:
    breaks = 0
    for seed in range(30):
        storm = Storm(seed)

        async def act(source: End, target: End, storm: Storm = storm) -> None:
            nonlocal breaks
            rule(storm, Corrupt(1000))
            number = storm.send(source, target)
            await storm.wait(10 * MS)
            assert storm.net.rule_hits("rule") == 1
            if not target.heard:  # otherwise it was a bit that means nothing
                assert source.breaks == [target.name] and target.breaks == [source.name]
                breaks += 1
            else:
                assert target.heard == [(source.name, number)] and not source.breaks
            storm.net.clear_rule("rule")
            again = storm.send(source, target)
            await storm.wait(10 * MS)
            assert target.heard[-1] == (source.name, again)

        told(storm, act)
    assert breaks > 20


def test_an_end_is_passed_on_late_or_when_the_rule_goes_or_at_a_new_dial() -> None:
    for how in ("late", "rule", "dial"):
        storm = Storm(1)

        async def act(source: End, target: End, storm: Storm = storm, how: str = how) -> None:
            rule(storm, SlowClose(500 * MS))
            storm.net.close(source, target.name)
            await storm.wait(400 * MS)
            assert target.breaks == [] and storm.net.rule_hits("rule") == 1
            number = 0
            if how == "rule":
                storm.net.clear_rule("rule")
            elif how == "dial":
                number = storm.send(source, target)
            await storm.wait(400 * MS if how == "late" else 20 * MS)
            assert target.breaks == [source.name]
            assert target.heard == ([(source.name, number)] if how == "dial" else [])
            await storm.wait(1000 * MS)
            assert target.breaks == [source.name], "the late end must not break the new connection"

        told(storm, act)


def test_ends_that_two_rules_hold_back_come_when_the_other_one_alone_would_let_them() -> None:
    storm = Storm(1)

    async def act(source: End, target: End) -> None:
        rule(storm, SlowClose(500 * MS))
        storm.net.set_rule("other", LinkRule(frozenset("*"), frozenset("*"), SlowClose(300 * MS)))
        storm.net.close(source, target.name)
        await storm.wait(250 * MS)
        storm.net.clear_rule("rule")
        await storm.wait(40 * MS)
        assert target.breaks == [] and storm.net.rule_hits("other") == 1
        await storm.wait(20 * MS)
        assert target.breaks == [source.name]

    told(storm, act)


def test_a_rule_counts_only_what_it_struck() -> None:
    storm = Storm(1)

    async def act(source: End, target: End) -> None:
        for action in (Reset(0), Stall(0, MS), Corrupt(0), Duplicate(0, MS), Reorder(0, MS), SlowClose(MS)):
            rule(storm, action)
            storm.send(source, target)
            await storm.wait(10 * MS)
        assert storm.net.rule_hits("rule") == 0 and len(target.heard) == 6

    told(storm, act)


def test_pieces_of_a_frame_are_a_message_when_the_last_one_is_there() -> None:
    storm = Storm(1)
    client, node = storm.ends[3], storm.ends[0]
    frame = PlainCodec().encode(PlainMessage(kind=1, number=7, body=b"body"))

    async def send(*chunks: Piece | PlainMessage) -> None:
        for chunk in chunks:
            storm.net.send(client, node.name, chunk)
        await storm.wait(50 * MS)

    async def run() -> None:
        await send(Piece(frame[:2]), Piece(frame[2:30]), Piece(frame[30:-1]))
        assert node.heard == []
        await send(Piece(frame[-1:]), PlainMessage(kind=1, number=8))
        assert node.heard == [(client.name, 7), (client.name, 8)] and node.breaks == []
        await send(Piece(b"\xff" * 12))
        assert node.breaks == [client.name] and client.breaks == [node.name]

    storm.loop.run_until_complete(run())
    storm.loop.close()
