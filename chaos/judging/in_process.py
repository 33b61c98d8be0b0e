"""Does in this process, task by task, what :class:`chaos.judging.spark.Session` has workers do for a large run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, TypeVar

from chaos.history.memory import give_back
from chaos.judging.spark_job import OnProgress

S = TypeVar("S")
R = TypeVar("R")
#: What is brought to buckets is held up to this; more stands in a file.
MOST_HELD = 64 << 20


class InProcess:
    """Use it as a context manager: its file, on the disk of ``folder``, has no name and is gone at the end, however the
    process ends. Raises ``OSError`` when the disk is full."""

    shares_files = True

    def __init__(self, folder: Path) -> None:
        self._file = SpooledTemporaryFile(max_size=MOST_HELD, dir=str(folder))  # noqa: SIM115 (closed with this object)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def map(self, work: Callable[[S], R], tasks: Sequence[S], on_progress: OnProgress | None = None) -> list[R]:
        """As :meth:`chaos.judging.spark.Session.map`."""
        return [work(task) for task in tasks]

    def shuffled(self, work: Callable[[S], Iterable[tuple[int, Any]]], tasks: Sequence[S], buckets: int) -> Filed:
        """As :meth:`chaos.judging.spark.Session.shuffled`; the blocks are (number, bytes)."""
        places: dict[int, list[tuple[int, int, int]]] = {}
        for task in tasks:
            for bucket, (number, block) in work(task):
                places.setdefault(bucket, []).append((number, self._file.tell(), len(block)))
                self._file.write(block)
        return Filed(self._file, places)


class Filed:
    """Buckets whose blocks stand in a file."""

    def __init__(self, file: Any, places: dict[int, list[tuple[int, int, int]]]) -> None:
        self._file = file
        self._places = places

    def collect(
        self,
        work: Callable[[Any, int, Sequence[Any]], Any],
        given: Any,
        buckets: Sequence[int],
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """As :meth:`chaos.judging.spark_shuffle.Shuffled.collect`."""
        found = []
        for done, bucket in enumerate(buckets, start=1):
            found.append(work(given, bucket, [*self._blocks(bucket)]))
            give_back()
            if on_progress is not None:
                on_progress(done, len(buckets))
        return found

    def _blocks(self, bucket: int) -> Iterable[tuple[int, bytes]]:
        for number, begin, length in self._places.get(bucket, ()):
            self._file.seek(begin)
            yield number, self._file.read(length)
