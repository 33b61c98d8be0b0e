"""``stormproof check``: judge recorded runs again, without any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import BadInput, ChaosError
from chaos.history import opening
from chaos.history.manifest import check_appendable
from chaos.verdict import Engine
from stormproof.commands import _console, _judging, _progress
from stormproof.commands._options import json_option, no_loss_option, out_option, verbose_option
from stormproof.commands._verdict import Outcome, View, outcome, run_object, show_replay, show_run
from stormproof.outcome import ExitCode, exit_code, worst_code

if TYPE_CHECKING:
    from chaos.judging.run import ExaminedRun


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_judging.spark_options
@click.option(
    "--follow",
    is_flag=True,
    help="Judge one run while it goes on: report violations as they are found, and the verdict at the end.",
)
@click.option(
    "--copies",
    default="",
    metavar="URI",
    help="Put copies of what a large run is judged from here (s3://BUCKET/PATH?…) for as long as its jobs last, for"
    " executors that share no folder with this machine.",
)
@no_loss_option
@out_option
@verbose_option
@json_option
def check(
    runs: tuple[str, ...],
    engine: str,
    master: str,
    conf: tuple[str, ...],
    follow: bool,
    copies: str,
    no_loss_by_policy: bool,
    out: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Judge recorded runs again, in one job: directories, patterns of them ('runs/*'), names of runs in --out,
    `latest`, ZIP archives, or URIs (s3://BUCKET/RUN?endpoint_override=HOST:PORT).

    Runs in an archive (an artefact of a CI server) or under a URI are put into --out. A run that was cut short is
    INVALID if a violation is proven, else UNKNOWN; one that is damaged is UNKNOWN, and the damaged file is named. A run
    that was started with --no-loss-by-policy is judged so again.

    With --follow, what is reported before the end of the run stays a violation whatever comes later; no promise counts
    as kept before. With --json too, one JSON object a line. Ctrl-C ends the command, not the run: exit code 1 if a
    violation was reported, else 2.
    """
    words = _judging.expand(runs)
    if follow and any(_judging.is_uri(word) or Path(word).is_file() for word in words):
        raise BadInput("--follow needs the directory of the run itself: a copy of it does not grow")
    if copies and (follow or not master):
        raise BadInput("--copies is for a --master whose executors are on other machines, and not for --follow")
    directories = [run for word in words for run in _resolved(word, out)]
    view = View.of(as_json=as_json, verbose=verbose)
    if follow:
        click.get_current_context().exit(
            _follow(directories, engine, master, conf, view, no_loss_by_policy=no_loss_by_policy)
        )
    outcomes = _judged(directories, engine, master, conf, copies, no_loss_by_policy=no_loss_by_policy)
    if as_json:
        objects = [run_object(one) for one in outcomes]
        _console.print_json(objects[0] if len(objects) == 1 else objects)
    else:
        for shown in outcomes:
            _show(shown, view)
    click.get_current_context().exit(worst_code([exit_code(one.verdict) for one in outcomes]))


def _judged(
    directories: list[Path], engine: str, master: str, conf: tuple[str, ...], copies: str, *, no_loss_by_policy: bool
) -> list[Outcome]:
    """Judge the runs in these directories, and write their reports."""
    from chaos.judging.outcome import judge
    from chaos.judging.run import examine_runs  # late: it loads pyarrow, and mistakes are reported without
    from reports import page_summary

    for run in directories:
        check_appendable(run)  # the verdict is sealed there, which may be an hour later
    with _judging.engine_for(directories, engine, master, conf) as (chosen, session):
        what = "shards judged" if len(directories) == 1 else "runs judged"
        with _progress.judging_progress(what) as progress:
            found = examine_runs(
                directories, session=session, on_progress=progress, copies_at=copies, summary=page_summary
            )
        verdicts = judge(found, engine=Engine(chosen), no_loss_by_policy=no_loss_by_policy)
    outcomes = []
    for one, verdict in zip(found, verdicts, strict=True):
        _render(one)
        outcomes.append(outcome(verdict, one.summarised))
    return outcomes


def _resolved(word: str, out: Path) -> list[Path]:
    if _judging.is_uri(word):
        _console.err().print(f"copying a run into {out}", markup=False)
    return opening.resolve(word, out)


def _follow(
    directories: list[Path],
    engine: str,
    master: str,
    conf: tuple[str, ...],
    view: View,
    *,
    no_loss_by_policy: bool,
) -> int:
    """Follow one run to its end, and judge it then; returns the exit code. Where the harness may be judging it too,
    nothing is written into the run."""
    if len(directories) != 1:
        raise BadInput(f"--follow is for one run, not for {len(directories)}")
    run = directories[0]
    _judging.refuse(engine, master, conf)
    from chaos.judging.following import conclude, is_at_work
    from chaos.judging.outcome import judge
    from chaos.judging.run import examine_runs
    from reports import page_summary
    from stormproof.commands._following import Followed, conclusion

    interrupted = Followed(run, as_json=view is View.JSON).to_its_end()
    if interrupted is not None:
        return interrupted
    apart, found = is_at_work(run), []
    with _judging.engine_for(directories, engine, master, conf) as (chosen, session):
        if apart:
            verdict = conclude(run, Engine(chosen), session, no_loss_by_policy=no_loss_by_policy)
        else:
            found = examine_runs([run], session=session, summary=page_summary)
            verdict = judge(found, engine=Engine(chosen), no_loss_by_policy=no_loss_by_policy)[0]
    for one in found:
        _render(one)
    ended = outcome(verdict, found[0].summarised if found else None)
    if view is View.JSON:
        conclusion(run_object(ended))
    else:
        _show(ended, view)
    return exit_code(verdict)


def _show(found: Outcome, view: View) -> None:
    """Show a run as the command that made it would have."""
    show_run(found, _console.out(), view)
    if exit_code(found.verdict) != ExitCode.VALID and found.meta.replay_command:
        show_replay(found.meta.replay_command)


def _render(run: ExaminedRun) -> Path | None:
    """Write the report; None, with a note, when the history is too damaged to draw."""
    from reports import render

    try:
        return render(run.directory, run.summarised)
    except ChaosError as error:
        _console.err().print(f"no report for {run.directory}: {error}", markup=False)
        return None
