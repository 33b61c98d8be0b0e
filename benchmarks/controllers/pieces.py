"""The measurements of the controllers' report, in pieces of a few minutes, each kept on disk as soon as it is done."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._common import machine, percentile
from benchmarks.controllers import correctness, failover
from benchmarks.controllers.bench import INFO, MIXED, PHASES, REGISTER, Bench, Phase
from benchmarks.controllers.cluster import KINDS, ROCKETMQ, Cluster, ReferenceCluster, RocketMqCluster, cluster
from benchmarks.controllers.failover import Failover
from reference.controller.dispatch import CLASSIC, PARALLEL

GROUPS = (10, 100, 1000, 10_000)
#: Where other things than the number of groups are compared.
USUAL = 100
LOGGED = "rocketmq, logged reads"
EXPLORATION = "exploration"
WARM_S, SLICE_S, SLICES = 2.5, 3.0, 2
PERCENTS = (50, 90, 99, 99.9)
#: Whose set-up makes the state that this kind begins with.
_STATE_OF = {CLASSIC: PARALLEL, PARALLEL: PARALLEL, ROCKETMQ: ROCKETMQ}

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One measurement; ``run`` gets the folder with all pieces' results and states. ``is_timed``: it needs a machine
    that does nothing else."""

    name: str
    run: Callable[[Path], Result]
    is_timed: bool = True


def pieces() -> list[Piece]:
    """All, those first that others build upon, and the largest last."""
    made = [_state(kind, groups) for groups in GROUPS[:3] for kind in (PARALLEL, ROCKETMQ)]
    made += [_load(USUAL), _profile(REGISTER), _profile(INFO)]
    made += [_failover(kind) for kind in KINDS]
    made += [_readers(), _logged_reads(), _load(1000), _load(10)]
    made += [_state(kind, GROUPS[-1]) for kind in (PARALLEL, ROCKETMQ)]
    explored = Piece(name=EXPLORATION, run=lambda folder: correctness.explore(), is_timed=False)
    return [*made, _load(GROUPS[-1]), explored, *map(_seeds, correctness.examples())]


def run(piece: Piece, folder: Path) -> Result:
    """Measure one piece and keep its result. Raises ``RuntimeError`` if a controller ends, ``OSError`` and
    ``TimeoutError`` if one does not answer."""
    begin_s = time.time()
    result = {"piece": piece.name, "machine": machine(), **piece.run(folder)}
    result["took_s"] = round(time.time() - begin_s)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{piece.name}.json"
    path.with_suffix(".new").write_text(json.dumps(result, indent=1), "utf-8")
    path.with_suffix(".new").replace(path)
    return result


def _timed(name: str, measure: Callable[[Path], Awaitable[Result]], *, is_timed: bool = True) -> Piece:
    async def awaited(folder: Path) -> Result:
        return await measure(folder)

    return Piece(name=name, run=lambda folder: asyncio.run(awaited(folder)), is_timed=is_timed)


def kept(name: str, folder: Path) -> Result | None:
    """Return a piece's result, if it has been measured."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


# Each kind of piece


def _state(kind: str, groups: int) -> Piece:
    """Register the groups once; other pieces begin with what stands on the disks then."""

    async def measure(folder: Path) -> Result:
        place = folder / "states" / f"{kind}-{groups}"
        shutil.rmtree(place, ignore_errors=True)
        bench = Bench(cluster(kind, place), groups)
        begin_s = time.perf_counter()
        try:
            await bench.begin()
            await asyncio.sleep(1)
        finally:
            bench.end()
        return {
            "kind": kind,
            "groups": groups,
            "bytes_per_group": bench.group_bytes,
            "s": time.perf_counter() - begin_s,
        }

    return _timed(f"state-{kind}-{groups}", measure, is_timed=False)


def _load(groups: int) -> Piece:
    """All kinds, all phases, slice by slice in turns."""

    async def measure(folder: Path) -> Result:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            clusters = [cluster(kind, Path(place) / kind) for kind in KINDS]
            benches = await _measure(clusters, groups, PHASES, folder)
        return {"groups": groups, "kinds": {kind: _phases(bench) for kind, bench in zip(KINDS, benches, strict=True)}}

    return _timed(f"load-{groups}", measure)


def _logged_reads() -> Piece:
    """RocketMQ with reads that are entries of the log, as linearizable as ours."""

    async def measure(folder: Path) -> Result:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            clusters = [RocketMqCluster(Path(place), logged_reads=True)]
            (bench,) = await _measure(clusters, USUAL, (INFO, MIXED), folder)
        return {"groups": USUAL, "kinds": {LOGGED: _phases(bench)}}

    return _timed("logged-reads", measure)


def _readers() -> Piece:
    """Return the piece with reads from one, two and three controllers: what each controller has to do for one read."""

    async def measure(folder: Path) -> Result:
        found: dict[str, Result] = {}
        with tempfile.TemporaryDirectory(dir=folder) as place:
            bench = Bench(cluster(PARALLEL, Path(place)), USUAL)
            try:
                await bench.begin(_kept_state(PARALLEL, USUAL, folder))
                names = [bench.leader, *(name for name in bench.links if name != bench.leader)]
                for counts in (False, True, True):
                    for number in (1, 2, 3):
                        links = [bench.links[name] for name in names[:number]]
                        bench.phases[INFO] = bench.phases.pop(str(number), Phase())
                        readers = [link for together in zip(*links, strict=True) for link in together]
                        await bench.run(INFO, SLICE_S, counts=counts, readers=readers)
                        bench.phases[str(number)] = bench.phases.pop(INFO)
                for number in (1, 2, 3):
                    phase = bench.phases[str(number)]
                    by_node = [phase.processor_s.get(name, 0.0) for name in names]
                    found[str(number)] = {**_phase(phase), "processor_s": by_node}
            finally:
                bench.end()
        return {"groups": USUAL, "readers": found}

    return _timed("readers", measure)


def _profile(phase: str) -> Piece:
    """Where the leader's processor time goes."""

    async def measure(folder: Path) -> Result:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            sampled = ReferenceCluster(PARALLEL, Path(place), sampled=True)
            bench = Bench(sampled, USUAL)
            try:
                await bench.begin(_kept_state(PARALLEL, USUAL, folder))
                await bench.run(phase, SLICE_S, counts=False)
                for process in sampled.processes.values():
                    process.send_signal(signal.SIGUSR1)
                await bench.run(phase, 2 * SLICE_S)
                counts = json.loads(await sampled.samples(bench.leader))
            finally:
                bench.end()
        return {"groups": USUAL, "phase": phase, "samples": counts, **_phase(bench.phases[phase])}

    return _timed(f"profile-{phase}", measure)


def _failover(kind: str) -> Piece:
    async def measure(folder: Path) -> Result:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = cluster(kind, Path(place), broker_timeout_ms=failover.BROKER_TIMEOUT_MS)
            bench = Bench(made, failover.GROUPS)
            try:
                await bench.begin(_kept_state(kind, failover.GROUPS, folder))
                trials = await Failover(bench).run()
            finally:
                bench.end()
        rows = [{"how": one.how, "count": one.count, "seconds": one.seconds} for one in trials]
        return {"kind": kind, "groups": failover.GROUPS, "trials": rows}

    return _timed(f"failover-{kind}", measure)


def _seeds(example: str) -> Piece:
    return Piece(name=f"seeds-{example}", run=lambda folder: correctness.judge_seeds(example), is_timed=False)


# What they share


async def _measure(clusters: Sequence[Cluster], groups: int, phases: tuple[str, ...], folder: Path) -> list[Bench]:
    """Load the clusters in turns, each while the others rest."""
    benches = [Bench(one, groups) for one in clusters]
    async with AsyncExitStack() as stack:
        for bench in benches:
            stack.callback(bench.end)
            await bench.begin(_kept_state(bench.cluster.kind, groups, folder))
            bench.cluster.rest()
        for turn in range(1 + SLICES):
            for name in phases:
                for bench in benches:
                    await bench.wake()
                    await bench.run(name, SLICE_S if turn else WARM_S, counts=turn > 0)
                    bench.cluster.rest()
    return benches


def _kept_state(kind: str, groups: int, folder: Path) -> Path:
    """Return the folder with the state that registering the groups has left. Raises ``FileNotFoundError`` if they have
    not been registered yet."""
    state = folder / "states" / f"{_STATE_OF[kind]}-{groups}"
    if not (folder / f"state-{_STATE_OF[kind]}-{groups}.json").exists():
        raise FileNotFoundError(f"measure state-{_STATE_OF[kind]}-{groups} first")
    return state


def _phases(bench: Bench) -> Mapping[str, Result]:
    return {name: _phase(phase) for name, phase in bench.phases.items()}


def _phase(phase: Phase) -> Result:
    """Return the figures of a phase. Raises ``RuntimeError`` if nothing was answered."""
    latencies_ms = [1000 * latency for latency in phase.tally.latencies_s]
    if not latencies_ms:
        raise RuntimeError(f"no request was answered as it should be, but with {phase.tally.refused or 'nothing'}")
    return {
        "count": len(latencies_ms),
        "per_s": phase.per_s,
        "ms": {str(percent): percentile(latencies_ms, percent) for percent in PERCENTS},
        "max_ms": max(latencies_ms),
        "processor_us": phase.processor_us,
        "cores": sum(phase.processor_s.values()) / phase.load_s,
        "busiest_cores": max(phase.processor_s.values()) / phase.load_s,
        "generator_cores": phase.generator_s / phase.load_s,
        "refused": {str(code): times for code, times in phase.tally.refused.items()},
    }
