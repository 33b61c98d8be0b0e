"""The search: replay the failing run, then make it smaller, pass by pass, until nothing can be left out any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from chaos.errors import BadInput, MachineError
from chaos.history import directory as store
from stormproof.launch import SIM
from stormproof.shrinking.again import done_again
from stormproof.shrinking.delta import stable
from stormproof.shrinking.document import Document, pinned, text
from stormproof.shrinking.freedom import Free, free
from stormproof.shrinking.often import Often, failed_once, measured
from stormproof.shrinking.passes import PASSES, SCHEDULE_AND_LOAD, WITH_A_FAULT, Pass
from stormproof.shrinking.reductions import Attempt
from stormproof.shrinking.signature import Signature
from stormproof.shrinking.trial import Size, Trial
from stormproof.shrinking.workers import TimeIsUp, Workers

#: A result that still has more than this part of the operations is worth a second way down.
MANY = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A failing run that is to be made smaller: its failure, its size, and the documents that should replay it, the one
    that can be taken apart best first. ``often``: how they are tried, where no run comes again as it was; ``begun`` is
    then what became of the first one."""

    run: Path
    seed: int
    mutant: str
    wanted: Signature
    before: Size
    documents: Sequence[Document]
    often: Often | None = None
    begun: Trial | None = None

    @property
    def deployment(self) -> str:
        return SIM if self.often is None else self.often.deployment


class Stop(StrEnum):
    """Why a search ended."""

    DONE = "nothing more can be left out"
    TIME = "the time was up"
    INTERRUPTED = "interrupted"
    BROKEN = "this machine could not go on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The smallest document so far that fails in the wanted way, and what became of it. ``tried``: how many documents
    were. ``free``: numbers that may be any. ``error``: why the search could not go on."""

    document: Document
    trial: Trial
    stop: Stop = Stop.DONE
    tried: int = 0
    rounds: int = 0
    seconds: float = 0.0
    free: Sequence[Free] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a search is: in which round, at which of how many passes, with how many tries so far."""

    round: int
    name: str
    number: int
    passes: int
    tried: int
    size: Size


OnProgress = Callable[[Progress], None]
OnBetter = Callable[[Document, Trial], None]


def replayed(run: Path, scratch: Path, law: str = "", times: int = 1) -> Case:
    """Read a run, do it again in ``scratch``, and find its failure: that of the ``law``, or else the first one of the
    report. A run that is not simulated is done again so many ``times``. Raises :class:`BadInput` when it can't be
    shrunk, in a sentence that says why."""
    if store.read_meta(run).deployment != SIM:
        return _repeated(run, scratch, law, times)
    again = done_again(run, scratch, "shrunk")
    failures = [failure for failure in again.trial.failures if law in ("", failure.law)]
    if not failures:
        broken = ", ".join(dict.fromkeys(failure.law for failure in again.trial.failures)) or "none"
        raise BadInput(f"{run}: its replay does not break {f'the law {law!r}' if law else 'any law'}; broken: {broken}")
    assert again.trial.size is not None
    return Case(
        run=run,
        seed=again.seed,
        mutant=again.mutant,
        wanted=failures[0],
        before=again.trial.size,
        documents=[pinned(again.experiment, again.seed), pinned(again.experiment, again.seed, singly=False)],
    )


def _repeated(run: Path, scratch: Path, law: str, times: int) -> Case:
    found = failed_once(run, law, times)
    document = pinned(found.experiment, found.seed, deployment=found.often.deployment)
    begun, often = measured(run, text(document), found.seed, found.often, scratch / "whole")
    return Case(
        run=run,
        seed=found.seed,
        mutant=often.mutant,
        wanted=often.wanted,
        before=found.before,
        documents=[document],
        often=often,
        begun=begun,
    )


def shrink(
    case: Case,
    scratch: Path,
    *,
    within_s: float = float("inf"),
    processor_s: float = float("inf"),
    on_progress: OnProgress = lambda progress: None,
    on_better: OnBetter = lambda document, trial: None,
    passes: Sequence[Pass] | None = None,
    values: bool = True,
    processes: int | None = None,
) -> Best:
    """Make a failing run smaller. ``on_better`` learns of each smaller one at once. Ctrl-C, the end of the time and a
    machine that can't go on end the search, and what was found until then stays; so does the end of so many seconds
    of processors (``processor_s``), a limit that other load on the machine does not change. ``values``: find out at
    the end which numbers may be any. ``processes``: as many as there are cores; 0 for none but this one. Raises
    :class:`BadInput` when not even the first document fails as the run did, and ``KeyboardInterrupt`` when nothing has
    been tried yet that could stay."""
    search = _Search(
        case,
        Workers(
            seed=case.seed,
            mutant=case.mutant,
            scratch=scratch,
            deadline=time.monotonic() + within_s,
            most_processor_s=processor_s,
            processes=processes if case.often is None else 0,
            often=case.often,
        ),
        on_progress,
        on_better,
    )
    if passes is None:
        passes = PASSES if case.often is None else SCHEDULE_AND_LOAD
    try:
        with search.workers:
            search.to_the_end(passes, values=values and case.often is None)
        return search.best(Stop.DONE)
    except TimeIsUp:
        return search.best(Stop.TIME)
    except KeyboardInterrupt:
        if not search.begun:
            raise
        return search.best(Stop.INTERRUPTED)
    except MachineError as error:
        return search.best(Stop.BROKEN, str(error))


def _keeps(workers: Workers, wanted: Signature, document: Document) -> bool:
    return workers.first([document], wanted) is not None


class _Search:
    """The document that is the smallest so far, and what is going on."""

    def __init__(self, case: Case, workers: Workers, on_progress: OnProgress, on_better: OnBetter) -> None:
        self._case = case
        self._began = time.monotonic()
        self._on_progress = on_progress
        self._on_better = on_better
        self._at = ("replay", 0)
        self._round = self._passes = 0
        self.document: Document = case.documents[0]
        self._trial: Trial | None = None
        self._free: list[Free] = []
        self.settled = False
        self.workers = workers
        workers.on_try = self._report

    def begin(self) -> None:
        """Find the document that the search begins with."""
        if self._case.begun is not None:
            self._better(self._case.documents[0], self._case.begun)
            return
        found = self.workers.first(self._case.documents, self._case.wanted)
        if found is None:
            raise BadInput(f"{self._case.run}: its failure did not come again when its draws were pinned")
        self._better(self._case.documents[found[0]], found[1])

    def to_the_end(self, passes: Sequence[Pass], *, values: bool) -> None:
        """Search until nothing smaller fails. ``values``: and find out which numbers may be any."""
        self.begin()
        self.descend(passes)
        if self.settled_high:
            self.take_if_smaller(passes)
        self.settled = True
        if values:
            self.find_free()

    def descend(self, passes: Sequence[Pass]) -> None:
        """Repeat the passes until nothing changes any more."""
        self._passes = len(passes)
        stable(self.document, [partial(self.apply, number, one) for number, one in enumerate(passes, 1)])

    def find_free(self) -> None:
        """Try other values for the numbers that are left."""
        self._at = ("values that may be any", self._passes)
        keeps = partial(_keeps, self.workers, self._case.wanted)
        for one in free(self.document, self._case.seed, keeps):
            self._free.append(one)

    @property
    def begun(self) -> bool:
        """Whether there is a best so far."""
        return self._trial is not None

    @property
    def settled_high(self) -> bool:
        """Whether all faults are gone, and most of the load had to stay for that: by chance, one out of so many
        operations fails without a fault too."""
        size, begun_with = self._size, self._case.documents[0].get("faults")
        return (
            bool(begun_with and not self.document.get("faults"))
            and size.operations > MANY * self._case.before.operations
        )

    def take_if_smaller(self, passes: Sequence[Pass]) -> None:
        """Begin again and keep one fault; take what comes of it if it has half of the operations at most."""
        other = _Search(self._case, self.workers, self._on_progress, lambda document, trial: None)
        try:
            other.begin()
            other.descend([WITH_A_FAULT.get(one.name, one) for one in passes])
        finally:
            self.workers.on_try = self._report
            if other._trial is not None and 2 * other._size.operations <= self._size.operations:
                self._better(other.document, other._trial)

    @property
    def _size(self) -> Size:
        return self._trial.size if self._trial is not None and self._trial.size is not None else self._case.before

    def apply(self, number: int, one: Pass, document: Document) -> Document:
        """Make one pass over the document."""
        self._at = (one.name, number)
        self._round += number == 1
        self._report()
        attempt: Attempt = self._attempt
        assert self._trial is not None
        return one.reduce(document, attempt, self._trial)

    def best(self, stop: Stop, error: str = "") -> Best:
        if self._trial is None:  # nothing has been tried to its end
            raise BadInput(f"{self._case.run}: {error or f'{stop}, before it had been replayed'}")
        return Best(
            document=self.document,
            trial=self._trial,
            stop=Stop.DONE if self.settled and not error else stop,
            free=tuple(self._free),
            tried=self.workers.tried,
            rounds=self._round,
            seconds=time.monotonic() - self._began,
            error=error,
        )

    def _attempt(self, candidates: Sequence[Document]) -> int | None:
        found = self.workers.first(candidates, self._case.wanted)
        if found is None:
            return None
        place, trial = found
        self._better(candidates[place], trial)
        return place

    def _better(self, document: Document, trial: Trial) -> None:
        self.document, self._trial = document, trial
        self._on_better(document, trial)

    def _report(self) -> None:
        name, number = self._at
        self._on_progress(
            Progress(
                round=self._round,
                name=name,
                number=number,
                passes=self._passes,
                tried=self.workers.tried,
                size=self._size,
            )
        )
