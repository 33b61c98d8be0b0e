"""The deterministic simulator: a whole cluster, its links, disks and clocks in one process and in virtual time.

One seed is one history. Everything random is drawn from generators that are derived from the seed and a name; nothing
depends on the wall clock, on hashes or on the order of sets.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from chaos.deployments._sim.disk import Fate
from chaos.deployments._sim.files import CopiedFiles, SimFiles
from chaos.deployments._sim.loop import SECOND_NS, VirtualLoop
from chaos.deployments._sim.network import JITTER_NS, Piece, Pipe, SimNet
from chaos.deployments._sim.node import CPU, DESCRIPTORS, IO, Crash, SimNode
from chaos.draws import Draws
from chaos.driver import ClusterSpec, Disconnected, MakeFrame, OnTrace
from chaos.effects.corruption import AtDisk, at_disk
from chaos.effects.disks import DiskRule
from chaos.effects.links import ACTIONS, LinkRule
from chaos.errors import BadInput, DeploymentError
from chaos.fault import NotNow, Undo, Verb
from chaos.frames import CodecFrames, Framing
from chaos.machines.disk_corruption import HarmsDisks
from chaos.machines.lifecycle.versions import Versions
from chaos.node import Codec, M, Message, Node, NodeSpec
from chaos.shell.address_rewriting import AddressRewriter

#: What every node's options say besides its own: to wait costs nothing here, each step does.
VIRTUAL = {"virtual_time": True}
#: How long a server takes to start again.
RESTART_S = (0.02, 0.2)
#: Servers of a cluster start one after another, each at most this much later than the one before.
STAGGER_S = 0.02
#: A connection that takes longer doesn't work, for a probe.
REACH_NS = SECOND_NS // 2
#: For so long it is waited until a node has something to lose that it has not synced, looking this often.
UNSYNCED_WITHIN_S, UNSYNCED_EVERY_S = 2.0, 0.0003
#: How much more virtual time a cancelled run may take to heal and to end.
WIND_UP_NS = 600 * SECOND_NS
#: A run allocates much and makes few cycles: collect them a hundred times more seldom than Python does by itself.
GC_THRESHOLD = 70_000


def create(
    *,
    run_id: str,
    directory: Path,
    seed: int,
    jitter_ns: int = JITTER_NS,
    drawn_links: Collection[str] | None = None,
    draws: Draws | None = None,
) -> SimDeployment:
    """Make an empty simulated world; nothing in it touches ``directory``. Each message takes up to ``jitter_ns`` longer
    than its link's latency, or as long as any other unless its link is one of the ``drawn_links``. ``draws``: the
    run's, where others draw from them too; otherwise they are made of the ``seed``."""
    return SimDeployment(draws or Draws(seed), jitter_ns, drawn_links)


class SimDeployment(HarmsDisks):
    """Implements ``Deployment`` and all capabilities but that of memory. ``crashes`` lists nodes that died of their own
    exceptions."""

    LINK_ACTIONS = frozenset(ACTIONS.values())

    def __init__(self, draws: Draws, jitter_ns: int = JITTER_NS, drawn_links: Collection[str] | None = None) -> None:
        self.loop = VirtualLoop()
        self.crashes: list[Crash] = []
        self._draws = draws
        self._net = SimNet(self.loop, draws, jitter_ns, drawn_links)
        self._nodes: dict[str, SimNode] = {}
        self._clients: dict[str, SimClient] = {}
        self._copies: dict[str, CopiedFiles] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._versions = Versions(self._specs)
        self._on_trace: OnTrace = lambda row: None

    @property
    def name(self) -> str:
        return "sim"

    def now_ns(self) -> int:
        return self.loop.now_ns

    def renew_at(self, moment_ns: int, seed: str) -> None:
        """Have draws go on as ``seed`` has them once everything of this moment has happened; said before the run."""
        self.loop.post(moment_ns + 1, self._draws.renew, seed)

    def execute(self, main: Coroutine[Any, Any, int]) -> int:
        """Run to the end. The first Ctrl-C or SIGTERM cancels ``main``, so that it can heal and close its history; so
        does an error of the simulation itself.

        Raises ``KeyboardInterrupt`` if ``main`` ended by that, :class:`DeploymentError` when the simulation is stuck.
        """
        task = self.loop.create_task(main)
        with _interrupts(task) as interrupted, _seldom_collecting():
            try:
                return self.loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupted:
                    raise KeyboardInterrupt from None
                raise
            except Exception:
                self._wind_up(task)
                raise
            finally:
                self.loop.close()

    def _wind_up(self, task: asyncio.Task[int]) -> None:
        """Let ``main`` end by cancellation after an error that was not its own."""
        if not task.done():
            self.loop.max_virtual_ns += WIND_UP_NS
            task.cancel()
            with suppress(Exception, asyncio.CancelledError):
                self.loop.run_until_complete(task)

    def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        if not ruled:
            return  # clients here get addresses anyway
        frames = framing.open("")
        if not isinstance(frames, CodecFrames):
            raise BadInput(f"the simulator carries messages, not bytes: {framing.reader} must return CodecFrames")
        self._net.frames = frames

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        programs = [spec.name for spec in cluster.nodes if spec.program is not None]
        if programs:
            raise BadInput(
                f"the simulator runs no programs of others, and node {programs[0]} is one: use `--on process`"
            )
        outside = [spec for spec in cluster.nodes if spec.outside]
        if outside:
            raise BadInput(
                f"the simulator has nothing outside of the cluster, and node {outside[0].name} needs it"
                f" ({outside[0].outside}): use `--on process`"
            )
        self._net.codec = cast(Codec, cluster.codec)  # asked only by rules that flip bits
        self._on_trace = on_trace
        for spec in cluster.nodes:
            if spec.name in self._nodes:
                raise DeploymentError(f"two nodes are named {spec.name!r}; every node needs a name of its own")
            self._make(spec)
        for node in list(self._nodes.values()):
            await asyncio.sleep(node.starting.uniform(0, STAGGER_S))
            if not node.alive:
                node.begin()

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        if spec.name in self._nodes:
            raise NotNow(f"there is a node {spec.name} already")
        node = self._make(spec)
        await asyncio.sleep(node.starting.uniform(*RESTART_S))
        if not node.alive:
            node.begin()
        return {"node": spec.name, "incarnation": node.incarnation, "alive": node.alive}

    def _make(self, spec: NodeSpec) -> SimNode:
        """Set up a node's machine, disk and links; it does not run yet."""
        _builder(spec)
        self._specs[spec.name] = spec
        node = SimNode(
            _virtual(spec),
            self._build,
            loop=self.loop,
            net=self._net,
            draws=self._draws,
            on_trace=self._on_trace,
            on_crash=self.crashes.append,
        )
        self._nodes[spec.name] = node
        self._net.add(node)
        return node

    def _build(self, spec: NodeSpec) -> Node:
        """Make the node of a new life."""
        self._versions.born(spec.name)
        return _builder(spec)(spec)

    async def replace(self, spec: NodeSpec) -> Mapping[str, object]:
        node = self._node(spec.name)
        if node.alive:
            raise NotNow(f"{spec.name} is running")
        _builder(spec)
        shown = self._versions.replace(spec)
        node.spec = _virtual(spec)
        return shown

    def replaced(self) -> tuple[str, ...]:
        return self._versions.replaced()

    async def stop(self) -> None:
        for client in self._clients.values():
            client.close_all()
        for node in self._nodes.values():
            if node.alive:
                node.vanish()

    def connect(self, client: str, node: str) -> SimConnection:
        self._node(node)
        host = self._clients.get(client)
        if host is None:
            if client in self._nodes:
                raise DeploymentError(f"client {client!r} has the name of a node")
            host = self._clients[client] = SimClient(client, self.loop, self._net)
            self._net.add(host)
        return host.connection(node)

    async def undo(self, step: Undo) -> None:
        match step.verb:
            case Verb.CLEAR_RULE:
                self._net.clear_rule(step.subject)
            case Verb.CLEAR_DISK:
                for node in self._nodes.values():
                    node.disk_rules.clear(step.subject)
            case Verb.RESET_CLOCK:
                self._node(step.subject).clock.reset()
            case Verb.RELEASE:
                node_name, _, kind = step.subject.rpartition("/")
                self._node(node_name).lift(kind)
            case Verb.RESTORE:
                node = self._node(step.subject)
                began_otherwise = self._versions.restore(step.subject)
                node.spec = _virtual(self._specs[step.subject])
                if began_otherwise and node.paused:
                    node.die()
                elif began_otherwise and node.alive:
                    node.end()
            case Verb.RESUME:
                node = self._node(step.subject)
                if node.paused:
                    node.resume()
            case Verb.START:
                node = self._node(step.subject)
                if not node.alive:
                    await asyncio.sleep(node.starting.uniform(*RESTART_S))
                if not node.alive:
                    node.begin()

    async def kill(self, node: str) -> Mapping[str, object]:
        victim = self._living(node)
        proof = {"node": node, "incarnation": victim.incarnation, "step": victim.step}
        return {**proof, "unsynced_changes": victim.die(), "alive": victim.alive}

    async def terminate(self, node: str) -> Mapping[str, object]:
        victim = self._living(node)
        if victim.paused:
            raise NotNow(f"{node} is paused")
        proof = {"node": node, "incarnation": victim.incarnation, "step": victim.step}
        orderly = victim.end()
        return {**proof, "alive": victim.alive, "orderly": orderly}

    async def pause(self, node: str) -> Mapping[str, object]:
        victim = self._living(node)
        if victim.paused:
            raise NotNow(f"{node} is paused already")
        victim.pause()
        return {"node": node, "incarnation": victim.incarnation, "step": victim.step, "paused": victim.paused}

    async def wipe(self, node: str) -> Mapping[str, object]:
        victim = self._node(node)
        was_alive = victim.alive
        if was_alive:
            victim.die()
        files = len(victim.disk.list())
        victim.wipe()
        return {"node": node, "incarnation": victim.incarnation, "was_alive": was_alive, "files_removed": files}

    async def lose_unsynced(self, node: str) -> Mapping[str, object]:
        return await self._crash_unsynced(node, Fate.LOST)

    async def tear_writes(self, node: str) -> Mapping[str, object]:
        return await self._crash_unsynced(node, Fate.TORN)

    async def _crash_unsynced(self, node: str, fate: Fate) -> Mapping[str, object]:
        deadline_ns = self.loop.now_ns + int(UNSYNCED_WITHIN_S * SECOND_NS)
        victim = self._living(node)
        while not victim.disk.unsynced:
            await asyncio.sleep(UNSYNCED_EVERY_S)
            victim = self._living(node)
            if self.loop.now_ns > deadline_ns:
                raise NotNow(f"{node} has synced all that it wrote")
        proof = {"node": node, "incarnation": victim.incarnation, "step": victim.step, "kept": str(fate)}
        return {**proof, "unsynced_changes": victim.die(fate), "alive": victim.alive}

    async def _life_of(self, node: str) -> int:
        it = self._node(node)
        return it.incarnation if it.alive else 0

    async def _at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        return at_disk(SimFiles(self._node(node).disk), self._copies.setdefault(node, CopiedFiles()), do, arguments)

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        self._node(rule.node).disk_rules.put_up(rule_id, rule.action)

    async def disk_rule_hits(self, rule_id: str) -> int:
        return sum(node.disk_rules.hits.get(rule_id, 0) for node in self._nodes.values())

    async def slow_processor(self, node: str, share_percent: int) -> Mapping[str, object]:
        return {**self._limit(node, CPU, share_percent), "share_percent": share_percent}

    async def limit_descriptors(self, node: str) -> Mapping[str, object]:
        self._living(node)
        return self._limit(node, DESCRIPTORS, 0)

    async def hang_io(self, node: str) -> Mapping[str, object]:
        return self._limit(node, IO, 0)

    def _limit(self, node: str, kind: str, amount: int) -> Mapping[str, object]:
        it = self._node(node)
        if not it.limit(kind, amount):
            raise NotNow(f"{node}: there is pressure on its {kind} already")
        return {"node": node, "incarnation": it.incarnation, "step": it.step}

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self._net.set_rule(rule_id, rule)

    async def rule_hits(self, rule_id: str) -> int:
        return self._net.rule_hits(rule_id)

    async def reaches(self, source: str, target: str) -> bool:
        return self._node(target).alive and self._net.passes(source, target, within_ns=REACH_NS)

    async def answers(self, node: str) -> bool:
        it = self._node(node)
        return it.alive and not it.paused and node not in self._net.full

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        it = self._node(node)
        clock = it.clock
        before = clock.wall_ns()
        clock.skew(jump_ns=jump_ns, drift_ppm=drift_ppm)
        if not it.alive:
            raise NotNow(f"{node} is not running")
        return {"node": node, "wall_before_ns": before, "wall_after_ns": clock.wall_ns(), "drift_ppm": drift_ppm}

    def _node(self, name: str) -> SimNode:
        node = self._nodes.get(name)
        if node is None:
            raise DeploymentError(f"there is no node {name!r}; the nodes are {', '.join(self._nodes) or 'none yet'}")
        return node

    def _living(self, name: str) -> SimNode:
        node = self._node(name)
        if not node.alive:
            raise NotNow(f"{name} is not running")
        return node


def _virtual(spec: NodeSpec) -> NodeSpec:
    return replace(spec, options={**VIRTUAL, **spec.options})


def _builder(spec: NodeSpec) -> Callable[[NodeSpec], Node]:
    """Return what makes this node. Raises :class:`DeploymentError`."""
    try:
        build: Callable[[NodeSpec], Node] = importlib.import_module(spec.package).build
    except (ImportError, AttributeError) as error:
        raise DeploymentError(f"node {spec.name}: package {spec.package!r} offers no build(spec) ({error})") from error
    return build


class SimClient:
    """All connections of one client. Numbers of requests never repeat, so a late answer finds no request."""

    is_client = True
    alive = True

    def __init__(self, name: str, loop: VirtualLoop, net: SimNet) -> None:
        self.name = name
        self.pipes: dict[str, Pipe] = {}
        self.loop = loop
        self.net = net
        self.number = 0
        self._connections: dict[str, SimConnection] = {}

    def connection(self, node: str) -> SimConnection:
        known = self._connections.get(node)
        if known is None:
            known = self._connections[node] = SimConnection(self, node)
        return known

    def arrive(self, source: str, message: Message) -> None:
        connection = self.connection(source)
        if message.is_response:
            connection.answered(message)
        elif connection.take is not None:
            connection.take(message)

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def lost(self, peer: str, refused: bool) -> None:
        self.connection(peer).broken(sent=not refused)

    def close_all(self) -> None:
        for connection in self._connections.values():
            connection.close()


class SimConnection:
    """Implements :class:`chaos.driver.TakesFrames` and :class:`chaos.driver.TakesRequests`."""

    def __init__(self, client: SimClient, node: str) -> None:
        self.take: Callable[[Any], None] | None = None
        self._client = client
        self._node = node
        self._waiting: dict[int, asyncio.Future[Message]] = {}

    async def request(self, message: M, timeout_s: float) -> M:
        client = self._client
        number = client.next_number()
        client.net.send(client, self._node, message.numbered(number))
        return cast(M, await self._answered(number, timeout_s))

    async def exchange(self, request: M, frame: MakeFrame[M], timeout_s: float) -> M:
        client = self._client
        asked = request.numbered(client.next_number())
        rewriter = AddressRewriter(client.net.codec, client.net.addresses())
        rewriter.asks(asked)
        for piece in frame(asked):
            client.net.send(client, self._node, Piece(piece))
        answer = client.net.codec.encode(await self._answered(asked.number, timeout_s))
        (read,) = client.net.codec.decode(bytearray(answer))  # such a client gets bytes, too
        return cast(M, rewriter.rewritten(read))

    async def _answered(self, number: int, timeout_s: float) -> Message:
        loop = self._client.loop
        answer = self._waiting[number] = loop.create_future()
        loop.post(max(0, round(timeout_s * 1e9)), self._expired, number, timeout_s)
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def on_request(self, take: Callable[[Any], None]) -> None:
        self.take = take

    def oneway(self, message: Message) -> None:
        client = self._client
        client.net.send(client, self._node, message.numbered(client.next_number(), oneway=True))

    def close(self) -> None:
        self._client.net.close(self._client, self._node)
        self.broken(sent=True)

    def answered(self, message: Message) -> None:
        waiting = self._waiting.pop(message.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def broken(self, *, sent: bool) -> None:
        waiting, self._waiting = self._waiting, {}
        how = "broke" if sent else "was refused"
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(
                    Disconnected(f"connection of {self._client.name} with {self._node} {how}", sent=sent)
                )

    def _expired(self, number: int, timeout_s: float) -> None:
        answer = self._waiting.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_exception(TimeoutError(f"no answer from {self._node} within {timeout_s:g} s"))


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _interrupts(task: asyncio.Task[int]) -> Iterator[list[int]]:
    """Cancel the task on the first SIGINT or SIGTERM (the second raises ``KeyboardInterrupt``); yields what came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        task.cancel()

    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
