"""``stormproof check``: judge recorded runs again, without any cluster."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import ChaosError
from stormproof import archives
from stormproof.commands import _console, _judging, _progress
from stormproof.commands._options import json_option, out_option
from stormproof.outcome import Engine, exit_code, worst_code


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_judging.spark_options
@out_option
@json_option
def check(runs: tuple[str, ...], engine: str, master: str, conf: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Judge recorded runs again, in one job: directories, patterns of them ('runs/*'), names of runs in --out,
    `latest`, or ZIP archives.

    The runs in an archive (an artefact of a CI server) are put into --out. A run that was cut short is INVALID if a
    violation is proven, else UNKNOWN; one that is damaged is UNKNOWN, and the damaged file is named.
    """
    directories = [run for word in _judging.expand(runs) for run in archives.resolve(word, out)]
    from stormproof.judge import judge, prepare  # late: it loads pyarrow, and mistakes are told without

    with _judging.engine_for(directories, engine, master, conf) as (chosen, session):
        prepared = [prepare(run) for run in directories]
        with _progress.judging_progress() as follow:
            verdicts = judge(prepared, engine=Engine(chosen), session=session, on_progress=follow)
    for run in directories:
        _render(run)
    if as_json:
        objects = [_console.run_object(verdict) for verdict in verdicts]
        _console.print_json(objects[0] if len(objects) == 1 else objects)
    else:
        for verdict in verdicts:
            _console.show_run(verdict, _console.out())
    click.get_current_context().exit(worst_code([exit_code(verdict) for verdict in verdicts]))


def _render(run: Path) -> Path | None:
    """Write the report; None, with a note, when the history is too damaged to draw."""
    from reports import render

    try:
        return render(run)
    except ChaosError as error:
        _console.err().print(f"no report for {run}: {error}", markup=False)
        return None
