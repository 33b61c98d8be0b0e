"""How laws read runs that are too large for one shard: the planner's vocabulary, which no author of a law needs.

What authors declare (:mod:`chaos.law`) is compiled to it by :mod:`chaos.law_declaration`. Some of our own laws are
written in it, because they say more of what a shard may do without. It may change at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from chaos.driver import Evidence, Profile
from chaos.law import Deferred, Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use

#: Columns that every kernel may read without declaring them: they distinguish rows.
ALWAYS = ("index", "kind", "f")


class Key(StrEnum):
    """Whose rows a kernel needs together. A shard of a large run holds all rows of some queues, of some nodes, of some
    groups (``value.group``) or objects (``value.object``), or of the whole run; a small run is one shard with
    everything, whatever the key.

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
    OBJECT = "object"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Rows of one kind that a kernel reads: those with one of these ``f``, or all. Of them a shard gets the ones of
    its own keys; with ``everywhere`` all of them, or those that the ``sieve`` keeps, where they are many. Rows that
    have no key stand together, as if that were a key too. ``queueless``: only those without a queue.

    ``beside``: the kernel looks for them in :attr:`Rows.beside <chaos.shard_rows.Rows.beside>`. Where queues are whole
    they are rows like others, of the shard's own queues. Where a queue is parted, each shard is given these besides its
    own: ``everywhere``, all of them; with a ``sieve``, what that keeps of each shard, of this one and all others; else
    the operations that delivered what stands in the shard, with all of their rows of this kind and ``f``. What stands
    beside is never the shard's own: it may stand in others too, so a kernel neither counts it nor judges it.

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

    ``streamed``: ``keep`` is asked about the rows of each piece of a run by themselves, then about what it kept of all:
    ``keep(keep(A) + keep(B)) = keep(A + B)``. So it keeps the ends of operations whose invocation it has not seen. For
    :attr:`Reads.beside`, where rows that stand in no shard of the part are given to it as if they had one of their own;
    and for a shard's own rows: then it is given those of all shards.

    ``apart``: of a streamed sieve for a shard's own rows, which must know what came before a row. It is asked about
    all of them at once, and not about pieces; but of those of its rows that another sieve is about, ``apart``, it is
    given what that keeps of each piece by itself, whatever came before: ``keep(apart(A) + apart(B)) = keep(A + B)``.
    That one is given the rows of all shards.

    ``before``: of a streamed sieve for a shard's own rows. Those of its ``rows`` that it is given before all others,
    wherever they stand: what each node reports of itself may come long after what others report of it.

    ``remember``, ``sure``: for rows of nodes, of which each is chosen by those that the node lived before and after.
    They take ``index`` for the order in which a node lived its rows. The rows are given some at a time, in that order:
    ``sure`` returns the positions of those that are kept whatever comes later, ``remember`` those that must be known to
    choose among later ones. What is remembered stands beside the rows that follow. For rows A before rows
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
    apart: Sieve | None = None
    before: tuple[Reads, ...] = ()
    remember: Callable[[Rows], npt.NDArray[np.int64]] | None = None
    sure: Callable[[Rows], npt.NDArray[np.int64]] | None = None
    together: bool = False
    fitted: Callable[[Profile], Sieve] | None = None
    many_clocks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What kernels must know of whole queues, but not the rows that show it: where a queue is parted, it is made once,
    and all shards of the parts are given it.

    ``make`` is given the ``rows`` of whole queues that these declarations cover, and returns what is known of each
    queue, which is pickled. That must depend on the rows of this queue alone, and name rows by their ``index``: a
    kernel may not have them. What it raises, :meth:`Rows.lookup <chaos.shard_rows.Rows.lookup>` raises.
    """

    rows: tuple[Reads, ...]
    make: Callable[[Rows], Mapping[int, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a kernel must be given.

    ``rows`` and ``columns`` (besides :data:`ALWAYS`) are all that it reads: asking for others raises. Without the
    ``evidence`` it isn't run at all: the driver must report all of it. ``uses``: it is about what workloads do that use
    one of these. ``part`` says in a few words which part of its law the kernel judges, where the law has several.
    ``joins``: the parts of other kernels of the law, with other keys; ``judge`` is given what these reported, too,
    their facts and their gaps. ``on_prefix``: it may also be asked about a run that goes on, and keeps to
    :attr:`RunContext.unfinished` then. ``lookups``: of a kernel of queues, or of less, what it may look up by queue.
    ``idle``: in a run none of whose workloads uses any of ``uses`` it looks at no rows, so that none are kept for it.
    """

    key: Key
    rows: tuple[Reads, ...]
    columns: tuple[str, ...]
    evidence: tuple[Evidence, ...] = (Evidence.OPERATIONS,)
    uses: tuple[Use, ...] = ()
    part: str = ""
    joins: tuple[str, ...] = ()
    on_prefix: bool = False
    lookups: tuple[Lookup, ...] = ()
    idle: bool = False


class Kernel(Protocol):
    """One kernel of one law; where a law needs rows of several keys, its plug-in creates several with one promise."""

    @property
    def promise(self) -> Promise: ...

    @property
    def needs(self) -> Needs: ...

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        """Look at one shard. Keys that share a shard must not change what is found of each."""

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Decide over all shards together. Vacuous evidence (nothing acknowledged, no drain, no observations) is
        UNKNOWN, with the reason; NOT APPLICABLE only what nothing in the run is about."""


@runtime_checkable
class Settles(Kernel, Protocol):
    """A kernel that may defer something: what of it takes long, and needs no rows."""

    def settle(self, deferred: Deferred) -> Partial:
        """Decide what :meth:`Kernel.examine` has deferred, in whatever process. Defers nothing itself."""
