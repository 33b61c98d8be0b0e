"""``stormproof demo``: a correct system survives faults, and the same one with a planted bug is caught."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormproof.commands import _console, _judging
from stormproof.commands._options import out_option, state_option
from stormproof.commands._single import Ended, refuse_unjudgeable, single, spark
from stormproof.commands._verdict import View
from stormproof.outcome import ExitCode
from stormproof.shipped import experiments

if TYPE_CHECKING:
    from chaos.judging.engine import Session

#: The experiment that the correct system has to survive, and the one that shows the bug, with their seeds.
STORM, SEED = "quickstart", 7
BROKEN, BUG, BUG_SEED = "stale_master", "ack-before-replication", 1
SIM = "sim"


@click.command()
@click.option(
    "--on", "deployment", default=SIM, show_default=True, metavar="NAME", help="Where the correct system runs."
)
@_judging.spark_options
@out_option
@state_option
def demo(deployment: str, engine: str, master: str, conf: tuple[str, ...], out: Path) -> None:
    """See what Stormproof does: a correct replicated broker goes through faults and loses nothing; then one with a
    planted bug goes through a storm in the simulator, and is caught.

    In the simulator this takes ten seconds and needs neither Java nor Docker. Exit codes: 0 if both came out as they
    should, else that of the correct system's run, or 3 if the bug was not found.
    """
    _judging.refuse(engine, master, conf)
    with spark(engine, master, conf) as session:
        _say(f"1 of 2: the correct system under faults, on {deployment}")
        correct = _run(STORM, deployment, SEED, out=out, engine=engine, session=session)
    _say("")
    _say(f"2 of 2: the same system with a planted bug, {BUG}, on {SIM}")
    broken = _run(BROKEN, SIM, BUG_SEED, out=out, mutant=BUG)
    click.get_current_context().exit(_conclude(correct, broken))


def _say(line: str) -> None:
    _console.out().print(line, style="bold", markup=False)


def _run(
    name: str, deployment: str, seed: int, *, out: Path, mutant: str = "", engine: str = _judging.AUTO,
    session: Session | None = None,
) -> Ended:  # fmt: skip
    from chaos.experiment.reader import load
    from stormproof.launch import Launch

    file = experiments()[name]
    experiment = load(file, deployment=deployment, mutant=mutant)
    launch = Launch(experiment=experiment, file=file, deployment=deployment, seed=seed, mutant=mutant, out=out)
    refuse_unjudgeable(launch)
    return single(launch, engine, session, View.BRIEF)


def _conclude(correct: Ended, broken: Ended) -> int:
    """Print in a sentence that both came out as they should, and the page to look at; return the exit code."""
    if broken.code != ExitCode.INVALID:
        _console.complain(f"the planted bug was not found (exit code {broken.code}, expected {ExitCode.INVALID})")
    if correct.code != ExitCode.VALID:
        _console.complain(f"the correct system did not come through (exit code {correct.code})")
    if correct.code != ExitCode.VALID or broken.code != ExitCode.INVALID:
        return correct.code or ExitCode.ERROR
    _say("")
    _say("The correct system kept its promises, and the planted bug was caught. This page shows how:")
    if broken.outcome is not None:
        _console.say(Path(broken.outcome.verdict.run) / "report.html")
    return ExitCode.VALID
