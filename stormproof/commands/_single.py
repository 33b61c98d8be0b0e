"""One run from its launch to its verdict, for the commands that run something."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import BadInput, ChaosError
from chaos.verdict import Engine, RunVerdict
from stormproof.commands import _console, _judging, _progress
from stormproof.commands._verdict import Outcome, View, outcome, run_object, show_replay, show_run
from stormproof.outcome import ExitCode, error_object, exit_code, in_words, worst_code

if TYPE_CHECKING:
    from chaos.judging.engine import Session
    from chaos.judging.run import ExaminedRun
    from stormproof.launch import Launch
    from stormproof.replay import Repetition

#: What a run is compared with, once it has ended.
Compare = Callable[[Path], "Repetition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: the exit code, and what it came to, if it could be judged."""

    code: int
    outcome: Outcome | None = None


def refuse_unjudgeable(launch: Launch) -> None:
    """Raise :class:`BadInput` for an experiment that demands a law, or names a goal, for which there will be no
    evidence; and what :func:`stormproof.launch.build` raises, before a word is said of the run."""
    from chaos.judging.evidence import unjudgeable
    from chaos.judging.goals import unseen
    from stormproof.launch import build, evidence_on, used

    laws, goals = launch.experiment.laws, launch.experiment.reach
    reported = evidence_on(launch.deployment, build(launch))
    why = unjudgeable(laws, reported, used(launch.experiment)) if laws else []
    if why := [*why, *unseen(goals, reported)]:
        raise BadInput("; ".join(why))


def spark(engine: str, master: str = "", conf: Sequence[str] = ()) -> AbstractContextManager[Session | None]:
    """Return Spark, if it is asked for; it starts in the background while the experiment runs. Where a ``master`` or a
    setting is named it is waited for: better now than after the run somebody learns that none listens there, or that it
    wants another secret.

    Raises :class:`BadInput` for a master or a setting that is none, :class:`chaos.errors.MachineError` at once when
    there is no Java, or when Spark does not start as it was asked to.
    """
    if engine != _judging.SPARK and not master and not conf:
        return nullcontext()
    from chaos.judging import masters
    from chaos.judging.class_archive import find_java
    from chaos.judging.engine import Session

    wanted, settings = masters.parse(master), masters.parse_conf(conf)
    find_java()
    session = Session(wanted, conf=settings)
    if not master and not conf:
        return session
    _console.err().print(f"Spark ({wanted.url}) will judge the run; waiting for it to start", markup=False)
    try:
        session.wait()
    except ChaosError:
        session.close()
        raise
    return session


def say_profile(launch: Launch, view: View) -> None:
    """Say which promises the run is about to be judged by, and who says so; beside JSON only where a person looks."""
    console = _console.err()
    if view is View.BRIEF or (view is View.JSON and not console.is_terminal):
        return
    experiment = launch.experiment.drawn(launch.seed)
    line = experiment.profile_line
    who = f"{launch.file}:{line}" if line else "the driver's own"
    forbids = "; --no-loss-by-policy forbids what it permits" if launch.no_loss_by_policy else ""
    console.print(f"profile: {experiment.profile.words} ({who}){forbids}", markup=False)


def say_unmarked(deployment: str) -> None:
    """Say before it starts that a killed run would be healed only by its name. Raises as
    :func:`stormproof.launch.unmarked` does."""
    from stormproof.launch import unmarked

    if problem := unmarked(deployment):
        text = "warning: if this is killed, give `stormproof heal` the run's directory, for there will be no mark of it"
        _console.err().print(f"{text}: {problem}", markup=False)


def report(verdict: RunVerdict, examined: ExaminedRun) -> int:
    """Write the report; a run whose history can't be read has none. Returns the exit code that counts beside the
    verdict's: a page that breaks is a bug of ours, and hides no violation."""
    from reports import render

    try:
        render(Path(verdict.run), examined.summarised)
    except ChaosError as error:
        _console.err().print(f"no report: {error}", markup=False)
    except OSError:  # a full disk is said as what it is
        raise
    except Exception as error:  # the verdict stands, whatever the page is made of
        file = Path(verdict.run) / "report-error.txt"
        file.write_text("".join(traceback.format_exception(error)), "utf-8")
        text = f"no report: {in_words(error)}; {file} says where"
        _console.err().print(text, markup=False)
        return ExitCode.ERROR
    return ExitCode.VALID


def single(
    launch: Launch,
    engine: str,
    session: Session | None,
    view: View,
    *,
    must_reach: bool = False,
    compare: Compare | None = None,
) -> Ended:
    """Run, judge and report. ``engine``, ``session``: as :func:`_judging.engine_for` takes them.
    ``compare`` looks at the finished run's directory."""
    from chaos.judging.outcome import judge
    from chaos.judging.run import examine_runs
    from reports import page_summary
    from stormproof.launch import start

    begun: list[Path] = []
    say_profile(launch, view)
    say_unmarked(launch.deployment)
    try:
        with _progress.run_progress(launch.experiment.duration_s, quiet=view in (View.BRIEF, View.JSON)) as watcher:
            directory = start(launch, watcher.phase, begun.append, watcher.row)
        with _judging.engine_for([directory], engine, ready=session) as (chosen, spark):
            with _progress.judging_progress() as judged:
                (examined,) = examine_runs([directory], session=spark, on_progress=judged, summary=page_summary)
        verdict = judge([examined], engine=Engine(chosen))[0]
    except Exception as error:  # whatever it was: the last line of a failed run is the command that replays it
        if not begun:
            raise
        return _failed(launch, begun[0], error, view)
    repetition = compare(directory) if compare is not None else None
    return _conclude(launch, verdict, examined, view, must_reach=must_reach, repetition=repetition)


def _failed(launch: Launch, directory: Path, error: Exception, view: View) -> Ended:
    """Report a run that could not go on. What was recorded may show that the system is to blame, which is a verdict."""
    from chaos.history.directory import META
    from chaos.judging.outcome import judge, violation

    text = in_words(error)
    broken = violation(directory) if directory.exists() else None
    if broken is not None:
        _console.err().print(f"the run could not go on: {text}", markup=False)
        return _conclude(launch, judge([broken], engine=Engine.LOCAL)[0], broken, view, must_reach=False)
    _console.complain_of(text)
    if (directory / META).exists():  # nodes that are being ended may make a folder again that was deleted
        _console.err().print(f"what was recorded is in {directory}", markup=False)
    if view is View.JSON:
        _console.print_json(error_object(launch.seed, text, directory) | {"replay_command": launch.replay})
    show_replay(launch.replay, err=view is View.JSON)
    return Ended(code=ExitCode.ERROR)


def _conclude(
    launch: Launch,
    verdict: RunVerdict,
    examined: ExaminedRun,
    view: View,
    *,
    must_reach: bool,
    repetition: Repetition | None = None,
) -> Ended:
    drawn = report(verdict, examined)
    missed = must_reach and not all(verdict.reached.values())
    codes = [exit_code(verdict), drawn, *([ExitCode.NOT_REACHED] if missed else [])]
    found = outcome(verdict, examined.summarised)
    if view is View.JSON:
        _console.print_json(run_object(found) | _repetition_object(repetition))
    else:
        show_run(found, _console.out(), view)
        if repetition is not None:
            _console.out().print(repetition.sentence, markup=False)
    if repetition is not None and repetition.broken:
        codes.append(ExitCode.ERROR)
    code = worst_code(codes)
    if code != ExitCode.VALID and view is not View.BRIEF:
        show_replay(launch.replay, err=view is View.JSON)
    return Ended(code=code, outcome=found)


def _repetition_object(repetition: Repetition | None) -> dict[str, object]:
    if repetition is None:
        return {}
    row = {"first_difference": repetition.row} if repetition.row >= 0 else {}
    return {"replay": {"identical": repetition.identical, "told": repetition.sentence, **row}}
