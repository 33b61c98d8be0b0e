"""``stormproof sweep``: many seeds of some experiments in the simulator, and what they say together."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos.errors import BadInput, ChaosError
from stormproof.commands import _console
from stormproof.commands._campaign import drive
from stormproof.commands._options import ExperimentFile, json_option, no_loss_option, out_option
from stormproof.commands._single import refuse_unjudgeable
from stormproof.commands._sweep_table import CAUSES, show
from stormproof.commands.run import Duration, SeedRange
from stormproof.outcome import ExitCode, worst_code

if TYPE_CHECKING:
    from chaos.judging.spark import Session
    from reports.sweeps.table import Table as SweepTable
    from stormproof.sweeping.sweep import Sweep

#: What stands for leaving the examples as they are.
NONE = "none"


class Budget(Duration):
    """A duration, or :data:`NONE`; becomes seconds."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return 0.0 if value == NONE else super().convert(value, param, ctx)


@click.command()
@click.argument("files", nargs=-1, type=ExperimentFile(), metavar="FILE...")
@click.option("--seeds", type=SeedRange(), help="Seeds of each experiment, A and B included.")
@click.option(
    "--bug", "--mutant", "mutant", default=None, metavar="NAME", help="Plant this bug (see `stormproof list bugs`)."
)
@click.option(
    "--master",
    default="",
    metavar="URL",
    help="Run on Spark: local[N], local-cluster[WORKERS,CORES,MIB], or spark://HOST:PORT; else on all cores, without.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--stop-on", type=click.IntRange(1), default=None, help="Begin no run after so many that aren't VALID.")
@click.option("--time-budget", type=Duration(), default=None, help="Begin no run after this time.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Go on with the sweep in this directory; what was run is not run again.",
)
@click.option(
    "--shrink",
    type=Budget(),
    default="30s",
    show_default=True,
    help=f"Shrink one example of each cause, each for so long at most; {NONE} leaves them as they are.",
)
@no_loss_option
@out_option
@json_option
def sweep(
    files: tuple[Path, ...],
    seeds: range | None,
    mutant: str | None,
    master: str,
    conf: tuple[str, ...],
    stop_on: int | None,
    time_budget: float | None,
    resume: Path | None,
    shrink: float,
    no_loss_by_policy: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run the experiments in FILE... with many seeds in the simulator, and show what the runs say together.

    Each seed is judged by the process that ran it. Histories of failures are kept, of VALID runs one row. A new
    directory in --out holds the rows, the failed runs, and a page, `index.html`. At the end one example of each
    cause of failures is made small. A sweep that was ended, however, goes on with --resume. Exit codes: as those of
    `run --seeds`.
    """
    found = _sweep(files, seeds, mutant, resume, out, no_loss_by_policy=no_loss_by_policy)
    with _session(master, conf) as session:
        whole = drive(found, session, stop_on=stop_on or 0, budget_s=time_budget or 0.0)
    table = found.table()
    shrunk = _shrunk(found, table, shrink) if shrink and whole else {}
    if as_json:
        _console.print_json(_object(found, table, shrunk))
    else:
        show(found, table, shrunk)
    codes = [row.code for row in table.rows] + [ExitCode.ERROR] * bool(found.errors or not whole)
    click.get_current_context().exit(worst_code(codes))


def _sweep(
    files: tuple[Path, ...],
    seeds: range | None,
    mutant: str | None,
    resume: Path | None,
    out: Path,
    *,
    no_loss_by_policy: bool,
) -> Sweep:
    from chaos.experiment.reader import load
    from stormproof.launch import SIM, Launch
    from stormproof.sweeping import plan
    from stormproof.sweeping.sweep import Sweep

    if resume is None and not files:
        raise BadInput("give the FILE of an experiment, or --resume DIR")
    if resume is None and seeds is None:
        raise BadInput("say which seeds to run: --seeds A..B")
    bug = (plan.read(resume).mutant if resume is not None and mutant is None else mutant) or ""
    loaded = [(file, load(file, deployment=SIM, mutant=bug)) for file in files]
    given = [(file, experiment.name, experiment.source) for file, experiment in loaded]
    if resume is not None:
        return Sweep(resume, plan.resume(resume, given, seeds, mutant, no_loss_by_policy=no_loss_by_policy))
    for file, experiment in loaded:
        refuse_unjudgeable(Launch(experiment=experiment, file=file, deployment=SIM, seed=0, mutant=bug, out=out))
    assert seeds is not None
    return Sweep(*plan.create(out, given, seeds, mutant=bug, no_loss_by_policy=no_loss_by_policy))


def _session(master: str, conf: tuple[str, ...]) -> AbstractContextManager[Session | None]:
    """Return Spark, where a master is named. Raises :class:`BadInput` for one that is none."""
    if not master and conf:
        raise BadInput("--conf is for Spark: name its --master")
    if not master:
        return nullcontext()
    from chaos.judging import class_archive, masters
    from chaos.judging.spark import Session
    from stormproof.sweeping.plan import PACKAGES

    wanted, settings = masters.parse(master), masters.parse_conf(conf)
    class_archive.find_java()
    return Session(wanted, conf=settings, packages=PACKAGES)


def _shrunk(found: Sweep, table: SweepTable, within_s: float) -> dict[tuple[int, int], str]:
    """Make one example of each of the first causes small, and return them by file and seed; what an earlier call has
    made small stays. One that can't be made small is reported on stderr; Ctrl-C ends the search under way, and none
    begins after it."""
    from chaos.verdict import Validity

    failed = [one for one in table.causes[:CAUSES] if found.rows[one.example].verdict == Validity.INVALID]
    runs = {one.example: found.directory / found.rows[one.example].run for one in failed}
    small = {key: known for key, run in runs.items() if (known := _known(run))}
    if left := [one for one in failed if one.example not in small]:
        sentence = f"shrinking {len(left)} of the failures, for at most {within_s:g} s each (`--shrink {NONE}` doesn't)"
        _console.err().print(sentence, markup=False)
    for cause in left:
        if cause.example in small:  # it fails in several ways
            continue
        try:
            small[cause.example] = _shrunk_run(runs[cause.example], cause.signatures[0][0], within_s)
        except KeyboardInterrupt:
            break
        except ChaosError as error:
            _console.err().print(f"seed {found.rows[cause.example].seed} was not shrunk: {error}", markup=False)
    if left:
        found.finish()  # the page leads to them
    return small


def _known(run: Path) -> str:
    """Return the small experiment that an earlier call has made of a run; "" for none."""
    from reports.run_report.shrunk import SUMMARY
    from stormproof.shrinking.trial import FILE

    return next((str(file.parent / FILE) for file in sorted(run.parent.glob(f"{run.name}-shrunk*/{SUMMARY}"))), "")


def _shrunk_run(run: Path, law: str, within_s: float) -> str:
    """Return the small experiment of one run. Raises :class:`ChaosError` when it can't be made smaller, and
    ``KeyboardInterrupt`` after Ctrl-C, with the best until then in its place."""
    import tempfile

    from stormproof.shrinking import minimal
    from stormproof.shrinking.shrink import Stop, replayed
    from stormproof.shrinking.shrink import shrink as search

    with tempfile.TemporaryDirectory(prefix="stormproof-shrink-") as scratch:
        case = replayed(run, Path(scratch), law)
        place = minimal.make(run)
        best = search(
            case,
            Path(scratch),
            within_s=within_s,
            on_progress=lambda progress: None,
            on_better=lambda document, trial: minimal.write(place, case, document, trial),
        )
    summary = minimal.finish(place, case, best)
    if best.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return str(summary["minimal"])


def _object(found: Sweep, table: SweepTable, shrunk: dict[tuple[int, int], str]) -> dict[str, Any]:
    from reports.sweeps.table import as_object

    shown = as_object(table)
    for cause, one in zip(table.causes, shown["clusters"], strict=True):
        one["shrunk"] = shrunk.get(cause.example)
    errors = [{"file": file, "seed": seed, "error": error} for (file, seed), error in sorted(found.errors.items())]
    return {"directory": str(found.directory), **shown, "errors": errors}
