"""One try: simulate a document with a seed, judge it, and say how it failed and how large it is."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from chaos.errors import BadInput, ChaosError, MachineError
from chaos.experiment.reader import load
from chaos.history import directory as store
from chaos.history.history import History
from chaos.judging.evidence import PROBE
from chaos.judging.outcome import judge, violation
from chaos.judging.run import ExaminedRun, examine_run
from chaos.verdict import Engine
from reports.faults import fault_lines
from stormproof.launch import SIM, Launch, start
from stormproof.shrinking.signature import Signature, signatures

FILE = "minimal.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much there is of a run: ``operations`` that clients began, ``messages`` of them sends; ``faults`` that were
    injected; ``nodes`` at its start; the ``seconds`` of load."""

    operations: int
    messages: int
    faults: int
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one document. ``nodes``: those that there were at the start. ``hit``: those that faults of each
    name hit. ``error``: why it could not be tried, and then nothing else is known. ``rate``: in how many of how many
    runs it failed in the wanted way, where no run comes again as it was. ``processor_s``: what it took of a processor,
    whatever else went on there."""

    failures: tuple[Signature, ...] = ()
    size: Size | None = None
    digest: str = ""
    nodes: tuple[str, ...] = ()
    hit: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: str = ""
    rate: tuple[int, int] = (1, 1)
    processor_s: float = field(default=0.0, compare=False)


def try_out(text: str, seed: int, mutant: str, scratch: Path, deployment: str = SIM) -> Trial:
    """Run the experiment of this text in ``scratch``, a directory that is made for it and removed again. Raises
    :class:`MachineError` when this machine lacks something; a document that is no experiment, or a run that fails for a
    reason of its own, is a trial without failures."""
    began = time.process_time()
    try:
        scratch.mkdir()
        file = scratch / FILE
        file.write_text(text, "utf-8")
        trial = _tried(file, seed, mutant, scratch / "runs", deployment)
        return replace(trial, processor_s=time.process_time() - began)
    except MachineError:
        raise
    except ChaosError as error:
        return Trial(error=str(error))
    except OSError as error:
        raise MachineError(f"cannot write in {scratch.parent}: {error.strerror or error}") from error
    except Exception as error:  # a bug that one document meets; the others must still be tried
        return Trial(error=f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tried(file: Path, seed: int, mutant: str, out: Path, deployment: str) -> Trial:
    experiment = load(file, deployment=deployment, mutant=mutant)
    launch = Launch(experiment=experiment, file=file, deployment=deployment, seed=seed, mutant=mutant, out=out)
    return examined(record(launch))


def record(launch: Launch) -> ExaminedRun:
    """Run to the end. A run that could not go on, but breaks a law by what was recorded until then, is a run. Raises
    :class:`ChaosError` for any other that could not, and ``KeyboardInterrupt`` after one that Ctrl-C has ended."""
    begun: list[Path] = []
    try:
        directory = start(launch, on_directory=begun.append)
        ended = store.read_meta(directory).ended
        if ended is not None and ended.interrupted:  # the run has healed everything, and has ended
            raise KeyboardInterrupt
        return examine_run(directory)
    except (MachineError, BadInput):
        raise
    except ChaosError:
        broken = violation(begun[0]) if begun else None
        if broken is None:
            raise
        return broken


def examined(run: ExaminedRun) -> Trial:
    """Judge a run, and measure it."""
    verdict = judge([run], engine=Engine.LOCAL)[0]
    history = History.open(run.directory)
    return Trial(
        failures=signatures(history, verdict),
        size=size(history),
        digest=verdict.digest,
        nodes=tuple(node.name for node in run.meta.nodes),
        hit=_hit(history),
    )


def size(history: History) -> Size:
    """Measure a run by its rows and its ``run.json``. What the harness asks by itself is no operation."""
    meta, begun = history.meta, history.rows("op")
    begun = begun.filter(pc.equal(begun["type"], "invoke"))
    begun = begun.filter(pc.invert(pc.starts_with(begun["process"].cast(pa.string()), PROBE)))
    return Size(
        operations=begun.num_rows,
        messages=begun.filter(pc.equal(begun["f"], "send")).num_rows,
        faults=len(fault_lines(history)),
        nodes=len(meta.nodes),
        seconds=float(meta.duration_s or 0.0),
    )


def _hit(history: History) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for fault in fault_lines(history):
        found.setdefault(fault.name, []).extend(filter(None, fault.targets.split(", ")))
    return {name: tuple(sorted(set(nodes))) for name, nodes in found.items()}
