"""``stormproof replay``: a recorded run once more, from its own directory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from chaos.history import directory, opening
from stormproof.commands import _console, _judging
from stormproof.commands._hosts import hosts_of, inventory_option
from stormproof.commands._options import json_option, out_option, state_option, verbose_option
from stormproof.commands._single import refuse_unjudgeable, single, spark
from stormproof.commands._verdict import View


@click.command()
@click.argument("run", default=directory.LATEST)
@click.option("--on", "deployment", default="", metavar="NAME", help="Where; needed if RUN was not simulated.")
@inventory_option
@_judging.spark_options
@out_option
@state_option
@verbose_option
@json_option
def replay(
    run: str,
    deployment: str,
    inventory: Path | None,
    engine: str,
    master: str,
    conf: tuple[str, ...],
    out: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Do a recorded RUN (default: the latest) again: its saved experiment, seed, deployment and planted bug. What comes
    of it is a new run. Of one that was not simulated, say where with --on: a RUN may come from elsewhere.

    A simulated run must repeat its history, byte for byte: exit code 3 if it doesn't although no version has changed.
    All other exit codes are those of `stormproof run`.
    """
    from stormproof import replay as repeating  # late: it loads what reads experiments

    _judging.refuse(engine, master, conf)
    recorded = repeating.recorded(opening.resolve_one(run, out))
    where = repeating.deployment_of(recorded, deployment)
    hosts = hosts_of(inventory, where)
    launch = repeating.launch(recorded, deployment=where, out=out, inventory=hosts, inventory_file=inventory)
    refuse_unjudgeable(launch)
    for note in recorded.notes:
        _console.err().print(f"note: {note}", markup=False)
    compare = partial(repeating.compared, recorded, deployment=where)
    with spark(engine, master, conf) as session:
        code = single(launch, engine, session, View.of(as_json=as_json, verbose=verbose), compare=compare).code
    click.get_current_context().exit(code)
