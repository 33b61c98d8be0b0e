"""Does a recorded run again from its own directory: the saved experiment, its seed, its deployment and its mutant.

A run may come from elsewhere, so what it says gives no power: a simulated one is simulated again, but a user who wants
programs of it on real machines says which deployment that is, and names the hosts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from chaos import guarded
from chaos.errors import BadInput, ChaosError
from chaos.experiment.inventory import Inventory
from chaos.experiment.model import Experiment
from chaos.history import directory as store
from chaos.history import manifest
from chaos.history.run_meta import RunMeta
from stormproof.launch import SIM, SSH, Launch, versions

ATTACH = "attach"

#: Without these it is unknown what was run.
NEEDED = ("seed", "deployment", "name", "mutant", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run that can be done again: its directory, its ``run.json``, and one sentence for each program of another
    version than then."""

    directory: Path
    meta: RunMeta
    notes: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        return self.meta.deployment == SIM


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """What came of doing a run again. ``identical`` is None where that is unknown; ``row`` is the first row that
    differs, -1 for none; ``broken``: the simulator did not keep its word that one seed is one history."""

    sentence: str
    identical: bool | None = None
    row: int = -1
    broken: bool = False


def recorded(run: Path) -> Recorded:
    """Read what is needed to do a run again. Raises :class:`BadInput` when it isn't there, or isn't what was
    written."""
    meta = store.read_meta(run)
    if meta.trimmed:
        raise BadInput(f"{run}: only the verdict of this run was kept; do it again with `{meta.replay or '?'}`")
    if missing := [name for name in NEEDED if name not in meta.json]:
        raise BadInput(f"{run} can't be replayed: its {store.META} has no {missing[0]!r}")
    if not guarded.is_there(run / store.EXPERIMENT):
        raise BadInput(f"{run} can't be replayed: it has no {store.EXPERIMENT}")
    sealed = manifest.read(run)
    problems = [manifest.altered(run, sealed, store.META, newest=2), manifest.altered(run, sealed, store.EXPERIMENT)]
    if damage := [*sealed.damage, *filter(None, problems)]:
        raise BadInput(f"{run} can't be replayed: {'; '.join(damage)}")
    now = versions()
    notes = [
        f"recorded with {name} {then}, this is {now.get(name, 'missing')}"
        for name, then in meta.versions.items()
        if now.get(name) != then
    ]
    return Recorded(directory=run, meta=meta, notes=tuple(notes))


def launch(run: Recorded, *, deployment: str, out: Path, inventory: Inventory, inventory_file: Path | None) -> Launch:
    """Return what is to be run. Raises :class:`BadInput` when the saved experiment isn't one for that deployment, or
    for this version."""
    from chaos.experiment.reader import load

    meta = run.meta
    file = run.directory / store.EXPERIMENT
    experiment = named(run.directory, load(file, deployment=deployment, mutant=meta.mutant), meta)
    if deployment == SSH and experiment.hosts and not inventory:
        raise BadInput(
            f"{file} names hosts, and keys or passwords for them, which no recorded run may choose: name them with"
            " --inventory FILE, which may be a copy of that file"
        )
    return Launch(
        experiment=experiment,
        file=file,
        deployment=deployment,
        seed=meta.seed,
        mutant=meta.mutant,
        out=out,
        inventory=inventory,
        inventory_file=inventory_file,
        no_loss_by_policy=meta.no_loss_by_policy,
        replayed=run.directory,
        elsewhere=deployment != SIM or not run.simulated,
    )


def deployment_of(run: Recorded, asked: str) -> str:
    """Return where a run is done again: where the user has ``asked`` for, or else in the simulator. Raises
    :class:`BadInput` where that would be another place than the recorded run's, or a cluster of others."""
    then = run.meta.deployment
    if not asked and not run.simulated:
        raise BadInput(
            f"{run.directory} ran on {then}: its experiment would start programs there, and a run may come from"
            f" elsewhere. Say `--on {then}` if it may, or `--on {SIM}`"
        )
    if asked == ATTACH:
        raise BadInput(
            f"what a recorded run attached to may be anybody's: look at {run.directory / store.EXPERIMENT}, and run"
            f" that file, with `stormproof run FILE --on {ATTACH} --seed {run.meta.seed}`"
        )
    return asked or SIM


def named(run: Path, experiment: Experiment, meta: RunMeta) -> Experiment:
    """Return an experiment of a run, under the name that it had: without one of its own it has that of its file, which
    was another one. Raises :class:`BadInput` for a name that would lead elsewhere, for a directory is named after
    it."""
    name = meta.name or experiment.name
    if not store.is_run_name(name):
        raise BadInput(f"{run / store.META} names the experiment {name!r:.200}, which is not a name of a run")
    return dataclasses.replace(experiment, name=name)


def compared(run: Recorded, again: Path, deployment: str) -> Repetition:
    """Say whether the history of ``again``, a run of this launch, is that of the recorded one."""
    if not run.simulated or deployment != SIM:
        return Repetition(
            sentence="Histories were not compared: only a simulated run repeats its history; elsewhere the schedule of"
            " faults is the same, and the interleaving is not."
        )
    from chaos.history.history import History

    try:
        then, now = History.open(run.directory), History.open(again)
        row, whole = then.first_difference(now), _ended(now.meta)
    except (ChaosError, OSError) as error:
        return Repetition(sentence=f"The histories can't be compared: {error}")
    if row is None:
        return Repetition(sentence=f"The history is the same, byte for byte: {now.num_rows:,} rows.", identical=True)
    if row == then.num_rows and (then.damage or not _ended(run.meta)):
        why = "is damaged" if then.damage else "ended early"
        return Repetition(sentence=f"The recorded history {why}; its {row:,} rows are the same.", row=row)
    if row == now.num_rows and not whole:
        return Repetition(sentence=f"This run ended earlier; its {row:,} rows are the same.", row=row)
    return Repetition(
        sentence=f"The history is not the same: row {row} is the first that differs"
        f" (`stormproof diff {run.directory} {again}`).",
        identical=False,
        row=row,
        broken=not run.notes,
    )


def _ended(meta: RunMeta) -> bool:
    return meta.state == "finished" and meta.ended is not None and not meta.ended.interrupted
