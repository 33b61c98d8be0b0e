"""What packets undergo between two network namespaces: the kernel's netem and its packet filter, as they really are.

Datagrams tell which of them came, how often, in which order and how late; both sides read one monotonic clock. Where
the kernel has no netem, what needs it is skipped (CONTRIBUTING.md has how to run it all the same).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from chaos.effects.links import PASS, Action, Corrupt, Delay, Duplicate, LinkRule, Reorder
from chaos.machines import iptables, netem
from chaos.machines.iptables import Endpoint
from chaos.machines.real_links import RealLinks
from reference.wire.codec import RemotingCodec
from tests.chaos.machines.test_shaper import ADDRESSES, Machines, machines

__all__ = ["machines"]  # a fixture

MS = 1_000_000
NODES = {side: Endpoint(side, address) for side, address in ADDRESSES.items()}
SENT = 300
#: What an idle link may take, on a machine that has other things to do.
IDLE_S = 0.04
RECEIVE = """
import json, socket, sys, time
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
it.bind((sys.argv[1], 7000))
print("bound", flush=True)
it.settimeout(20)
came = []
while True:
    try:
        words = it.recv(999).split()
    except TimeoutError:
        break
    came.append((int(words[0]), time.monotonic() - float(words[1])))
    it.settimeout(1.5)
print(json.dumps(came))
"""
SEND = """
import socket, sys, time
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    it.sendto(b"%d %.6f " % (number, time.monotonic()) + b"." * 200, (sys.argv[1], 7000))
    time.sleep(0.003)
"""


@dataclass(frozen=True)
class Came:
    """What came of the datagrams 0 to ``SENT`` - 1: each one's number and how late it was, as they came."""

    numbers: list[int]
    late_s: list[float]

    @property
    def once(self) -> bool:
        return sorted(self.numbers) == list(range(SENT))

    @property
    def in_order(self) -> bool:
        return self.numbers == sorted(self.numbers)

    @property
    def twice(self) -> int:
        return sum(count == 2 for count in Counter(self.numbers).values())


class Link:
    """The link from left to right, and rules on it."""

    def __init__(self, machines: Machines, links: RealLinks) -> None:
        self._machines = machines
        self._links = links
        self.hits = links.hits
        self.clear = links.clear

    async def rule(self, rule_id: str, action: Action) -> None:
        await self._links.put_up(rule_id, LinkRule(frozenset({"left"}), frozenset({"right"}), action))

    def send(self, source: str = "left", target: str = "right") -> Came:
        arguments = {target: [RECEIVE, ADDRESSES[target]], source: [SEND, ADDRESSES[target], str(SENT)]}
        words = {
            side: ["ip", "netns", "exec", self._machines.names[side], sys.executable, "-c", *given]
            for side, given in arguments.items()
        }
        with subprocess.Popen(words[target], stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None and receiver.stdout.readline() == "bound\n"
            subprocess.run(words[source], check=True, timeout=60)
            came = json.loads(receiver.stdout.read())
        return Came([number for number, _ in came], [late_s for _, late_s in came])


Play = Callable[[Callable[[Link], Awaitable[None]]], None]


def _has_netem(machines: Machines) -> bool:
    code, _ = asyncio.run(machines.run("left", ["tc", "qdisc", "add", "dev", "lo", "root", "netem"], ""))
    if code == 0:
        asyncio.run(machines.run("left", ["tc", "qdisc", "del", "dev", "lo", "root"], ""))
    return code == 0


def _playing(machines: Machines, *actions: type) -> Play:
    async def main(script: Callable[[Link], Awaitable[None]]) -> None:
        links = RealLinks("run", 1, machines.run)
        links.expect(frozenset(actions))
        addresses: Mapping[str, tuple[str, int]] = {side: (it.address, 7000) for side, it in NODES.items()}
        await links.begin(RemotingCodec(), addresses, NODES)
        try:
            await script(Link(machines, links))
        finally:
            links.close()

    return lambda script: asyncio.run(main(script))


@pytest.fixture
def play(machines: Machines) -> Iterator[Play]:
    """Run a script on links that netem is expected to shape; afterwards, what heals takes all of it away again."""
    if not _has_netem(machines):
        pytest.skip("the kernel has no netem (module sch_netem)")
    before = _told(machines)
    yield _playing(machines, Delay, Duplicate, Reorder, Corrupt)
    asyncio.run(_heal(machines))
    assert _told(machines) == before


def _told(machines: Machines) -> list[str]:
    return [line for line in machines.kernel().splitlines() if "-P " not in line]


async def _heal(machines: Machines) -> None:
    """As a heal of hosts does it."""
    for side in ADDRESSES:
        _, shown = await machines.run(side, netem.SHOW, "")
        lines = [netem.end(device) for device, others in netem.taken(shown, netem.major("run")) if not others]
        for table in (iptables.MANGLE, iptables.FILTER):
            _, saved = await machines.run(side, iptables.saving("iptables-nft", table), "")
            batch = iptables.left_of(iptables.run_chain("run"), saved, table)
            assert await machines.run(side, iptables.restore("iptables-nft"), batch) == (0, "")
        assert (await machines.run(side, netem.BATCH, "".join(f"{line}\n" for line in lines)))[0] == 0


def _idle(came: Came) -> bool:
    return came.once and came.in_order and statistics.median(came.late_s) < IDLE_S


def test_a_delay_is_as_long_as_it_says_one_way_only_and_ends_with_its_rule(play: Play) -> None:
    async def script(link: Link) -> None:
        assert _idle(link.send())
        await link.rule("slow", Delay(100 * MS))
        came = link.send()
        assert came.once and came.in_order
        assert min(came.late_s) > 0.099 and statistics.median(came.late_s) < 0.100 + IDLE_S
        assert SENT <= await link.hits("slow") < SENT + 20
        assert _idle(link.send("right", "left"))
        await link.rule("slow", PASS)
        assert _idle(link.send()) and await link.hits("slow") >= SENT
        await link.rule("slow", Delay(100 * MS))
        assert statistics.median(link.send().late_s) > 0.099
        await link.clear("slow")
        assert _idle(link.send())

    play(script)


def test_jitter_comes_on_top_and_lets_packets_overtake_one_another(play: Play) -> None:
    async def script(link: Link) -> None:
        await link.rule("slow", Delay(50 * MS, 100 * MS))
        came = link.send()
        assert came.once and not came.in_order
        assert 0.049 < min(came.late_s) < 0.080 and max(came.late_s) > 0.120
        assert 0.085 < statistics.median(came.late_s) < 0.115 + IDLE_S

    play(script)


def test_some_packets_are_overtaken_by_all_others(play: Play) -> None:
    async def script(link: Link) -> None:
        await link.rule("mixed", Reorder(200, 100 * MS))
        came = link.send()
        waited = sum(late_s > 0.099 for late_s in came.late_s)
        assert came.once and not came.in_order and 0.1 * SENT < waited < 0.3 * SENT
        assert statistics.median(came.late_s) < IDLE_S
        assert 0.19 * SENT < await link.hits("mixed") < 0.25 * SENT

    play(script)


def test_a_flipped_bit_is_found_by_the_checksum_and_the_packet_is_lost(play: Play) -> None:
    async def script(link: Link) -> None:
        await link.rule("wrong", Corrupt(300))
        came = link.send()
        assert 0.55 * SENT < len(came.numbers) < 0.85 * SENT
        await link.rule("slow", Delay(100 * MS))
        assert 0.55 * SENT < len(link.send().numbers) < 0.85 * SENT
        await link.clear("wrong")
        came = link.send()
        assert came.once and min(came.late_s) > 0.099, "what is gone has left nothing behind in the link's netem"

    play(script)


def test_rules_of_all_kinds_on_one_link_act_together(play: Play) -> None:
    """A kernel's netem that duplicates is refused beside any other on a device."""

    async def script(link: Link) -> None:
        actions: dict[str, Action] = {
            "slow": Delay(50 * MS),
            "twice": Duplicate(300, 0),
            "mixed": Reorder(200, 50 * MS),
        }
        for rule_id, action in actions.items():
            await link.rule(rule_id, action)
        came = link.send()
        assert {*came.numbers} == {*range(SENT)} and 0.15 * SENT < came.twice < 0.45 * SENT
        assert min(came.late_s) > 0.049 and not came.in_order
        for rule_id in ("mixed", "slow", "twice"):
            assert await link.hits(rule_id) > 0
            await link.clear(rule_id)
        assert _idle(link.send())

    play(script)


def test_packets_come_twice_on_any_kernel(machines: Machines) -> None:
    async def script(link: Link) -> None:
        await link.rule("twice", Duplicate(300, 0))
        came = link.send()
        assert {*came.numbers} == {*range(SENT)} and 0.2 * SENT < came.twice < 0.4 * SENT
        assert abs(await link.hits("twice") - came.twice) < 0.1 * SENT
        assert _idle(link.send("right", "left"))
        await link.rule("twice", Duplicate(1000, 0))
        assert link.send().twice == SENT
        await link.clear("twice")
        assert _idle(link.send())

    before = _told(machines)
    _playing(machines, Duplicate)(script)
    asyncio.run(_heal(machines))
    assert _told(machines) == before, "no device is taken over for that"
