"""From run directories to verdicts: reads what was recorded, has the laws examine it, and writes ``verdict.json``."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos import guarded, plugins
from chaos.driver import Evidence
from chaos.errors import BadInput, ChaosError, DamagedHistory
from chaos.history import directory as store
from chaos.history import manifest, sharding, shards
from chaos.history.columns import Kind
from chaos.history.digests import digest_of
from chaos.history.manifest import Sealed
from chaos.history.rare import Rare
from chaos.history.recorder import read_rows, row_blocks
from chaos.history.run_meta import RUNNING, RunMeta
from chaos.history.shards import Part
from chaos.history.spool import Spool
from chaos.history.stream import STREAM
from chaos.judging.shard import are_accidents
from chaos.law import Needs, RunContext
from chaos.ops import OpType
from chaos.run import unanswered
from chaos.verdict import Permitted, RunVerdict, Validity, Verdict, worst
from reports.printable import replay_of
from stormproof.outcome import Engine as Engine

if TYPE_CHECKING:
    from chaos.judging.engine import Examined, OnProgress, RunInput, Session
    from chaos.judging.goals import Sighting

#: How the names of clients begin by which the harness asks whether there is service; they are no load.
PROBE = "probe."
#: What counts as a write of a workload that operates on objects.
CHANGES = ("write", "cas", "acquire", "create_topic")

#: Fields of ``run.json`` without which nobody knows what was promised, to whom, and what was to be survived.
NEEDED = ("seed", "profile", "queues", "nodes", "workloads", "faults", "bounds")


#: Where the shards of a run stand whose own shards are all that is left of it, and are parted otherwise.
REPLANNED = "shards.judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run whose shards are ready to be examined. ``why`` says what keeps it from being VALID before any law has
    looked; ``examined`` is what the laws found, if they have looked, and took ``seconds`` for; ``goals`` are those of
    the experiment; ``accidents`` tell what befell which nodes. It travels between processes."""

    directory: Path
    meta: RunMeta
    shards: tuple[Path, ...]
    digest: str
    damage: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    goals: tuple[Sighting, ...] = ()
    accidents: tuple[str, ...] = ()
    examined: Examined | None = None
    seconds: float = 0.0

    @property
    def context(self) -> RunContext:
        return RunContext(run=self.directory.name, seed=self.meta.seed, meta=self.meta, damage=self.damage)


def prepare(run: Path, apart: Path | None = None, *, at_once: bool = False) -> Prepared:
    """Read a run, make its shards, and note what its evidence lacks. ``apart``: an empty folder for the shards, where
    nothing may be written into the run because its harness is still at work there. ``at_once``: have the laws look at a
    small run now, in this process, which has its rows in memory.

    A damaged run is judged as far as it can be read, and is UNKNOWN whatever is found: it may come of the damage.
    Raises :class:`chaos.errors.BadInput` when this is no run, or holds what nobody should read.
    """
    sealed = manifest.read(run)
    meta = RunMeta()
    try:
        meta = store.read_meta(run)
        _refuse_trimmed(run, meta)
        damage = [*sealed.damage, *store.altered(run, sealed, ended=meta.state != RUNNING)]
        with Spool(run) as rows:
            told = _taken(run, sealed, rows, damage)
            ready = _prepared(run, meta, rows, told, damage, apart)
            return _looked_at(ready, rows) if at_once else ready
    except DamagedHistory as error:
        whole, goals = (*sealed.damage, str(error)), _looked(None, None, meta)
        return Prepared(directory=run, meta=meta, shards=(), digest="", damage=whole, why=whole, goals=goals)


def _taken(run: Path, sealed: Sealed, rows: Spool, damage: list[str]) -> pa.Table:
    """Read all rows of a run, a block at a time; returns those that tell whether it shows anything."""
    found: list[str] = []
    told = Rare(PROBE)
    try:
        for block in row_blocks(run, sealed, found):
            rows.add(block)
            told.add(block)
    except FileNotFoundError:
        rows.in_order = False  # its shards are all that is left
    if not rows.in_order:
        table, found = read_rows(run, sealed)
        rows.start_over(table)
        told = Rare(PROBE)
        told.add(table)
    damage += found
    return told.table()


def _prepared(run: Path, meta: RunMeta, rows: Spool, told: pa.Table, damage: list[str], apart: Path | None) -> Prepared:
    expected = meta.rows
    if expected is not None and expected > rows.num_rows:
        damage = [*damage, f"only {rows.num_rows} of {expected} recorded rows are left"]
    damage = [*damage, *_odd(told)]
    parts = _plan(rows, meta)
    made = _shards(run, rows, parts, sound=not damage) if apart is None else _shards_apart(rows, parts, apart)
    why = [*damage, *_lacking(told, meta), *_misunderstood(told)]
    return Prepared(
        directory=run,
        meta=meta,
        shards=tuple(made),
        digest=digest_of(rows),
        damage=tuple(damage),
        why=tuple(why),
        goals=_looked(rows, told, meta),
        accidents=_accidents(told),
    )


def _looked_at(run: Prepared, rows: Spool) -> Prepared:
    """A run whose rows are one shard, examined; any other one as it is."""
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
            f" do it again with `{replay_of(meta) or 'stormproof run'}`"
        )


def _looked(rows: Spool | None, told: pa.Table | None, meta: RunMeta) -> tuple[Sighting, ...]:
    """Which of the experiment's goals these rows show, and which faults that the seed drew from a swarm had an effect:
    among many some find no moment. Without rows nobody knows."""
    from chaos.judging.goals import Sighting, look

    wanted = meta.reach
    drawn = {name: f"effect of {name}" for name in meta.drawn_faults}
    if rows is None or told is None:
        return tuple(Sighting(goal=goal, why="the history can't be read") for goal in (*wanted, *drawn.values()))
    seen = look(rows.blocks(), wanted, RunContext(run="", seed=meta.seed, meta=meta)) if wanted else ()
    effective = _effective(told) if drawn else Counter()
    return (*seen, *(Sighting(goal=goal, times=effective[name]) for name, goal in drawn.items()))


def _shards(run: Path, rows: Spool, parts: Sequence[Part], *, sound: bool) -> list[Path]:
    """The rows as the laws want them. Where the shards are all that is left of the history they stay as they are."""
    if guarded.is_there(run / STREAM):
        return sharding.write(run, rows, parts, sealed=sound)
    found = shards.paths(run)
    if [path.stem for path in found] == [shards.WHOLE]:
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
    :func:`judge`. Raises :class:`BadInput` as that does."""
    from chaos.judging import engine as _engine

    if run.examined is not None:
        return run
    began = time.perf_counter()
    examined = _engine.examine(_input(run))
    return replace(run, examined=examined, seconds=time.perf_counter() - began)


def violation(directory: Path) -> Prepared | None:
    """A run that failed before its end, examined; None unless what it recorded until then breaks a law: the harness
    could not go on because of the system's own fault, which is no error of the harness."""
    try:
        run = examine(prepare(directory, at_once=True))
        (verdict,) = judge([run], engine=Engine.LOCAL)
    except (ChaosError, OSError):
        return None
    return run if verdict.validity is Validity.INVALID else None


def judge(
    runs: Sequence[Prepared],
    *,
    engine: Engine,
    session: Session | None = None,
    began: float | None = None,
    on_progress: OnProgress | None = None,
    write: bool = True,
    shards_at: str = "",
    no_loss_by_policy: bool = False,
) -> list[RunVerdict]:
    """Judge all runs in one job and ``write`` each one's ``verdict.json``; ``session`` is a Spark that starts already,
    ``on_progress`` is told how many of the shards are examined, ``shards_at`` is a URI below which they stand for as
    long as the job lasts. ``no_loss_by_policy``: what a profile permits is a violation, as it is in runs that were
    started so.

    Raises :class:`chaos.errors.MachineError` when Spark is asked for and there is no Java, and when the shards can't be
    put there; :class:`BadInput` for a URI that is none.
    """
    from chaos.judging import engine as _engine

    began = time.perf_counter() if began is None else began
    with _placed([_input(run) for run in runs], shards_at) as inputs:
        found = _engine.judge(inputs, engine=str(engine), session=session, on_progress=on_progress) if inputs else []
        unlucky = [number for number, run in enumerate(runs) if run.accidents]
        again = [_without_accidents(inputs[number]) for number in unlucky]
        as_if = _engine.judge(again, engine=str(engine), session=session) if again else []
    for number, laws in zip(unlucky, as_if, strict=True):
        found[number] = tuple(_undecided(runs[number].accidents, found[number], laws))
    seconds = (time.perf_counter() - began) / max(1, len(runs))
    verdicts = [
        _whole(run, laws, str(engine), run.seconds + seconds, no_loss_by_policy)
        for run, laws in zip(runs, found, strict=True)
    ]
    for run, verdict in zip(runs, verdicts, strict=True) if write else ():
        store.write_verdict(run.directory, verdict)
    return verdicts


@contextmanager
def _placed(inputs: Sequence[RunInput], uri: str) -> Iterator[list[RunInput]]:
    """These, with shards that stand below a URI, if there is one."""
    from chaos.judging.shared import shared

    if not uri:
        yield list(inputs)
        return
    with shared([[Path(shard) for shard in one.shards] for one in inputs], uri) as placed:
        yield [replace(one, shards=shards) for one, shards in zip(inputs, placed, strict=True)]


def _input(run: Prepared) -> RunInput:
    from chaos.judging import engine as _engine

    return _engine.RunInput(context=run.context, shards=run.shards, examined=run.examined)


def _accidents(table: pa.Table) -> tuple[str, ...]:
    """What befell which nodes by accident (:mod:`chaos.run.accidents`)."""
    began = table.filter(pc.and_(are_accidents(table), pc.equal(table["type"].cast(pa.string()), str(OpType.INVOKE))))
    details = (detail if isinstance(detail := value.get("detail"), dict) else {} for value in _values(began))
    return tuple(str(detail.get("what", "it is not recorded what befell whom")) for detail in details)


def _without_accidents(run: RunInput) -> RunInput:
    """The same run, to be judged as if it had had no accident."""
    context = replace(run.context, without_accidents=True)
    return replace(run, context=context, examined=None)


def _undecided(accidents: Sequence[str], laws: Sequence[Verdict], as_if: Sequence[Verdict]) -> Iterator[Verdict]:
    """The verdicts of a run with these accidents. Laws take an accident for the fault that it is, and hold nothing
    against the system that it explains. But nobody planned it, so what is kept only with that excuse is not proven to
    be kept: a law that would find a violation ``as_if`` there had been no accident is UNKNOWN; others stay as they
    are."""
    broken = {law.law: law for law in as_if if law.validity is Validity.INVALID}
    for law in laws:
        if law.validity is not Validity.VALID or law.law not in broken:
            yield law
            continue
        names = sorted({anomaly.name for anomaly in broken[law.law].anomalies if not anomaly.lawful})
        why = f"only an accident of the machine explains what would be {', '.join(names)}: {'; '.join(accidents)}"
        yield replace(law, validity=Validity.UNKNOWN, why=why)


def _whole(run: Prepared, laws: Sequence[Verdict], engine: str, seconds: float, no_loss_by_policy: bool) -> RunVerdict:
    permitted = _permitted(laws, run.meta)
    forbidden = no_loss_by_policy or run.meta.no_loss_by_policy
    if forbidden:
        laws = [_forbidden(law, sound=not run.damage) for law in laws]
    validity = worst(law.validity for law in laws)
    why = [*run.why, *_not_enough(run.meta, laws)]
    if why:
        validity = worst([validity, Validity.UNKNOWN])
    why += [f"{law.law}: {law.why}" for law in laws if law.validity is Validity.UNKNOWN]
    return RunVerdict(
        run=str(run.directory),
        seed=run.context.seed,
        validity=validity,
        laws=tuple(laws),
        digest=run.digest,
        engine=engine,
        seconds=seconds,
        skipped_faults=run.meta.skipped_faults,
        why=tuple(why),
        not_judged=tuple(_not_judged(laws)),
        reached={one.goal: one.times for one in run.goals},
        not_reached=tuple(f"{one.goal} ({one.why})" if one.why else one.goal for one in run.goals if not one.times),
        permitted=permitted,
        no_loss_by_policy=forbidden,
    )


def _permitted(laws: Sequence[Verdict], meta: RunMeta) -> tuple[Permitted, ...]:
    """What the profile permits, the most frequent first. Where a law knows no more than the profile, all that is weaker
    in that is the reason."""
    weak = ", ".join(meta.promises.weaknesses)
    numbers: Counter[tuple[str, str, str]] = Counter()
    for law in laws:
        for anomaly in law.anomalies:
            if anomaly.by_policy:
                policy = anomaly.policy or (f"`{weak}` allows" if weak else "its profile allows")
                numbers[law.law, anomaly.name, policy] += anomaly.count
    found = [
        Permitted(law=law, name=name, policy=policy, count=count) for (law, name, policy), count in numbers.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.count, one.law, one.name, one.policy)))


def _forbidden(law: Verdict, *, sound: bool) -> Verdict:
    """What a law says where nothing may be lost by policy. What was found in a damaged run may come of the damage."""
    if not any(anomaly.by_policy for anomaly in law.anomalies):
        return law
    anomalies = tuple(replace(one, lawful=False) if one.by_policy else one for one in law.anomalies)
    return replace(law, anomalies=anomalies, validity=Validity.INVALID if sound else law.validity)


def _not_enough(meta: RunMeta, laws: Sequence[Verdict]) -> list[str]:
    """Why what was judged is not enough for a VALID run: nobody looked at what clients did, or not at what the
    experiment demands."""
    from chaos.judging.registry import registry

    judged = {law.law for law in laws if law.validity is not Validity.NOT_APPLICABLE}
    why = [f"the experiment demands the law {law}, which was not judged" for law in meta.laws if law not in judged]
    of_clients = {law.promise.name for law in registry().kernels.values() if Evidence.OPERATIONS in law.needs.evidence}
    if not judged & of_clients:
        why.append("no law judged what clients did")
    return why


def _not_judged(laws: Sequence[Verdict]) -> Iterator[str]:
    """The laws, and parts of laws, that nobody judged: those with one reason together, so that it is told once."""
    for_reason: dict[str, list[str]] = {}
    for law in laws:
        if law.validity is Validity.NOT_APPLICABLE:
            for_reason.setdefault(law.why, []).append(law.law)
        for text in law.unjudged:
            part, _, reason = text.removesuffix(")").partition(" (")
            told = (reason, f"{law.law} ({part})") if reason else (text, f"part of {law.law}")
            for_reason.setdefault(told[0], []).append(told[1])
    yield from (f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in for_reason.items())


def unjudgeable(laws: Iterable[str], tells: Iterable[str], uses: Iterable[str]) -> list[str]:
    """Why which of the laws that an experiment demands can't be judged: with the evidence that its driver ``tells``, of
    what its workloads use (:class:`chaos.workload.Use`). Empty when all can. Raises :class:`BadInput` when our own
    laws can't be loaded."""
    from chaos.judging.registry import registry

    known, told, used = registry(), frozenset(tells), frozenset(uses)
    names = [promise.name for promise in known.promises]
    why = []
    for law in laws:
        if law in known.broken:
            why.append(f"the law {law!r} is broken: {known.broken[law]}")
        elif law not in names:
            why.append(f"there is no law {law!r}; {plugins.nearest(law, names)}")
        else:
            reasons = [_missing(known.kernels[number].needs, told, used) for number in known.of(law)]
            if all(reasons):
                why.append(f"the law {law!r} can't be judged: {'; '.join(dict.fromkeys(reasons))}")
    return why


def _missing(needs: Needs, tells: Set[str], uses: Set[str]) -> str:
    """Why a kernel has nothing to judge; "" when it has."""
    lacks = sorted(set(map(str, needs.evidence)) - tells)
    if lacks:
        return f"the driver does not tell {', '.join(lacks)}"
    if needs.uses and not uses & set(map(str, needs.uses)):
        return f"no workload uses {' or '.join(needs.uses)}"
    return ""


def _lacking(table: pa.Table, meta: RunMeta) -> list[str]:
    """Why this run can't be VALID, whatever the laws say of what it recorded: it is torn, or it shows nothing."""
    kind, f, type = (table[name].cast(pa.string()) for name in ("kind", "f", "type"))

    def rows(*masks: Any) -> pa.Table:
        mask = masks[0]
        for more in masks[1:]:
            mask = pc.and_(mask, more)
        return table.filter(mask)

    why = [f"run.json has no field {name!r}" for name in NEEDED if name not in meta.json]
    is_op, is_ok = pc.equal(kind, str(Kind.OP)), pc.equal(type, str(OpType.OK))
    ends = _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "end")))
    phases = [value.get("phase") for value in _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "phase")))]
    if not ends:
        why.append(f"the run did not come to its end: its last phase was {phases[-1] if phases else 'none'}")
    elif ends[-1].get("interrupted"):
        why.append("the run was interrupted")
    elif meta.state == RUNNING:
        why.append("the harness was ended before it had sealed all that the run left")
    elif meta.state == "failed":
        why.append(f"the harness failed: {meta.error or 'no reason is recorded'}")
    asked = pc.invert(pc.starts_with(table["process"].cast(pa.string()), PROBE))
    uses_queues = RunContext(run="", seed=-1, meta=meta).uses_queues
    writes = pa.array(["send"] if uses_queues else CHANGES)
    if not rows(is_op, is_ok, pc.is_in(f, writes), asked).num_rows:
        why.append("no write of a workload was acknowledged, so there was nothing to keep")
    if uses_queues and not rows(is_op, is_ok, pc.equal(f, "drain")).num_rows:
        why.append("no queue was drained, so what is missing can't be told from what was not read")
    for value in _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "crash"))):
        why.append(f"a node died of its own error: {value.get('what', 'it is not recorded which')}")
    for value in _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "killed"))):
        why.append(f"nobody knows whether a node killed itself: {value.get('what', 'it is not recorded which')}")
    why += unanswered.told(_values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, unanswered.F))))
    for value in _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "host_lost"))):
        why.append(str(value.get("what", "a host could not be reached")))
    for value in _values(rows(pc.equal(kind, str(Kind.HARNESS)), pc.equal(f, "overrun"))):
        why.append(f"the phase {value.get('phase', '?')} was cut off after {value.get('seconds', '?')} s")
    effective, drawn = _effective(table), set(meta.drawn_faults)
    idle = sorted(set(meta.faults) - set(effective) - drawn)
    why.extend(f"no {name} took effect, though the experiment asks for it" for name in idle)
    if drawn and not drawn & set(effective):
        why.append("no fault of the swarm took effect")
    return why


def _effective(table: pa.Table) -> Counter[str]:
    """How often each fault was injected and had an effect."""
    of_faults = pc.and_(
        pc.equal(table["kind"].cast(pa.string()), str(Kind.FAULT)),
        pc.equal(table["type"].cast(pa.string()), str(OpType.OK)),
    )
    injected = table.filter(of_faults)
    names = injected["f"].cast(pa.string()).to_pylist()
    return Counter(
        name
        for name, value in zip(names, _values(injected), strict=True)
        if value.get("phase") == "undo" and value.get("effective")
    )


def _misunderstood(table: pa.Table) -> list[str]:
    """Nodes that sent one another what the other could not understand: one of them has a bug. What anybody else sends
    is nobody's fault here."""
    is_trace = pc.equal(table["kind"].cast(pa.string()), str(Kind.TRACE))
    traced = table.filter(is_trace)
    nodes = {str(node) for node in pc.unique(traced["node"].cast(pa.string())).to_pylist()}
    refused = traced.filter(pc.equal(traced["f"].cast(pa.string()), "malformed"))
    told = zip(refused["node"].cast(pa.string()).to_pylist(), _values(refused), strict=True)
    pairs = {(value.get("source"), node): value.get("error") for node, value in told if value.get("source") in nodes}
    return [f"{source} sent {node} what it can't understand: {error}" for (source, node), error in pairs.items()]


def _values(table: pa.Table) -> list[dict[str, Any]]:
    """Of each row; what is no object counts as an empty one, and as damage (:func:`_odd`)."""
    return [_object(text) or {} for text in table["value"].to_pylist()]


def _object(text: str | None) -> dict[str, Any] | None:
    """None for what is no object."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _odd(told: pa.Table) -> list[str]:
    """A sentence, if any of the rows that say what became of a run says nothing that can be read."""
    odd = [row for row, text in zip(told["index"].to_pylist(), told["value"].to_pylist(), strict=True)
           if _object(text) is None]  # fmt: skip
    return [f"the value of {len(odd)} rows is no JSON object, first that of row {odd[0]}"] if odd else []
