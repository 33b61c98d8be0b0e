"""What a law implements: a promise with names of its own, a kernel over columns, and a judgement over what it found.

Kernels are pure functions from numpy columns to a :class:`Partial`. They run in this process or inside Spark tasks,
never see a cluster, and never read another file. The same shard gives the same partial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from chaos.driver import Evidence, Profile
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly, Verdict
from chaos.workload import Use

T = TypeVar("T")

#: Columns that every kernel may read without declaring them: they distinguish rows.
ALWAYS = ("index", "kind", "f")
#: The place of a law that asks for none: behind all that do.
LAST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyKind:
    """Something that a law can find. ``lawful``: it is counted and shown, but no violation. ``by_policy``: it is
    allowed because the profile permits it, so it is named in the verdict's line, and ``--no-loss-by-policy`` makes the
    run INVALID. Raises ``ValueError`` for one that the profile permits and that is called a violation."""

    name: str
    meaning: str
    lawful: bool = False
    by_policy: bool = False

    def __post_init__(self) -> None:
        if self.by_policy and not self.lawful:
            raise ValueError(f"{self.name}: what the profile permits is allowed, so declare it `lawful`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A law as people know it: its name, in one line what it demands, and all that it can find. Names are part of the
    command line's contract. Verdicts list the laws by ``place``, and those of one place by name."""

    name: str
    meaning: str
    anomalies: tuple[AnomalyKind, ...]
    place: int = LAST

    def find(self, name: str) -> AnomalyKind:
        """Return what is declared under this name. Raises ``ValueError`` when nothing is."""
        for kind in self.anomalies:
            if kind.name == name:
                return kind
        raise ValueError(f"the law {self.name} declares no anomaly {name!r}")


class Key(StrEnum):
    """Whose rows a kernel needs together. A shard of a large run holds all rows of some queues, of some nodes, or of
    some groups (``value.group``), or of the whole run; a small run is one shard with everything, whatever the key.

    ``OFFSET``, ``MESSAGE``, ``CALL``: less than a queue. Their shards are those of queues, unless a queue has more rows
    than a shard should have; then it is parted, for each of them in its own way. What a shard needs to know of the
    others is declared by :attr:`Reads.beside`.

    * ``OFFSET``: the rows of one offset of a queue, in ranges of offsets. All rows of a send stand at the offset that
      it was given, those of an answer that gives a queue's ``maximum`` at the last offset below that, and what has no
      offset stands together.
    * ``MESSAGE``: the rows that name one message (column ``message``). What names none stands together.
    * ``CALL``: the rows of one operation (column ``op``): a pull with what it delivered.
    """

    QUEUE = "queue"
    OFFSET = "offset"
    MESSAGE = "message"
    CALL = "call"
    NODE = "node"
    GROUP = "group"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Rows of one kind that a kernel reads: those with one of these ``f``, or all. Of them a shard gets the ones of
    its own keys; with ``everywhere`` all of them, or those that the ``sieve`` keeps, where they are many. Rows that
    have no key stand together, as if that were a key too. ``queueless``: only those without a queue.

    ``beside``: the kernel looks for them in :attr:`Rows.beside`. Where queues are whole they are rows like others, of
    the shard's own queues. Where a queue is parted, each shard is given these besides its own: ``everywhere``, all of
    them; with ``own_queues`` besides, those of queues that the shard's own rows name, and those without a queue; with a
    ``sieve``, what that keeps of each shard, of this one and all others; else the operations that delivered what stands
    in the shard, with all of their rows of this kind and ``f``. What stands beside is never the shard's own: it may
    stand in others too, so a kernel neither counts it nor judges it. A kernel with ``own_queues`` judges no queue but
    those that its own rows name: it may lack rows of any other one.

    A ``streamed`` sieve without either of the two: of its own keys a shard gets all of these rows, but where a queue is
    parted, and where the key is the run or nodes, only those that the sieve keeps. A kernel must find the same with
    all, with these, and with any besides.
    """

    kind: str
    f: tuple[str, ...] = ()
    everywhere: bool = False
    queueless: bool = False
    sieve: Sieve | None = None
    beside: bool = False
    own_queues: bool = False

    def covers(self, kind: str, f: str) -> bool:
        return kind == self.kind and (not self.f or f in self.f)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """Chooses which of the rows that a kernel wants everywhere it needs, once for all shards of a large run: what is
    repeated in each shard must not grow with the run.

    ``keep`` is given all ``rows`` of the run that these declarations cover, with these ``columns`` (besides
    :data:`ALWAYS`), and returns the positions of those that are kept, of what is to be sifted. A kernel must find the
    same, whichever of the other rows it is given besides: a small run is not sifted, and laws that share shards are
    given what any of them keeps.

    ``streamed``: ``keep`` is given the rows of one shard of a parted queue, some at a time, the last ones first, each
    time with what it has kept of those before: ``keep(A + keep(B)) = keep(A + B)`` where all of A came before B. So it
    keeps the ends of operations whose invocation it has not seen yet. For :attr:`Reads.beside`, where rows that stand
    in no shard of the part are given to it as if they had one of their own; and for a shard's own rows: then it is
    given those of all shards.

    ``forward``: of a streamed sieve for a shard's own rows. It is given the first ones first, ``keep(keep(A) + B) =
    keep(A + B)``, so it knows what came before a row, and keeps the operations whose ends it has not seen yet.

    ``before``: of a streamed sieve for a shard's own rows. Those of its ``rows`` that it is given before all others,
    wherever they stand: what each node reports of itself may come long after what others report of it.

    ``remember``, ``sure``: for rows of nodes, of which each is chosen by those that the node lived before and after.
    They take ``index`` for the order in which a node lived its rows. The rows are given some at a time, in that order:
    ``sure`` returns the positions of those that are kept whatever comes later, ``remember`` those that must be known to
    choose among later ones. What is remembered stands :attr:`Rows.beside` the rows that follow. For rows A before rows
    B: ``keep(A + B) = sure(A) + keep(remember(A) + B)``, likewise for ``sure``, and ``remember(A + B) =
    remember(remember(A) + B)``. A ``streamed`` one is for kernels whose key is nodes: of a node whose rows are in
    another order no row is left out. Of another one ``keep`` is asked for all rows at once then, so it sorts them.

    ``together``: what is kept is judged right only by itself. Where another kernel of the same shards declares any of
    the rows that are sifted, and not with this very sieve, all of them are kept.

    ``fitted``: this sieve, for runs of a profile. What has to be kept depends on that, so where it is unknown all are.

    ``many_clocks``: what is kept is enough only where each node has a clock of its own. In a simulated run, where one
    clock orders the rows of all nodes, a shard of the whole run gets them all.
    """

    rows: tuple[Reads, ...]
    columns: tuple[str, ...]
    keep: Callable[[Rows], npt.NDArray[np.int64]]
    streamed: bool = False
    forward: bool = False
    before: tuple[Reads, ...] = ()
    remember: Callable[[Rows], npt.NDArray[np.int64]] | None = None
    sure: Callable[[Rows], npt.NDArray[np.int64]] | None = None
    together: bool = False
    fitted: Callable[[Profile], Sieve] | None = None
    many_clocks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a kernel must be given.

    ``rows`` and ``columns`` (besides :data:`ALWAYS`) are all that it reads: asking for others raises. Without the
    ``evidence`` it isn't run at all: the driver must report all of it. ``uses``: it is about what workloads do that use
    one of these. ``part`` says in a few words which part of its law the kernel judges, where the law has several.
    ``joins``: the part of another kernel of the law, with another key; ``judge`` is given what that one reported, too,
    its facts and its gaps. ``on_prefix``: it may also be asked about a run that goes on, and keeps to
    :attr:`RunContext.unfinished` then.
    """

    key: Key
    rows: tuple[Reads, ...]
    columns: tuple[str, ...]
    evidence: tuple[Evidence, ...] = (Evidence.OPERATIONS,)
    uses: tuple[Use, ...] = ()
    part: str = ""
    joins: str = ""
    on_prefix: bool = False


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
class Partial:
    """A kernel's findings in one shard. ``counts`` add up over shards; ``anomalies`` are joined; ``facts`` are JSON
    values that ``judge`` needs from each shard; ``gaps`` name observations that are missing (→ UNKNOWN)."""

    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: Sequence[Anomaly] = ()
    facts: Sequence[Mapping[str, Any]] = ()
    gaps: Sequence[str] = ()

    def merge(self, later: Partial) -> Partial:
        """Both together. Associative, so that shards can be joined in any bracket; ``anomalies``, ``facts`` and
        ``gaps`` keep the order of the shards."""
        counts = dict(self.counts)
        for name, number in later.counts.items():
            counts[name] = counts.get(name, 0) + number
        return Partial(
            counts=counts,
            anomalies=(*self.anomalies, *later.anomalies),
            facts=(*self.facts, *later.facts),
            gaps=tuple(dict.fromkeys((*self.gaps, *later.gaps))),
        )


@dataclass(frozen=True, slots=True)
class Form:
    """Values that differ in nothing but whole numbers. ``at``: the places of their rows, ascending, in the positions
    that were asked for. ``value``: what they have in common; a whole number that differs stands in it as an array, with
    one number for each of ``at``."""

    value: Mapping[str, Any]
    at: npt.NDArray[np.int64]

    def whole(self, number: Any) -> npt.NDArray[np.int64]:
        """Return a number that stands in ``value``, for each row. Raises ``TypeError`` or ``ValueError`` when it is
        none."""
        if isinstance(number, np.ndarray):
            return number
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        return np.full(len(self.at), max(least, min(int(number), most)), dtype=np.int64)


class Rows(Protocol):
    """The rows of one shard in ``index`` order: numeric columns as numpy arrays, text columns as integer codes."""

    def __len__(self) -> int: ...

    @property
    def beside(self) -> Rows:
        """The same rows, at the same positions, where :meth:`where` also finds what stands beside
        (:attr:`Reads.beside`). These very rows where queues are whole."""

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        """Which rows do not stand beside: they are in no other shard of this part, unless wanted everywhere."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column (int64), or the codes of a text column."""

    def code(self, column: str, text: str) -> int:
        """Return the code of a text in that column, -2 if it does not occur."""

    def text(self, column: str, row: int) -> str: ...

    def value(self, row: int) -> dict[str, Any]:
        """Return the row's ``value`` column, parsed."""

    def forms(self, at: npt.NDArray[np.int64]) -> Sequence[Form]:
        """Return the ``value`` of all these rows, parsed together: each row in one form. It costs a parse for each
        form, where :meth:`value` costs one for each row."""

    def where(self, **equals: str | int) -> npt.NDArray[np.int64]:
        """Positions of the rows in which every named column equals the given text or number, ascending."""

    def numbers(self, key: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the whole number under ``key`` of each row's ``value``, -1 where there is none; for flat values
        only."""

    def words(self, key: str, at: npt.NDArray[np.int64]) -> list[str]:
        """Return the text under ``key`` of each row's ``value``, "" where there is none; for flat values only."""

    def labels(self, key: str, at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[str]]:
        """As :meth:`words`, for many rows: a code for each, and the texts behind the codes, each of them once. Some of
        them may be those of no row."""

    def memo(self, make: Callable[[Rows], T]) -> T:
        """``make(self)``, computed once for all kernels that look at these rows."""


class Law(Protocol):
    """One kernel of one law. Build it with ``create(options)`` of its module in ``checkers/``; where a law needs rows
    of several keys, ``create`` returns a sequence of kernels with one promise."""

    @property
    def promise(self) -> Promise: ...

    @property
    def needs(self) -> Needs: ...

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        """Look at one shard. Keys that share a shard must not change what is found of each."""

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Decide over all shards together. Vacuous evidence (nothing acknowledged, no drain, no observations) is
        UNKNOWN, with the reason; NOT APPLICABLE only what nothing in the run is about."""
