"""What lies at the limits of a system, or beyond them, is asked while faults strike, and all of it once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.ops import QueueRef
from chaos.services import HasLimits, Limits
from chaos.workload import Load, Outcome, Use, Worker, body_hash, next_message, note

RETRY_S = 0.2
#: Where many don't answer, a round of questions ends after so many times ``drain_s``, and those that were not answered
#: are asked again until so many are silent again: what is asked once shows nothing.
ROUND, WITNESSES = 4, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``rate_per_s`` questions are asked, all that the driver has in an order that is drawn, each of one of the nodes
    that it is for; then they are asked again. At the end each question but for messages is asked of every such node,
    and again as long as it isn't answered, for up to ``drain_s``."""

    rate_per_s: float = 5.0
    drain_s: float = 10.0


@dataclass(slots=True)
class Asker:
    options: Options
    uses: Sequence[Use] = (Use.LIMITS,)
    needs: Sequence[type] = (HasLimits,)
    #: Who asked during the load: some conversations go on where an earlier one ended.
    _limits: Limits | None = None

    async def run(self, load: Load) -> None:
        limits, worker, rng = load.limits("limits"), Worker(load, "limits"), load.rng("limits")
        self._limits = limits
        while not load.stopping:
            names = [*sorted(limits.questions), *(sorted(limits.messages) if load.queues else ())]
            rng.shuffle(names)
            for name in names:
                await load.sleep((0.5 + rng.random()) / self.options.rate_per_s)
                if load.stopping:
                    return
                if name in limits.questions:
                    await _ask(limits, worker, name, rng.choice(sorted(limits.questions[name])))
                else:
                    await _send(load, limits, worker, name, rng.choice(load.queues))

    async def drain(self, load: Load) -> None:
        limits, worker = self._limits or load.limits("limits-reader"), Worker(load, "limits-reader")
        began_ns, drain_ns = load.now_ns(), round(self.options.drain_s * 1e9)
        left = [(name, node) for name in sorted(limits.questions) for node in limits.questions[name]]
        while left:
            late = load.now_ns() >= began_ns + drain_ns
            silent: list[tuple[str, str]] = []
            for one in left:
                if not (await _ask(limits, worker, *one)).ok:
                    silent.append(one)
                if silent and load.now_ns() >= began_ns + ROUND * drain_ns:
                    await _ask_again(limits, worker, silent)
                    return
            left = silent
            if late:
                return
            if left:
                await load.sleep(RETRY_S)


async def _ask_again(limits: Limits, worker: Worker, silent: Sequence[tuple[str, str]]) -> None:
    """Ask as many of these as it takes until some are silent again."""
    left = WITNESSES
    for one in silent:
        left -= not (await _ask(limits, worker, *one)).ok
        if not left:
            return


async def _ask(limits: Limits, worker: Worker, name: str, node: str) -> Outcome:
    return await worker.do("question", lambda: limits.ask(name, node), question=name, to=node)


async def _send(load: Load, limits: Limits, worker: Worker, name: str, queue: QueueRef) -> None:
    """Send a message like all others, but for its form: what is taken is there in the end."""
    message = next_message(load, queue)
    body = f"{message:014}:limits".encode()
    outcome = await worker.do(
        "send",
        lambda: limits.send_question(name, queue, f"{message:032X}", body),
        queue=queue,
        message=message,
        hash=body_hash(body),
        question=name,
    )
    if outcome.ok:
        note(load, "acked", queue, outcome.answer.offset)


def create(options: Options) -> Asker:
    return Asker(options)
