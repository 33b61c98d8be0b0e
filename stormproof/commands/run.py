"""``stormproof run``: one run, or many seeds of one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

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
        if int(match[2]) >= 2**63:
            self.fail(f"seeds are below 2**63, got {value!r}", param, ctx)
        return range(int(match[1]), int(match[2]) + 1)


@click.command()
@click.argument("file", type=ExperimentFile())
@click.option(
    "--on",
    "deployment",
    metavar="NAME",
    help="Deployment (see `stormproof list deployments`).  [default: process, or what FILE says in `replay`]",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of this run.  [default: 0, or what FILE says]")
@click.option("--seeds", type=SeedRange(), help="Many seeds, A and B included, on all cores; only with --on sim.")
@click.option(
    "--mutant",
    metavar="NAME",
    help="Plant this bug (see `stormproof list mutants`).  [default: none, or what FILE says]",
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
def run(
    file: Path,
    deployment: str | None,
    seed: int | None,
    seeds: range | None,
    mutant: str | None,
    inventory: Path | None,
    engine: str,
    master: str,
    conf: tuple[str, ...],
    out: Path,
    verbose: bool,
    as_json: bool,
    store: str,
    time_budget: float | None,
    stop_on_first: bool,
    must_reach: bool,
    no_loss_by_policy: bool,
    keep: str,
) -> None:
    """Run the experiment in FILE, or the one that is called so (`stormproof list experiments`), and judge what was
    recorded.

    With --master or --conf, Spark is waited for before the run begins, so that a mistake in them costs no run.

    With --segments-to, the folder of the run holds little but what is new. Your later commands on this machine find the
    rest; elsewhere STORMPROOF_SEGMENTS must name the URI.

    Exit codes: 0 VALID, 1 INVALID, 2 UNKNOWN, 3 harness error or bad input, 4 did not recover, 5 (with
    --must-reach) a goal that no run reached. Of many runs the worst counts, in the order 1, 4, 3, 5, 2, 0. The last
    line of a failed run is the replay command.
    """
    from chaos.experiment.reader import load, replay_of
    from stormproof.launch import SIM, Launch

    said = replay_of(file)
    deployment = said.on if deployment is None else deployment
    mutant = said.bug if mutant is None else mutant
    if seed is not None and seeds is not None:
        raise BadInput("--seed and --seeds exclude each other")
    if seeds is None and (time_budget is not None or stop_on_first):
        raise BadInput("--time-budget and --stop-on-first need --seeds")
    if seeds is not None and deployment != SIM:
        raise BadInput(f"--seeds works with --on {SIM} only: runs on {deployment} would disturb one another")
    if seeds is not None and (master or conf):
        raise BadInput(
            "--master and --conf are for one run: each of --seeds is judged by the process that ran it;"
            " `stormproof sweep --master URL` runs many seeds on a master"
        )
    if store and deployment == SIM:
        raise BadInput(f"--segments-to is for runs that last: it does not work with --on {SIM}")
    _judging.refuse(engine, master, conf)
    if must_reach and stop_on_first:
        raise BadInput("--must-reach and --stop-on-first exclude each other: runs that were left out reach nothing")
    hosts = hosts_of(inventory, deployment)
    experiment = load(file, deployment=deployment, mutant=mutant)
    launch = Launch(
        experiment=experiment,
        file=file,
        deployment=deployment,
        seed=seeds[0] if seeds is not None else said.seed if seed is None else seed,
        mutant=mutant,
        out=out,
        inventory=hosts,
        inventory_file=inventory,
        no_loss_by_policy=no_loss_by_policy,
        store=_ready(store),
    )
    refuse_unjudgeable(launch)
    with spark(engine, master, conf) as session:
        if seeds is None:
            code = single(
                launch, engine, session, View.of(as_json=as_json, verbose=verbose), must_reach=must_reach
            ).code
        else:
            code = _many(
                launch,
                seeds,
                session,
                budget_s=time_budget or 0.0,
                stop_on_first=stop_on_first,
                keep_all=keep == "all",
                must_reach=must_reach,
                as_json=as_json,
            )
    click.get_current_context().exit(code)


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


def _many(
    launch: Launch,
    seeds: range,
    session: Session | None,
    *,
    budget_s: float,
    stop_on_first: bool,
    keep_all: bool,
    must_reach: bool,
    as_json: bool,
) -> int:
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
        keep_all=keep_all,
        beside=True,
        no_loss_by_policy=launch.no_loss_by_policy,
    )
    sweep = Sweep(directory, plan)
    whole = drive(sweep, session, stop_on=1 if stop_on_first else 0, budget_s=budget_s)
    rows = sorted(sweep.rows.values(), key=lambda row: row.seed)
    errors = sorted((seed, error) for (_, seed), error in sweep.errors.items())
    if as_json:
        objects = [dict(row.told) for row in rows] + [error_object(seed, error, None) for seed, error in errors]
        known = {one["seed"] for one in objects}
        objects += [not_run_object(seed) for seed in seeds if seed not in known]
        _console.print_json(sorted(objects, key=lambda one: int(one["seed"])))
    console = _console.err() if as_json else _console.out()
    _console.show_sweep(rows, errors, len(seeds), console)
    console.print(f"page: {escape(str(directory / PAGE))}")
    codes = {row.seed: row.code for row in rows} | {seed: ExitCode.ERROR for seed, _ in errors}
    code = worst_code(list(codes.values()))
    if code != ExitCode.VALID and codes:
        worst_seed = min(seed for seed, one in codes.items() if one == code)
        show_replay(replace(launch, seed=worst_seed).replay, err=as_json)
    missed = must_reach and not all(reached(rows).values())
    return worst_code([code, *([ExitCode.NOT_REACHED] if missed else []), *([] if whole else [ExitCode.ERROR])])
