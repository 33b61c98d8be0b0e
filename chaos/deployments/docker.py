"""Nodes in containers on this machine: each with a network of its own, cut by the kernel's packet filter.

Needs Docker's engine and the image that ``stormproof image`` builds. The links between nodes are real: a network
without a way out, which only this machine can reach, and rules of the packet filter in each node's own network stack.
Clients stand behind a proxy in the harness, which knows them apart, so that rules can hold for some of them.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from chaos.deployment import copy_of, trace_file
from chaos.driver import ClusterSpec, OnTrace
from chaos.effects.corruption import AtDisk, at_disk
from chaos.effects.disks import DiskRule
from chaos.effects.links import LinkRule
from chaos.errors import DeploymentError, MachineError
from chaos.fault import NotNow, Undo, Verb
from chaos.machines import real_links
from chaos.machines.client import ProcessConnection
from chaos.machines.clock_skew import skewed
from chaos.machines.disk_corruption import HarmsDisks
from chaos.machines.docker.engine import DIRECTORY, HARNESS_PROCESS, RUN, THREADS, connect, image_problem, told
from chaos.machines.docker.heal import clear, heal, heal_all
from chaos.machines.docker.node import PORT, NodeContainers, Placement, State, disk_of, newcomers_of
from chaos.machines.docker.resources import MachineFaults
from chaos.machines.folder_disk import RealFiles
from chaos.machines.iptables import Endpoint
from chaos.machines.local_resources import DEADLY, Kind
from chaos.machines.procfs import Process
from chaos.machines.real_links import RealLinks, distinct
from chaos.machines.real_time import Crash, Tail, execute, ping
from chaos.machines.resource_limits import PressesMachines
from chaos.machines.torn_writes import LosesWrites
from chaos.node import NodeSpec
from chaos.shell import clocks as _clocks
from chaos.shell import membership
from chaos.shell.launch import Launch
from chaos.tasks import gather

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["DockerDeployment", "create", "heal", "heal_all"]

T = TypeVar("T")

#: Bounds on waiting: for a node to begin, for a connection to be taken.
BEGIN_S = 60.0
REACH_S = 0.5
#: A node that was told to end and does not is killed.
ORDERLY_S = 5.0
POLL_S = 0.02
LOG_LINES = 30
#: A node whose disk has failed ends within this time, if it does.
DISK_END_S = 0.3
#: A container's name may be long, but a person should be able to read it.
LONGEST_STEM = 60


def create(*, run_id: str, directory: Path, seed: int) -> DockerDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' disks, traces and logs."""
    return DockerDeployment(run_id, directory.resolve(), seed)


class DockerDeployment(HarmsDisks, LosesWrites, PressesMachines):
    """Implements ``Deployment`` and all powers but that of tearing writes. ``crashes`` lists
    nodes that ended by themselves."""

    #: The link rules that it can carry out.
    LINK_ACTIONS = real_links.LINK_ACTIONS
    KERNEL_LINK_ACTIONS = real_links.NETEM_ACTIONS
    #: Clients stand behind a proxy, which can do more.
    CLIENT_LINK_ACTIONS = real_links.CLIENT_LINK_ACTIONS

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        self._run_id = run_id
        self._directory = directory
        self._seed = seed
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._client: DockerClient | None = None
        self._nodes: dict[str, NodeContainers] = {}
        self._incarnations: dict[str, int] = {}
        self._killed: set[tuple[str, int]] = set()
        self._machines: dict[str, MachineFaults] = {}
        self._disk_rules: dict[str, str] = {}
        self._clocks = False
        self._starting: set[str] = set()
        self._setting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._crashes: dict[tuple[str, int], Crash] = {}
        self._tail: Tail | None = None
        self._placement: Placement | None = None
        self._joining: set[str] = set()
        self._newcomers: dict[str, str] = {}
        self._links = RealLinks(run_id, seed, self._run_as_root)

    @property
    def name(self) -> str:
        return "docker"

    @property
    def crashes(self) -> tuple[Crash, ...]:
        for node in self._nodes.values() if self._client is not None else ():
            self._note_crash(node, node.state())
        return tuple(self._crashes.values())

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def execute(self, main: Coroutine[Any, Any, int]) -> int:
        return execute(main)

    # The cluster's life

    def expect_link_actions(self, actions: frozenset[type]) -> None:
        self._links.expect(actions)

    def expect_skewed_clocks(self) -> None:
        self._clocks = True

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        names = distinct(cluster.names())
        self._client = await self._off(connect)
        problem = await self._off(image_problem, self._client)
        if problem:
            raise MachineError(problem)
        self._placement = placement = await self._off(self._place)
        self._nodes = {spec.name: NodeContainers(self._client, spec, placement) for spec in cluster.nodes}
        self._machines = {name: MachineFaults(node) for name, node in self._nodes.items()}
        self._tail = Tail({name: trace_file(self._directory, name) for name in names}, on_trace)
        await gather(*(self._off(node.create) for node in self._nodes.values()))
        if self._clocks:
            await self._off(_check_clocks, self._nodes[names[0]])
        await self._links.begin(
            cluster.codec,
            {name: (node.address, PORT) for name, node in self._nodes.items()},
            {name: Endpoint(name, node.address) for name, node in self._nodes.items()},
        )
        await gather(*(self._first_life(name) for name in names))

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        assert self._client is not None and self._placement is not None and self._tail is not None
        name = spec.name
        if name in self._nodes or name in self._joining:
            raise NotNow(f"there is a node {name} already")
        self._joining.add(name)
        node = NodeContainers(self._client, spec, self._placement)
        await self._off(node.create)
        self._nodes[name], self._machines[name] = node, MachineFaults(node)
        self._tail.follow(name, trace_file(self._directory, name))
        await self._links.admit(name, (node.address, PORT), Endpoint(name, node.address))
        self._newcomers[name] = f"{node.address}:{PORT}"
        await self._off(membership.write, newcomers_of(self._directory), self._newcomers)
        await self._first_life(name)
        state = await self._off(node.state)
        told = {"node": name, "incarnation": self._incarnations[name], "pid": state.pid, "started": state.started}
        return {**told, "alive": state.running}

    async def stop(self) -> None:
        self._links.close()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)  # nothing is under way any more
        client = self._client
        if client is not None:
            try:
                _ = self.crashes  # the last look
            except DeploymentError:
                pass  # an engine that has ended tells no more
            self._client = None
            for node in self._nodes.values():
                node.close()
            await asyncio.get_running_loop().run_in_executor(None, clear, client, self._directory)
            client.close()
        if self._tail is not None:
            tail, self._tail = self._tail, None
            await tail.end()

    async def undo(self, step: Undo) -> None:
        match step.verb:
            case Verb.CLEAR_RULE:
                await self._links.clear(step.subject)
            case Verb.RESUME:
                await self._off(self._node(step.subject).resume)
                await self._off(self._machines[step.subject].resumed)
            case Verb.START:
                await self._begin(step.subject)
            case Verb.RELEASE:
                node, _, kind = step.subject.rpartition("/")
                await self._off(self._release, self._node(node), Kind(kind))
            case Verb.RESET_CLOCK:
                await self._off(self._machines[step.subject].reset_clock)
            case Verb.CLEAR_DISK:
                await self._clear_disk(step.subject)
            case _:
                pass  # nothing else was ever done here

    def _place(self) -> Placement:
        """Make the run's network."""
        assert self._client is not None
        stem = re.sub(r"[^a-zA-Z0-9_.-]", "-", f"stormproof-{self._run_id}")[:LONGEST_STEM]
        prefix = f"{stem}-{crc32(str(self._directory).encode()):08x}"  # another folder may hold a run of this name
        labels = {
            RUN: self._run_id,
            DIRECTORY: str(self._directory),
            HARNESS_PROCESS: str(Process.of(os.getpid())),
        }
        with told():
            self._client.networks.create(prefix, driver="bridge", internal=True, check_duplicate=True, labels=labels)
        return Placement(labels=labels, prefix=prefix, network=prefix, directory=self._directory, clocks=self._clocks)

    async def _first_life(self, name: str) -> None:
        """Begin it. Raises :class:`DeploymentError` when the node ended at once."""
        if not await self._begin(name):
            state, log = await self._off(self._nodes[name].state), await self._off(self._nodes[name].log, LOG_LINES)
            raise DeploymentError(f"node {name} ended at its start (exit code {state.exit_code}):\n{log.strip()}")

    async def _begin(self, name: str) -> bool:
        """Start the node's next life unless it lives, and wait until it has taken its first step, is paused or dead;
        whether it lives then."""
        node, started = self._node(name), False
        deadline_s = time.monotonic() + BEGIN_S
        try:
            while time.monotonic() < deadline_s:
                state = await self._off(node.state)
                if state.running:
                    if state.paused or await self._listens(node):
                        if started:
                            await self._off(self._machines[name].born)
                        return True
                elif started:
                    return False
                else:
                    started = True
                    self._starting.add(name)
                    self._note_crash(node, state)
                    self._incarnations[name] = self._incarnations.get(name, 0) + 1
                    self._machines[name].rules.born()
                    await self._off(node.start, self._launch(node))
                await asyncio.sleep(POLL_S)
        finally:
            if started:
                self._starting.discard(name)
        raise DeploymentError(f"node {name} did not begin within {BEGIN_S:g} s: {await self._off(node.log, LOG_LINES)}")

    def _launch(self, node: NodeContainers) -> Launch:
        return Launch(
            spec=node.spec,
            nodes=tuple(self._nodes),
            incarnation=self._incarnations[node.name],
            seed=self._seed,
            disk=node.disk,
            trace=node.trace,
            disk_rules=node.disk_rules,
            gate=node.gate,
            clock=node.clock,
            membership=node.newcomers,
            addresses={name: f"{other.address}:{PORT}" for name, other in self._nodes.items()},
        )

    async def _listens(self, node: NodeContainers) -> bool:
        try:
            async with asyncio.timeout(REACH_S):
                _, writer = await asyncio.open_connection(node.address, PORT)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _run_as_root(self, node: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self._off(self._node(node).run, command, given)

    def _note_crash(self, node: NodeContainers, state: State) -> None:
        """Remember that a node has ended, unless it runs, was killed, never lived, or may have ended of a fault."""
        life = node.name, self._incarnations.get(node.name, 0)
        if not state.running and self._machines[node.name].deadly:
            self._killed.add(life)
        if not state.running and life[1] and life not in self._killed and life not in self._crashes:
            self._crashes[life] = Crash(
                node=life[0], incarnation=life[1], exit_code=state.exit_code, log=node.log(LOG_LINES)
            )

    # Faults

    async def kill(self, node: str) -> Mapping[str, object]:
        it, incarnation = self._node(node), self._incarnations.get(node, 0)
        before = await self._off(it.state)
        if before.running:
            self._killed.add((node, incarnation))
        await self._off(it.kill)
        after = await self._off(it.state)
        alive = after.running and after.started == before.started
        return {"node": node, "incarnation": incarnation, "pid": before.pid, "started": before.started, "alive": alive}

    async def terminate(self, node: str) -> Mapping[str, object]:
        it, incarnation = self._node(node), self._incarnations.get(node, 0)
        before = await self._off(it.state)
        if before.running and not before.paused:
            self._killed.add((node, incarnation))
        told = {"node": node, "incarnation": incarnation, "pid": before.pid, "started": before.started}
        if not await self._off(it.terminate, ORDERLY_S):
            return {**told, **await self.kill(node), "orderly": False}
        after = await self._off(it.state)
        return {**told, "alive": after.running, "orderly": after.exit_code == 0}

    async def pause(self, node: str) -> Mapping[str, object]:
        it = self._node(node)
        await self._off(it.pause)
        state = await self._off(it.state)
        if not state.paused:
            raise NotNow(f"{node} goes on although the engine has paused it")
        return {"node": node, "incarnation": self._incarnations.get(node, 0), "pid": state.pid, "state": "paused"}

    async def wipe(self, node: str) -> Mapping[str, object]:
        was_alive = (await self._off(self._node(node).state)).running
        if was_alive:
            await self.kill(node)
        files = await self._off(_empty, disk_of(self._directory, node))
        incarnation = self._incarnations.get(node, 0)
        return {"node": node, "incarnation": incarnation, "was_alive": was_alive, "files_removed": files}

    async def _life_of(self, node: str) -> int:
        running = (await self._off(self._node(node).state)).running
        return self._incarnations.get(node, 0) if running else 0

    async def _at_disk(self, node: str, do: AtDisk, told: Mapping[str, Any]) -> Any:
        disk, copy = disk_of(self._directory, node), copy_of(self._directory, node)
        return await self._off(at_disk, RealFiles(disk), RealFiles(copy), do, told)

    async def _press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        self._node(node)
        if kind in DEADLY and node in self._starting:
            raise NotNow("it is just starting")
        return {"node": node, **await self._off(self._machines[node].press, kind, amount)}

    def _release(self, node: NodeContainers, kind: Kind) -> None:
        self._note_crash(node, node.state())  # what it may have ended of is known only as long as that lasts
        life = node.name, self._incarnations.get(node.name, 0)
        self._machines[node.name].release(kind)
        if kind in DEADLY and not node.state().running:
            self._killed.add(life)  # it has ended of it while that was taken away

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        assert self._clocks, "said before the start"
        set_clocks = partial(self._off, self._machines[node].skew, jump_ns, drift_ppm)
        async with self._setting[node]:  # each tells its own jump
            return {"node": node, **await skewed((self._node(node).address, PORT), jump_ns, set_clocks)}

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        self._node(rule.node)
        self._disk_rules[rule_id] = rule.node
        await self._off(self._machines[rule.node].rules.put_up, rule_id, rule.action)

    async def disk_rule_hits(self, rule_id: str) -> int:
        node = self._disk_rules.get(rule_id)
        return await self._off(self._machines[node].rules.count, rule_id) if node else 0

    async def _clear_disk(self, rule_id: str) -> None:
        node = self._disk_rules.get(rule_id)
        if node is None:
            return
        rules = self._machines[node].rules
        await self._off(rules.clear, rule_id)
        if await self._off(rules.count, rule_id) and rules.deadly:
            # One that ends of it must have ended before it is started again.
            deadline_s = time.monotonic() + DISK_END_S
            while (await self._off(self._node(node).state)).running and time.monotonic() < deadline_s:
                await asyncio.sleep(POLL_S)

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        await self._links.put_up(rule_id, rule)

    async def rule_hits(self, rule_id: str) -> int:
        return await self._links.hits(rule_id)

    # What shows whether a fault has an effect

    async def reaches(self, source: str, target: str) -> bool:
        it = self._node(target)
        if source in self._nodes:
            command = ["timeout", str(REACH_S), "bash", "-c", ': <"/dev/tcp/$0/$1"', it.address, str(PORT)]
            return await self._off(self._node(source).succeeds, command)
        return await self._links.client_reaches(source, target, REACH_S)

    async def answers(self, node: str) -> bool:
        return await ping(self._node(node).address, PORT, REACH_S)

    # Clients

    def connect(self, client: str, node: str) -> ProcessConnection:
        self._node(node)
        return self._links.connect(client, node)

    def expose(self, client: str, node: str) -> tuple[str, int]:
        """Where a client that knows nothing of us reaches this node, from this machine only."""
        return self._node(node).address, PORT

    def _node(self, name: str) -> NodeContainers:
        if self._client is None:
            raise DeploymentError("the cluster is not running: start it first")
        if name not in self._nodes:
            raise DeploymentError(f"there is no node {name!r}; the nodes are {', '.join(self._nodes)}")
        return self._nodes[name]

    async def _off(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a call that blocks, on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)


def _check_clocks(node: NodeContainers) -> None:
    """Raises :class:`MachineError` when clocks can't be set in containers of this image."""
    if not node.succeeds(["python3", "-m", _clocks.__name__]):
        raise MachineError(
            "the image of the nodes has no libfaketime, which faults on their clocks need: remove the image that it is"
            " built upon (`docker rmi stormproof-base:debian`) and have it built anew (`stormproof image`); or say"
            " `on: [sim]` for these faults, which needs nothing"
        )


def _empty(disk: Path) -> int:
    """Remove all that is on a disk; how many files that were."""
    files = 0
    for path in sorted(disk.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
            files += 1
    return files
