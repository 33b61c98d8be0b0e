"""What every deployment can do, and what some can do besides.

A deployment hosts the nodes of a :class:`chaos.driver.ClusterSpec` and connects clients with them. The optional powers
are small protocols; a fault names those that it needs, and an experiment that asks a deployment for a fault which it
can't do is refused before anything starts.

Besides ``create``, the module of a deployment may have ``heal(run)`` and ``heal_all(runs)``, which end what a killed
harness has left of one run or of all in a folder and below it, each saying in sentences what it did;
``leftovers(runs)``, what ``heal_all`` would do, in sentences; ``claimed(run, made, inventory)``, what a run says of
itself, as a :class:`chaos.machines.healing.left.Claim`; ``HEALS_BY_MARK``, true where nothing but the run's mark in the
user's state folder shows ``heal`` what is left; ``outlook()``, see :class:`Outlook`; and ``check(nodes, …)``, which
raises :class:`chaos.errors.BadInput`, before anything is written, where these nodes have no place, and
:class:`chaos.errors.MachineError` where they, or the faults, need what this machine is known to lack. ``create`` and
``check`` may want parts of the experiment besides: ``inventory``, ``jitter_ns``, ``drawn_links``, ``attach``,
``demands`` (:class:`Demands`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from chaos.driver import ClusterSpec, Connection, OnTrace
from chaos.effects.corruption import Harm, Mark
from chaos.effects.disks import DiskRule
from chaos.effects.links import LinkRule, Reach
from chaos.fault import Undo
from chaos.frames import Framing
from chaos.node import NodeSpec


@runtime_checkable
class Deployment(Protocol):
    """Build it with ``create(run_id=…, directory=…, seed=…)`` of its module; it is a :class:`chaos.driver.Network`."""

    @property
    def name(self) -> str: ...

    def execute(self, main: Coroutine[Any, Any, int]) -> int:
        """Run the runner's coroutine to its end on this deployment's event loop (virtual time in the simulator)."""

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        """Start all nodes; return when each has begun its life. ``on_trace`` gets every trace row: at once in the
        simulator, within about 100 ms elsewhere. A row is a mapping with the columns of ``chaos.history.recorder``
        (``node``, ``incarnation``, ``step``, ``f``, …; ``value`` still a mapping)."""

    async def stop(self) -> None:
        """End all that this deployment started; idempotent."""

    def connect(self, client: str, node: str) -> Connection: ...

    def now_ns(self) -> int: ...

    async def undo(self, step: Undo) -> None:
        """Perform one undo step; idempotent, and no error if there is nothing to undo."""


class EndedBy(StrEnum):
    """Who ended a node. Nobody can ask later who sent a signal: a SIGKILL that the harness did not send is the
    machine's where the kernel is seen to have killed something for want of memory, and else its sender is unknown."""

    ITSELF = "itself"
    MACHINE = "machine"
    UNKNOWN = "unknown"


class Ended(Protocol):
    """A life of a node that no fault ended; as text it is one line. ``exit_code``: a negative one is a signal, None
    where nobody saw it end. ``alive_ns``: when the node was last seen alive, on the deployment's clock; -1 if never."""

    @property
    def node(self) -> str: ...

    @property
    def incarnation(self) -> int: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def by(self) -> EndedBy: ...

    @property
    def alive_ns(self) -> int: ...


@runtime_checkable
class TellsEnds(Protocol):
    """One whose nodes can be ended by others, too."""

    async def ended(self) -> Sequence[Ended]:
        """All lives that ended and that no fault ended so far, in the order in which that was seen."""


@runtime_checkable
class CanKill(Protocol):
    """Can crash a node."""

    async def kill(self, node: str) -> Mapping[str, object]:
        """Crash a node at once (no node code runs; unsynced bytes may go). Proof: what was alive and isn't any more.
        Undo: ``start``. Raises :class:`chaos.fault.NotNow` if it isn't running."""


@runtime_checkable
class CanTerminate(Protocol):
    """Can ask a node to end in an orderly way."""

    async def terminate(self, node: str) -> Mapping[str, object]:
        """Ask a node to end (SIGTERM): it makes its disk durable, and ends. One that takes too long for that is
        killed. Proof: besides what ended, whether it was ``orderly``. Undo: ``start``. Raises NotNow like ``kill``,
        also for a node that is paused."""


@runtime_checkable
class CanPause(Protocol):
    """Can stop the execution of a node."""

    async def pause(self, node: str) -> Mapping[str, object]:
        """Stop a node's execution; its peers see only silence. Undo: ``resume``. Raises NotNow like ``kill``."""


@runtime_checkable
class CanWipe(Protocol):
    """Can empty a node's disk."""

    async def wipe(self, node: str) -> Mapping[str, object]:
        """Crash a node if it runs and empty its disk. Undo: ``start``."""


@runtime_checkable
class CanAddNodes(Protocol):
    """Can start one more node in mid-run."""

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        """Start one more node and return when it has begun its life; it stays, and ``stop`` ends it like the others.
        All others can reach it, also those that were down or paused meanwhile, and all rules on links that name it, or
        everybody, hold for it from its first moment. Proof: what lives now. Raises NotNow when there is a node of that
        name, or no place for one more."""


@runtime_checkable
class CanReplaceNodes(Protocol):
    """Can start a node in another version of its system."""

    async def replace(self, spec: NodeSpec) -> Mapping[str, object]:
        """Have the node of this name, which is down, be started as this says from its next life on, at the same place,
        with the same disk and the same ports. Undo: ``restore``, which ends a life that began so, and ``start``. Raises
        NotNow if it is running."""

    def replaced(self) -> Sequence[str]:
        """Return the nodes whose latest life began otherwise than their first."""


@runtime_checkable
class CanRuleLinks(Protocol):
    """A deployment whose links can't do all of :data:`chaos.effects.links.ACTIONS` has ``LINK_ACTIONS``, a set of
    those that they can, and ``CLIENT_LINK_ACTIONS`` if those of clients can do others; a fault that uses what is
    missing (its ``link_actions``) is refused before anything starts."""

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        """Put up a rule; it holds at once, also for connections that are open. Undo: ``clear_rule``."""

    async def rule_hits(self, rule_id: str) -> int:
        """How many chunks, dials and ends the rule has held up, harmed or broken so far; 0 for a rule that is gone."""


@runtime_checkable
class CanRuleRequests(Protocol):
    """Its rules on links can be such on requests (:mod:`chaos.effects.requests`): it reads what clients ask."""

    def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        """Say, before ``start``, how what clients ask is read; ``start`` then raises whatever the reader does when it
        is called. ``ruled``: rules on requests will be put up, which hit nothing otherwise. Without that, only clients
        that come by an endpoint are read, for the addresses in their answers."""


@runtime_checkable
class TellsClients(Protocol):
    """One that sees which clients a rule on links hits. A client library that learns addresses from the system itself
    may go round the proxies that carry the rules out."""

    async def clients_hit(self, rule_id: str) -> frozenset[str]:
        """Return the names of the clients for which the rule has held up, harmed or broken something so far, but for
        those by which the harness looks at the system; none for a rule that is gone."""


@runtime_checkable
class SeesBypasses(Protocol):
    """One that sees who goes round the proxies."""

    async def bypassed(self, pid: int) -> Mapping[str, str]:
        """Return the nodes with which processes of the session that this one leads, on this machine, are connected
        directly, each with its address."""

    async def strange_addresses(self) -> Sequence[str]:
        """Return addresses that nodes have named to clients with endpoints, and that are no node's. Some of them, if
        they are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the faults of a run will ask of its deployment: ``powers`` are protocols of this module and of drivers,
    ``link_actions`` what will be done to links between nodes (classes of :data:`chaos.effects.links.ACTIONS`)."""

    powers: frozenset[type] = frozenset()
    link_actions: frozenset[type] = frozenset()


@runtime_checkable
class ExpectsLinkActions(Protocol):
    """One whose machines may lack what rules on links between nodes need: ``KERNEL_LINK_ACTIONS`` are those of its
    ``LINK_ACTIONS``."""

    def expect_link_actions(self, actions: frozenset[type]) -> None:
        """Say, before ``start``, what rules will do to links between nodes. ``start`` then raises
        :class:`chaos.errors.MachineError` on a machine that can't do it, before any node runs."""


@runtime_checkable
class CanRuleDisks(Protocol):
    """Can put up rules on nodes' disks."""

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        """Put up a rule on the disk of a node; it holds for operations that begin from now on, and over the node's
        lives. Undo: ``clear_disk``, and ``start`` where the node may stop of it."""

    async def disk_rule_hits(self, rule_id: str) -> int:
        """How many operations the rule has refused, failed or held up so far; 0 for a rule that is gone."""


@runtime_checkable
class CanLoseUnsynced(Protocol):
    """Can crash a node so that it loses all that it had not synced."""

    async def lose_unsynced(self, node: str) -> Mapping[str, object]:
        """Crash a node so that nothing of what it had not synced is kept, but for what a kernel had written back by
        itself; where that can be seen, at a moment at which there is something to lose. Undo: ``start``. Raises NotNow
        if it isn't running, or had nothing to lose."""


@runtime_checkable
class ExpectsPowerCuts(Protocol):
    """One whose nodes that are programs of others must get another disk when they are to lose unsynced bytes."""

    async def sync_disks(self) -> None:
        """Have all that these programs have written so far be on their disks."""

    def expect_power_cuts(self) -> None:
        """Say, before ``start``, that nodes will lose what they have not synced. ``start`` then raises
        :class:`chaos.errors.MachineError` on a machine on which programs can't, before any node runs."""


@runtime_checkable
class CanTearWrites(Protocol):
    """Can crash a node so that parts of what it had not synced are kept."""

    async def tear_writes(self, node: str) -> Mapping[str, object]:
        """Crash a node as :meth:`CanLoseUnsynced.lose_unsynced` does, but keep parts of what it had not synced: some
        sectors of a file, one of its sizes."""


@runtime_checkable
class CanHarmDisks(Protocol):
    """Harms what a disk has held durably for a while."""

    async def mark_disk(self, node: str) -> Mark:
        """Note what the disk of a node holds. Raises NotNow if it isn't running."""

    async def harm_disk(self, node: str, marked: Mark, harm: Harm) -> Mapping[str, object]:
        """Crash a node and change bytes on its disk that have been there since the mark. Proof: besides what ended,
        each change (``harmed``). Undo: ``start``. Raises NotNow if it doesn't run in the marked life any more, or
        nothing on its disk is that old."""


@runtime_checkable
class CanRollBackDisks(Protocol):
    """Can put an older copy of a node's disk in its place."""

    async def copy_disk(self, node: str) -> Mapping[str, object]:
        """Crash a node and keep a copy of what is on its disk; a later one replaces it. Undo: ``start``. Raises NotNow
        if it isn't running."""

    async def roll_back_disk(self, node: str) -> Mapping[str, object]:
        """Crash a node and have its disk hold what it held when it was copied, and nothing else. Proof: besides what
        ended, which files that changed. Undo: ``start``. Raises NotNow if it isn't running, or nothing has changed."""


@runtime_checkable
class CanProbe(Protocol):
    """Shows from outside whether a fault has an effect; changes nothing."""

    async def reaches(self, source: str, target: str) -> bool:
        """Return whether a fresh connection from where ``source`` is (a node or a client) to the node ``target`` works
        right now, through the links as they are, within half a second."""

    async def answers(self, node: str) -> bool:
        """Return whether the node answers a ping by the harness within half a second."""


@runtime_checkable
class CanTellCuts(Protocol):
    """Can distinguish a connection that a rule stops from one that is late, or fails because nobody is there."""

    async def try_link(self, source: str, target: str) -> Reach:
        """Try a fresh connection, as in :meth:`CanProbe.reaches`, and return what becomes of it. It is cut only if the
        code that carries out the rules has seen one of them stop it; nobody has to wait for it then."""


@runtime_checkable
class CanSkewClocks(Protocol):
    """Can set a node's clocks."""

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        """Let the wall clock jump and the monotonic clock run fast or slow, over the node's lives. Undo:
        ``reset_clock``. Raises NotNow when the node doesn't report what its clocks show; they are set all the same."""


@runtime_checkable
class ExpectsSkewedClocks(Protocol):
    """One whose nodes must be started in another way when their clocks are to be set."""

    def expect_skewed_clocks(self) -> None:
        """Say, before ``start``, that clocks will be set. ``start`` then raises
        :class:`chaos.errors.MachineError` on a machine that can't do it, before any node runs."""


# Pressure on the machine of a node. It lasts over the node's lives until it is released; the verb that undoes each is
# ``release``, its subject ``pressed(node, kind)``. All raise NotNow when the node feels pressure of this kind already.


@runtime_checkable
class CanSlowProcessors(Protocol):
    """Can leave a node less of a processor."""

    async def slow_processor(self, node: str, share_percent: int) -> Mapping[str, object]:
        """Leave a node that much of one processor's time, for the rest is used by others. Kind: ``cpu``."""


@runtime_checkable
class CanLimitMemory(Protocol):
    """Can leave a node less memory."""

    async def limit_memory(self, node: str, spare_mb: int) -> Mapping[str, object]:
        """Let a running node have only so much memory more than now: what goes beyond that fails, of which a node
        may end. Kind: ``memory``. Raises NotNow if it isn't running."""


@runtime_checkable
class CanLimitDescriptors(Protocol):
    """Can keep a node from opening files and connections."""

    async def limit_descriptors(self, node: str) -> Mapping[str, object]:
        """Let a running node open nothing more: no connection, no file, of which it may end. Kind: ``descriptors``.
        Raises NotNow if it isn't running."""


@runtime_checkable
class CanHangIo(Protocol):
    """Can keep syncs of a node's disk from ending."""

    async def hang_io(self, node: str) -> Mapping[str, object]:
        """Let no sync of a node's disk end. Kind: ``io``."""


@runtime_checkable
class CanReadFiles(Protocol):
    """Can read the files of a node, alive or dead: what a driver collects after recovery, for example."""

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        """Return the size of each regular file on the node's disk, or in the home of a program, whose path below these
        one of the globs matches (``**`` for any folders)."""

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 1 << 20) -> bytes:
        """Up to so many bytes of such a file, from this one on, 1 MiB at most; nothing where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a deployment would find on this machine, as ``stormproof doctor`` shows it: the answer of the function
    ``outlook()`` of its module, if it has one. ``mend``: why it can't run, and what would help."""

    what: str
    ok: bool
    found: str
    mend: str = ""


def trace_file(directory: Path, node: str) -> Path:
    """Where a node that is a process writes its trace: JSON lines with the columns of ``chaos.history.recorder``."""
    return directory / "traces" / f"{node}.jsonl"


def copy_of(directory: Path, node: str) -> Path:
    """Where a copy of a node's disk is kept, on this machine."""
    return directory / "copies" / node
