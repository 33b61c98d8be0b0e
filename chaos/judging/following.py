"""Follows a run that goes on: judges what it has recorded so far, again and again, until it has ended.

What was recorded is read and judged again each time, since laws look at whole columns. The longer that takes, the
longer is the pause, as far as a violation is still reported within a minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos import guarded
from chaos.errors import BadInput, MachineError, Overtaken
from chaos.history import directory as store
from chaos.history import manifest
from chaos.history.columns import Kind
from chaos.history.made import Made
from chaos.history.parted.choosing import Chooser, Chosen
from chaos.history.prefix import Prefix, read_prefix
from chaos.history.run_meta import UP, RunMeta
from chaos.history.stream import SCHEMA, STREAM
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.judging.shard import Shard
from chaos.judging.so_far import SoFar, able, judge_prefix, wanted
from chaos.law import RunContext
from chaos.verdict import Engine, RunVerdict

if TYPE_CHECKING:
    from chaos.judging.engine import OnProgress, Session

#: A violation is reported so many seconds after it was recorded, unless judging alone takes longer.
WITHIN_S = 55.0
#: The shortest pause; and as a share of the time that judging takes, so that most of a core is left to the run.
LEAST_PAUSE_S, PAUSE_SHARE = 1.0, 3.0
#: So often somebody looks whether the run has ended.
LOOK_S = 0.25
#: A manifest that is read while a line is being written seems damaged; then it is read again, so often.
AGAIN = 5
#: How the folder is called where what doesn't fit into memory stands while it is judged.
FOLDER = "stormproof-follow-"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known of a run that goes on: ``laws`` from the ``recorded`` rows, which are complete up to ``until_s``
    after the load began. ``steps``: of the rows that show anomalies those that nodes have traced, by their numbers,
    which change as long as the run goes on: in which step of which node. ``damage``: a sentence for each part that
    isn't what was written; then nothing counts. ``seconds``: how long it took to read and to judge the rows."""

    laws: tuple[SoFar, ...]
    recorded: int
    until_s: float
    steps: Mapping[int, Mapping[str, Any]]
    damage: tuple[str, ...]
    seconds: float


def follow(run: Path) -> Iterator[State]:
    """Yield the state of a run after each time that it was judged; end when the run has ended, or its harness was
    killed.

    Raises :class:`BadInput` when the run is removed meanwhile, or records nothing.
    """
    judged, damage = -1, set[str]()
    while meta := _going_on(run):
        began = time.perf_counter()
        try:
            newest = (run / manifest.FILE).stat().st_size  # the harness records its polls all the time
            state = _judged(run, meta, damage) if newest != judged else None
        except (FileNotFoundError, Overtaken):
            _look_again(run)
            continue
        if state is not None:
            judged = newest
            yield state
        _wait(run, pause_s(time.perf_counter() - began))


def pause_s(took_s: float) -> float:
    """Return how long to wait after a judgement that took so long: what is recorded just after it was begun is reported
    after it, the pause, and the next judgement."""
    return max(LEAST_PAUSE_S, min(PAUSE_SHARE * took_s, WITHIN_S - 2 * took_s))


def conclude(
    run: Path,
    engine: Engine,
    session: Session | None = None,
    on_progress: OnProgress | None = None,
    *,
    no_loss_by_policy: bool = False,
) -> RunVerdict:
    """Return the verdict of a run that has ended and whose harness may be judging it, too: nothing is written into the
    run. ``no_loss_by_policy`` as in :func:`chaos.judging.outcome.judge`. Raises as that does, and as
    :func:`chaos.judging.run.examine_run`."""
    with TemporaryDirectory(prefix=FOLDER) as folder:
        for _ in range(AGAIN):
            prepared = examine_run(run, Path(folder), session=session, on_progress=on_progress)
            if not prepared.damage:
                break
            time.sleep(LOOK_S)
        return judge([prepared], engine=engine, write=False, no_loss_by_policy=no_loss_by_policy)[0]


def is_at_work(run: Path) -> bool:
    """Return whether the process that recorded a run is still there, so that it may write its verdict."""
    pid = store.read_meta(run).pid
    if pid <= 0 or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _going_on(run: Path) -> RunMeta | None:
    try:
        meta = store.read_meta(run)
    except BadInput:
        raise _gone(run) from None
    if meta.state == UP and not guarded.is_there(run / STREAM):
        raise BadInput(f"{run} is a cluster for use by hand, which records nothing that could be followed")
    return meta if store.goes_on(meta) else None


def _look_again(run: Path) -> None:
    """Wait for a run that is being removed to be gone. One that lacks only its manifest can't be followed."""
    time.sleep(LOOK_S)
    if _going_on(run) and not (run / manifest.FILE).exists():
        raise BadInput(f"{run} has no {manifest.FILE}, so nothing vouches for what is recorded there")


def _gone(run: Path) -> BadInput:
    return BadInput(f"{run}: the run is gone; it was removed while it was followed")


def _judged(run: Path, meta: RunMeta, damage: set[str]) -> State | None:
    """Return what is known now; None before there is anything. ``damage`` was seen the last time, and is replaced by
    what is seen now: only what lasts is reported, since a line that is being written seems damaged too."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix=FOLDER) as folder, Made(Path(folder)) as held:
        prefix = read_prefix(run, wanted(able()), held)
        if prefix is None:
            return None
        lasting = tuple(one for one in prefix.damage if one in damage)
        damage.clear()
        damage.update(prefix.damage)
        context = RunContext(run=run.name, seed=meta.seed, meta=meta, damage=lasting)
        try:
            laws = judge_prefix(prefix, Path(folder), context)
        except OSError as error:
            raise MachineError(f"cannot write the rows in {folder}: {error.strerror or error}") from error
        rows = _rows_to_show(prefix, laws)
    return State(
        laws=laws,
        recorded=prefix.recorded,
        until_s=(prefix.until_ns - _load_began_ns(rows)) / 1e9,
        steps=_steps(rows, laws, prefix.of_stream),
        damage=lasting,
        seconds=time.perf_counter() - began,
    )


def _rows_to_show(prefix: Prefix, laws: Sequence[SoFar]) -> Shard:
    """Return the rows that show anomalies, those that say when the load began, and the first one."""
    shown = pa.array(sorted({number for law in laws for one in law.violations for number in one.rows}), pa.int64())
    phases = Chosen(str(Kind.HARNESS), ("phase",))
    found: list[pa.Table] = []
    for block in prefix.blocks():
        wanted = Chooser(block).any_of([phases]) | pc.is_in(block["index"], shown).to_numpy()
        wanted[:1] |= not found
        found.append(block.filter(pa.array(wanted)))
    return Shard(pa.concat_tables([SCHEMA.empty_table(), *found]).unify_dictionaries())


def _steps(rows: Shard, laws: Sequence[SoFar], of_stream: int) -> dict[int, dict[str, Any]]:
    """Return the rows of anomalies from ``of_stream`` on, as :class:`State` has them."""
    shown = {number for law in laws for anomaly in law.violations for number in anomaly.rows if number >= of_stream}
    found: dict[int, dict[str, Any]] = {}
    for number in sorted(shown):
        at = int(rows.column("index").searchsorted(number))
        step = {name: int(rows.column(name)[at]) for name in ("incarnation", "step")}
        found[number] = {"node": rows.text("node", at), **step, "f": rows.text("f", at)}
    return found


def _load_began_ns(rows: Shard) -> int:
    """Where the clock of all that people read begins: with the load, or with the run as long as there is none."""
    times = rows.column("time_ns")
    for at in rows.where(kind="harness", f="phase").tolist():
        if rows.value(at).get("phase") == "load":
            return int(times[at])
    return int(times[0]) if len(rows) else 0


def _wait(run: Path, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0 and _going_on(run):
        time.sleep(min(LOOK_S, left))
