"""One try: the run goes its way up to a moment, then on with other draws. Did it fail again?"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.errors import ChaosError, MachineError
from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.judging.outcome import judge
from chaos.verdict import Anomaly, Engine
from reports.run_report.story import message_name
from stormproof.launch import SIM, Launch, Renewal
from stormproof.moments.schedule import redrawn
from stormproof.shrinking.signature import Signature, signatures
from stormproof.shrinking.trial import record


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A violation that should come again: its law, its name, what it is ``about`` ("" if that has no name), and its
    signature."""

    law: str
    name: str
    about: str
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """What to run: the experiment in ``file`` (``name`` is its own), in a directory ``scratch`` that is made for it.
    The moment from which it goes its own way is in ``renewal``, and in seconds of the load in ``since_s``."""

    file: Path
    name: str
    seed: int
    mutant: str
    wanted: Wanted
    since_s: float
    renewal: Renewal
    scratch: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether the ``same`` violation came, and whether a failure ``alike`` did. ``error``: why that is unknown."""

    same: bool = False
    alike: bool = False
    error: str = ""


def try_again(one: Try) -> Outcome:
    """Try it and return what came of it. Raises :class:`MachineError` when this machine lacks something."""
    try:
        one.scratch.mkdir()
        return _tried(one)
    except MachineError:
        raise
    except ChaosError as error:
        return Outcome(error=str(error))
    except OSError as error:
        raise MachineError(f"cannot write in {one.scratch.parent}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(one.scratch, ignore_errors=True)


def _tried(one: Try) -> Outcome:
    experiment = replace(load(one.file, deployment=SIM, mutant=one.mutant), name=one.name)
    experiment = redrawn(experiment, one.since_s, one.renewal.seed)
    launch = Launch(
        experiment=experiment, file=one.file, deployment=SIM, seed=one.seed, mutant=one.mutant, out=one.scratch,
        renewal=one.renewal,
    )  # fmt: skip
    run = record(launch)
    verdict = judge([run], engine=Engine.LOCAL)[0]
    history, wanted = History.open(run.directory), one.wanted
    found = [broken for broken in verdict.violations if (broken.law, broken.name) == (wanted.law, wanted.name)]
    alike = wanted.signature.kept_by(signatures(history, verdict))
    if not wanted.about:
        return Outcome(same=alike, alike=alike)
    return Outcome(same=any(about(anomaly, history) == wanted.about for anomaly in found), alike=alike)


def about(anomaly: Anomaly, history: History) -> str:
    """Return what an anomaly is about, by a name that it has in other runs too: a message, an object, or a queue; ""
    for anything else."""
    if anomaly.message >= 0:
        return f"message {message_name(anomaly.message)}"
    named = (str(row.value["object"]) for row in history.numbered(anomaly.rows) if "object" in row.value)
    if found := next(named, ""):
        return found
    return f"queue {anomaly.queue}" if anomaly.queue >= 0 else ""
