"""``stormproof run``: one run, or many seeds of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import BadInput, MachineError
from chaos.verdict import RunVerdict, Validity
from stormproof.commands import _console, _progress
from stormproof.commands._hosts import hosts_of, inventory_option
from stormproof.commands._options import engine_option, json_option, out_option
from stormproof.commands._single import refuse_unjudgeable, report, say_replay, single, spark, unreached
from stormproof.outcome import Engine, ExitCode, exit_code, worst_code

if TYPE_CHECKING:
    from chaos.judging.engine import Session
    from stormproof.judge import Prepared
    from stormproof.launch import Launch
    from stormproof.sweep import Swept

#: With ``--stop-on-first`` runs are judged in groups of this many per worker.
GROUP = 4


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
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--on",
    "deployment",
    default="process",
    show_default=True,
    metavar="NAME",
    help="Deployment (see `stormproof list deployments`).",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of this run; 0 if neither --seed nor --seeds is given."
)
@click.option("--seeds", type=SeedRange(), help="Many seeds, A and B included, on all cores; only with --on sim.")
@click.option("--mutant", default="", metavar="NAME", help="Plant this bug (see `stormproof list mutants`).")
@inventory_option
@engine_option
@out_option
@json_option
@click.option(
    "--time-budget", type=Duration(), default=None, help="With --seeds: start no further seed after this time."
)
@click.option("--stop-on-first", is_flag=True, help="With --seeds: stop at the first run that isn't VALID.")
@click.option("--must-reach", is_flag=True, help="Exit code 5 if no run reached one of the goals of `reach`.")
@click.option(
    "--keep",
    type=click.Choice(["failed", "all"]),
    default="failed",
    show_default=True,
    help="With --seeds: of VALID runs keep only run.json and verdict.json (failed), or everything (all).",
)
def run(
    file: Path,
    deployment: str,
    seed: int | None,
    seeds: range | None,
    mutant: str,
    inventory: Path | None,
    engine: str,
    out: Path,
    as_json: bool,
    time_budget: float | None,
    stop_on_first: bool,
    must_reach: bool,
    keep: str,
) -> None:
    """Run the experiment in FILE and judge what was recorded.

    Exit codes: 0 VALID, 1 INVALID, 2 UNKNOWN, 3 harness error or bad input, 4 did not recover, 5 (with
    --must-reach) a goal that no run reached. Of many runs the worst counts, in the order 1, 4, 3, 5, 2, 0. The last
    line of a failed run is the replay command.
    """
    from chaos.experiment.reader import load
    from stormproof.launch import SIM, Launch

    if seed is not None and seeds is not None:
        raise BadInput("--seed and --seeds exclude each other")
    if seeds is None and (time_budget is not None or stop_on_first):
        raise BadInput("--time-budget and --stop-on-first need --seeds")
    if seeds is not None and deployment != SIM:
        raise BadInput(f"--seeds works with --on {SIM} only: runs on {deployment} would disturb one another")
    if must_reach and stop_on_first:
        raise BadInput("--must-reach and --stop-on-first exclude each other: runs that were left out reach nothing")
    hosts = hosts_of(inventory, deployment)
    experiment = load(file, deployment=deployment, mutant=mutant)
    launch = Launch(
        experiment=experiment,
        file=file,
        deployment=deployment,
        seed=seeds[0] if seeds is not None else seed or 0,
        mutant=mutant,
        out=out,
        inventory=hosts,
        inventory_file=inventory,
    )
    refuse_unjudgeable(launch)
    with ExitStack() as stack:
        session = stack.enter_context(spark()) if engine == Engine.SPARK else None
        if seeds is None:
            code = single(launch, Engine(engine), session, as_json, must_reach=must_reach)
        else:
            many = _Sweep(
                launch,
                Engine(engine),
                session,
                stop_on_first=stop_on_first,
                keep_all=keep == "all",
                must_reach=must_reach,
            )
            code = many.run(seeds, time_budget or 0.0, as_json)
    click.get_current_context().exit(code)


class _Sweep:
    """Runs many seeds, judges them together, and keeps what is worth keeping."""

    def __init__(
        self,
        launch: Launch,
        engine: Engine,
        session: Session | None,
        *,
        stop_on_first: bool,
        keep_all: bool,
        must_reach: bool,
    ) -> None:
        self._launch = launch
        self._engine = engine
        self._session = session
        self._stop_on_first = stop_on_first
        self._keep_all = keep_all
        self._must_reach = must_reach
        self._verdicts: list[RunVerdict] = []
        self._errors: list[Swept] = []

    def run(self, seeds: range, budget_s: float, as_json: bool) -> int:
        from stormproof.sweep import Swept, sweep, workers

        group = GROUP * workers() if self._stop_on_first else len(seeds)
        waiting: list[Prepared] = []
        try:
            with (
                closing(sweep(self._launch, seeds, budget_s=budget_s, examined=self._session is None)) as swept,
                _progress.sweep_progress(len(seeds)) as told,
            ):
                for one in swept:
                    if one.prepared is None:
                        self._errors.append(one)
                    else:
                        waiting.append(one.prepared)
                    told(len(self._verdicts) + len(self._errors) + len(waiting))
                    if len(waiting) >= group:
                        self._judge(waiting)
                        waiting = []
                    if self._stop_on_first and self._failed():
                        break
        except KeyboardInterrupt:
            _console.err().print("interrupted: the runs that have ended are judged")
        except MachineError as error:  # a worker died; what the others have brought stays
            self._errors += [Swept(seed=seed, prepared=None, error=str(error)) for seed in self._open(seeds, waiting)]
        self._judge(waiting)
        return self._tell(seeds, as_json)

    def _failed(self) -> bool:
        return bool(self._errors) or any(verdict.validity is not Validity.VALID for verdict in self._verdicts)

    def _judge(self, runs: list[Prepared]) -> None:
        from chaos.history.directory import trim
        from stormproof.judge import judge

        verdicts = judge(runs, engine=self._engine, session=self._session)
        self._verdicts += verdicts
        for verdict in verdicts:
            if verdict.validity is not Validity.VALID:
                report(verdict)
            elif not self._keep_all:
                trim(Path(verdict.run))

    def _open(self, seeds: range, waiting: Sequence[Prepared]) -> list[int]:
        """The seeds of which nothing is known."""
        known = {verdict.seed for verdict in self._verdicts} | {one.seed for one in self._errors}
        known |= {run.context.seed for run in waiting}
        return [seed for seed in seeds if seed not in known]

    def _tell(self, seeds: range, as_json: bool) -> int:
        verdicts = sorted(self._verdicts, key=lambda verdict: verdict.seed)
        errors = sorted(self._errors, key=lambda one: one.seed)
        if as_json:
            objects = [_console.run_object(verdict) for verdict in verdicts]
            objects += [_console.error_object(one.seed, one.error, one.directory) for one in errors]
            objects += [_console.not_run_object(seed) for seed in self._open(seeds, ())]
            _console.print_json(sorted(objects, key=lambda one: int(one["seed"])))
        told = [(one.seed, one.error) for one in errors]
        _console.show_sweep(verdicts, told, len(seeds), _console.err() if as_json else _console.out())
        codes = {verdict.seed: exit_code(verdict) for verdict in verdicts}
        codes.update((one.seed, ExitCode.ERROR) for one in errors)
        code = worst_code(list(codes.values()))
        if code != ExitCode.VALID and codes:
            worst_seed = min(seed for seed, one in codes.items() if one == code)
            say_replay(replace(self._launch, seed=worst_seed), as_json)
        return worst_code([code, *unreached(verdicts, self._must_reach)])
