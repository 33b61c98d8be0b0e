"""``stormproof run``: one run, or many seeds of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from chaos.draws import MOST_SEED
from chaos.errors import BadInput
from reports.sweeps import PAGE
from reports.sweeps.row import reached
from stormproof.commands import _console, _judging
from stormproof.commands._campaign import drive
from stormproof.commands._hosts import hosts_of, inventory_option
from stormproof.commands._options import (
    ExperimentFile,
    json_option,
    no_loss_option,
    out_option,
    state_option,
    verbose_option,
)
from stormproof.commands._single import refuse_unjudgeable, single, spark
from stormproof.commands._verdict import View, show_replay
from stormproof.outcome import ExitCode, error_object, not_run_object, worst_code

if TYPE_CHECKING:
    from chaos.judging.engine import Session
    from stormproof.launch import Launch


class Duration(click.ParamType):
    """``30s``, ``200ms``, ``1m30s``; becomes seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from chaos.experiment.durations import EXPECTED, parse_duration

        if isinstance(value, float):
            return value
        seconds = parse_duration(str(value))
        if seconds is None or seconds <= 0:
            self.fail(f"{EXPECTED}, got {value!r}", param, ctx)
        return seconds


class SeedRange(click.ParamType):
    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        match = re.fullmatch(r"(\d+)\.\.(\d+)", str(value))
        if isinstance(value, range):
            return value
        if not match or int(match[1]) > int(match[2]):
            self.fail(f"expected A..B with A <= B, both inclusive, got {value!r}", param, ctx)
        if int(match[2]) > MOST_SEED:
            self.fail(f"seeds are below 2**63, got {value!r}", param, ctx)
        return range(int(match[1]), int(match[2]) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says, by the names of its options."""

    file: Path
    deployment: str
    seed: int
    seeds: range | None
    mutant: str
    inventory: Path | None
    engine: str
    master: str
    conf: tuple[str, ...]
    out: Path
    verbose: bool
    as_json: bool
    store: str
    time_budget: float | None
    stop_on_first: bool
    must_reach: bool
    no_loss_by_policy: bool
    keep: str


@click.command()
@click.argument("file", type=ExperimentFile())
@click.option(
    "--on",
    "deployment",
    metavar="NAME",
    help="Deployment (see `stormproof list deployments`).  [default: process, or what FILE says in `replay`]",
)
@click.option("--seed", type=click.IntRange(0, MOST_SEED), help="Seed of this run.  [default: 0, or what FILE says]")
@click.option("--seeds", type=SeedRange(), help="Many seeds, A and B included, on all cores; only with --on sim.")
@click.option(
    "--bug",
    "--mutant",
    "mutant",
    metavar="NAME",
    help="Plant this bug (see `stormproof list bugs`).  [default: none, or what FILE says]",
)
@inventory_option
@_judging.spark_options
@out_option
@verbose_option
@json_option
@click.option(
    "--segments-to",
    "store",
    default="",
    metavar="URI",
    help="Put what is recorded under this URI while the run goes on (s3://BUCKET/PATH, file:///PATH).",
)
@click.option(
    "--time-budget", type=Duration(), default=None, help="With --seeds: start no further seed after this time."
)
@click.option("--stop-on-first", is_flag=True, help="With --seeds: stop at the first run that isn't VALID.")
@click.option("--must-reach", is_flag=True, help="Exit code 5 if no run reached one of the goals of `reach`.")
@no_loss_option
@state_option
@click.option(
    "--keep",
    type=click.Choice(["failed", "all"]),
    default="failed",
    show_default=True,
    help="With --seeds: of VALID runs keep only run.json and verdict.json (failed), or everything (all).",
)
def run(**words: Any) -> None:
    """Run the experiment in FILE, or the one that is called so (`stormproof list experiments`), and judge what was
    recorded.

    With --master or --conf, Spark is waited for before the run begins, so that a mistake in them costs no run.

    With --segments-to, the folder of the run holds little but what is new. Your later commands on this machine find the
    rest; elsewhere STORMPROOF_SEGMENTS must name the URI.

    Exit codes: 0 VALID, 1 INVALID, 2 UNKNOWN, 3 harness error or bad input, 4 did not recover, 5 (with
    --must-reach) a goal that no run reached. Of many runs the worst counts, in the order 1, 4, 3, 5, 2, 0. The last
    line of a failed run is the replay command.
    """
    asked = _asked(words)
    _refuse(asked)
    launch = _launch(asked)
    refuse_unjudgeable(launch)
    with spark(asked.engine, asked.master, asked.conf) as session:
        if asked.seeds is None:
            view = View.of(as_json=asked.as_json, verbose=asked.verbose)
            code = single(launch, asked.engine, session, view, must_reach=asked.must_reach).code
        else:
            code = _many(launch, asked.seeds, session, asked)
    click.get_current_context().exit(code)


def _asked(words: Mapping[str, Any]) -> Asked:
    """Return what is asked; what the command line leaves open is as the file says of the run that it repeats."""
    from chaos.experiment.reader import replay_of

    if words["seed"] is not None and words["seeds"] is not None:
        raise BadInput("--seed and --seeds exclude each other")
    said = replay_of(words["file"])
    own = {"deployment": said.on, "seed": said.seed, "mutant": said.bug}
    return Asked(**{**words, **{name: value for name, value in own.items() if words[name] is None}})


def _refuse(asked: Asked) -> None:
    """Raise :class:`BadInput` for options that don't go together."""
    from stormproof.launch import SIM

    many, simulated = asked.seeds is not None, asked.deployment == SIM
    if not many and (asked.time_budget is not None or asked.stop_on_first):
        raise BadInput("--time-budget and --stop-on-first need --seeds")
    if many and not simulated:
        raise BadInput(f"--seeds works with --on {SIM} only: runs on {asked.deployment} would disturb one another")
    if many and (asked.master or asked.conf):
        raise BadInput(
            "--master and --conf are for one run: each of --seeds is judged by the process that ran it;"
            " `stormproof sweep --master URL` runs many seeds on a master"
        )
    if asked.store and simulated:
        raise BadInput(f"--segments-to is for runs that last: it does not work with --on {SIM}")
    _judging.refuse(asked.engine, asked.master, asked.conf)
    if asked.must_reach and asked.stop_on_first:
        raise BadInput("--must-reach and --stop-on-first exclude each other: runs that were left out reach nothing")


def _launch(asked: Asked) -> Launch:
    """Return what is to be run; of many seeds, with the first."""
    from chaos.experiment.reader import load
    from stormproof.launch import Launch

    hosts = hosts_of(asked.inventory, asked.deployment)
    experiment = load(asked.file, deployment=asked.deployment, mutant=asked.mutant)
    return Launch(
        experiment=experiment,
        file=asked.file,
        deployment=asked.deployment,
        seed=asked.seed if asked.seeds is None else asked.seeds[0],
        mutant=asked.mutant,
        out=asked.out,
        inventory=hosts,
        inventory_file=asked.inventory,
        no_loss_by_policy=asked.no_loss_by_policy,
        store=_ready(asked.store),
    )


def _ready(store: str) -> str:
    """Return the URI of a store in which segments can be put and found again; "" for none. Raises
    :class:`chaos.errors.ChaosError` for one that refuses, before anything is run."""
    if store:
        from chaos.history.stored import checked
        from chaos.history.storing import try_out
        from stormproof.stores import remember

        store = checked(store)
        try_out(store)
        remember(store)
    return store


def _many(launch: Launch, seeds: range, session: Session | None, asked: Asked) -> int:
    """Run many seeds, each of which is judged where it runs, as a sweep whose runs are in the folder of all runs."""
    from stormproof.sweeping.plan import create
    from stormproof.sweeping.sweep import Sweep

    experiment = launch.experiment
    files = [(launch.file, experiment.name, experiment.source)]
    directory, plan = create(
        launch.out,
        files,
        seeds,
        mutant=launch.mutant,
        keep_all=asked.keep == "all",
        beside=True,
        no_loss_by_policy=launch.no_loss_by_policy,
    )
    sweep = Sweep(directory, plan)
    whole = drive(sweep, session, stop_on=int(asked.stop_on_first), budget_s=asked.time_budget or 0.0)
    rows = sorted(sweep.rows.values(), key=lambda row: row.seed)
    errors = sorted((seed, error) for (_, seed), error in sweep.errors.items())
    if asked.as_json:
        objects = [dict(row.told) for row in rows] + [error_object(seed, error, None) for seed, error in errors]
        known = {one["seed"] for one in objects}
        objects += [not_run_object(seed) for seed in seeds if seed not in known]
        _console.print_json(sorted(objects, key=lambda one: int(one["seed"])))
    console = _console.err() if asked.as_json else _console.out()
    _console.show_sweep(rows, errors, len(seeds), console)
    console.print(f"page: {escape(str(directory / PAGE))}")
    codes = {row.seed: row.code for row in rows} | {seed: ExitCode.ERROR for seed, _ in errors}
    code = worst_code(list(codes.values()))
    if code != ExitCode.VALID and codes:
        worst_seed = min(seed for seed, one in codes.items() if one == code)
        show_replay(replace(launch, seed=worst_seed).replay, err=asked.as_json)
    missed = asked.must_reach and not all(reached(rows).values())
    return worst_code([code, *([ExitCode.NOT_REACHED] if missed else []), *([] if whole else [ExitCode.ERROR])])
