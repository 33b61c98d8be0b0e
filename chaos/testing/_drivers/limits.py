"""What a driver's questions at the limits of its system may not do."""

from __future__ import annotations

import asyncio

from chaos.services import HasLimits, Limits
from chaos.testing._drivers.bench import Bench

TRIES, RETRY_S = 50, 0.2


async def check_limits(bench: Bench, driver: HasLimits) -> None:
    """Ask each question of every node that it is for, until it is answered; the answer is the documented one."""
    client = driver.limits(bench.network, "check-limits")
    bench.require(bool(client.questions), "limits: there is no question")
    for name, nodes in client.questions.items():
        unknown = sorted({*nodes} - bench.nodes - {""})
        bench.require(bool(nodes) and not unknown, f"limits: {name}: {', '.join(unknown) or 'nobody'} can't be asked")
        for node in nodes:
            await _ask(bench, client, name, node)


async def _ask(bench: Bench, client: Limits, name: str, node: str) -> None:
    reason = ""
    for _ in range(TRIES):
        result = await bench.ask("limits: ask", client.ask(name, node))
        if result.ok:
            value = result.answer.value
            right = bool(value.get("expected")) and value.get("expected") == value.get("told")
            bench.require(right, f"limits: {name}: {node or 'the system'} answered {value}")
            return
        reason = result.reason
        await asyncio.sleep(RETRY_S)
    bench.require(False, f"limits: {name} was never answered on a settled system; the last time: {reason}")
