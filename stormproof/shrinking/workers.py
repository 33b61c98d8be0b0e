"""Tries candidates on all cores. Whatever the number of cores, and whichever try ends first: the answer is the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from pathlib import Path
from typing import Self

from stormproof.campaign.workers import cores, died, executor
from stormproof.shrinking.document import SEED, Document, text
from stormproof.shrinking.often import Often, try_often
from stormproof.shrinking.signature import Signature
from stormproof.shrinking.trial import Trial, try_out

#: The text of an experiment, and a seed.
Try = tuple[str, int]

#: A worker that has ended its try doesn't wait for the next one: so many are handed out beyond those under way.
AHEAD = 1


class TimeIsUp(Exception):
    """A limit of time has come while candidates were being tried."""


class Workers:
    """``processes`` that try documents with one seed and mutant (0: this one does); a context manager. ``tried``: how
    many tries have ended; ``processor_s``: what they took of processors, of which there may be a limit. ``on_try`` is
    called after each, and while none ends. ``often``: how documents are tried of which no run comes again."""

    def __init__(
        self,
        *,
        seed: int,
        mutant: str,
        scratch: Path,
        deadline: float = float("inf"),
        most_processor_s: float = float("inf"),
        processes: int | None = None,
        often: Often | None = None,
    ) -> None:
        self._seed = seed
        self._mutant = mutant
        self._often = often
        self._scratch = scratch
        self._deadline = deadline
        self._most_processor_s = most_processor_s
        self.on_try: Callable[[], None] = lambda: None
        self._numbers = count()
        self._count = cores() if processes is None else processes
        self._known: dict[Try, Future[Trial]] = {}
        self._under_way: list[Future[Trial]] = []
        self._pool = executor(self._count)
        self.tried = 0
        self.processor_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes at once; nobody needs what they are trying."""
        self._pool.__exit__(None, None, None)

    def first(self, candidates: Sequence[Document], wanted: Signature) -> tuple[int, Trial] | None:
        """Return the first candidate, in their order, that fails in the wanted way, with what became of it. Later ones
        are tried meanwhile. Raises :class:`TimeIsUp`, and :class:`chaos.errors.MachineError` when a worker could not go
        on."""
        tries: list[Try] = [(text(candidate), candidate.get(SEED, self._seed)) for candidate in candidates]
        begun, ahead = 0, self._count + AHEAD if self._count else 0
        for place, one in enumerate(tries):
            while True:
                if time.monotonic() >= self._deadline or self.processor_s >= self._most_processor_s:
                    raise TimeIsUp
                while begun < len(tries) and (begun <= place or len(self._under_way) < ahead):
                    self._begin(tries[begun])
                    begun += 1
                if self._known[one].done():
                    break
                self._wait()
            trial = self._ended(self._known[one])
            if wanted.kept_by(trial.failures):
                self._withdraw()
                return place, trial
        return None

    def _begin(self, one: Try) -> None:
        known = self._known.get(one)
        if known is None or known.cancelled():
            scratch = self._scratch / str(next(self._numbers))
            try:
                if self._often is not None:
                    known = self._pool.submit(try_often, *one, self._often, scratch)
                else:
                    known = self._pool.submit(try_out, *one, self._mutant, scratch)
            except BrokenProcessPool as error:
                raise died() from error
            self._known[one] = known
            self._under_way.append(known)
            if known.done():  # it was done here, and nobody will wait for it
                self._settle({known})

    def _wait(self) -> None:
        """Wait until some try ends, for a second at most."""
        left_s = max(0.0, self._deadline - time.monotonic())
        done, _ = wait(self._under_way, timeout=min(1.0, left_s), return_when=FIRST_COMPLETED)
        self._settle(done)

    def _settle(self, done: Collection[Future[Trial]]) -> None:
        self._under_way = [future for future in self._under_way if future not in done]
        self.tried += len(done)
        self.processor_s += sum(one.result().processor_s for one in done if one.exception() is None)
        self.on_try()

    @staticmethod
    def _ended(future: Future[Trial]) -> Trial:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise died() from error

    def _withdraw(self) -> None:
        """Take back what no worker has begun; what is under way comes to its end, and may be asked for again."""
        self._under_way = [future for future in self._under_way if not future.cancel()]
