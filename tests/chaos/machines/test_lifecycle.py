"""The lifecycle of a cluster, on a machine that is only told of: what is proven, counted, owed and noted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.driver import ClusterSpec
from chaos.effects.disks import DiskRule, Full, SlowDisk
from chaos.errors import DeploymentError, HostLost
from chaos.fault import NotNow, Undo, Verb, pressed
from chaos.machines.lifecycle import deployment
from chaos.machines.lifecycle.deployment import MachineDeployment
from chaos.machines.lifecycle.node_clocks import NodeClocks
from chaos.machines.local_resources import Kind
from chaos.machines.machine import Address, Dial, Life, Seat, Signal
from chaos.node import NodeSpec
from chaos.shell import disk_rules
from chaos.shell.clocks import Skew
from chaos.shell.connections import CONNECTED
from chaos.shell.launch import Launch
from chaos.shell.node_files import NodeFile
from chaos.tasks import gather

NODE, OTHER = "n-0", "n-1"
NEVER = Life(incarnation=0, pid=0, started=0, state="", paused=False, exit_code=None, of_a_fault=False)


class ToldMachine:
    """Does at once what it is told, unless it is ``deaf``; ``gone``: it can't be reached."""

    name = "m"
    proof: Mapping[str, object] = {"host": "m"}

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.files: dict[tuple[str, NodeFile], bytes] = {}
        self.losses: list[str] = []
        self.done: list[tuple[object, ...]] = []
        self.gone = self.deaf = False

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        self._here()
        return {node: Life(**self.nodes[node]) if node in self.nodes else NEVER for node in nodes}

    def start(self, launch: Launch) -> None:
        self._here()
        number = launch.incarnation
        told = {"incarnation": number, "pid": number, "started": number, "state": "S", "paused": False}
        self.nodes[launch.spec.name] = {**told, "exit_code": None, "of_a_fault": False}

    def signal(self, node: str, number: Signal) -> None:
        self._here()
        self.done.append((number, node))
        match number:
            case Signal.KILL:
                self.end(node, -9)
            case Signal.TERMINATE if not self.deaf:
                self.end(node, 0)
            case Signal.STOP if not self.deaf:
                self.nodes[node] |= {"state": "T", "paused": True}
            case Signal.CONTINUE:
                self.nodes[node] |= {"state": "S", "paused": False}

    def end(self, node: str, code: int, *, of_a_fault: bool = False) -> None:
        self.nodes[node] |= {"state": "", "paused": False, "exit_code": code, "of_a_fault": of_a_fault}

    def log(self, node: str) -> str:
        return f"the log of {node}"

    def wipe(self, node: str) -> int:
        return 3

    def put(self, node: str, file: NodeFile, content: bytes) -> None:
        self._here()
        self.files[node, file] = content

    def get(self, node: str, file: NodeFile, begin: int) -> bytes:
        self._here()
        self.done.append(("get", node, file, begin))
        return self.files.get((node, file), b"")[begin:]

    def hit(self, node: str, *lines: str) -> None:
        """The node writes these hits of its rules."""
        where = node, NodeFile.DISK_HITS
        self.files[where] = self.files.get(where, b"") + "".join(f"{line}\n" for line in lines).encode()

    def rules(self, node: str) -> bytes:
        return self.files.get((node, NodeFile.DISK_RULES), b"")

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        self._here()
        self.done.append(tuple(dials))
        return [dial.target[1] == 1 for dial in dials]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def do(*arguments: object) -> Mapping[str, object]:
            self._here()
            self.done.append((name, *arguments))
            return {"shown": name}

        return do

    def _here(self) -> None:
        if self.gone:
            raise HostLost("m can't be reached")


class OneMachine:
    """A fleet of it. ``returned`` is what its lifecycle does when it is back."""

    losses: Sequence[str] = ()

    def __init__(self, machine: ToldMachine) -> None:
        self.machine = machine
        self.returned: Callable[[], Awaitable[None]]
        self.ended = 0

    async def off(self, call: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return call(*arguments)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        return {spec.name: self._seat(number) for number, spec in enumerate(cluster.nodes)}

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        self.returned = on_return

    async def add(self, spec: NodeSpec) -> Seat:
        return self._seat(7)

    async def end(self) -> None:
        self.ended += 1

    def _seat(self, number: int) -> Seat:
        return Seat(machine=cast(Any, self.machine), peer=f"10.0.0.1:{number}")


class NoLinks:
    """Links that nobody rules; each node answers at one address."""

    def __init__(self) -> None:
        self.where: Address = ("", 0)
        self.token = ""
        self.opener = None

    async def begin(self, *told: object) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(CONNECTED)
            writer.close()

        self.server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.where = self.server.sockets[0].getsockname()[:2]

    async def admit(self, *told: object) -> None: ...

    async def know(self, *told: object) -> None: ...

    async def stopped(self, *told: object) -> Mapping[object, int]:
        return {}

    async def address(self, node: str) -> Address:
        return self.where

    def close(self) -> None:
        self.server.close()


class World:
    def __init__(self, directory: Path) -> None:
        self.machine = ToldMachine()
        self.fleet = OneMachine(self.machine)
        self.it = MachineDeployment(directory, 1, self.fleet, cast(Any, NoLinks()))

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            specs = [NodeSpec(name=name, role="r", package="p") for name in (NODE, OTHER)]
            await self.it.start(ClusterSpec(nodes=specs, codec=cast(Any, None)), lambda row: None)
            await script()
            await self.it.stop()
            await self.it.stop()

        asyncio.run(main())
        assert self.fleet.ended == 1

    async def undo(self, verb: Verb, subject: str = NODE) -> None:
        await self.it.undo(Undo(verb=verb, subject=subject))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_life_is_proven_over_and_the_next_is_counted_once(world: World) -> None:
    async def script() -> None:
        proof = {"node": NODE, "host": "m", "incarnation": 1, "pid": 1, "started": 1, "alive": False}
        assert await world.it.kill(NODE) == proof
        with pytest.raises(NotNow, match=f"{NODE} is not running"):
            await world.it.kill(NODE)
        await gather(*(world.undo(Verb.START) for _ in range(5)))
        assert await world.it.terminate(NODE) == {**proof, "incarnation": 2, "pid": 2, "started": 2, "orderly": True}
        await world.undo(Verb.START)
        assert await world.it.wipe(NODE) == {
            "node": NODE,
            "host": "m",
            "incarnation": 3,
            "was_alive": True,
            "files_removed": 3,
        }
        assert world.it.crashes == ()

    world.play(script)


def test_a_node_that_does_not_heed_its_signal_is_killed_or_the_fault_has_no_effect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "ORDERLY_S", 0.05)
    monkeypatch.setattr(deployment, "EFFECT_S", 0.05)

    async def script() -> None:
        world.machine.deaf = True
        proof = await world.it.terminate(NODE)
        assert proof["orderly"] is False and proof["alive"] is False
        with pytest.raises(NotNow, match="did not stop within"):
            await world.it.pause(OTHER)
        world.machine.deaf = False
        assert (await world.it.pause(OTHER))["state"] == "T"
        for fault, why in ((world.it.pause, "paused already"), (world.it.terminate, "is paused")):
            with pytest.raises(NotNow, match=why):
                await fault(OTHER)
        assert (await world.it.kill(OTHER))["alive"] is False, "a stopped one too"

    world.play(script)


def test_a_crash_is_told_once_and_only_when_no_fault_explains_it(world: World) -> None:
    async def script() -> None:
        world.machine.end(NODE, 1)
        world.machine.end(OTHER, 1, of_a_fault=True)
        for _ in range(2):
            (crash,) = world.it.crashes
        assert (crash.node, crash.incarnation, crash.exit_code, crash.log) == (NODE, 1, 1, f"the log of {NODE}")
        await world.undo(Verb.START)
        await world.undo(Verb.START, OTHER)
        world.machine.losses.append("it was gone for a while")
        world.machine.end(NODE, 1)
        assert len(world.it.crashes) == 1, "who ends with its machine has not crashed"

    world.play(script)


def test_what_is_owed_to_a_machine_that_is_gone_is_done_when_it_is_back(world: World) -> None:
    async def script() -> None:
        it = world.it
        await it.set_disk_rule("full", DiskRule(NODE, Full()))
        await it.kill(NODE)
        world.machine.gone = True
        for fault in (
            it.kill(OTHER),
            it.pause(OTHER),
            it.wipe(OTHER),
            it.slow_processor(OTHER, 50),
            it.mark_disk(OTHER),
        ):
            with pytest.raises(NotNow, match="m can't be reached"):
                await fault
        for verb, subject in ((Verb.START, NODE), (Verb.CLEAR_DISK, "full"), (Verb.RELEASE, pressed(OTHER, "cpu"))):
            await world.undo(verb, subject)
        assert await it.disk_rule_hits("full") == 0 and not await it.reaches(NODE, OTHER)
        world.machine.gone = False
        await world.fleet.returned()
        assert world.machine.nodes[NODE]["incarnation"] == 2
        assert world.machine.rules(NODE) == b""
        assert ("release", OTHER, Kind.CPU) in world.machine.done and it.losses == () == it.crashes

    world.play(script)


def test_a_node_that_joins_is_known_to_all_and_has_one_name(world: World) -> None:
    spec = NodeSpec(name="n-2", role="r", package="p")

    async def script() -> None:
        assert (await world.it.add(spec))["incarnation"] == 1
        told = {node: world.machine.files[node, NodeFile.MEMBERSHIP] for node in (NODE, OTHER, "n-2")}
        assert set(told.values()) == {b'{"n-2": "10.0.0.1:7"}'}
        world.machine.files.clear()
        await world.fleet.returned()
        assert world.machine.files == {(node, NodeFile.MEMBERSHIP): content for node, content in told.items()}
        for name in ("n-2", NODE):
            with pytest.raises(NotNow, match="already"):
                await world.it.add(NodeSpec(name=name, role="r", package="p"))

    world.play(script)


def test_a_disk_that_failed_explains_the_end_of_that_life_alone(world: World) -> None:
    async def script() -> None:
        it, machine = world.it, world.machine
        await it.set_disk_rule("bad", DiskRule(NODE, Full()))
        await it.set_disk_rule("slow", DiskRule(NODE, SlowDisk(5)))
        assert machine.rules(NODE) == disk_rules.content({"bad": Full(), "slow": SlowDisk(5)})
        machine.hit(NODE, "slow SlowDisk", "bad Full", "bad Full")
        machine.end(NODE, 1)
        await world.undo(Verb.CLEAR_DISK, "bad")
        assert machine.rules(NODE) == disk_rules.content({"slow": SlowDisk(5)})
        await world.undo(Verb.START)
        assert it.crashes == (), "its disk had failed"
        machine.hit(NODE, "slow SlowDisk")
        assert [await it.disk_rule_hits(rule) for rule in ("bad", "slow", "nobody's")] == [2, 2, 0]
        machine.end(NODE, 1)
        assert [(crash.node, crash.incarnation) for crash in it.crashes] == [(NODE, 2)], "it was only slow"
        await world.undo(Verb.START)
        machine.hit(NODE, "slow SlowDisk", "later Full")
        machine.end(NODE, 1)
        assert len(it.crashes) == 1
        offsets = [done[3] for done in machine.done if done[0] == "get"]
        assert offsets == sorted(offsets) and offsets[-1] > 0, "nothing is read twice"

    world.play(script)


def test_a_node_that_may_be_about_to_end_of_its_disk_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "DISK_END_S", 0.2)

    async def cleared_s(rule_id: str) -> float:
        begun_s = asyncio.get_running_loop().time()
        await world.undo(Verb.CLEAR_DISK, rule_id)
        return asyncio.get_running_loop().time() - begun_s

    async def script() -> None:
        for rule_id in ("slow", "bad", "other"):
            await world.it.set_disk_rule(rule_id, DiskRule(NODE, Full()))
        world.machine.hit(NODE, "slow SlowDisk")
        assert await cleared_s("slow") < 0.2
        world.machine.hit(NODE, "bad Full")
        assert await cleared_s("other") < 0.2 <= await cleared_s("bad")
        world.machine.end(NODE, 1)
        assert await cleared_s("bad") < 0.2

    world.play(script)


def test_a_rule_that_never_came_to_its_machine_does_not_come_with_others(world: World) -> None:
    async def script() -> None:
        await world.it.set_disk_rule("first", DiskRule(NODE, Full()))
        world.machine.gone = True
        with pytest.raises(NotNow, match="m can't be reached"):
            await world.it.set_disk_rule("lost", DiskRule(NODE, SlowDisk(5)))
        await world.undo(Verb.CLEAR_DISK, "lost")
        world.machine.gone = False
        await world.it.set_disk_rule("later", DiskRule(NODE, SlowDisk(6)))
        left = disk_rules.content({"first": Full(), "later": SlowDisk(6)})
        assert world.machine.rules(NODE) == left
        await world.fleet.returned()
        assert world.machine.rules(NODE) == left

    world.play(script)


def test_clocks_are_told_before_the_first_life_and_set_also_when_nobody_shows_it(world: World) -> None:
    machine, nobody = cast(Any, world.machine), ("127.0.0.1", 1)
    files, where = world.machine.files, (NODE, NodeFile.CLOCK)

    async def script() -> None:
        clocks = NodeClocks(world.fleet.off)
        await clocks.prepare(machine, NODE)
        assert files[where] == Skew().content()
        for jump_ns, skew in ((5, Skew(5, 7)), (-3, Skew(2, 7))):
            with pytest.raises(NotNow):
                await clocks.set(machine, NODE, nobody, jump_ns=jump_ns, drift_ppm=7)
            await clocks.prepare(machine, NODE)
            assert files[where] == skew.content()
        await clocks.reset(machine, NODE)
        assert files.pop(where) == Skew().content()
        await clocks.reset(machine, NODE)
        await clocks.reset(machine, OTHER)
        assert not files

    asyncio.run(script())


def test_connections_that_are_tried_at_once_are_dialled_at_once(world: World) -> None:
    async def script() -> None:
        found = await gather(*(world.it.reaches(*pair) for pair in ((NODE, OTHER), (OTHER, NODE), (OTHER, OTHER))))
        assert found == [True, False, True]
        assert [len(dials) for dials in world.machine.done[-2:]] == [3, 1], "what has come about is not tried again"

    world.play(script)


def test_a_node_that_ends_at_its_start_is_named_with_its_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start = world.machine.start

    def start_and_end(launch: Launch) -> None:
        start(launch)
        world.machine.end(launch.spec.name, 4)

    monkeypatch.setattr(world.machine, "start", start_and_end)

    async def never() -> None:
        raise AssertionError("it never gets here")

    said = rf"node {NODE} ended at its start on host m \(exit code 4\); the last line of its log: the log"
    with pytest.raises(DeploymentError, match=said):
        world.play(never)
    with suppress(DeploymentError):
        asyncio.run(world.it.stop())
    assert world.fleet.ended == 1


def test_before_the_start_there_is_no_cluster(world: World) -> None:
    with pytest.raises(DeploymentError, match="start it first"):
        asyncio.run(world.it.kill(NODE))
