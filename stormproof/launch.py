"""Starts one run: makes its directory, says in ``run.json`` what it is, and records what can be judged later."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import platform
import shlex
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from chaos import plugins
from chaos.deployment import CanReadFiles, Deployment
from chaos.draws import Draws
from chaos.driver import DeclaresExposure, DeclaresGaps, Driver, Evidence, ReportsVersion, evidence_of, promising
from chaos.errors import ChaosError, MachineError
from chaos.experiment.capabilities import can, deployment_class
from chaos.experiment.demands import demands_of, named
from chaos.experiment.inventory import Inventory, place
from chaos.experiment.model import Experiment, FaultSpec
from chaos.history import directory as store
from chaos.history.background_sealing import sealing_pieces
from chaos.history.format import FIELD, FORMAT
from chaos.history.manifest import Manifest
from chaos.history.recorder import Recorder
from chaos.history.run_meta import GAPS
from chaos.history.seal_traces import seal_traces
from chaos.machines.healing import marks, state
from chaos.plugins import PluginKind
from chaos.version import VERSION
from chaos.workload import uses_of
from reports.printable import argument
from stormproof.environment import machine, refuse_few_files
from stormproof.shipped import word_for

if TYPE_CHECKING:
    from chaos.run.runner import RunSummary

SIM = "sim"
SSH = "ssh"
#: Where the traceback stands when the harness itself has a bug.
ERROR = "error.txt"
#: Of the messages that the load is to send so large a share must be acknowledged in a run that may be VALID.
ENOUGH = 0.1
#: Simulated runs can be repeated, so their rows needn't reach the disk at once.
SIM_BATCH_ROWS = 8_192

OnProgress = Callable[[str, float], None]
#: Takes the kind of a row, its columns, and the clock of the run.
OnRow = Callable[[str, Mapping[str, Any], Callable[[], int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A simulated run goes its way up to a moment (``time_ns`` of its rows); then all is drawn as this seed has it."""

    moment_ns: int
    seed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run: an experiment that was checked for this deployment and mutant, one seed, and where to put it.
    ``inventory``: the hosts, in the place of the experiment's own, and the file that they came from.
    ``no_loss_by_policy``: the run is not to lose anything, whatever its profile permits. ``replayed``: the
    directory of the run that this one repeats, and whether that was ``elsewhere``, on another deployment. ``renewal``:
    of a simulated run only; no command repeats such a run. ``store``: the URI under which its segments are put while it
    goes on; "" for none."""

    experiment: Experiment
    file: Path
    deployment: str
    seed: int
    mutant: str
    out: Path
    inventory: Inventory = ()
    inventory_file: Path | None = None
    no_loss_by_policy: bool = False
    replayed: Path | None = None
    elsewhere: bool = False
    renewal: Renewal | None = None
    store: str = ""

    @property
    def hosts(self) -> Inventory:
        return self.inventory or self.experiment.hosts

    @property
    def replay(self) -> str:
        """The replay command."""
        inventory = ["--inventory", str(self.inventory_file)] if self.inventory_file is not None else []
        if self.replayed is not None:
            on = ["--on", self.deployment] if self.elsewhere else []
            return shlex.join(["stormproof", "replay", argument(self.replayed), *on, *inventory])
        words = [
            "stormproof",
            "run",
            argument(word_for(self.file)),
            "--on",
            self.deployment,
            "--seed",
            str(self.seed),
            *inventory,
        ]
        words += ["--no-loss-by-policy"] if self.no_loss_by_policy else []
        return shlex.join([*words, "--bug", self.mutant] if self.mutant else words)


def start(
    launch: Launch,
    on_progress: OnProgress | None = None,
    on_directory: Callable[[Path], None] | None = None,
    on_row: OnRow | None = None,
) -> Path:
    """Run to the end and return the run's directory; ``on_directory`` learns of it at the beginning, ``on_row`` of each
    row that the harness records (not of traces).

    After Ctrl-C everything is healed, and the directory is returned as after any other run. Raises
    :class:`chaos.errors.ChaosError` when the harness failed; what was recorded stays.
    """
    refuse_few_files(launch.deployment)
    launch = dataclasses.replace(launch, experiment=launch.experiment.drawn(launch.seed))
    driver = build(launch)
    directory = store.new_run(launch.out, launch.experiment.name, launch.seed)
    if on_directory is not None:
        on_directory(directory)
    _describe_in(directory, launch, driver)
    try:
        rows, summary = _recorded(launch, driver, directory, on_progress, on_row)
    except BaseException as error:
        _note_failure(directory, error)
        raise
    seal_traces(directory)
    store.update_meta(directory, state="finished", rows=rows, summary=dataclasses.asdict(summary))
    if outlives(launch.deployment):
        marks.end(directory)
    return directory


def _describe_in(directory: Path, launch: Launch, driver: Driver) -> None:
    """Write into a new directory what run is to be made there, and note in the state folder that it is."""
    try:
        (directory / store.EXPERIMENT).write_text(launch.experiment.source, "utf-8")
    except OSError as error:
        raise MachineError(f"cannot write in {directory}: {error.strerror or error}") from error
    _seal(directory, [store.EXPERIMENT])
    store.write_meta(directory, describe(launch, driver, directory))
    mark(launch, directory)


def _recorded(
    launch: Launch, driver: Driver, directory: Path, on_progress: OnProgress | None, on_row: OnRow | None
) -> tuple[int, RunSummary]:
    """Run and record; return how many rows there are, and what the runner says of the run."""
    from chaos.run.runner import run  # late: commands that only judge don't need it

    draws = Draws(launch.seed)
    deployment = deploy(launch, directory, draws)
    simulated = launch.deployment == SIM
    batches: dict[str, Any] = {"batch_rows": SIM_BATCH_ROWS, "batch_ns": None} if simulated else {}
    recording = closing(Recorder(directory, deployment.now_ns, **batches))
    with recording as recorder, nullcontext() if simulated else sealing_pieces(directory, launch.store):
        watched = recorder if on_row is None else _Watched(recorder, deployment.now_ns, on_row)
        summary = run(
            launch.experiment,
            deployment=deployment,
            driver=driver,
            directory=directory,
            seed=launch.seed,
            mutant=launch.mutant,
            recorder=cast(Any, watched),  # its parameters are narrower than **columns
            on_progress=on_progress,
            draws=draws,
        )
        recorder.flush()
    return len(recorder), summary


class _Watched:
    """A recorder whose rows somebody else looks at too."""

    def __init__(self, recorder: Recorder, now_ns: Callable[[], int], on_row: OnRow) -> None:
        self._recorder = recorder
        self._now_ns = now_ns
        self._on_row = on_row
        self.record_trace = recorder.record_trace

    def record(self, kind: str, **columns: Any) -> int:
        index = self._recorder.record(kind, **columns)
        self._on_row(kind, columns, self._now_ns)
        return index


def _seal(directory: Path, names: Sequence[str]) -> None:
    """Have the run's manifest vouch for these files, which nobody writes any more."""
    with Manifest(directory) as manifest:
        manifest.seal_files(names)


def build(launch: Launch) -> Driver:
    """Build the system under test. Raises :class:`chaos.errors.BadInput`, before anything is written, when its nodes
    can't be placed on the hosts, or found where they run; :class:`MachineError` when the machine can't serve."""
    unmarked(launch.deployment)
    driver = promising(launch.experiment.system.build(), launch.experiment.profile)
    if launch.deployment == SSH:
        place(driver.cluster(launch.mutant).nodes, launch.hosts)
    check = getattr(plugins.load(PluginKind.DEPLOYMENT, launch.deployment), "check", None)
    if check is not None:
        faults = launch.experiment.faults_on(launch.deployment, launch.seed)
        with named(faults):
            check(driver.cluster(launch.mutant).nodes, **_own(launch, check, demands=demands_of(faults)))
    return driver


def outlives(deployment: str) -> bool:
    """Return whether something on this deployment can outlive the harness that started or hurt it."""
    return hasattr(plugins.load(PluginKind.DEPLOYMENT, deployment), "heal")


def unmarked(deployment: str) -> str:
    """Return why runs on this deployment can have no mark in the user's state folder; "" if they can, or need none.
    Raises :class:`MachineError` where nothing but the mark would say what is left when the harness is killed."""
    if not outlives(deployment) or not (problem := state.problem()):
        return ""
    if getattr(plugins.load(PluginKind.DEPLOYMENT, deployment), "HEALS_BY_MARK", False):
        raise MachineError(f"--on {deployment} needs the state folder to undo what a killed run did: {problem}")
    return problem


def mark(launch: Launch, directory: Path) -> None:
    """Note, before anything is started, that this user has made this run here."""
    if outlives(launch.deployment) and not state.problem():
        marks.Mark.fresh(directory, launch.deployment).write()


def used(experiment: Experiment) -> list[str]:
    """Return what the workloads of an experiment use, as :class:`chaos.workload.Use` names it."""
    return sorted({one for use in experiment.workloads for one in uses_of(use.build())})


def deploy(launch: Launch, directory: Path, draws: Draws | None = None) -> Deployment:
    """Make the deployment. One on hosts learns which, from the inventory or else from the experiment; the simulator and
    one that attaches learn what the experiment says of them, and the simulator draws with the run's own generators."""
    create = plugins.load(PluginKind.DEPLOYMENT, launch.deployment).create
    own = _own(launch, create, draws=draws)
    made: Deployment = create(run_id=directory.name, directory=directory, seed=launch.seed, **own)
    if launch.renewal is not None:
        cast(Any, made).renew_at(launch.renewal.moment_ns, launch.renewal.seed)  # only the simulator can
    return made


def _own(launch: Launch, function: Callable[..., object], **more: object) -> dict[str, Any]:
    """Return what this function of a deployment wants to know of the experiment, by the names of its parameters."""
    known = {
        "inventory": launch.hosts,
        "jitter_ns": round(launch.experiment.simulation.jitter_s * 1e9),
        "drawn_links": launch.experiment.simulation.drawn_links,
        "attach": launch.experiment.attach,
        **more,
    }
    wanted = inspect.signature(function).parameters
    return {name: value for name, value in known.items() if name in wanted}


def _note_failure(directory: Path, error: BaseException) -> None:
    try:
        _seal(directory, store.line_files(directory))
        store.update_meta(directory, state="failed", error=f"{type(error).__name__}: {error}")
        if not isinstance(error, ChaosError):
            (directory / ERROR).write_text("".join(traceback.format_exception(error)), "utf-8")
    except (ChaosError, OSError):  # a full disk, or no directory any more: the first error is the one to report
        pass


def describe(launch: Launch, driver: Driver, directory: Path) -> dict[str, Any]:
    """Return ``run.json`` at the start of a run: all that is needed to judge it and to do it again."""
    experiment = launch.experiment
    nodes = driver.cluster(launch.mutant).nodes
    profile = driver.profile()
    faults = experiment.faults_on(launch.deployment, launch.seed)
    drawn = [fault for fault in faults if fault.swarm >= 0]
    return {
        FIELD: FORMAT,
        "run": directory.name,
        "directory": str(directory.resolve()),
        "name": experiment.name,
        "seed": launch.seed,
        "deployment": launch.deployment,
        "mutant": launch.mutant,
        "system": experiment.system.name,
        "state": store.RUNNING,
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "replay": launch.replay,
        "profile": {**dataclasses.asdict(profile), "strict": profile.strict},
        "profile_from": profile_from(experiment),
        "no_loss_by_policy": launch.no_loss_by_policy,
        "queues": [dataclasses.asdict(queue) for queue in driver.queues()],
        "nodes": [{"name": node.name, "role": node.role} for node in nodes],
        "brokers": [node.name for node in nodes if node.role == "broker"],
        "controllers": [node.name for node in nodes if node.role == "controller"],
        "workloads": [use.name for use in experiment.workloads],
        "uses": used(experiment),
        **_exposure(driver),
        **_offsets(driver, used(experiment)),
        "tells": sorted(evidence_on(launch.deployment, driver)),
        "decided_by": plugins.decided_by(experiment.system.name),
        "faults": sorted(_names(faults)),
        "drawn_faults": sorted(_names(drawn) - _names(one for one in faults if one not in drawn)),
        "skipped_faults": experiment.skipped_on(launch.deployment),
        "drawn": dict(experiment.values),
        "duration_s": experiment.duration_s,
        "jitter_s": experiment.simulation.jitter_s,
        "bounds": dataclasses.asdict(experiment.bounds),
        "laws": list(experiment.laws),
        "reach": list(dict.fromkeys(experiment.reach)),
        "min_acked": least_acked(experiment),
        "waive": [dataclasses.asdict(waiver) for waiver in experiment.waive],
        "versions": {**versions(), **_system_version(driver, experiment.system.name)},
        "machine": machine(),
    }


def evidence_on(deployment: str, driver: Driver) -> frozenset[Evidence]:
    """Return the evidence that there will be of a run of this system on this deployment."""
    return evidence_of(driver, has_files=can(deployment_class(deployment), CanReadFiles))


def _names(faults: Iterable[FaultSpec]) -> set[str]:
    return {step.name for fault in faults for step in fault.steps()}


def least_acked(experiment: Experiment) -> int:
    """Return how many messages must be acknowledged in a run that may be VALID: as many as the experiment says, or a
    tenth of those that its workloads are to send."""
    if experiment.min_acked is not None:
        return experiment.min_acked
    asked = sum(getattr(use.build(), "sends_per_s", 0.0) for use in experiment.workloads) * experiment.duration_s
    return math.ceil(ENOUGH * asked)


def _system_version(driver: Driver, system: str) -> dict[str, str]:
    return {system: driver.system_version()} if isinstance(driver, ReportsVersion) else {}


def _exposure(driver: Driver) -> dict[str, Any]:
    """Return what the driver declares of losses, as laws read it; nothing where it declares nothing."""
    if not isinstance(driver, DeclaresExposure):
        return {}
    exposure = driver.exposure()
    window = {} if exposure.loss_window_s is None else {"loss_window_s": exposure.loss_window_s}
    return window | ({"readers_see": "confirmed"} if exposure.readers_see_confirmed else {})


def _offsets(driver: Driver, uses: Collection[str]) -> dict[str, Any]:
    """Return that offsets may have gaps in a run with such workloads, if the driver declares it."""
    return {"offsets": GAPS} if isinstance(driver, DeclaresGaps) and driver.offsets_have_gaps(uses) else {}


def profile_from(experiment: Experiment) -> dict[str, Any]:
    """Return who says what the system promises: the driver, or the experiment, in which line of its file."""
    line = experiment.profile_line
    return {"by": "experiment", "line": line} if line else {"by": "driver"}


def versions() -> dict[str, str]:
    """Return the versions of what a run depends on, by name; without what isn't installed (Spark in the image of the
    harness)."""
    found = {"stormproof": VERSION, "python": platform.python_version()}
    for name in ("numpy", "pyarrow", "pyspark"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
