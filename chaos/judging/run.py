"""From a run directory to what the laws find in it: reads what was recorded, has the laws look at that, and notes what
the evidence lacks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chaos import guarded
from chaos.errors import BadInput, ChaosError, DamagedHistory, MachineError
from chaos.history import directory as store
from chaos.history import manifest
from chaos.history import pieces as _pieces
from chaos.history.digests import Digest
from chaos.history.history import History
from chaos.history.made import Made
from chaos.history.pieces import Piece, pieces, rows_of
from chaos.history.rare import Rare
from chaos.history.run_meta import RUNNING, RunMeta
from chaos.judging import evidence
from chaos.judging.evidence import PROBE
from chaos.judging.spark_errors import JobFailed, sentence
from chaos.law import RunContext
from chaos.verdict import UnknownReason

if TYPE_CHECKING:
    from chaos.judging.engine import Examined, OnProgress
    from chaos.judging.goals import Sighting
    from chaos.judging.spark import Session
    from chaos.judging.summary import Summary

    #: Returns the summary that is to be made of a large run, which has these pieces.
    Summarise = Callable[[Sequence[Piece]], Summary]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedRun:
    """A run at which the laws have looked. ``why`` says what keeps it from being VALID whatever they found;
    ``examined`` is that, for which they took ``seconds``, and ``as_if`` what they find as if there had been no
    accidents; ``goals`` are those of the experiment; ``accidents`` say what befell which nodes; ``summarised`` is what
    came of the summary that was asked for, of a large run. It travels between processes."""

    directory: Path
    meta: RunMeta
    digest: str
    damage: tuple[str, ...] = ()
    why: tuple[UnknownReason, ...] = ()
    goals: tuple[Sighting, ...] = ()
    accidents: tuple[str, ...] = ()
    examined: Examined = field(default_factory=list)
    as_if: Examined = field(default_factory=list)
    seconds: float = 0.0
    summarised: Any = None

    @property
    def context(self) -> RunContext:
        return RunContext(run=self.directory.name, seed=self.meta.seed, meta=self.meta, damage=self.damage)


def examine_run(
    run: Path,
    apart: Path | None = None,
    *,
    session: Session | None = None,
    on_progress: OnProgress | None = None,
    copies_at: str = "",
    summary: Summarise | None = None,
) -> ExaminedRun:
    """Read a run, have the laws look at it, and note what its evidence lacks. ``apart``: a folder for what doesn't fit
    into memory, where nothing may be written into the run because its harness is still at work there. ``session``: a
    large run is looked at on this Spark; ``on_progress`` is then called with how many tasks of how many have examined
    theirs. ``copies_at``: a URI below which the executors find what they read, for as long as that lasts. ``summary``:
    what else is made of a large run.

    A damaged run is judged as far as it can be read, and is UNKNOWN whatever is found: it may come of the damage.
    Raises :class:`chaos.errors.BadInput` when this is no run, or holds what is not safe to read, and
    :class:`chaos.errors.MachineError` when the disk is full.
    """
    found = _examine(run, _Place(apart or run, session, on_progress, copies_at, summary))
    assert found is not None
    return found if session is None else _settled([found], session)[0]


def _settled(runs: Sequence[ExaminedRun], session: Session) -> list[ExaminedRun]:
    """Return runs with all settled that laws have deferred in them."""
    from chaos.judging.settling import settled_on

    found = settled_on(session, [one for run in runs for one in (run.examined, run.as_if)])
    return [
        replace(run, examined=examined, as_if=as_if)
        for run, examined, as_if in zip(runs, found[::2], found[1::2], strict=True)
    ]


def examine_runs(
    runs: Sequence[Path],
    *,
    session: Session | None = None,
    on_progress: OnProgress | None = None,
    copies_at: str = "",
    summary: Summarise | None = None,
) -> list[ExaminedRun]:
    """As :func:`examine_run`, of many runs: on Spark small ones in one job, with many of them a task. ``on_progress``
    is called with how many runs are done; or of one run, with how many of its tasks."""
    if session is None or copies_at or (len(runs) == 1 and _is_surely_large(runs[0])):
        found: list[ExaminedRun | None] = [None] * len(runs)
    else:
        found = _small_ones(runs, session, on_progress if len(runs) > 1 else None)
    made = []
    for number, (run, one) in enumerate(zip(runs, found, strict=True), start=1):
        progress = on_progress if len(runs) == 1 else None
        made.append(
            one or examine_run(run, session=session, on_progress=progress, copies_at=copies_at, summary=summary)
        )
        if on_progress is not None and len(runs) > 1:
            on_progress(number, len(runs))
    return made


def _is_surely_large(run: Path) -> bool:
    """Return whether a run has many rows, of those that say how many they have."""
    return rows_of(pieces(run, History.open(run).sealed)) >= _pieces.LARGE_ROWS


def _small_ones(runs: Sequence[Path], session: Session, on_progress: OnProgress | None) -> list[ExaminedRun | None]:
    """Return those that are small, as the executors found them. Raises what any of them was refused for."""
    from chaos.judging.halves import in_halves

    def look(part: Sequence[_Sealed]) -> list[ExaminedRun | ChaosError | None]:
        return session.map(_if_small, part, on_progress if len(part) == len(runs) else None)

    def failed(part: Sequence[_Sealed], reason: str) -> list[ExaminedRun | ChaosError | None]:
        return [_not_examined(one.run, reason) for one in part]

    found = in_halves([_Sealed.of(run.absolute()) for run in runs], look, failed)
    if refused := next((one for one in found if isinstance(one, ChaosError)), None):
        raise refused
    small = iter(_settled([one for one in found if isinstance(one, ExaminedRun)], session))
    return [
        replace(next(small), directory=run) if isinstance(one, ExaminedRun) else None
        for run, one in zip(runs, found, strict=True)
    ]


def _not_examined(run: Path, reason: str) -> ExaminedRun | ChaosError:
    try:
        return _unread(run, store.read_meta(run), (reason,))
    except DamagedHistory as error:
        return _unread(run, RunMeta(), (str(error), reason))
    except ChaosError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A run, and the checksum of its manifest, which vouches for all the rest; None without a manifest."""

    run: Path
    seal: manifest.Sum | None

    @classmethod
    def of(cls, run: Path) -> _Sealed:
        try:
            return cls(run, manifest.sum_of(guarded.read(run / manifest.FILE, manifest.LARGEST)))
        except (ChaosError, OSError):
            return cls(run, None)


def _if_small(one: _Sealed) -> ExaminedRun | ChaosError | None:
    """Return a small run; None for a large one, and where an executor does not see it, or sees another one under its
    path."""
    try:
        return _examine(one.run, None) if guarded.is_there(one.run) and _Sealed.of(one.run) == one else None
    except ChaosError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a large run is examined: in the ``folder`` stands what doesn't fit into memory."""

    folder: Path
    session: Session | None
    on_progress: OnProgress | None
    copies_at: str
    summary: Summarise | None


def _examine(run: Path, place: _Place | None) -> ExaminedRun | None:
    """As :func:`examine_run`. Without a place a large run is left alone (None)."""
    history, meta = History.open(run), RunMeta()
    sealed = history.sealed
    damage = [*sealed.damage]
    try:
        meta = history.meta
        _refuse_trimmed(run, meta)
        damage = [*sealed.damage, *store.altered(run, sealed, ended=meta.state != RUNNING)]
        found = () if damage else pieces(run, sealed)
        if rows_of(found) >= _pieces.LARGE_ROWS:
            if place is None:
                return None
            with suppress(DamagedHistory):  # who reads all rows in their order says it better
                return _divided(run, meta, found, place, [], "")
        with Made(run if place is None else place.folder) as rows:
            digest = _read(history, rows, damage)
            table = rows.table
            if table is not None:
                return _whole(run, meta, table, damage, digest)
            return None if place is None else _divided(run, meta, rows.pieces, place, damage, digest)
    except DamagedHistory as error:
        return _unread(run, meta, (*damage, str(error)))


def _unread(run: Path, meta: RunMeta, damage: tuple[str, ...]) -> ExaminedRun:
    return ExaminedRun(
        directory=run, meta=meta, digest="", damage=damage, why=_as_reasons(damage), goals=_sightings(None, None, meta)
    )


def _as_reasons(damage: Sequence[str]) -> tuple[UnknownReason, ...]:
    return tuple(UnknownReason(text=text) for text in damage)


def _read(history: History, rows: Made, damage: list[str]) -> str:
    """Read all rows of a run, a block at a time; return their digest."""
    found: list[str] = []
    digest = Digest()
    try:
        for block in history.recorded_blocks(found):
            rows.add(block)
            digest.add(block)
    except FileNotFoundError:
        rows.in_order = False  # its shards are all that is left
    if not rows.in_order:
        table, problems = history.recorded()
        found = [*problems]
        rows.start_over(table)
        digest = Digest()
        digest.add(table)
    damage += found
    return digest.hexdigest()


def _whole(run: Path, meta: RunMeta, table: pa.Table, damage: Sequence[str], digest: str) -> ExaminedRun:
    """Return a small run: its rows are one shard."""
    from chaos.judging import engine as _engine

    rare = Rare(PROBE)
    rare.add(table)
    found = rare.table()
    why = [*_lost(meta, table.num_rows), *_as_reasons([*damage, *evidence.odd_values(found)])]
    return _examined(run, meta, found, why, digest, [table], lambda context: _engine.examine_whole(table, context))


def _divided(
    run: Path, meta: RunMeta, found: Sequence[Piece], place: _Place, damage: Sequence[str], digest: str
) -> ExaminedRun:
    """Return a large run. ``digest``: where it is not that of the pieces."""
    from chaos.judging import engine as _engine
    from chaos.judging.divided import Divided
    from chaos.judging.goals import wanted_rows
    from chaos.judging.in_process import InProcess
    from chaos.judging.layout import Layout
    from chaos.judging.shared import copied

    began = time.perf_counter()
    try:
        with copied(found, place.copies_at) as seen, InProcess(place.folder) as here:
            layout = Layout(meta=meta, goals=tuple(wanted_rows(meta.reach)))
            summary = place.summary(seen) if place.summary else None
            divided = Divided(place.session or here, seen, layout, summary=summary)
            rare = divided.rare
            why = [*_lost(meta, rows_of(found)), *_as_reasons([*damage, *evidence.odd_values(rare)])]
            shown = [divided.rows_of_all]

            def examine(context: RunContext) -> Examined:
                progress = None if context.without_accidents else place.on_progress
                return divided.examine(context, progress)

            ready = _examined(run, meta, rare, why, digest or divided.digest, shown, examine)
            ready = replace(ready, seconds=time.perf_counter() - began)
            return replace(ready, summarised=divided.summarised())
    except (JobFailed, MemoryError) as error:
        is_of_spark = isinstance(error, JobFailed)
        reason = f"the Spark job failed: {sentence(error)}" if is_of_spark else "no memory was left"
        why = [*_as_reasons(damage), _not_judged(reason) if is_of_spark else UnknownReason(text=reason)]
        context = RunContext(run=run.name, seed=meta.seed, meta=meta)
        gaps = _engine.gaps(_engine.WHOLE, context, reason)
        return replace(_unread(run, meta, (*damage,)), why=tuple(why), examined=gaps)
    except OSError as error:
        raise MachineError(f"cannot write the rows in {place.folder}: {error.strerror or error}") from error


def _not_judged(reason: str) -> UnknownReason:
    advice = "Judge it again, perhaps with `--engine local`."
    return UnknownReason(text=reason, title="The judging failed", advice=advice, detailed=True)


def _lost(meta: RunMeta, rows: int) -> Iterator[UnknownReason]:
    """Yield what is missing of a run of which so many rows were read."""
    expected = meta.rows
    if expected is not None and expected > rows:
        yield UnknownReason(
            text=f"only {rows} of {expected} recorded rows are left",
            title=f"The recording is damaged: {rows:,} of {expected:,} rows are left",
            advice="Record it again; what is missing does not come back.",
        )


def _examined(
    run: Path,
    meta: RunMeta,
    rare: pa.Table,
    broken: Sequence[UnknownReason],
    digest: str,
    shown: Iterable[pa.Table],
    examine: Callable[[RunContext], Examined],
) -> ExaminedRun:
    """``rare``: the rows that say whether a run shows anything; ``shown``: those that may show its goals; ``broken``:
    how it is damaged."""
    began = time.perf_counter()
    damage = tuple(reason.text for reason in broken)
    context = RunContext(run=run.name, seed=meta.seed, meta=meta, damage=damage)
    accidents = evidence.accidents(rare)
    return ExaminedRun(
        directory=run,
        meta=meta,
        digest=digest,
        damage=damage,
        why=(*broken, *evidence.lacking(rare, meta), *evidence.misunderstood(rare)),
        goals=_sightings(shown, rare, meta),
        accidents=accidents,
        examined=examine(context),
        as_if=examine(replace(context, without_accidents=True)) if accidents else [],
        seconds=time.perf_counter() - began,
    )


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
