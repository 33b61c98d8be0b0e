"""What laws have deferred is settled before anything is judged: piece by piece, on the cores of Spark or here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chaos.judging.halves import in_halves
from chaos.judging.law_answers import Examined, partial_of
from chaos.judging.registry import KernelId, Registry, registry
from chaos.kernel import Settles
from chaos.law import Deferred, Partial

if TYPE_CHECKING:
    from chaos.judging.spark import Session


@dataclass(frozen=True, slots=True)
class Left:
    """What a kernel has deferred. It travels between processes."""

    number: KernelId
    deferred: Deferred


def settled(found: Examined, known: Registry | None = None) -> Examined:
    """Return what was found, with what is found by settling all that was deferred, in this process."""
    return _joined(found, [settle(one, known) for one in _left(found)])


def settled_on(session: Session, found: Sequence[Examined]) -> list[Examined]:
    """As :func:`settled`, of many runs, in one job of Spark."""

    def gaps(part: Sequence[Left], reason: str) -> list[Partial]:
        return [Partial(gaps=(f"{one.deferred.about} was not decided: {reason}",)) for one in part]

    left = [_left(one) for one in found]
    every = [one for some in left for one in some]
    results = iter(in_halves(every, lambda part: session.map(settle, part), gaps) if every else [])
    return [_joined(one, [next(results) for _ in some]) for one, some in zip(found, left, strict=True)]


def settle(one: Left, known: Registry | None = None) -> Partial:
    """Settle one piece. Where that fails, or comes to nothing, it is a gap that says of what."""
    law, about = (known or registry()).kernels.get(one.number), one.deferred.about
    if not isinstance(law, Settles):
        return Partial(gaps=(f"{about} was not decided: there is no law here that settles it",))
    found = partial_of(law.promise, lambda: law.settle(one.deferred), f"was to decide about {about}")
    again = [f"{other.about} was not decided: it was deferred again" for other in found.deferred]
    return replace(found, deferred=(), gaps=(*found.gaps, *again))


def _left(found: Examined) -> list[Left]:
    return [Left(number, deferred) for number, partial in found for deferred in partial.deferred]


def _joined(found: Examined, settled: Sequence[Partial]) -> Examined:
    """``settled``: what became of all that was deferred there, in its order."""
    if not settled:
        return found
    without = [(number, replace(partial, deferred=())) for number, partial in found]
    numbers = [one.number for one in _left(found)]
    return [*without, *zip(numbers, settled, strict=True)]
