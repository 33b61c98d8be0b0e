"""How commands judge recorded runs: which of them, and where the checkers run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos.errors import BadInput
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
    """Add ``--engine``, ``--master`` and ``--conf`` of a command that judges recorded runs."""
    engine = click.option(
        "--engine",
        type=click.Choice([AUTO, SPARK, LOCAL]),
        default=AUTO,
        show_default=True,
        help="Where the checkers run; local needs no Java, auto takes Spark for large histories.",
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
    runs: Sequence[Path], engine: str, master: str = "", conf: Sequence[str] = ()
) -> Iterator[tuple[str, Session | None]]:
    """Yield where these runs are to be judged: ``spark``, with a session that starts meanwhile, or ``local``; and say
    which, where that was left to us. Raises :class:`BadInput` for a master or a setting that is none."""
    from chaos.judging import masters

    refuse(engine, master, conf)
    wanted, settings = masters.parse(master), masters.parse_conf(conf)
    chosen = engine
    if engine == AUTO:
        size = sum(_row_bytes(run) for run in runs)
        chosen = SPARK if master or conf or size >= SPARK_BYTES else LOCAL
        where = f"Spark ({wanted.url})" if chosen == SPARK else "this process"
        _console.err().print(f"judging {_counted(len(runs))} ({size / 1e6:,.0f} MB of rows) in {where}", markup=False)
    if chosen == LOCAL:
        yield LOCAL, None
        return
    from chaos.judging.spark import Session

    session = Session(wanted, conf=settings)
    try:
        yield SPARK, session
    except KeyboardInterrupt:  # its JVM ends with this process; nobody waits for a start or a stop any more
        raise
    except BaseException:
        session.close()
        raise
    session.close()


def _row_bytes(run: Path) -> int:
    """Return what the rows of a run take on disk; its shards count where nothing else is left."""
    for patterns in (ROWS, ROWS_ALONE):
        if size := sum(path.stat().st_size for pattern in patterns for path in run.glob(pattern) if path.is_file()):
            return size
    return 0
