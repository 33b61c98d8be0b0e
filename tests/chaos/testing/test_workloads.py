"""``check_workload``: every shipped workload passes it, and each broken promise fails it with a sentence."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any

import pytest

from chaos.driver import Driver, Network
from chaos.experiment.capabilities import can
from chaos.ops import Failed, QueueRef, Unknown
from chaos.plugins import PluginKind, load, names, options_class
from chaos.testing import check_workload
from chaos.workload import Load, Worker, body_hash, next_message
from drivers.reference.driver import Options as System
from drivers.reference.driver import ReferenceWithMetadata
from tests.drivers.toy_logs import ToyLogs
from tests.workloads.test_lease_lock import FakeLocks, Lender

READS = {"reads_only": True}
HOW: Mapping[str, Mapping[str, Any]] = {"operator": {"every_s": 1, "looks_s": 0.5}, "tier_read": READS, "tail": READS}


#: Those whose clients are processes of their own: no simulation has them (tests/workloads/test_program.py,
#: test_library.py, tests/stormproof/test_foreign.py).
ELSEWHERE = {"library", "program"}


class Lending(ReferenceWithMetadata):
    """The reference system with metadata, beside which locks are lent."""

    _lender: Lender | None = None

    def locks(self, network: Network, name: str) -> FakeLocks:
        lender = Lending._lender = Lending._lender or Lender(lambda: network.now_ns() / 1e9)
        return FakeLocks(lender, name, ("controller-0",))


def cluster() -> Driver:
    Lending._lender = None
    return Lending(System(queues=2, controllers=1, metadata=True))


def system_for(workload: ModuleType) -> Callable[[], Driver]:
    """Return what makes a system with all that the workload needs."""
    needs = getattr(workload.create(options_class(workload)()), "needs", ())
    return cluster if all(can(Lending, need) for need in needs) else ToyLogs


@pytest.mark.parametrize("name", sorted({*names(PluginKind.WORKLOAD)} - ELSEWHERE))
def test_every_shipped_workload_keeps_its_promises(name: str) -> None:
    workload = load(PluginKind.WORKLOAD, name)
    report = check_workload(workload, system_for(workload), **HOW.get(name, {}))
    assert any(outcome == "ok" for _, outcome in report.ended)


Script = Callable[[Load], Awaitable[None]]


def plugin(run: Script) -> ModuleType:
    class Workload:
        async def run(self, load: Load) -> None:
            await run(load)

        async def drain(self, load: Load) -> None: ...

    module = ModuleType("workloads.spoiled", "A workload of these tests.")
    module.create = lambda options: Workload()  # type: ignore[attr-defined]
    return module


async def send(load: Load, worker: Worker, queue: QueueRef) -> None:
    client, message = load.client("p"), next_message(load, queue)
    body = b"x"
    await worker.do(
        "send", lambda: client.send(queue, f"{message:032X}", body), queue=queue, message=message, hash=body_hash(body)
    )


async def good(load: Load) -> None:
    worker = Worker(load, "p")
    while not load.stopping:
        await send(load, worker, load.queues[0])
        await load.sleep(0.02)


async def swallows(load: Load) -> None:
    """Takes an unknown outcome for a failure."""
    client = load.client("p")
    while not load.stopping:
        queue, message = load.queues[0], next_message(load, load.queues[0])
        asked: dict[str, Any] = {"process": "p.0", "f": "send", "queue": 0, "message": message, "hash": 1}
        op = load.record("op", type="invoke", offset=-1, value={}, **asked)
        try:
            answer = await client.send(queue, f"{message:032X}", b"x")
            load.record("op", type="ok", op=op, offset=answer.offset, value={}, **asked)
        except (Failed, Unknown):
            load.record("op", type="fail", op=op, offset=-1, value={}, **asked)
        await load.sleep(0.02)


async def leaves_open(load: Load) -> None:
    await send(load, Worker(load, "p"), load.queues[0])
    load.record("op", type="invoke", process="q.0", f="send", queue=0, message=7, hash=1, value={})


async def goes_on(load: Load) -> None:
    """The same process after an unknown outcome."""
    for outcome in ("info", "ok"):
        op = load.record("op", type="invoke", process="q.0", f="send", queue=0, message=7, hash=1, value={})
        load.record("op", type=outcome, op=op, process="q.0", f="send", queue=0, message=7, hash=1, value={})


async def overruns(load: Load) -> None:
    await good(load)
    await load.sleep(100.0)


async def only_reads(load: Load) -> None:
    client, worker = load.client("p"), Worker(load, "p")
    await worker.do("bounds", lambda: client.bounds(load.queues[0]), queue=load.queues[0])


async def draws(load: Load) -> None:
    worker = Worker(load, "p")
    while not load.stopping:
        await send(load, worker, load.queues[0])
        await load.sleep(0.02 + random.random() / 100)


def test_a_good_workload_passes() -> None:
    assert check_workload(plugin(good), cluster).ended["send", "ok"] > 50


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (swallows, "but only 0 are recorded as info"),
        (leaves_open, r"send of q\.0, row \d+, never ends"),
        (goes_on, "begins send after an unknown outcome"),
        (overruns, r"its load did not end within 15 s"),
        (only_reads, "no write of it was acknowledged"),
        (draws, "two runs of one seed differ"),
    ],
)
def test_what_a_workload_does_wrong_is_found(script: Script, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_workload(plugin(script), cluster)


def test_a_driver_that_lacks_what_the_workload_needs_is_named() -> None:
    class Queues:
        """A driver without objects."""

    with pytest.raises(AssertionError, match="it lacks CanHoldObjects"):
        check_workload(load(PluginKind.WORKLOAD, "lock"), Queues)  # type: ignore[arg-type]
