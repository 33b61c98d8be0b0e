"""How a cluster lives on machines: the one lifecycle of all deployments in real time.

Nodes are started and counted, killed, paused, wiped and pressed; each fault is proven by what the machine says after
it, and each undo can be done again. What differs between processes, containers and hosts is a :class:`Machine`, found
by a :class:`Fleet`, and who carries out the rules on links. A machine that can't be reached takes its nodes with it,
but not the run: its faults have no effect, and what is to be undone there is done as soon as it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from chaos.deployment import trace_file
from chaos.driver import ClusterSpec, Connection, OnTrace
from chaos.effects.corruption import AtDisk
from chaos.effects.disks import DiskRule
from chaos.effects.links import HARNESS, LinkRule, Reach
from chaos.errors import DeploymentError, HostLost
from chaos.experiment.targets import CLIENT
from chaos.fault import NotNow, Undo, Verb
from chaos.frames import Framing
from chaos.machines import procfs
from chaos.machines.disk_corruption import HarmsDisks
from chaos.machines.lifecycle import programs
from chaos.machines.lifecycle.crashes import Crash, Crashes, last_words
from chaos.machines.lifecycle.newcomers import Newcomers
from chaos.machines.lifecycle.node_clocks import NodeClocks
from chaos.machines.lifecycle.programs import Programs
from chaos.machines.lifecycle.ruled_disk import RuledDisk
from chaos.machines.lifecycle.trials import REACH_S, Dialling, answered
from chaos.machines.lifecycle.versions import Versions
from chaos.machines.local_resources import DEADLY, Kind
from chaos.machines.machine import Address, Dial, Fleet, Life, Links, Machine, Seat, Signal, Streams
from chaos.machines.real_links import distinct
from chaos.machines.real_time import Tail, execute, ping
from chaos.machines.resource_limits import PressesMachines
from chaos.machines.torn_writes import LosesWrites
from chaos.node import NodeSpec
from chaos.program import Program
from chaos.shell.launch import Launch, address
from chaos.tasks import gather

T = TypeVar("T")

#: Bounds on waiting: for a node to begin, for a signal to show.
BEGIN_S = 60.0
EFFECT_S = 10.0
#: A node that was asked to end and does not is killed.
ORDERLY_S = 5.0
#: A node whose disk has failed ends within this time, if it does.
DISK_END_S = 0.3
POLL_S = 0.005
#: How often it is looked whether a node has begun: seldom, for that takes the processors' time that nodes need.
BEGIN_POLL_S = 0.02


class MachineDeployment(HarmsDisks, LosesWrites, PressesMachines):
    """Implements ``Deployment`` and all powers but that over clocks, with which its subclasses come where they have it.
    ``crashes`` lists nodes that ended by themselves, ``losses`` the times when a machine could not be reached."""

    #: What deployments are called on the command line.
    NAME = ""
    #: Nodes may be programs of others (:mod:`chaos.experiment.powers`).
    PROGRAMS = True
    #: How often it is looked whether the cluster is ready (:func:`chaos.run.runner.bring_up`).
    READY_POLL_S = 0.05

    def __init__(self, directory: Path, seed: int, fleet: Fleet, links: Links) -> None:
        self._directory = directory
        self._seed = seed
        self._fleet = fleet
        self._links = links
        self._clocks: NodeClocks | None = None
        self._framing: Framing | None = None
        self._ruled = False
        self._running = False
        self._specs: dict[str, NodeSpec] = {}
        self._versions = Versions(self._specs)
        self._seats: dict[str, Seat] = {}
        self._programs = Programs(fleet.off, links, self._specs, self._seats)
        self._joining: set[str] = set()
        self._newcomers = Newcomers(fleet.off)
        self._incarnations: dict[str, int] = {}
        self._beginning: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._crashes = Crashes(self._disk_failed)
        self._disks: dict[str, RuledDisk] = {}
        self._disk_rules: dict[str, RuledDisk] = {}
        self._owed: list[Undo] = []
        self._troubles: list[str] = []
        self._dialling = Dialling(fleet.off, links.stopped)
        self._tail: Tail | None = None

    @property
    def name(self) -> str:
        return self.NAME

    @property
    def crashes(self) -> tuple[Crash, ...]:
        if self._running:
            for machine in self._machines():
                self._crashes.note(machine, [name for name, seat in self._seats.items() if seat.machine is machine])
        return self._crashes.noted

    async def ended(self) -> tuple[Crash, ...]:
        """Return ``crashes``, looked for on threads."""
        if self._running:
            for machine in self._machines():
                names = [name for name, seat in self._seats.items() if seat.machine is machine]
                await self._off(self._crashes.note, machine, names)
        return self._crashes.noted

    @property
    def losses(self) -> tuple[str, ...]:
        return (*self._fleet.losses, *self._troubles)

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def execute(self, main: Coroutine[Any, Any, int]) -> int:
        return execute(main)

    def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        self._framing, self._ruled = framing, ruled

    # The cluster's life

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        names = distinct(cluster.names())
        programs.check(cluster.nodes)
        self._running = True
        self._tail = Tail({name: trace_file(self._directory, name) for name in names}, on_trace)
        self._seats.update(await self._fleet.begin(cluster, clocks=self._clocks is not None))
        self._specs.update({spec.name: spec for spec in cluster.nodes})
        addresses = {name: seat.address for name, seat in self._seats.items() if seat.address is not None}
        endpoints = {name: seat.endpoint for name, seat in self._seats.items() if seat.endpoint is not None}
        await self._links.begin(cluster.codec, addresses, endpoints)
        if self._framing is not None:
            await self._links.read_requests(self._framing, ruled=self._ruled)
        for name in names:
            await self._programs.serve(name)
        await self._fleet.watch(self._returned)
        await gather(*(self._first_life(name) for name in names))

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        name = spec.name
        if not self._running or self._tail is None:
            raise DeploymentError("the cluster is not running: start it first")
        programs.check([*self._specs.values(), spec])
        if name in self._seats or name in self._joining:
            raise NotNow(f"there is a node {name} already")
        self._joining.add(name)
        try:
            seat = await self._fleet.add(spec)
        except NotNow:
            self._joining.discard(name)
            raise
        self._specs[name], self._seats[name] = spec, seat
        self._tail.follow(name, trace_file(self._directory, name))
        with no_effect_when_lost():
            await self._links.admit(name, seat.address, seat.endpoint)
            await self._programs.serve(name)
            await self._newcomers.join(name, seat.peer, self._machine_of)
            await self._first_life(name)
            life = await self._life(name)
        return self._proof(name, life, alive=life.alive)

    async def stop(self) -> None:
        self._links.close()
        try:
            if self._running:
                try:
                    _ = self.crashes  # the last look
                except DeploymentError:
                    pass  # who has ended says no more; what it left is still to be cleared away
                await self._keep_files()
                self._running = False
                await self._fleet.end()
        finally:
            if self._tail is not None:
                tail, self._tail = self._tail, None
                await tail.end()

    async def _first_life(self, name: str) -> None:
        """Begin it. Raises :class:`DeploymentError` when the node ended at once."""
        if not await self._begin(name):
            life, log = await self._life(name), await self._off(self._machine(name).log, name)
            where = "".join(f" on {kind} {which}" for kind, which in self._machine(name).proof.items())
            code = f" (exit code {life.exit_code})" if life.exit_code is not None else ""
            if life.exit_code == 0 and self._programs.of(name):
                code += ": a program must stay in the foreground, and what it leaves behind is ended with it"
            raise DeploymentError(f"node {name} ended at its start{where}{code}; {last_words(log)}")

    async def _begin(self, name: str) -> bool:
        """Start the node's next life unless it lives, and wait until it has taken its first step, is paused or dead;
        whether it lives then. One that has begun before is there, also if it can answer nobody now."""
        machine = self._machine(name)
        async with self._beginning[name]:
            if (await self._life(name)).alive:
                return True
            await self._off(self._crashes.note, machine, [name])
            self._incarnations[name] = self._incarnations.get(name, 0) + 1
            if self._clocks is not None:
                await self._clocks.prepare(machine, name)
            if name in self._disks:
                await self._off(self._disks[name].born, self._incarnations[name])
            self._versions.born(name)
            await self._off(machine.start, await self._programs.launch(self._launch(name)))
            program = self._programs.of(name)
            if not await (self._begun(name) if program is None else self._program_begun(name, program)):
                return False
            await self._off(machine.born, name)
            return True

    async def _begun(self, name: str) -> bool:
        deadline_s = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline_s:
            life = await self._life(name)
            if not life.alive:
                return False
            if life.paused or await self.answers(name):
                return True
            await asyncio.sleep(BEGIN_POLL_S)
        log, hint = await self._off(self._machine(name).log, name), self._seats[name].hint
        why = f" ({hint})" if hint else ""
        kept = f"{last_words(log)}, which the run keeps as logs/{name}.log"
        raise DeploymentError(f"node {name} runs, but did not answer within {BEGIN_S:g} s{why}; {kept}")

    async def _program_begun(self, name: str, program: Program) -> bool:
        """Wait until it is ready, paused or dead; whether it lives then. Only its first life must be ready in time."""
        first = self._incarnations[name] == 1
        deadline_s = time.monotonic() + (program.begin_s if first else min(program.begin_s, programs.AGAIN_S))
        while True:
            ready, life = await self._programs.is_ready(name), await self._life(name)
            if not life.alive:
                return False
            if ready or life.paused or (not first and time.monotonic() >= deadline_s):
                return True
            if time.monotonic() >= deadline_s:
                raise await self._programs.never_ready(name, program)
            await asyncio.sleep(programs.POLL_S)

    async def _keep_files(self) -> None:
        """Keep the files that drivers want kept, once their nodes have ended."""
        kept = [name for name in self._seats if (program := self._programs.of(name)) and program.keep]
        for name in kept:
            with suppress(NotNow, DeploymentError):
                await self.kill(name)
        with suppress(DeploymentError):
            await self._programs.keep(self._directory)

    def _launch(self, name: str) -> Launch:
        seat = self._seats[name]
        peers = {node: other.peer for node, other in self._seats.items() if other.peer}
        exposed = {node: other.exposed for node, other in self._seats.items() if other.exposed}
        return Launch(
            spec=self._specs[name],
            nodes=tuple(self._seats),
            incarnation=self._incarnations[name],
            seed=self._seed,
            disk="",
            trace="",
            clock=name if self._clocks is not None else "",
            proxy_port=seat.proxy_port,
            addresses=peers,
            exposed=exposed,
            dial_ports=seat.dial_ports,
            token=self._links.token,
            foreign=tuple(peers[node] for node in peers if self._programs.of(node) is not None),
        )

    # Undoing

    async def undo(self, step: Undo) -> None:
        """Undo a step; on a machine that can't be reached, when that is back. Healing knows of it in any case."""
        try:
            await self._undo(step)
        except HostLost:
            self._owed.append(step)

    async def _undo(self, step: Undo) -> None:
        match step.verb:
            case Verb.CLEAR_RULE:
                await self._links.clear(step.subject)
            case Verb.RESUME:
                await self._off(self._machine(step.subject).signal, step.subject, Signal.CONTINUE)
            case Verb.START:
                await self._begin(step.subject)
            case Verb.RELEASE:
                node, _, kind = step.subject.rpartition("/")
                await self._release(node, Kind(kind))
            case Verb.RESET_CLOCK:
                if self._clocks is not None:
                    await self._clocks.reset(self._machine(step.subject), step.subject)
            case Verb.CLEAR_DISK:
                await self._clear_disk(step.subject)
            case Verb.RESTORE:
                await self._restore(step.subject)
            case _:
                pass  # nothing else was ever done here

    async def _restore(self, node: str) -> None:
        """End a node that runs in another version than its first, in good order if it can be."""
        life = await self._life(node)
        if not self._versions.restore(node) or not life.alive:
            return
        for end in (self.terminate, self.kill):
            with suppress(NotNow):
                await end(node)
                return

    async def _release(self, node: str, kind: Kind) -> None:
        machine = self._machine(node)
        await self._off(self._crashes.note, machine, [node])  # what it may have ended of is known while that lasts
        await self._off(machine.release, node, kind)
        life = await self._life(node)
        if kind in DEADLY and not life.alive:
            self._crashes.expect(node, life.incarnation)  # it has ended of it while that was taken away

    async def _clear_disk(self, rule_id: str) -> None:
        disk = self._disk_rules.get(rule_id)
        if disk is None:
            return
        if await self._off(disk.clear, rule_id, self._incarnations.get(disk.node, 0)):
            # One that ends of it must have ended before it is started again.
            await self._until(disk.node, lambda life: not life.alive, DISK_END_S)

    async def _returned(self) -> None:
        """Do what was left to do on a machine that is back."""
        await self._newcomers.announce(self._machine_of)
        owed, self._owed = self._owed, []
        for step in owed:
            try:
                await self.undo(step)
            except DeploymentError as error:
                self._troubles.append(f"{step.verb} {step.subject} could not be done when its host was back: {error}")

    # Faults

    async def kill(self, node: str) -> Mapping[str, object]:
        with no_effect_when_lost():
            life = await self._life(node)
            self._must_run(node, life)
            self._crashes.expect(node, life.incarnation)
            await self._off(self._machine(node).signal, node, Signal.KILL)
            after = await self._until(node, lambda life: not life.alive, EFFECT_S)
        if _same(life, after) and after.alive:
            raise NotNow(f"{node} did not end within {EFFECT_S:g} s of its SIGKILL")
        return self._proof(node, life, alive=_same(life, after) and after.alive)

    async def terminate(self, node: str) -> Mapping[str, object]:
        with no_effect_when_lost():
            life = await self._life(node)
            self._must_run(node, life)
            if life.paused:
                raise NotNow(f"{node} is paused")
            self._crashes.expect(node, life.incarnation)
            await self._off(self._machine(node).signal, node, Signal.TERMINATE)
            program = self._programs.of(node)
            within_s, orderly = (program.orderly_s, programs.ORDERLY_EXITS) if program else (ORDERLY_S, (0,))
            after = await self._until(node, lambda life: not life.alive, within_s)
        if not after.alive:
            return {**self._proof(node, life, alive=False), "orderly": after.exit_code in orderly}
        try:
            return {**await self.kill(node), "orderly": False}
        except NotNow:
            if (await self._life(node)).alive:
                raise
        return {**self._proof(node, life, alive=False), "orderly": False}  # it has just ended

    async def pause(self, node: str) -> Mapping[str, object]:
        with no_effect_when_lost():
            life = await self._life(node)
            self._must_run(node, life)
            if life.paused:
                raise NotNow(f"{node} is paused already")
            await self._off(self._machine(node).signal, node, Signal.STOP)
            life = await self._until(node, lambda life: life.paused or not life.alive, EFFECT_S)
        if not life.paused:
            raise NotNow(f"{node} did not stop within {EFFECT_S:g} s of its SIGSTOP")
        proof = {"incarnation": life.incarnation, "pid": life.pid, "state": life.state}
        return {"node": node, **self._machine(node).proof, **proof}

    async def replace(self, spec: NodeSpec) -> Mapping[str, object]:
        programs.check([*(one for name, one in self._specs.items() if name != spec.name), spec])
        with no_effect_when_lost():
            if (await self._life(spec.name)).alive:
                raise NotNow(f"{spec.name} is running")
        return self._versions.replace(spec)

    def replaced(self) -> tuple[str, ...]:
        return self._versions.replaced()

    async def wipe(self, node: str) -> Mapping[str, object]:
        machine = self._machine(node)
        with no_effect_when_lost():
            life = await self._life(node)
            if life.alive:
                try:
                    await self.kill(node)
                except NotNow:
                    if (await self._life(node)).alive:
                        raise
            files = await self._off(machine.wipe, node)
        proof = {"incarnation": life.incarnation, "was_alive": life.alive, "files_removed": files}
        return {"node": node, **machine.proof, **proof}

    async def _life_of(self, node: str) -> int:
        with no_effect_when_lost():
            life = await self._life(node)
        return life.incarnation if life.alive else 0

    async def _at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        with no_effect_when_lost():
            return await self._off(self._machine(node).at_disk, node, do, arguments)

    async def _press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        machine = self._machine(node)
        if kind in DEADLY and self._beginning[node].locked():
            raise NotNow("it is just starting")
        with no_effect_when_lost():
            return {"node": node, **machine.proof, **await self._off(machine.press, node, kind, amount)}

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        disk = self._disks.setdefault(rule.node, RuledDisk(self._machine(rule.node), rule.node))
        self._disk_rules[rule_id] = disk
        with no_effect_when_lost():
            await self._off(disk.put_up, rule_id, rule.action)

    async def disk_rule_hits(self, rule_id: str) -> int:
        disk = self._disk_rules.get(rule_id)
        try:
            return await self._off(disk.hits, rule_id) if disk is not None else 0
        except HostLost:
            return 0

    def _disk_failed(self, node: str, incarnation: int) -> bool:
        disk = self._disks.get(node)
        return disk is not None and disk.failed(incarnation)

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        with no_effect_when_lost():
            await self._links.put_up(rule_id, rule)

    async def rule_hits(self, rule_id: str) -> int:
        return await self._links.hits(rule_id)

    async def clients_hit(self, rule_id: str) -> frozenset[str]:
        return await self._links.ends(rule_id) - self._seats.keys() - {CLIENT, HARNESS}

    async def bypassed(self, pid: int) -> Mapping[str, str]:
        known = {address: node for node, seat in self._seats.items() for address in seat.known_as(node)}
        addresses = await self._off(lambda: procfs.connected(procfs.session_of(procfs.Process.of(pid), {})))
        return {known[address]: address for address in addresses if address in known}

    async def strange_addresses(self) -> Sequence[str]:
        return await self._links.unknown()

    def _must_run(self, node: str, life: Life) -> None:
        if not life.alive:
            raise NotNow(f"{node} is not running")

    def _proof(self, node: str, life: Life, *, alive: bool) -> dict[str, object]:
        """Return the proof that this very life is over, or not."""
        who = {"incarnation": life.incarnation, "pid": life.pid, "started": life.started}
        return {"node": node, **self._machine(node).proof, **who, "alive": alive}

    # What shows whether a fault has an effect

    async def reaches(self, source: str, target: str) -> bool:
        return await self.try_link(source, target) is Reach.WORKS

    async def try_link(self, source: str, target: str) -> Reach:
        self._machine(target)
        seat = self._seats[target]
        if source in self._seats and seat.peer:
            return await self._dialling.reach(self._machine(source), Dial(source=source, target=address(seat.peer)))
        return await self._links.try_client(source, target, REACH_S)

    async def answers(self, node: str) -> bool:
        self._machine(node)
        if self._programs.of(node) is not None:  # a kernel accepts for one that is stopped
            with suppress(HostLost):
                life = await self._life(node)
                return life.alive and not life.paused and await self._programs.accepts(node, within_s=REACH_S)
            return False
        where = await self._links.address(node)
        if where is None:
            return False
        return await answered(ping(*where, REACH_S, self._links.opener), lambda: self._life(node))

    # Clients

    def connect(self, client: str, node: str) -> Connection:
        self._check_client(client, node)
        return self._links.connect(client, node)

    async def dial(self, client: str, node: str, port: str = "") -> Streams:
        self._check_client(client, node)
        self._check_port(client, node, port)
        return await self._links.dial(client, node, port)

    async def endpoint(self, client: str, node: str, port: str = "") -> Address:
        self._check_client(client, node)
        if port or self._programs.of(node) is not None:
            self._check_port(client, node, port)
        return await self._links.endpoint(client, node, port)

    def _check_port(self, client: str, node: str, port: str) -> None:
        program = self._programs.of(node)
        if program is None or not program.ports or port not in ("", *program.ports):
            known = ", ".join(program.ports) if program is not None else ""
            raise DeploymentError(f"node {node} has no port {port!r} for {client}: its ports are {known or 'none'}")

    def _check_client(self, client: str, node: str) -> None:
        self._machine(node)
        if client in self._seats:
            raise DeploymentError(f"client {client!r} has the name of a node")

    def expose(self, client: str, node: str) -> Address:
        """Return where a client that knows nothing of us reaches this node, from this machine; until ``stop``."""
        self._machine(node)
        exposed = self._seats[node].exposed
        return address(exposed) if exposed else self._links.expose(client, node)

    # Machines

    def _machine(self, node: str) -> Machine:
        if not self._running:
            raise DeploymentError("the cluster is not running: start it first")
        if node not in self._seats:
            raise DeploymentError(f"there is no node {node!r}; the nodes are {', '.join(self._seats)}")
        return self._seats[node].machine

    @property
    def _machine_of(self) -> Mapping[str, Machine]:
        """Where each node is."""
        return {name: seat.machine for name, seat in self._seats.items()}

    def _machines(self) -> list[Machine]:
        return list({seat.machine.name: seat.machine for seat in self._seats.values()}.values())

    async def _life(self, node: str) -> Life:
        return (await self._off(self._machine(node).lives, [node]))[node]

    async def _until(self, node: str, there: Callable[[Life], bool], within_s: float) -> Life:
        """Look again and again until this holds for the node's life, or the time is up; what was seen last."""
        deadline_s = time.monotonic() + within_s
        while not there(life := await self._life(node)) and time.monotonic() < deadline_s:
            await asyncio.sleep(POLL_S)
        return life

    async def _off(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a call that blocks, on a thread."""
        return await self._fleet.off(call, *arguments)


def _same(life: Life, other: Life) -> bool:
    return (life.pid, life.started) == (other.pid, other.started)


@contextmanager
def no_effect_when_lost() -> Iterator[None]:
    """Raise :class:`NotNow` where a machine is gone: it can't be harmed, and the fault has no effect."""
    try:
        yield
    except HostLost as error:
        raise NotNow(str(error)) from error
