"""``stormproof linearize``: judge recorded histories, whatever recorded them."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from chaos.errors import BadInput
from chaos.verdict import Validity
from checkers.linearizable import (
    ENGINES,
    FORMATS,
    KNOSSOS_FORMATS,
    LEAST_MEMORY_MIB,
    MEMORY_MIB,
    MODELS,
    TIME_LIMIT_S,
    History,
    Reading,
    Result,
    Tally,
    call_words,
    examine,
    explanation_lines,
    read_histories,
    read_value,
    undecided_object,
    violation_reason,
)
from reports.printable import argument
from stormproof.commands import _console
from stormproof.commands._options import json_option
from stormproof.outcome import ExitCode, worst_code

if TYPE_CHECKING:
    from rich.console import Console

    from reports.timeline.pages import TimelinePages

CODES = {True: ExitCode.VALID, False: ExitCode.INVALID, None: ExitCode.UNKNOWN}
WORDS = {True: Validity.VALID, False: Validity.INVALID, None: Validity.UNKNOWN}


class Seconds(click.ParamType):
    """``60``, ``0.5``, or a duration such as ``2m``; becomes seconds."""

    name = "S"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from chaos.experiment.durations import parse_duration

        try:
            seconds: float | None = float(str(value))
        except ValueError:
            seconds = parse_duration(str(value))
        if seconds is None or not 0 < seconds < float("inf"):
            self.fail(f"expected seconds above 0, or a duration such as 2m, got {value!r}", param, ctx)
        return seconds


class First(click.ParamType):
    """A first state as JSON, or as EDN; words that are neither are a string."""

    name = "VALUE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return read_value(str(value))
        except BadInput as error:
            self.fail(str(error), param, ctx)


@dataclass(slots=True)
class _Printed:
    """What was printed so far: exit codes, and the first file and history of each."""

    codes: list[int] = field(default_factory=list)
    first: dict[int, tuple[Path, History | None]] = field(default_factory=dict)

    def add(self, code: int, file: Path, history: History | None) -> None:
        self.codes.append(code)
        self.first.setdefault(code, (file, history))


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--model", type=click.Choice(MODELS), metavar="MODEL", help=f"One of {', '.join(MODELS)}.")
@click.option("--format", type=click.Choice(FORMATS), help="Format of the files; without it, recognized by content.")
@click.option(
    "--init", type=First(), default=None, help="First state of each object, as JSON; else nil, free or empty."
)
@click.option("--id", "identity", default=None, metavar="ID", help="Judge only the history with this id.")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=Seconds(),
    default=TIME_LIMIT_S,
    show_default=True,
    help="Seconds for each history.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(min=LEAST_MEMORY_MIB),
    default=MEMORY_MIB,
    show_default=True,
    metavar="MIB",
    help="Memory limit of the whole JVM.",
)
@click.option(
    "--threads", type=click.IntRange(min=0), default=0, help="How many cores may be used; 0, the default: all."
)
@click.option("--every-key", is_flag=True, help="After a violation, continue until each object has a verdict.")
@click.option("--orders", is_flag=True, help="With --json: give a linearization of each object, as evidence.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="Where the search runs; auto is the JVM unless there is no Java.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Draw timelines: FILE.html gets the worst history, a directory each that is not VALID.",
)
@json_option
def linearize(
    files: tuple[Path, ...],
    model: str | None,
    format: str | None,
    init: Any,
    identity: str | None,
    orders: bool,
    html: Path | None,
    as_json: bool,
    **search: Any,
) -> None:
    """Judge whether the histories in FILEs are linearizable, and explain those that are not.

    Reads what Knossos, Jepsen and Porcupine record, operations as JSON, and JSON lines: one history an object (id,
    model, init, ops); .gz and .zst as they are. The model total-queue asks whether all that went into a queue came
    out. With --json each history gives one object on one line, as soon as it is judged; calls are named by the place
    of their invocation among the events of the history.

    Exit codes: 0 all linearizable, 1 one is not, 2 undecided, 3 bad input or no checker; the worst counts, in the
    order 1, 3, 2, 0. The last line of a failed run is the command that shows it again.
    """
    printed = _Printed()
    pages = _timeline_pages(html)
    waiting: deque[tuple[Path, History]] = deque()

    def read() -> Iterator[History]:
        for file, history in _histories(files, format or "", model or "", init, identity, printed):
            waiting.append((file, history))
            yield history

    results = examine(read(), orders=orders or pages is not None, **search)
    with _progress() as follow:
        for result in results:
            file, history = waiting.popleft()
            printed.add(CODES[result.valid], file, history)
            _show(file, history, result, pages, orders=orders, as_json=as_json)
            follow(len(printed.codes))
    if identity is not None and not printed.codes:
        raise BadInput(f"no history has the id {identity!r}")
    code = worst_code(printed.codes)
    if code != ExitCode.VALID:
        _console.say(_again(*printed.first[code]), err=as_json)
    click.get_current_context().exit(code)


def _show(
    file: Path, history: History, result: Result, pages: TimelinePages | None, *, orders: bool, as_json: bool
) -> None:
    """Print what was found of one history, and draw it if that is asked for."""
    if as_json:
        _console.print_json(_object(file, history, result, orders), indent=None)
    else:
        _print(file, history, result, _console.out())
    page = pages.add(file, history, result) if pages is not None else None
    if page is not None:
        _console.err().print(f"timeline: {page}", markup=False)


def _timeline_pages(target: Path | None) -> TimelinePages | None:
    from reports.timeline.pages import TimelinePages

    return None if target is None else TimelinePages(target)


def _histories(
    files: Sequence[Path], format: str, model: str, init: Any, identity: str | None, printed: _Printed
) -> Iterator[tuple[Path, History]]:
    """Yield all histories with their files; a file or a history that makes no sense is reported, and the others go
    on."""
    for file in files:

        def complain(error: BadInput, file: Path = file) -> None:
            _console.complain(str(error))
            printed.add(ExitCode.ERROR, file, None)

        try:
            for history in read_histories(file, format, model, init, complain):
                if identity is None or str(history.id) == identity:
                    yield file, history
        except BadInput as error:
            complain(error)


def _again(file: Path, history: History | None) -> str:
    """Return this command for one file, and one of its histories."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        name = str(option.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or name in ("files", "identity", "as_json"):
            continue
        value = context.params[name]
        words.append(option.opts[0])
        if name == "init":
            words.append(json.dumps(value))
        elif value is not True:
            words.append(f"{value:g}" if isinstance(value, float) else str(value))
    if history is not None and history.id != file.name:
        words += ["--id", str(history.id)]
    return shlex.join(["stormproof", "linearize", *words, argument(file)])


# As JSON.


def _object(file: Path, history: History, result: Result, orders: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "file": str(file),
        "id": history.id,
        "model": history.model,
        "valid": "unknown" if result.valid is None else result.valid,
        "ms": round(result.ms, 3),
        "configs": result.configs,
        "peak_mib": round(result.peak_mib, 3),
        "undecided": [
            {"key": _key(one.key), "reason": one.reason, "placed": one.placed, "of": one.of} for one in result.undecided
        ],
        "witness": _witness(history, result),
        "format": _format(history),
    }
    if result.tally is not None:
        found["total_queue"] = _tally(result.tally)
    if orders:
        found["orders"] = [{"key": _key(key), "order": _places(history, order)} for key, order in result.orders.items()]
    return found


def _format(history: History) -> dict[str, Any] | None:
    """Return how the file was read: its format, whether that was recognized by content, and what calls were taken to
    mean where that differs from Knossos's conventions."""
    reading = history.reading
    if reading is None:
        return None
    return {"name": reading.format, "guessed": reading.guessed, "conventions": list(reading.conventions)}


def _tally(tally: Tally) -> dict[str, Any]:
    """Return counts, and for each kind pairs of an element and how often."""
    kinds = ("lost", "unexpected", "duplicated", "recovered", "outstanding")
    found: dict[str, Any] = {name: getattr(tally, name) for name in ("attempts", "acknowledged", "dequeued")}
    for kind in kinds:
        found[kind] = [[json.loads(value), times] for value, times in getattr(tally, kind).items()]
    return found


def _witness(history: History, result: Result) -> dict[str, Any] | None:
    witness = result.witness
    if witness is None:
        return None
    return {
        "key": _key(witness.key),
        "reason": violation_reason(history, witness),
        "prefix": _places(history, witness.prefix),
        "blocked": _operation(history, witness.blocked) if witness.blocked >= 0 else None,
        "dead_ends": [
            {"order": _places(history, end.order), "state": end.state, "illegal": _places(history, end.illegal)}
            for end in witness.dead_ends
        ],
        "minimal": [_operation(history, number) for number in witness.minimal],
    }


def _operation(history: History, number: int) -> dict[str, Any]:
    one = history.operations[number]
    return {
        "process": one.process,
        "call": call_words(one, history.model),
        "invoked": one.call,
        "completed": one.ret,
        "rows": [row for row in one.rows if row >= 0],
    }


def _places(history: History, numbers: Sequence[int]) -> list[int]:
    return [history.operations[number].call for number in numbers]


def _key(key: str | None) -> Any:
    return None if key is None else json.loads(key)


# For people.


def _print(file: Path, history: History, result: Result, console: Console) -> None:
    name = str(file) if history.id == file.name else f"{file} {history.id}"
    spent = f"{result.ms:.1f} ms, {result.configs:,} configurations, {result.peak_mib:.1f} MiB"
    reading = history.reading
    read_as = f" as {reading.format}" if reading is not None else ""
    console.print(
        f"{_console.validity(WORDS[result.valid])}  {escape(name)}  [dim]{history.model}{read_as}: {spent}[/]"
    )
    if reading is not None and reading.conventions:
        console.print(f"  {escape(_read_as(reading))}")
    if result.valid is None:
        for one in result.undecided:
            console.print(f"  [yellow]undecided:[/] {escape(undecided_object(one))}")
    if result.witness is not None or result.tally is not None:
        for line in explanation_lines(history, result):
            console.print(f"  {escape(line)}")


def _read_as(reading: Reading) -> str:
    """Return which conventions were taken, and whether somebody asked for them."""
    instead = KNOSSOS_FORMATS.get(reading.format)
    other = f"; --format {instead} reads it by Knossos's conventions" if instead is not None else ""
    how = f"recognized by its content{other}" if reading.guessed else "as --format says"
    return f"read as {reading.format} ({how}): {'; '.join(reading.conventions)}"


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show a count of what was judged; nothing at all unless stderr is a terminal."""
    console = _console.err()
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} judged"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done: progress.update(task, completed=done)
