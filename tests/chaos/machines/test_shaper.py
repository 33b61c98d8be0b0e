"""Traffic control between two network namespaces of the test's own.

Kernels may have no netem, so another discipline stands in its place: the classes, what sorts packets into them, the
counts and the undo are the kernel's all the same.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from chaos.effects.links import PASS, Delay, LinkRule
from chaos.errors import MachineError
from chaos.machines import iptables, netem
from chaos.machines.iptables import Endpoint
from chaos.machines.traffic_control import Shaper

ADDRESSES = {"left": "10.211.77.1", "right": "10.211.77.2"}
#: Two nodes on the left machine, one on the right.
ENDPOINTS = {
    "a": Endpoint("left", ADDRESSES["left"], "7000:7099"),
    "b": Endpoint("left", ADDRESSES["left"], "7100:7199"),
    "c": Endpoint("right", ADDRESSES["right"], "7200:7299"),
}
PORTS = {"a": 7000, "b": 7100, "c": 7200}
#: In netem's place: it lets one large packet through at once, and the rest takes about two seconds.
SLOW = "tbf rate 600kbit burst 66k latency 60s"
SENT = 200_000
FREE_S, SLOW_S = 1.2, 1.4
SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    while True:
        one = server.accept()[0]
        while one.recv(65536): pass
        one.sendall(b"!")
        one.close()
"""
SEND = """
import socket, sys, time
begin = time.monotonic()
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20, (sys.argv[3], int(sys.argv[4]))) as it:
    it.sendall(bytes(int(sys.argv[5])))
    it.shutdown(socket.SHUT_WR)
    assert it.recv(1)
print(time.monotonic() - begin)
"""


def sh(*words: str, given: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=given, capture_output=True, text=True, check=check, timeout=30)


class Machines:
    """Network namespaces, each with a device to the other."""

    def __init__(self) -> None:
        self.names = {side: f"stormproof-{os.getpid()}-{side}" for side in ADDRESSES}
        self._servers: list[subprocess.Popen[bytes]] = []
        self._port = 0

    def make(self) -> None:
        for name in self.names.values():
            sh("ip", "netns", "add", name)
        left, right = self.names.values()
        sh("ip", "-n", left, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", right)
        for side, name in self.names.items():
            sh("ip", "-n", name, "address", "add", f"{ADDRESSES[side]}/24", "dev", "veth0")
            for device in ("lo", "veth0"):
                sh("ip", "-n", name, "link", "set", device, "up")

    def remove(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
        for name in self.names.values():
            sh("ip", "netns", "delete", name, check=False)

    async def run(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        done = sh("ip", "netns", "exec", self.names[machine], *command, given=given, check=False)
        return done.returncode, done.stdout + done.stderr

    def serve(self) -> None:
        """Have every node listen."""
        for node, it in ENDPOINTS.items():
            words = ["ip", "netns", "exec", self.names[it.machine], sys.executable, "-c", SERVE]
            self._servers.append(subprocess.Popen([*words, it.address, str(PORTS[node])]))
        for node in ENDPOINTS:
            self.seconds(node, "c" if node == "a" else "a", 1, tries=50)

    def seconds(self, source: str, target: str, sent: int = SENT, tries: int = 1) -> float:
        """How long it takes until a node has sent so many bytes, and has had an answer."""
        here, there = ENDPOINTS[source], ENDPOINTS[target]
        for left in reversed(range(tries)):
            self._port = self._port % 90 + 1
            arguments = (there.address, PORTS[target], here.address, PORTS[source] + self._port, sent)
            words = ["ip", "netns", "exec", self.names[here.machine], sys.executable, "-c", SEND, *map(str, arguments)]
            done = sh(*words, check=False)
            if done.returncode == 0:
                return float(done.stdout)
            if not left:
                raise AssertionError(done.stderr)
            time.sleep(0.1)
        raise AssertionError

    def kernel(self) -> str:
        """All that the filters and the traffic controls hold, but for what they have counted."""
        told = ""
        for side in self.names:
            for words in (
                ["iptables-nft", "-t", "mangle", "-S"],
                ["tc", "qdisc", "show"],
                ["tc", "class", "show", "dev", "veth0"],
            ):
                told += sh("ip", "netns", "exec", self.names[side], *words, check=False).stdout
        return told


@pytest.fixture
def machines() -> Iterator[Machines]:
    if os.geteuid():
        pytest.skip("network namespaces need root")
    it = Machines()
    try:
        it.make()
        yield it
    finally:
        it.remove()


def rule(source: str, target: str, delay_ns: int = 1) -> LinkRule:
    return LinkRule(frozenset({source}), frozenset({target}), Delay(delay_ns))


def test_a_link_is_shaped_alone_counted_and_free_again(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """``a`` to ``c`` is slow; the way back, and the other node of the same machine, are not."""
    monkeypatch.setattr(netem, "leaf", lambda actions: SLOW)
    machines.serve()

    async def play() -> None:
        shaper = Shaper("run", machines.run)
        await shaper.begin(ENDPOINTS)
        assert machines.seconds("a", "c") < FREE_S
        assert await shaper.hits("one") == 0
        await shaper.put_up("one", rule("a", "c"))
        assert machines.seconds("a", "c") > SLOW_S
        assert machines.seconds("b", "c") < FREE_S
        assert machines.seconds("a", "b") < FREE_S
        hits = await shaper.hits("one")
        assert hits > 2
        await shaper.put_up("one", LinkRule(frozenset("a"), frozenset("c"), PASS))  # a pause, which keeps the hits
        assert machines.seconds("a", "c") < FREE_S
        assert await shaper.hits("one") == hits
        await shaper.put_up("one", rule("a", "c"))
        await shaper.put_up("two", rule("*", "c"))
        await shaper.clear("one")
        assert machines.seconds("a", "c") > SLOW_S, "the other rule still takes it"
        assert await shaper.hits("one") == 0 < await shaper.hits("two")
        await shaper.clear("two")
        await shaper.clear("two")
        assert machines.seconds("a", "c") < FREE_S
        await shaper.put_up("one", rule("a", "b"))  # both on one machine: its own device
        assert machines.seconds("a", "b") > SLOW_S
        await shaper.clear("one")

    asyncio.run(play())


def test_the_class_of_a_link_does_what_all_its_rules_ask(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []

    def leaf(actions: Sequence[Delay]) -> str:
        asked.append(sorted(action.delay_ns for action in actions))
        return SLOW

    monkeypatch.setattr(netem, "leaf", leaf)

    async def play() -> None:
        shaper = Shaper("run", machines.run)
        await shaper.begin(ENDPOINTS)
        asked.clear()
        await shaper.put_up("one", rule("a", "c", 1))
        await shaper.put_up("two", rule("a", "*", 2))
        await shaper.put_up("one", rule("a", "c", 3))
        await shaper.clear("two")
        assert [delays for delays in asked if delays] == [[1], [2], [1, 2], [2, 3], [2, 3], [3]]

    asyncio.run(play())


def test_what_the_kernel_lacks_is_told_before_anything_runs(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netem, "leaf", lambda actions: "nosuchdiscipline")

    async def play() -> None:
        with pytest.raises(MachineError, match=r"has no netem.*sch_netem.*target: client.*Cuts, loss"):
            await Shaper("run", machines.run).begin(ENDPOINTS)

    asyncio.run(play())


def test_traffic_control_of_others_is_left_alone(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem, "leaf", lambda actions: SLOW)
    sh(
        "ip",
        "netns",
        "exec",
        machines.names["right"],
        "tc",
        "qdisc",
        "add",
        "dev",
        "veth0",
        "root",
        "handle",
        "1:",
        *SLOW.split(),
    )

    async def play() -> None:
        with pytest.raises(MachineError, match="veth0 of right is controlled by others"):
            await Shaper("run", machines.run).begin(ENDPOINTS)

    asyncio.run(play())
    assert "qdisc tbf 1: dev veth0 root" in machines.kernel()


def test_nothing_is_left_when_devices_are_given_back(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem, "leaf", lambda actions: SLOW)
    before = machines.kernel()

    async def play() -> None:
        shaper = Shaper("run", machines.run)
        await shaper.begin(ENDPOINTS)
        await shaper.put_up("one", rule("*", "*"))
        for side in ADDRESSES:
            _, saved = await machines.run(side, iptables.saving("iptables-nft", iptables.MANGLE), "")
            batch = iptables.left_of(iptables.run_chain("run"), saved, iptables.MANGLE)
            assert await machines.run(side, iptables.restore("iptables-nft"), batch) == (0, "")
            _, shown = await machines.run(side, netem.SHOW, "")
            ours = [device for device, others in netem.taken(shown, netem.major("run")) if not others]
            assert "veth0" in ours
            lines = "".join(f"{netem.end(device)}\n" for device in ours)
            assert (await machines.run(side, netem.BATCH, lines))[0] == 0

    asyncio.run(play())
    assert [line for line in machines.kernel().splitlines() if "-P " not in line] == [
        line for line in before.splitlines() if "-P " not in line
    ]
