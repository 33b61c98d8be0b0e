"""From a run directory to shards that laws can examine: reads what was recorded, and notes what its evidence lacks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory
from chaos.history import directory as store
from chaos.history import sharding, shards
from chaos.history.bounded.shard_files import repeats
from chaos.history.digests import Digest
from chaos.history.history import History
from chaos.history.pieces import Piece, pieces
from chaos.history.rare import Rare
from chaos.history.run_meta import RUNNING, RunMeta
from chaos.history.shards import Part
from chaos.history.spool import Spool
from chaos.history.stream import STREAM
from chaos.judging import evidence
from chaos.judging.evidence import PROBE
from chaos.judging.spark_errors import JobFailed
from chaos.law import RunContext

if TYPE_CHECKING:
    from chaos.judging.engine import Examined, OnProgress, RunInput
    from chaos.judging.goals import Sighting
    from chaos.judging.in_process import InProcess
    from chaos.judging.spark import Session

#: Where the shards of a run stand whose own shards are all that is left of it, and are parted otherwise.
REPLANNED = "shards.judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run whose shards are ready to be examined. ``why`` says what keeps it from being VALID before any law has
    looked; ``examined`` is what the laws found, if they have looked, and took ``seconds`` for, and ``as_if`` what they
    find as if there had been no accidents; ``goals`` are those of the experiment; ``accidents`` say what befell which
    nodes. It travels between processes."""

    directory: Path
    meta: RunMeta
    shards: tuple[Path, ...]
    digest: str
    damage: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    goals: tuple[Sighting, ...] = ()
    accidents: tuple[str, ...] = ()
    examined: Examined | None = None
    as_if: Examined | None = None
    seconds: float = 0.0

    @property
    def context(self) -> RunContext:
        return RunContext(run=self.directory.name, seed=self.meta.seed, meta=self.meta, damage=self.damage)


def prepare(
    run: Path,
    apart: Path | None = None,
    *,
    at_once: bool = False,
    session: Session | None = None,
    on_progress: OnProgress | None = None,
) -> Prepared:
    """Read a run, make its shards, and note what its evidence lacks. ``apart``: an empty folder for the shards, where
    nothing may be written into the run because its harness is still at work there. ``at_once``: have the laws look at a
    run now, in this process. ``session``: have them look at a large run now, on this Spark. Then there are no shards of
    a large run; ``on_progress`` is called with how many tasks of how many have examined theirs.

    A damaged run is judged as far as it can be read, and is UNKNOWN whatever is found: it may come of the damage.
    Raises :class:`chaos.errors.BadInput` when this is no run, or holds what nobody should read.
    """
    history, meta = History.open(run), RunMeta()
    sealed = history.sealed
    try:
        meta = history.meta
        _refuse_trimmed(run, meta)
        damage = [*sealed.damage, *store.altered(run, sealed, ended=meta.state != RUNNING)]
        if apart is None and not damage:
            ready = _large(run, meta, history, session, on_progress, at_once=at_once)
            if ready is not None:
                return ready
        with Spool(run) as rows:
            read = _read(history, rows, damage)
            ready = _prepared(run, meta, rows, read, damage, apart)
            return _examined(ready, rows) if at_once else ready
    except DamagedHistory as error:
        whole, goals = (*sealed.damage, str(error)), _sightings(None, None, meta)
        return Prepared(directory=run, meta=meta, shards=(), digest="", damage=whole, why=whole, goals=goals)


def _large(
    run: Path,
    meta: RunMeta,
    history: History,
    session: Session | None,
    on_progress: OnProgress | None,
    *,
    at_once: bool,
) -> Prepared | None:
    """Return a large run that was examined, in Spark or in this process; None for any other, for one whose rows can't
    be read apart, and where that came to nothing."""
    from chaos.judging.in_process import InProcess

    found = pieces(run, history.sealed) if at_once or (session is not None and session.shares_files) else ()
    if not found or sum(piece.rows for piece in found) < shards.SINGLE_SHARD_ROWS:
        return None
    try:
        if session is not None:
            return _divided(run, meta, found, session, on_progress)
        with InProcess(run) as tasks:
            return _divided(run, meta, found, tasks, on_progress)
    except (DamagedHistory, JobFailed, OSError, MemoryError):
        return None


def _divided(
    run: Path, meta: RunMeta, found: Sequence[Piece], tasks: Session | InProcess, on_progress: OnProgress | None
) -> Prepared:
    from chaos.judging.divided import Divided
    from chaos.judging.goals import wanted_rows

    began, rows = time.perf_counter(), sum(piece.rows for piece in found)
    context = RunContext(run=run.name, seed=meta.seed, meta=meta)
    divided = Divided(tasks, found, context, wanted_rows(meta.reach))
    rare = divided.survey.rare
    damage = _lost(meta, rows, rare)
    context = replace(context, damage=tuple(damage))
    accidents = evidence.accidents(rare)
    examined = divided.examine(context, on_progress)
    return Prepared(
        directory=run,
        meta=meta,
        shards=(),
        digest=divided.survey.digest,
        damage=tuple(damage),
        why=(*damage, *evidence.lacking(rare, meta), *evidence.misunderstood(rare)),
        goals=_sightings([divided.rows_of_all], rare, meta),
        accidents=accidents,
        examined=examined,
        as_if=divided.examine(replace(context, without_accidents=True)) if accidents else None,
        seconds=time.perf_counter() - began,
    )


def _lost(meta: RunMeta, rows: int, rare: pa.Table) -> list[str]:
    """Return what is missing of a run of which so many rows were read, and what of it says nothing."""
    expected = meta.rows
    lost = [f"only {rows} of {expected} recorded rows are left"] if expected is not None and expected > rows else []
    return [*lost, *evidence.odd_values(rare)]


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of rows that were all read: those that say whether they show anything, and the digest."""

    rare: Rare = field(default_factory=lambda: Rare(PROBE))
    digest: Digest = field(default_factory=Digest)

    def add(self, block: pa.Table) -> None:
        self.rare.add(block)
        self.digest.add(block)


def _read(history: History, rows: Spool, damage: list[str]) -> _Read:
    """Read all rows of a run, a block at a time."""
    found: list[str] = []
    read = _Read()
    try:
        for block in history.recorded_blocks(found):
            rows.add(block)
            read.add(block)
    except FileNotFoundError:
        rows.in_order = False  # its shards are all that is left
    if not rows.in_order:
        table, problems = history.recorded()
        found = [*problems]
        rows.start_over(table)
        read = _Read()
        read.add(table)
    damage += found
    return read


def _prepared(run: Path, meta: RunMeta, rows: Spool, read: _Read, damage: list[str], apart: Path | None) -> Prepared:
    rare = read.rare.table()
    damage = [*damage, *_lost(meta, rows.num_rows, rare)]
    parts = _plan(rows, meta)
    made = _shards(run, rows, parts, sound=not damage) if apart is None else _shards_apart(rows, parts, apart)
    why = [*damage, *evidence.lacking(rare, meta), *evidence.misunderstood(rare)]
    return Prepared(
        directory=run,
        meta=meta,
        shards=tuple(made),
        digest=read.digest.hexdigest(),
        damage=tuple(damage),
        why=tuple(why),
        goals=_sightings(rows.blocks(), rare, meta),
        accidents=evidence.accidents(rare),
    )


def _examined(run: Prepared, rows: Spool) -> Prepared:
    """Return a run whose rows are one shard, examined; any other one as it is."""
    from chaos.judging import engine as _engine

    table = rows.whole()
    if table is None or [path.stem for path in run.shards] != [shards.WHOLE]:
        return run
    began = time.perf_counter()
    examined = _engine.examine_whole(table, run.context)
    return replace(run, examined=examined, seconds=time.perf_counter() - began)


def _refuse_trimmed(run: Path, meta: RunMeta) -> None:
    if meta.trimmed:
        raise BadInput(
            f"{run}: of this run only its verdict was kept, so that it can't be judged again;"
            f" do it again with `{meta.replay_command or 'stormproof run'}`"
        )


def _sightings(blocks: Iterable[pa.Table] | None, rare: pa.Table | None, meta: RunMeta) -> tuple[Sighting, ...]:
    """Return which of the experiment's goals these rows show, and which faults that the seed drew from a swarm had an
    effect: among many some find no moment. Without rows that is unknown."""
    from chaos.judging.goals import Sighting, look

    wanted = meta.reach
    drawn = {name: f"effect of {name}" for name in meta.drawn_faults}
    if blocks is None or rare is None:
        return tuple(Sighting(goal=goal, why="the history can't be read") for goal in (*wanted, *drawn.values()))
    seen = look(blocks, wanted, RunContext(run="", seed=meta.seed, meta=meta)) if wanted else ()
    effective = evidence.effective_faults(rare) if drawn else Counter()
    return (*seen, *(Sighting(goal=goal, times=effective[name]) for name, goal in drawn.items()))


def _shards(run: Path, rows: Spool, parts: Sequence[Part], *, sound: bool) -> list[Path]:
    """Return the shards, with the rows as the laws want them. Where the shards are all that is left of the history they
    stay as they are."""
    if guarded.is_there(run / STREAM):
        return sharding.write(run, rows, parts, sealed=sound)
    found = shards.paths(run)
    if [path.stem for path in found] == [shards.WHOLE] and repeats(found[0]):
        return found
    return sharding.write(run, rows, parts, REPLANNED)


def _shards_apart(rows: Spool, parts: Sequence[Part], folder: Path) -> list[Path]:
    return sharding.write(folder, rows, parts, REPLANNED)


def _plan(rows: Spool, meta: RunMeta) -> tuple[Part, ...]:
    """How these rows are parted for the laws. Those of a small run stand together, whatever the laws want."""
    from chaos.judging.plan import plan
    from chaos.judging.registry import registry

    return plan(registry().kernels, meta) if rows.num_rows >= shards.SINGLE_SHARD_ROWS else ()


def examine(run: Prepared) -> Prepared:
    """Have the laws look at a run in this process, if they haven't, so that only the judgement is left to
    :func:`chaos.judging.outcome.judge`. Raises :class:`BadInput` as that does."""
    from chaos.judging import engine as _engine

    if run.examined is not None:
        return run
    began = time.perf_counter()
    examined = _engine.examine(run_input(run))
    return replace(run, examined=examined, seconds=time.perf_counter() - began)


def run_input(run: Prepared) -> RunInput:
    from chaos.judging import engine as _engine

    return _engine.RunInput(context=run.context, shards=run.shards, examined=run.examined, as_if=run.as_if)
