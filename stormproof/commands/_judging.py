"""How commands judge recorded runs: which of them, and where the checkers run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos.errors import BadInput, MachineError
from chaos.history import directory
from chaos.history.uris import is_uri
from stormproof.commands import _console

if TYPE_CHECKING:
    from chaos.judging.spark import Session

AUTO, LOCAL, SPARK = "auto", "local", "spark"
#: Histories with so many bytes, of all runs together, are judged on Spark where nobody says where: its start takes a
#: few seconds, after which it uses all cores.
SPARK_BYTES = 300_000_000
#: The files of a run that hold rows.
ROWS = ("*.arrows", "traces/*.arrows", "traces/*.jsonl")
ROWS_ALONE = ("shards/*.parquet",)


def master_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--master`` and ``--conf`` of a command that judges."""
    for option in (
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark, such as spark.executor.memory=4g; may be repeated.",
        ),
        click.option(
            "--master",
            default="",
            metavar="URL",
            help="Spark's master: local[N], local-cluster[WORKERS,CORES,MIB], or spark://HOST:PORT; all cores of this"
            " machine unless given.",
        ),
    ):
        command = option(command)
    return command


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--engine``, ``--master`` and ``--conf`` of a command that judges."""
    engine = click.option(
        "--engine",
        type=click.Choice([AUTO, SPARK, LOCAL]),
        default=AUTO,
        show_default=True,
        help="Where the checkers run: in this process (local) or on Spark, which needs Java; auto takes Spark for"
        " histories of 300 MB or more, and with --master or --conf.",
    )
    return engine(master_options(command))


def expand(words: Sequence[str]) -> list[str]:
    """Return the runs that are meant, where a word is a pattern such as ``'runs/*'``: all that fit it. Those of which
    only the verdict was kept are left out, with a note. Raises :class:`BadInput` when no run fits a pattern."""
    found: list[str] = []
    for word in words:
        if not has_magic(word) or is_uri(word) or Path(word).exists():
            found.append(word)
            continue
        runs = [path for path in sorted(map(Path, glob(word))) if _is_run(path) and not path.is_symlink()]
        trimmed = [run for run in runs if directory.is_trimmed(run)]
        if trimmed:
            count = _counted(len(trimmed))
            _console.err().print(f"left out: {count} in {word} of which only the verdict was kept", markup=False)
        if len(trimmed) == len(runs):
            raise BadInput(f"{word}: no run that can be judged fits this pattern")
        found += [str(run) for run in runs if run not in trimmed]
    return list(dict.fromkeys(found))


def _counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs:,} runs"


def _is_run(path: Path) -> bool:
    return (path / directory.META).is_file()


def refuse(engine: str, master: str, conf: Sequence[str]) -> None:
    """Raise :class:`BadInput` for a master or a setting that is none, or that nobody would use."""
    from chaos.judging import masters

    masters.parse(master)
    masters.parse_conf(conf)
    if engine == LOCAL and (master or conf):
        raise BadInput("--master and --conf are for Spark: leave them out, or leave out `--engine local`")


@contextmanager
def engine_for(
    runs: Sequence[Path], engine: str, master: str = "", conf: Sequence[str] = (), *, ready: Session | None = None
) -> Iterator[tuple[str, Session | None]]:
    """Yield where these runs are to be judged: ``spark``, with a session that starts meanwhile (or the one that is
    ``ready``, which stays open), or ``local``; and say so where Spark was not asked for. Raises :class:`BadInput` for a
    master or a setting that is none, :class:`chaos.errors.MachineError` where Spark was asked for and has no Java."""
    refuse(engine, master, conf)
    if ready is not None:
        yield SPARK, ready
        return
    if _is_local(runs, engine, asked=bool(master or conf)):
        yield LOCAL, None
        return
    from chaos.judging import masters
    from chaos.judging.class_archive import find_java
    from chaos.judging.spark import Session

    find_java()
    session = Session(masters.parse(master), conf=masters.parse_conf(conf))
    try:
        yield SPARK, session
    except KeyboardInterrupt:  # its JVM ends with this process; nobody waits for a start or a stop any more
        raise
    except BaseException:
        session.close()
        raise
    session.close()


def _is_local(runs: Sequence[Path], engine: str, *, asked: bool) -> bool:
    """Return whether this process judges these runs. Where nobody ``asked`` for Spark, it also judges large ones on a
    machine without Java or Spark."""
    if engine != AUTO or asked:
        return engine == LOCAL
    size = sum(_row_bytes(run) for run in runs)
    if size < SPARK_BYTES:
        return True
    from chaos.judging.class_archive import find_java

    try:
        find_java()
        local = find_spec("pyspark") is None  # as in the image of the harness
    except MachineError:
        local = True
    where = "in this process: Spark, on all cores, needs Java 17 and pyspark" if local else "on Spark, with all cores"
    what = f"judging {_counted(len(runs))} ({size / 1e6:,.0f} MB of rows)"
    _console.err().print(f"{what} {where}", markup=False)
    return local


def _row_bytes(run: Path) -> int:
    """Return what the rows of a run take on disk; its shards count where nothing else is left."""
    for patterns in (ROWS, ROWS_ALONE):
        if size := sum(path.stat().st_size for pattern in patterns for path in run.glob(pattern) if path.is_file()):
            return size
    return 0
