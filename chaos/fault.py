"""What a fault implements. One file in ``nemesis/`` is one fault; its name is the file's name.

A fault plans an *injection*: a value that names its targets and carries its undo steps. The runner writes the undo
steps to the journal, then injects, records the proof of effect, and later runs the same undo steps. Every undo is one
of a few idempotent verbs that the deployment performs, never code of the fault: so the journal of a killed harness
shows what it held, and ``stormproof heal`` needs no fault to let it go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Protocol, runtime_checkable

from chaos.driver import ClusterView, TierRule

#: What the rows of a fault are called that nobody planned: the machine, or a stranger, has ended a node
#: (:mod:`chaos.run.accidents`).
ACCIDENT = "accident"


class Verb(StrEnum):
    """Undo verbs; each is idempotent and takes a subject: a node, the id of a rule, or :func:`pressed`.

    The deployment performs them, but for ``mend_tier``, ``add_controller`` and ``undrain``, which the driver does."""

    START = "start"
    RESUME = "resume"
    CLEAR_RULE = "clear_rule"
    CLEAR_DISK = "clear_disk"
    RESET_CLOCK = "reset_clock"
    RELEASE = "release"
    MEND_TIER = "mend_tier"
    ADD_CONTROLLER = "add_controller"
    UNDRAIN = "undrain"
    RESTORE = "restore"  # the node is ended if it runs in another version than its first, in which it starts next


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """One undo step: what is done, and to which node, rule or machine."""

    verb: Verb
    subject: str


class NotNow(Exception):
    """The fault can't be planned or had no effect at this moment (no master yet, a refused switch); it is retried."""


class Effect(StrEnum):
    """What a fault may do to a node, as laws and reports know it; they never look at the fault's name."""

    TAKES_DOWN = "takes_down"  # it serves nobody while the fault lasts: killed, stopped, paused
    ISOLATES = "isolates"  # it reaches no other node, or lies on the cut-off side of a clean cut between groups
    CUTS = "cuts"  # some of its links are cut, broken again and again, or lose or garble bytes
    CUTS_CLIENTS = "cuts_clients"  # the same for links of clients; the "node" may be the word ``client``: all of them
    MAY_CRASH = "may_crash"  # its process may end by it, so that what was not synced is gone
    LOSES_DISK = "loses_disk"  # what its disk had promised to keep is gone or changed
    SLOWS = "slows"  # what it does may be late: its links, disk, processor, memory or descriptors are short
    HARMS_TIER = "harms_tier"  # the tier can't be reached, or gets requests wrong
    SKEWS_CLOCKS = "skews_clocks"
    SWITCHES_MASTER = "switches_master"  # it is made the master, or the controllers' leader
    ADDS_REPLICA = "adds_replica"
    REMOVES_REPLICA = "removes_replica"  # also a controller, which has no vote then


#: Effect -> the nodes (or ``client``) that it concerns.
Effects = Mapping[Effect, tuple[str, ...]]


def on(nodes: Sequence[str], *kinds: Effect) -> Effects:
    """Return these effects, each on all of the nodes."""
    return {kind: tuple(nodes) for kind in kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One planned injection. ``targets`` go into the history; ``undo`` into the journal before anything happens;
    ``detail`` is what a reader needs to know of it (the shape of a partition, say). ``passes``: it is over, and undone,
    as soon as the fault has acted (see :class:`Acts`).

    ``effects``: all that it may do, and to whom; ``{}`` for a fault that harms nobody. None is undeclared: it excuses
    nothing that the system does, and a law whose judgement depends on it is UNKNOWN. What of the declared effects took
    place is decided by :mod:`chaos.run.proven`. ``concerns``: the nodes for which a rule (the subject of an undo step)
    proves effects by its hits, where these are not all nodes of the effect."""

    targets: tuple[str, ...]
    undo: tuple[Undo, ...] = ()
    detail: Mapping[str, object] = field(default_factory=dict)
    passes: bool = False
    effects: Effects | None = None
    concerns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def pressed(node: str, kind: str) -> str:
    """Return the subject of ``release`` that ends the pressure of this kind on the machine of this node."""
    return f"{node}/{kind}"


class Fault(Protocol):
    """``needs`` names the capability protocols of ``chaos.deployment`` (and of ``chaos.driver``, such as
    ``CanSwitch``) without which the fault can't be done; that is checked before anything starts. So is
    ``link_actions``, which a fault on links has besides: the classes of :data:`chaos.effects.links.ACTIONS` that it
    uses."""

    @property
    def needs(self) -> Sequence[type]: ...

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        """Choose targets. ``tag`` is unique in the run: ids of link rules begin with it. Raises :class:`NotNow`."""

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        """Do it; return the proof of effect as JSON, by target (see :func:`each`): a target that is in it was hit.
        Raises :class:`NotNow` when it had no effect. Proof that only shows while the fault lasts (bytes held up by a
        rule) is added by the runner at the undo from :meth:`chaos.deployment.CanRuleLinks.rule_hits`."""


#: Sleep for so many seconds; False when the injection is to end meanwhile.
Rest = Callable[[float], Awaitable[bool]]


@runtime_checkable
class Acts(Protocol):
    """Optional power of a fault: it goes on acting while it lasts."""

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        """Act from the end of ``inject`` until ``rest`` says False: then return at once, and the undo follows. Do only
        what the injection's undo steps undo at any moment: they are in the journal before anything happens. Not run at
        all when the load has ended meanwhile."""


@runtime_checkable
class Probes(Protocol):
    """Optional power of a fault: it shows from outside what it does to the system."""

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        """Return what is seen now, as JSON; change nothing. Asked after ``inject`` and after the undo, and written into
        the history. ``effect`` in it (see :mod:`chaos.run.probes`) says how much of that shows the fault: ``none``
        after ``inject`` means that the fault has no effect, so that it is taken back and tried again."""


@runtime_checkable
class FitsSystems(Protocol):
    """Optional power of a fault or a workload: some of its options mean something for certain systems only."""

    def misfits(self, driver: object) -> Mapping[str, str]:
        """Return what is wrong for the system of this driver, a sentence by option. Asked before anything starts, once
        it is known that the driver has all powers that are needed."""


@runtime_checkable
class Achieves(Protocol):
    """Optional power of a fault: what it is for comes about only while it lasts, or doesn't."""

    def achieved(self, world: World, injection: Injection) -> bool:
        """Asked when the injection is over, before its undo. One that has not achieved it counts as without effect."""


class World(Protocol):
    """What an injection may act upon."""

    @property
    def deployment(self) -> object:
        """The deployment; a fault uses only the capabilities that it named in ``needs``."""

    @property
    def view(self) -> ClusterView: ...

    async def switch(self, target: str, *, group: str = "", forced: bool = False) -> Mapping[str, object]:
        """Have the driver make ``target`` the leader of the group of this name; without a name, of the only one that it
        belongs to. ``forced``: also if it is not in sync. Raises :class:`NotNow` when that was refused."""

    async def remove(self, node: str) -> Mapping[str, object]:
        """Have a broker that is down leave its group. Raises :class:`NotNow` when that was refused."""

    async def add(self, node: str) -> Mapping[str, object]:
        """Start a broker that there has not been yet, one of ``view.newcomers``, and have it join its group. Raises
        :class:`NotNow` when there is no place for it."""

    async def transfer_leader(self, target: str) -> Mapping[str, object]:
        """Have the driver make ``target`` the controllers' leader. Raises :class:`NotNow` when that was refused."""

    async def remove_controller(self, node: str) -> Mapping[str, object]:
        """Have a controller leave their group. Undo: ``add_controller``. Raises :class:`NotNow` when that was
        refused."""

    async def drain(self, node: str) -> Mapping[str, object]:
        """Have the system take everything from a node. Undo: ``undrain``. Raises :class:`NotNow` when that was
        refused."""

    async def change_version(self, node: str, version: str) -> Mapping[str, object]:
        """Have a node that is down run this version of the system from its next life on; what shows it. Undo:
        ``restore``, and ``start``. Raises :class:`NotNow` when it runs."""

    async def break_tier(self, rule_id: str, rule: TierRule) -> None:
        """Make the tier handle requests wrongly. Undo: ``mend_tier``. Raises :class:`NotNow` if it is out of reach."""

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        """From now on this injection, which began by holding all the nodes down that its undo starts, holds down these
        of them alone; the others are started again when the other faults that hold them down end. To be said before
        they are taken down."""

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        """Say what was done besides what ``inject`` returns, such as by :meth:`Acts.act`; by target, as that. It proves
        all effects that were declared for the target, or ``only`` these."""

    async def start(self, node: str, injection: Injection) -> bool:
        """Start a node that this injection has taken down, before its undo does, and hold it down no longer; False when
        another injection holds it down too, so that it stays down."""


Proof = Mapping[str, object]


async def each(targets: Sequence[str], act: Callable[[str], Awaitable[Proof]]) -> dict[str, Proof]:
    """Act on the targets in turn and gather the proofs by target. Raises :class:`NotNow` when none took effect."""
    return _proofs(targets, [await _try(act, target) for target in targets])


async def together(targets: Sequence[str], act: Callable[[str], Awaitable[Proof]]) -> dict[str, Proof]:
    """Act as :func:`each` does, but on all targets at once: for what takes time."""
    from chaos.tasks import gather  # late: laws read this page, and have no use for asyncio

    return _proofs(targets, await gather(*(_try(act, target) for target in targets)))


async def _try(act: Callable[[str], Awaitable[Proof]], target: str) -> Proof | NotNow:
    try:
        return await act(target)
    except NotNow as reason:
        return reason


def _proofs(targets: Sequence[str], results: Sequence[Proof | NotNow]) -> dict[str, Proof]:
    pairs = list(zip(targets, results, strict=True))
    proofs = {target: result for target, result in pairs if not isinstance(result, NotNow)}
    if not proofs:
        raise NotNow("; ".join(f"{target}: {reason}" for target, reason in pairs))
    return proofs
