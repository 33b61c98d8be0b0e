"""What a law implements: a promise with names of its own, what it reads, and how it judges that.

A law declares the rows that it reads by their classes and fields (:mod:`chaos.events`, :mod:`chaos.operations`), and
by which ``key`` they belong together. A run may be large: then it is cut into shards, each with all rows of some keys,
and :meth:`Law.examine` looks at each of them by itself, in this process or in another one. It is a pure function of the
rows: the same shard gives the same :class:`Partial`. :meth:`Law.judge` decides over all partials together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from chaos import shard_rows
from chaos.driver import Evidence, Profile
from chaos.events import Event
from chaos.history.run_meta import RunMeta
from chaos.merged_moments import together
from chaos.moments import Moments
from chaos.operations import RowClass
from chaos.verdict import Anomaly, Verdict
from chaos.workload import Use

#: A class of rows, whether nodes trace them or not.
RowType = type[Event] | type[RowClass]
#: The place of a law that asks for none: behind all that do.
LAST = 1_000


class Undeclared(Exception):
    """A law read what it had not declared: in a large run it would not have been there."""


class Harm(IntEnum):
    """What a violation harms, the worst first: the data of clients, what clients see besides, or the inside alone."""

    DATA = auto()
    CLIENTS = auto()
    INSIDE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyKind:
    """Something that a law can find. ``lawful``: it is counted and shown, but no violation. ``by_policy``: it is
    allowed because the profile permits it, so it is named in the verdict's line, and ``--no-loss-by-policy`` makes the
    run INVALID. Raises ``ValueError`` for one that the profile permits and that is called a violation.

    ``headline``: the title of a run that shows it, without a full stop: of one, and of ``{n}``; where only one is
    given, the number stands behind it, and where none is, it is the ``meaning``. The violation with the worst ``harm``
    gives a run its title. ``decision``: of which classes the row is that is itself what broke the promise, and no
    consequence of that; the last one of them that the law names. A report says that it is why."""

    name: str
    meaning: str
    lawful: bool = False
    by_policy: bool = False
    headline: tuple[str, ...] = ()
    harm: Harm = Harm.INSIDE
    decision: tuple[RowType, ...] = ()

    def __post_init__(self) -> None:
        if self.by_policy and not self.lawful:
            raise ValueError(f"{self.name}: what the profile permits is allowed, so declare it `lawful`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A law as people know it: its name, in one line what it demands, and all that it can find. Names are part of the
    command line's contract. Verdicts list the laws by ``place``, and those of one place by name.

    ``counts``: what a report says of its evidence behind each number, by name of the count; "" for one that it does not
    show, and the name itself where none is given. Beside violations only those stand that are given here. ``kept``: how
    the title of a VALID run begins that kept this promise; the first law that says so counts."""

    name: str
    meaning: str
    anomalies: tuple[AnomalyKind, ...]
    place: int = LAST
    counts: Mapping[str, str] = field(default_factory=dict, hash=False)
    kept: str = ""

    def find(self, name: str) -> AnomalyKind:
        """Return what is declared under this name. Raises ``ValueError`` when nothing is."""
        for kind in self.anomalies:
            if kind.name == name:
                return kind
        raise ValueError(f"the law {self.name} declares no anomaly {name!r}")


class Key(StrEnum):
    """Whose rows a law needs together: those of a queue, of a node, of a group (``value.group``), of an object
    (``value.object``), or all of the run.

    A shard holds all rows of its own keys. Rows that can't have such a key, because their class has no such field (a
    fault, or for a law about queues the election of a master), come to every shard. Keys that share a shard must not
    change what is found of each.
    """

    QUEUE = "queue"
    NODE = "node"
    GROUP = "group"
    OBJECT = "object"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What is known of a run besides its rows: what it is, and what damage the loader met. ``without_accidents``: it is
    judged as if it had had no accident (:mod:`chaos.run.accidents`).

    ``unfinished``: the run goes on, and the rows are a prefix of it: the harness's rows up to some batch, and whole
    steps of each node's trace up to somewhere, not all of them to the same moment. A kernel then finds only what stays
    an anomaly whatever rows come later, from whichever process. It finds nothing because of a row that isn't there.
    """

    run: str
    seed: int
    meta: RunMeta
    damage: Sequence[str] = ()
    unfinished: bool = False
    without_accidents: bool = False

    @property
    def evidence(self) -> frozenset[str]:
        """See :attr:`RunMeta.reported <chaos.history.run_meta.RunMeta.reported>`."""
        return self.meta.reported

    @property
    def uses(self) -> frozenset[str]:
        """What the run's workloads use; queues where nobody says."""
        return self.meta.uses or frozenset((Use.QUEUES,))

    @property
    def uses_queues(self) -> bool:
        """Whether laws about queues are owed evidence: not in a run whose workloads all operate on something else."""
        return Use.QUEUES in self.uses

    @property
    def no_queues(self) -> str:
        """Why laws about queues are owed nothing; "" where they are."""
        return "" if self.uses_queues else "no workload uses queues"

    @property
    def one_clock(self) -> bool:
        """See :attr:`RunMeta.one_clock <chaos.history.run_meta.RunMeta.one_clock>`."""
        return self.meta.one_clock

    @property
    def jitter_ns(self) -> int:
        """In the simulator a message takes up to so long beyond the latency of its link; 0 where none is on record."""
        return round(self.meta.jitter_s * 1e9)

    @property
    def profile(self) -> Profile:
        """See :attr:`RunMeta.promises <chaos.history.run_meta.RunMeta.promises>`."""
        return self.meta.promises

    @property
    def strict(self) -> bool:
        """Does the profile promise that no acknowledged message is lost?"""
        return self.profile.strict


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A part of a shard that takes long to decide, so that it is done by itself, on whatever core is free:
    :meth:`Law.settle` needs nothing but what is ``given``, JSON values. ``about`` says in a few words what it is."""

    about: str
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A kernel's findings in one shard. ``counts`` add up over shards; ``anomalies`` are joined; ``facts`` are JSON
    values that ``judge`` needs from each shard; ``gaps`` name observations that are missing (→ UNKNOWN). ``moments``:
    when findings were made that are too many to be anomalies each, by name. ``not_owed``
    says why nothing has to be seen in this run; "" that something has; None leaves that to :attr:`Law.uses`. What is
    ``deferred`` is settled before ``judge`` is asked."""

    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: Sequence[Anomaly] = ()
    facts: Sequence[Mapping[str, Any]] = ()
    gaps: Sequence[str] = ()
    not_owed: str | None = None
    deferred: Sequence[Deferred] = ()
    moments: Mapping[str, Moments] = field(default_factory=dict)

    def merge(self, later: Partial) -> Partial:
        """Both together. Associative, so that shards can be joined in any bracket; ``anomalies``, ``facts`` and
        ``gaps`` keep the order of the shards. What is owed in one shard is owed."""
        counts = dict(self.counts)
        for name, number in later.counts.items():
            counts[name] = counts.get(name, 0) + number
        return Partial(
            counts=counts,
            anomalies=(*self.anomalies, *later.anomalies),
            facts=(*self.facts, *later.facts),
            gaps=tuple(dict.fromkeys((*self.gaps, *later.gaps))),
            not_owed=min((one for one in (self.not_owed, later.not_owed) if one is not None), default=None),
            deferred=(*self.deferred, *later.deferred),
            moments=together(self.moments, later.moments),
        )


class Rows(Protocol):
    """The rows of one shard that the law reads, in ``index`` order."""

    def __len__(self) -> int: ...

    @property
    def run(self) -> RunContext:
        """What is known of the run besides."""

    def of(
        self, rows: type[Event] | type[RowClass], equals: Mapping[Any, object] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the positions of the rows of a class, ascending; of those alone in which each field is what ``equals``
        says: ``rows.of(Send, {Send.type: OpType.OK})``. Raises :class:`Undeclared` for what the law does not read."""

    def values(self, field: object, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return a field of these rows, all of its class: whole numbers as int64, -1 where there is none; texts and all
        else as Python objects, "" or None where there is none. Raises :class:`Undeclared` as :meth:`of`."""

    @property
    def columns(self) -> shard_rows.Rows:
        """The same rows, at the same positions, as whole columns: for laws that must be fast."""


class Law(ABC):
    """One promise, judged by one key. ``create(options)`` of a module in ``checkers/`` returns one, or a sequence of
    several with one promise, where rows of several keys are needed.

    ``reads`` are classes of rows, or single fields of them, all of which :meth:`examine` may ask for and nothing else.
    Without the ``evidence`` the law isn't run: the driver must report all of it. ``uses``: it is about what workloads
    do that use one of these. ``part`` says in a few words which part of its promise it judges, where there are several.
    ``on_prefix``: it may also be asked about a run that goes on, and keeps to :attr:`RunContext.unfinished` then.
    """

    __slots__ = ()
    promise: ClassVar[Promise]
    key: ClassVar[Key]
    reads: ClassVar[Sequence[object]]
    evidence: ClassVar[Sequence[Evidence]] = (Evidence.OPERATIONS,)
    uses: ClassVar[Sequence[Use]] = ()
    part: ClassVar[str] = ""
    on_prefix: ClassVar[bool] = False

    @abstractmethod
    def examine(self, rows: Rows) -> Partial:
        """Look at one shard."""

    def settle(self, deferred: Deferred) -> Partial:
        """Decide what :meth:`examine` has deferred, in whatever process; only for laws that do so. A gap says that it
        can't be decided, and nothing is deferred again."""
        raise NotImplementedError(f"the law {self.promise.name} does not settle what it defers")

    @abstractmethod
    def judge(self, partial: Partial) -> Verdict:
        """Decide over all shards together. Vacuous evidence (nothing acknowledged, no drain, no observations) is
        UNKNOWN, with the reason; NOT APPLICABLE where ``partial`` says why nothing is owed, as in a run whose workloads
        use nothing that the law is about (:func:`chaos.findings.decide` does all that)."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Refuse what laws declared before by these names."""
        if name in ("Needs", "Reads", "Sieve"):
            raise ImportError(
                f"chaos.law has no {name} any more: a law derives from chaos.law.Law and declares `key` and `reads`,"
                " classes of rows or their fields (docs/plugins/law.md)"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
