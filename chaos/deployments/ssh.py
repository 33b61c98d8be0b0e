"""Nodes on hosts that are reached through SSH, several on one if need be: real machines, real links.

Needs an inventory (``chaos/experiment/inventory.py``) and on each host an SSH server, Python and, for faults on links,
the right to become root. A node has ports of its own on its host, one to listen at and others to dial from, so that
the packet filter knows the links of nodes apart that share a host. Clients stand behind a proxy in the harness, as with
containers. A host that can't be reached any more takes its nodes with it, but not the run: what is to be undone there
is done as soon as it is back, and the history says that it was gone.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from chaos.deployment import trace_file
from chaos.driver import ClusterSpec, OnTrace
from chaos.effects.corruption import AtDisk
from chaos.effects.disks import DiskRule, to_json
from chaos.effects.links import LinkRule
from chaos.errors import BadInput, DeploymentError, HostLost, MachineError
from chaos.experiment.inventory import PORTS, PORTS_OF_NODE, Inventory, place
from chaos.fault import NotNow, Undo, Verb
from chaos.machines import real_links
from chaos.machines.client import ProcessConnection
from chaos.machines.clock_skew import skewed
from chaos.machines.disk_corruption import HarmsDisks
from chaos.machines.iptables import Endpoint
from chaos.machines.local_resources import DEADLY, Kind
from chaos.machines.node_package import node_wheel
from chaos.machines.real_links import RealLinks, distinct
from chaos.machines.real_time import Crash, Tail, execute, ping
from chaos.machines.resource_limits import PressesMachines
from chaos.machines.ssh import heal as sshheal
from chaos.machines.ssh.heal import Left, heal, heal_all, take_down
from chaos.machines.ssh.host import SshHost
from chaos.machines.ssh.tunnel import Tunnel
from chaos.machines.ssh.watch import Watch
from chaos.machines.torn_writes import LosesWrites
from chaos.node import NodeSpec
from chaos.shell import membership
from chaos.shell.clocks import Skew
from chaos.shell.launch import Launch
from chaos.tasks import gather

__all__ = ["SshDeployment", "create", "heal", "heal_all"]

T = TypeVar("T")

#: Bounds on waiting: for a node to begin, for a connection to be taken.
BEGIN_S = 60.0
REACH_S = 0.5
#: How long a node that is told to end may take.
ORDERLY_S = 5.0
#: A node whose disk has failed ends within this time, if it does.
DISK_END_S = 0.3
POLL_S = 0.02
#: The last of a node's ports are for connections that only probe.
PROBE_PORTS = 5
#: What the wheel of the nodes' code holds in any case.
IN_WHEEL = "reference"
#: A process that nobody was there to see the end of has no exit code that we know.
UNKNOWN_EXIT = 255


def create(*, run_id: str, directory: Path, seed: int, inventory: Inventory = ()) -> SshDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' traces and logs."""
    return SshDeployment(run_id, directory.resolve(), seed, inventory)


class SshDeployment(HarmsDisks, LosesWrites, PressesMachines):
    """Implements ``Deployment`` and the powers over nodes, links and syncs that need no more than their hosts have;
    ``crashes`` lists nodes that ended by themselves, ``losses`` the times when a host could not be reached."""

    #: The link rules that it can carry out, between nodes and with clients.
    LINK_ACTIONS = real_links.LINK_ACTIONS
    KERNEL_LINK_ACTIONS = real_links.NETEM_ACTIONS
    CLIENT_LINK_ACTIONS = real_links.CLIENT_LINK_ACTIONS

    def __init__(self, run_id: str, directory: Path, seed: int, inventory: Inventory) -> None:
        self._directory = directory
        self._seed = seed
        self._inventory = inventory
        self._tag = f"{run_id}-{crc32(f'{socket.gethostname()}{directory}'.encode()):08x}"  # hosts may serve others too
        self._pool = ThreadPoolExecutor(2 * len(inventory) + 4, thread_name_prefix="ssh")
        self._cluster: ClusterSpec | None = None
        self._watches: dict[str, Watch] = {}
        self._placed: dict[str, str] = {}
        self._ports: dict[str, int] = {}
        self._incarnations: dict[str, int] = {}
        self._killed: set[tuple[str, int]] = set()
        self._crashes: dict[tuple[str, int], Crash] = {}
        self._disk_rules: dict[str, str] = {}
        self._newcomers: dict[str, str] = {}
        self._skews: dict[str, Skew] = {}
        self._starting: set[str] = set()
        self._clocks = False
        self._setting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._owed: list[Undo] = []
        self._dialling: dict[str, list[tuple[Mapping[str, object], asyncio.Future[bool]]]] = {}
        self._troubles: list[str] = []
        self._tunnels: list[Tunnel] = []
        self._tail: Tail | None = None
        self._links = RealLinks(self._tag, seed, self._run_as_root)

    @property
    def name(self) -> str:
        return "ssh"

    @property
    def crashes(self) -> tuple[Crash, ...]:
        for watch in self._watches.values():
            try:
                self._note_crashes(watch)
            except (DeploymentError, NotNow):
                pass  # of a host that is gone nobody knows
        return tuple(self._crashes.values())

    @property
    def losses(self) -> tuple[str, ...]:
        lost = (sentence for watch in self._watches.values() for sentence in watch.losses)
        return (*lost, *self._troubles)

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
        self._cluster = cluster
        self._placed = {name: host.name for name, host in place(cluster.nodes, self._inventory).items()}
        packages = {spec.package.partition(".")[0] for spec in cluster.nodes} - {IN_WHEEL}
        code = node_wheel(tuple(sorted(packages)))
        for host in self._inventory:
            nodes = tuple(name for name, placed in self._placed.items() if placed == host.name)
            watch = Watch(SshHost(host, self._tag, code), nodes, self._directory, self._off, self._returned)
            self._watches[host.name] = watch
        self._note_what_is_left()
        self._tail = Tail({name: trace_file(self._directory, name) for name in names}, on_trace)
        await gather(*(self._off(self._meet, watch.host) for watch in self._watches.values()))
        self._check_addresses()
        if self._clocks:
            await gather(*(self._off(_check_clocks, watch.host) for watch in self._watches.values()))
        for name in names:
            self._ports[name] = self._next_port(self._host(name))
            if self._ports[name] + PORTS_OF_NODE - 1 not in PORTS:
                raise BadInput(f"node {name} would have ports beyond {PORTS[-1]}: give a smaller `first_port`")
        ways, endpoints = {name: self._way_to(name) for name in names}, {name: self._endpoint(name) for name in names}
        await self._links.begin(cluster.codec, ways, endpoints)
        for watch in self._watches.values():
            watch.begin()
        await gather(*(self._first_life(name) for name in names))

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        """On the host that has the fewest nodes."""
        assert self._cluster is not None and self._tail is not None
        name, there = spec.name, [watch for watch in self._watches.values() if not watch.gone]
        if name in self._placed or not there:
            raise NotNow("no host can be reached" if not there else f"there is a node {name} already")
        watch = min(there, key=lambda watch: len(watch.nodes))
        port = self._next_port(watch.host)
        if port + PORTS_OF_NODE - 1 not in PORTS:
            raise NotNow(f"host {watch.host.name} has no ports left for one more node")
        self._placed[name], self._ports[name] = watch.host.name, port
        watch.nodes = (*watch.nodes, name)
        self._note_what_is_left()
        self._cluster = replace(self._cluster, nodes=[*self._cluster.nodes, spec])
        self._tail.follow(name, trace_file(self._directory, name))
        await self._fault(self._links.admit(name, await self._off(self._way_to, name), self._endpoint(name)))
        self._newcomers[name] = f"{watch.host.address}:{port}"
        await self._tell_of_newcomers()
        await self._fault(self._first_life(name))
        life = await self._fault(watch.life(name))
        proof = {"incarnation": life["incarnation"], "pid": life["pid"], "started": life["started"]}
        return {"node": name, "host": watch.host.name, **proof, "alive": bool(life["state"])}

    def _next_port(self, host: SshHost) -> int:
        """The first of a new node's ports on this host."""
        return host.host.first_port + len(self._ports) * PORTS_OF_NODE

    def _note_what_is_left(self) -> None:
        """Write down where our nodes are, before they are there."""
        left = Left(tag=self._tag, harness=sshheal.harness(), hosts=self._inventory, placed=self._placed)
        left.write(self._directory)

    async def _tell_of_newcomers(self) -> None:
        """Tell the nodes of all hosts who has joined; one that can't be reached hears it when it is back."""
        for watch in self._watches.values():
            try:
                await watch.ask("tell_of_newcomers", addresses=self._newcomers)
            except HostLost:
                pass

    async def stop(self) -> None:
        self._links.close()
        watches, self._watches = list(self._watches.values()), {}
        failures = await gather(*(watch.end() for watch in watches))
        for tunnel in self._tunnels:
            tunnel.close()
        try:
            ends = await gather(*(self._off(self._leave, watch) for watch in watches))
            left = Left.read(self._directory) if watches else None
            if left is not None and not any(ends):
                left.done().write(self._directory)
        finally:
            self._pool.shutdown(wait=False)
            if self._tail is not None:
                tail, self._tail = self._tail, None
                await tail.end()
        for failure in (*failures, *ends):
            if failure is not None and not isinstance(failure, HostLost):
                raise failure

    async def undo(self, step: Undo) -> None:
        """On a host that can't be reached it is done when that is back; :func:`heal` knows of it in any case."""
        try:
            await self._undo(step)
        except HostLost:
            self._owed.append(step)

    async def _undo(self, step: Undo) -> None:
        match step.verb:
            case Verb.CLEAR_RULE:
                await self._links.clear(step.subject)
            case Verb.RESUME:
                await self._watch(step.subject).ask("resume", node=step.subject)
            case Verb.START:
                await self._begin(step.subject)
            case Verb.RELEASE:
                await self._release(step.subject)
            case Verb.RESET_CLOCK:
                if step.subject in self._skews:
                    await self._set_clock(step.subject, Skew())
                    del self._skews[step.subject]
            case Verb.CLEAR_DISK:
                await self._clear_disk(step.subject)
            case _:
                pass  # nothing else was ever done here

    async def _release(self, subject: str) -> None:
        node, _, kind = subject.rpartition("/")
        watch = self._watch(node)
        await self._off(self._note_crashes, watch)  # what it may have ended of is known only as long as that lasts
        await watch.ask("release", node=node, kind=kind)
        told = await watch.life(node)
        if kind in DEADLY and not told["state"]:
            self._killed.add((node, int(told["incarnation"])))  # it has ended of it while that was taken away

    async def _clear_disk(self, rule_id: str) -> None:
        node = self._disk_rules.get(rule_id)
        if node is None:
            return
        watch = self._watch(node)
        if await watch.ask("clear_disk", node=node, rule_id=rule_id):
            # One that ends of it must have ended before it is started again.
            deadline_s = time.monotonic() + DISK_END_S
            while (await watch.life(node))["state"] and time.monotonic() < deadline_s:
                await asyncio.sleep(POLL_S)

    async def _returned(self) -> None:
        """A host is back: do what was left to do."""
        if self._newcomers:
            await self._tell_of_newcomers()
        owed, self._owed = self._owed, []
        for step in owed:
            try:
                await self.undo(step)
            except DeploymentError as error:
                self._troubles.append(f"{step.verb} {step.subject} could not be done when its host was back: {error}")

    def _meet(self, host: SshHost) -> None:
        try:
            host.connect()
            host.become_root()
        except HostLost as error:  # at the start that is trouble like any other
            raise MachineError(str(error)) from error

    def _leave(self, watch: Watch) -> DeploymentError | None:
        """Take down what is on one host; what went wrong there must not keep the others from being done."""
        host = watch.host
        try:
            host.own()
            if watch.gone:
                host.connect()
            if host.folder:
                take_down(host, watch.nodes, self._directory)
        except (DeploymentError, NotNow, MachineError) as error:
            return error if isinstance(error, DeploymentError) else DeploymentError(str(error))
        finally:
            host.close()
        return None

    def _check_addresses(self) -> None:
        """Packets are told apart by the hosts' addresses. Raises :class:`BadInput` for those that can't serve."""
        seen: dict[str, str] = {}
        for watch in self._watches.values():
            host, address = watch.host, watch.host.address
            try:
                found = ipaddress.ip_address(address)
            except ValueError:
                found = ipaddress.ip_address("::")
            if found.version != 4 or (found.is_loopback and len(self._watches) > 1):
                raise BadInput(
                    f"host {host.name}: other hosts can't reach it at {address or 'an address that it does not tell'}:"
                    " say as `address` in the inventory at which IPv4 address they do"
                )
            if address in seen:
                raise BadInput(f"hosts {seen[address]} and {host.name} are one machine, {address}: list it once")
            seen[address] = host.name

    def _way_to(self, node: str) -> tuple[str, int]:
        """Where this machine reaches a node."""
        host, port = self._host(node), self._ports[node]
        if not (host.host.tunnel or host.host.jump):
            return host.address, port
        self._tunnels.append(Tunnel(host, port))
        return self._tunnels[-1].address

    def _endpoint(self, node: str) -> Endpoint:
        host, port = self._host(node), self._ports[node]
        return Endpoint(host.name, host.address, f"{port}:{port + PORTS_OF_NODE - 1}")

    async def _first_life(self, name: str) -> None:
        """Begin it. Raises :class:`DeploymentError` when the node ended at once."""
        if not await self._begin(name):
            log = await self._watch(name).ask("log", node=name)
            raise DeploymentError(f"node {name} ended at its start on host {self._placed[name]}:\n{log}")

    async def _begin(self, name: str) -> bool:
        """Start the node's next life unless it lives, and wait until it has taken its first step, is paused or dead;
        whether it lives then."""
        watch = self._watch(name)
        if (await watch.life(name))["state"]:
            # One that has begun before is there, also if it can answer nobody now.
            return name not in self._starting or await self._begun(watch, name)
        self._starting.add(name)
        try:
            await self._off(self._note_crashes, watch)
            self._incarnations[name] = self._incarnations.get(name, 0) + 1
            await self._start(watch, name)
            if not await self._begun(watch, name):
                return False
            await watch.ask("weigh", node=name)
            return True
        finally:
            self._starting.discard(name)

    async def _begun(self, watch: Watch, name: str) -> bool:
        deadline_s = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline_s:
            state = (await watch.life(name))["state"]
            if not state:
                return False
            if state == "T" or await ping(*self._links.addresses[name], REACH_S):
                return True
            await asyncio.sleep(POLL_S)
        raise DeploymentError(
            f"node {name} runs on host {watch.host.name}, but did not answer within {BEGIN_S:g} s at"
            f" {watch.host.address}:{self._ports[name]}: let that port through, or say `tunnel: true` in the inventory"
        )

    async def _start(self, watch: Watch, name: str) -> None:
        port = self._ports[name]
        launch = Launch(
            spec=self._spec(name),
            nodes=tuple(self._placed),
            incarnation=self._incarnations[name],
            seed=self._seed,
            disk=f"disks/{name}",
            trace=f"traces/{name}.jsonl",
            gate=f"gates/{name}",
            disk_rules=f"rules/{name}.rules",
            membership=f"launch/{membership.FILE}",
            clock=f"clocks/{name}.clock" if self._clocks else "",
            addresses={other: f"{self._host(other).address}:{self._ports[other]}" for other in self._placed},
            dial_ports=(port + 1, port + PORTS_OF_NODE - 1 - PROBE_PORTS),
        )
        await watch.ask(
            "start",
            node=name,
            package=launch.spec.package,
            incarnation=launch.incarnation,
            launch=json.loads(launch.to_json()),
            port=port,
        )

    async def _run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        watch = self._watches[machine]
        return await watch.use(lambda: watch.host.root(command, given))

    def _note_crashes(self, watch: Watch) -> None:
        """Remember which nodes of a host have ended, unless they were killed, never lived, may have ended of a fault,
        or went with their host."""
        if watch.gone:
            return
        for name, told in watch.host.call("status", nodes=list(watch.nodes)).items():
            life = name, int(told["incarnation"])
            if told["of_a_fault"] and not told["state"]:
                self._killed.add(life)
            if told["state"] or not life[1] or life in self._killed or life in self._crashes or watch.losses:
                continue
            code = told["exit_code"]
            self._crashes[life] = Crash(
                node=name,
                incarnation=life[1],
                exit_code=UNKNOWN_EXIT if code is None else int(code),
                log=str(watch.host.call("log", node=name)),
            )

    # Faults

    async def kill(self, node: str) -> Mapping[str, object]:
        watch = self._watch(node)
        before = await self._fault(watch.life(node))
        if before["state"]:
            self._killed.add((node, int(before["incarnation"])))
        after = await self._fault(watch.ask("kill", node=node))
        proof = {"incarnation": after["incarnation"], "pid": after["pid"], "started": after["started"]}
        return {"node": node, "host": watch.host.name, **proof, "alive": bool(after["state"])}

    async def terminate(self, node: str) -> Mapping[str, object]:
        watch = self._watch(node)
        before = await self._fault(watch.life(node))
        if before["state"] and before["state"] != "T":
            self._killed.add((node, int(before["incarnation"])))
        after = await self._fault(watch.ask("terminate", node=node, within_s=ORDERLY_S))
        proof = {"incarnation": after["incarnation"], "pid": after["pid"], "started": after["started"]}
        told = {"node": node, "host": watch.host.name, **proof}
        if after["state"]:
            return {**told, **await self.kill(node), "orderly": False}
        return {**told, "alive": False, "orderly": after["exit_code"] == 0}

    async def _press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        if kind in DEADLY and node in self._starting:
            raise NotNow("it is just starting")
        shown = await self._fault(self._watch(node).ask("press", node=node, kind=kind, amount=amount))
        return {"node": node, "host": self._placed[node], **shown}

    async def pause(self, node: str) -> Mapping[str, object]:
        watch = self._watch(node)
        told = await self._fault(watch.ask("pause", node=node))
        proof = {"incarnation": told["incarnation"], "pid": told["pid"], "state": told["state"]}
        return {"node": node, "host": watch.host.name, **proof}

    async def wipe(self, node: str) -> Mapping[str, object]:
        watch = self._watch(node)
        before = await self._fault(watch.life(node))
        if before["state"]:
            await self.kill(node)
        files = await self._fault(watch.ask("wipe", node=node))
        was = {"incarnation": before["incarnation"], "was_alive": bool(before["state"])}
        return {"node": node, "host": watch.host.name, **was, "files_removed": files}

    async def _life_of(self, node: str) -> int:
        told = await self._fault(self._watch(node).life(node))
        return int(told["incarnation"]) if told["state"] else 0

    async def _at_disk(self, node: str, do: AtDisk, told: Mapping[str, Any]) -> Any:
        return await self._fault(self._watch(node).ask("at_disk", node=node, what=do, told=told))

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        assert self._clocks, "said before the start"
        async with self._setting[node]:  # each tells its own jump
            skew = self._skews[node] = self._skews.get(node, Skew()).after(jump_ns=jump_ns, drift_ppm=drift_ppm)
            set_clocks = partial(self._set_clock, node, skew)
            shown = await self._fault(skewed(self._links.addresses[node], jump_ns, set_clocks))
        return {"node": node, "host": self._placed[node], **shown}

    async def _set_clock(self, node: str, skew: Skew) -> None:
        await self._watch(node).ask("set_clock", node=node, **asdict(skew))

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        self._disk_rules[rule_id] = rule.node
        action = to_json(rule.action)
        await self._fault(self._watch(rule.node).ask("set_disk_rule", node=rule.node, rule_id=rule_id, action=action))

    async def disk_rule_hits(self, rule_id: str) -> int:
        node = self._disk_rules.get(rule_id)
        try:
            return int(await self._watch(node).ask("disk_rule_hits", node=node, rule_id=rule_id)) if node else 0
        except HostLost:
            return 0

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        await self._fault(self._links.put_up(rule_id, rule))

    async def rule_hits(self, rule_id: str) -> int:
        return await self._links.hits(rule_id)

    async def _fault(self, work: Coroutine[Any, Any, T]) -> T:
        """A host that is gone can't be harmed: the fault has no effect. Raises :class:`NotNow`."""
        try:
            return await work
        except HostLost as error:
            raise NotNow(str(error)) from error

    # What shows whether a fault has an effect

    async def reaches(self, source: str, target: str) -> bool:
        host, port = self._host(target), self._ports[target]
        if source not in self._placed:
            return await self._links.client_reaches(source, target, REACH_S)
        last = self._ports[source] + PORTS_OF_NODE
        dial = {"ports": list(range(last - PROBE_PORTS, last)), "host": host.address, "port": port}
        return await self._dial(self._watch(source), dial)

    async def _dial(self, watch: Watch, dial: Mapping[str, object]) -> bool:
        """Those that are asked for at the same time on one host are dialled there at the same time."""
        waiting = self._dialling.setdefault(watch.host.name, [])
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append((dial, answer))
        if len(waiting) == 1:
            await asyncio.sleep(0)  # the others ask meanwhile
            del self._dialling[watch.host.name]
            try:
                works = await watch.ask("reach", dials=[dial for dial, _ in waiting], within_s=REACH_S)
            except HostLost:
                works = [False] * len(waiting)
            except BaseException:
                for _, one in waiting:
                    one.cancel()  # this error is told once
                raise
            for (_, one), found in zip(waiting, works, strict=True):
                if not one.done():
                    one.set_result(found)
        return await answer

    async def answers(self, node: str) -> bool:
        self._watch(node)
        return await ping(*self._links.addresses[node], REACH_S)

    # Clients

    def connect(self, client: str, node: str) -> ProcessConnection:
        self._watch(node)
        return self._links.connect(client, node)

    def expose(self, client: str, node: str) -> tuple[str, int]:
        """Where a client that knows nothing of us reaches this node, from this machine."""
        self._watch(node)
        return self._links.addresses[node]

    def _watch(self, node: str) -> Watch:
        if not self._watches:
            raise DeploymentError("the cluster is not running: start it first")
        if node not in self._placed:
            raise DeploymentError(f"there is no node {node!r}; the nodes are {', '.join(self._placed)}")
        return self._watches[self._placed[node]]

    def _host(self, node: str) -> SshHost:
        return self._watch(node).host

    def _spec(self, name: str) -> NodeSpec:
        assert self._cluster is not None
        return next(spec for spec in self._cluster.nodes if spec.name == name)

    async def _off(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a call that blocks, on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)


def _check_clocks(host: SshHost) -> None:
    """Raises :class:`MachineError` when the clocks of nodes on a host can't be set."""
    if not host.call("can_skew_clocks"):
        raise MachineError(
            f"host {host.name} has no libfaketime, which faults on nodes' clocks need: install it there (Debian/Ubuntu:"
            " apt-get install libfaketime), or say `on: [sim]` for these faults, which needs nothing"
        )
