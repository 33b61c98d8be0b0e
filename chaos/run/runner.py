"""Runs one experiment: set up, wait until ready, load and faults, heal, recover, drain, collect, stop.

The same code on every deployment, in virtual or real time: it knows no clock but the deployment's and its loop's, and
starts tasks through :mod:`chaos.tasks` alone. Whatever happens, an error or Ctrl-C included, all faults are undone and
the deployment is stopped at the end, and what was recorded stays a history that can be judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol, cast
from zlib import crc32

from chaos.delivery_services import CanDeliver, DeliveryMember, DeliveryProducer
from chaos.deployment import (
    CanLoseUnsynced,
    CanRuleRequests,
    CanSkewClocks,
    Demands,
    Deployment,
    EndedBy,
    ExpectsLinkActions,
    ExpectsPowerCuts,
    ExpectsSkewedClocks,
)
from chaos.draws import Draws
from chaos.driver import (
    CanFrame,
    CanReadThroughNodes,
    CanSetUp,
    Client,
    ClientCommand,
    ClusterView,
    Driver,
    HasClientLibrary,
    HasClientPrograms,
    OnTrace,
    Record,
    promising,
)
from chaos.effects.links import HARNESS
from chaos.errors import DeploymentError
from chaos.experiment.demands import demands_of, named
from chaos.experiment.model import Experiment, FaultSpec
from chaos.history.unanswered import Answers
from chaos.log_services import (
    CanHaveGroups,
    CanReadLogs,
    CanTransact,
    GroupMember,
    LogReader,
    Transactions,
)
from chaos.ops import QueueRef
from chaos.run.bypasses import Bypasses
from chaos.run.earlier import FreshLocks, FreshObjects, check_empty
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from chaos.run.node_reads import read_copies
from chaos.services import (
    CanBeOperated,
    CanCreateTopics,
    CanDeleteTopics,
    CanHoldObjects,
    CanHoldReads,
    CanKeepMetadata,
    CanLendLocks,
    DeletesTopics,
    HasLimits,
    Limits,
    Locks,
    Metadata,
    Objects,
    Operator,
    Topics,
    WaitingReads,
)
from chaos.tasks import Group, gather, interruptible
from chaos.workload import LONG_WAIT_S, Worker, Workload, body_hash, next_message, note

POLL_S = 0.5
READY_S = 60.0
#: How long workloads may take to end once they are asked to.
STOP_S = 15.0
#: After Ctrl-C they have this time; then faults are undone without waiting for them any longer.
INTERRUPT_S = 5.0
COLLECT_S = 60.0
LAG_EVERY_S = 0.1
STALL_S = 0.25
RETRY_S = 0.1

#: What is reported as a phase between Ctrl-C and the end of what was under way.
STOPPING = "stopping"

#: Called with the phase, and the seconds since the run began, at each phase and each poll.
OnProgress = Callable[[str, float], None]


class Recorder(Protocol):
    """What the runner needs of :class:`chaos.history.recorder.Recorder`, whose clock is the deployment's."""

    def record(self, kind: str, **columns: Any) -> int: ...

    def record_trace(self, row: Mapping[str, Any]) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run went, as far as the harness knows. ``recovered_s`` is -1 when the system didn't recover in time (or the
    run never came so far: then ``phases`` ends before ``recover``)."""

    phases: tuple[str, ...]
    recovered: bool
    recovered_s: float
    skipped_faults: tuple[str, ...]
    effective_faults: tuple[str, ...]
    interrupted: bool


def run(
    experiment: Experiment,
    *,
    deployment: Deployment,
    driver: Driver,
    directory: Path,
    seed: int,
    mutant: str = "",
    recorder: Recorder,
    on_progress: OnProgress | None = None,
    draws: Draws | None = None,
) -> RunSummary:
    """Run the experiment to its end on the deployment's own event loop. The caller owns the recorder and closes it.

    Ctrl-C heals and stops; the summary says so. Raises :class:`chaos.errors.ChaosError` when the harness, not the
    system under test, has failed; also then everything is undone first.
    """
    the_run = _Run(
        experiment,
        deployment=deployment,
        driver=promising(driver, experiment.profile),
        directory=directory,
        seed=seed,
        mutant=mutant,
        recorder=recorder,
        on_progress=on_progress,
        draws=draws or Draws(seed),
    )
    try:
        deployment.execute(the_run.main())
    except KeyboardInterrupt:
        the_run.interrupted = True
    return the_run.summary()


async def bring_up(
    deployment: Deployment,
    driver: Driver,
    *,
    mutant: str = "",
    on_trace: OnTrace = lambda row: None,
    record: Record | None = None,
    within_s: float = READY_S,
    ruled: bool = False,
) -> ClusterView:
    """Start a cluster and wait until it is ready for clients. ``ruled``: there will be rules on requests. Raises
    :class:`chaos.errors.DeploymentError`."""
    if isinstance(driver, CanFrame) and isinstance(deployment, CanRuleRequests):
        deployment.read_requests(driver.framing(), ruled=ruled)
    await deployment.start(driver.cluster(mutant), on_trace)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    is_made = not isinstance(driver, CanSetUp)
    while True:
        view = await driver.view(deployment, record)
        if is_made and view.settled:
            return view
        if isinstance(driver, CanSetUp) and not is_made:
            is_made = await driver.set_up(deployment)
            if is_made and isinstance(deployment, ExpectsPowerCuts):
                await deployment.sync_disks()
        if loop.time() >= deadline:
            lacking = "" if is_made else "; its driver has not ended its set-up"
            raise DeploymentError(f"the cluster was not ready within {within_s:g} s{lacking}; last seen: {view}")
        await asyncio.sleep(getattr(deployment, "READY_POLL_S", POLL_S))


def after_role(view: ClusterView, row: Mapping[str, object]) -> ClusterView:
    """Return the view after a trace row ``role``. A row of a system with several groups names the one that it is about
    in ``value.group``; without that, the node's only group is meant, and nothing changes where it has several."""
    value, epoch, node = row.get("value"), row.get("epoch", -1), str(row["node"])
    if not isinstance(value, Mapping) or value.get("role") != "master" or not isinstance(epoch, int):
        return view
    if "group" in value:
        return view.with_leader(str(value["group"]), node, epoch)
    groups = view.groups if len(view.groups) == 1 else view.groups_of(node)
    return view.with_leader(groups[0].name, node, epoch) if len(groups) == 1 else view


class _Load:
    """What a workload sees of the run (:class:`chaos.workload.Load`)."""

    def __init__(
        self,
        network: Deployment,
        driver: Driver,
        record: Record,
        brokers: Callable[[], tuple[str, ...]],
        draws: Draws,
        bypasses: Bypasses,
        fresh: str = "",
    ) -> None:
        """``fresh``: a cluster that ran before gets this before each name of what the run makes there."""
        self._bypasses = bypasses
        self._network = network
        self._driver = driver
        self._draws = draws
        self.record = record
        self.queues: tuple[QueueRef, ...] = tuple(driver.queues())
        self._brokers = brokers
        self._fresh = fresh
        self._over = asyncio.Event()
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}

    def recorded_by(self, record: Record) -> _Load:
        """Return the same load, of which this one takes the rows."""
        other = copy(self)
        other.record = record
        return other

    @property
    def stopping(self) -> bool:
        return self._over.is_set()

    def stop(self) -> None:
        """End the load, also for all that were made of this one: workloads that have long to wait are woken."""
        self._over.set()

    @property
    def brokers(self) -> tuple[str, ...]:
        return self._brokers()

    def client(self, name: str) -> Client:
        return self._driver.client(self._network, name)

    def waiting_reads(self, name: str) -> WaitingReads:
        return cast(CanHoldReads, self._driver).waiting_reads(self._network, name)

    def log_reader(self, name: str) -> LogReader:
        return cast(CanReadLogs, self._driver).log_reader(self._network, name)

    def transactions(self, name: str, id: str) -> Transactions:
        return cast(CanTransact, self._driver).transactions(self._network, name, id=self._fresh + id)

    def group_member(self, name: str, group: str) -> GroupMember:
        return cast(CanHaveGroups, self._driver).group_member(self._network, name, group)

    def delivery_producer(self, name: str) -> DeliveryProducer:
        return cast(CanDeliver, self._driver).delivery_producer(self._network, name)

    def delivery_member(self, name: str, group: str) -> DeliveryMember:
        return cast(CanDeliver, self._driver).delivery_member(self._network, name, group)

    def objects(self, name: str) -> Objects:
        made = cast(CanHoldObjects, self._driver).objects(self._network, name)
        return FreshObjects(made, self._fresh) if self._fresh else made

    def topics(self, name: str) -> Topics:
        return cast(CanCreateTopics, self._driver).topics(self._network, name)

    def deleting_topics(self, name: str) -> DeletesTopics:
        return cast(CanDeleteTopics, self._driver).deleting_topics(self._network, name)

    def operator(self, name: str) -> Operator:
        return cast(CanBeOperated, self._driver).operator(self._network, name)

    def metadata(self, name: str) -> Metadata:
        return cast(CanKeepMetadata, self._driver).metadata(self._network, name)

    def limits(self, name: str) -> Limits:
        return cast(HasLimits, self._driver).limits(self._network, name)

    def locks(self, name: str) -> Locks:
        made = cast(CanLendLocks, self._driver).locks(self._network, name)
        return FreshLocks(made, self._fresh) if self._fresh else made

    async def client_command(self, name: str) -> ClientCommand:
        return await cast(HasClientPrograms, self._driver).client_command(self._network, name)

    async def library_command(self, name: str, orders: Mapping[str, int]) -> ClientCommand:
        return await cast(HasClientLibrary, self._driver).library_command(self._network, name, orders)

    async def look_for_bypass(self, client: str, pid: int) -> None:
        await self._bypasses.look(client, pid)

    def rng(self, name: str) -> Random:
        return self._draws.of(f"load/{name}")

    async def sleep(self, seconds: float) -> bool:
        if seconds <= LONG_WAIT_S or self.stopping:
            await asyncio.sleep(seconds)
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._over.wait()
        return False

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await gather(*coroutines)

    def now_ns(self) -> int:
        return self._network.now_ns()


class _Run:
    """One run: the phases in order, and the watcher that keeps the view of the cluster current beside them."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        deployment: Deployment,
        driver: Driver,
        directory: Path,
        seed: int,
        mutant: str,
        recorder: Recorder,
        on_progress: OnProgress | None,
        draws: Draws,
    ) -> None:
        self._experiment = experiment
        self._deployment = deployment
        self._driver = driver
        self._directory = directory
        self._seed = seed
        self._draws = draws
        self._mutant = mutant
        self._recorder = recorder
        #: Tasks that did not end when they were cancelled: clients of others, say, that swallow that.
        self._abandoned: frozenset[asyncio.Task[Any]] = frozenset()
        self._beside = Group()
        self._ended = False
        self._on_progress = on_progress or (lambda phase, seconds: None)
        # Simulated nodes trace straight into the history; processes write files of their own.
        self._simulated = deployment.name == "sim"
        self._nemesis: NemesisRunner | None = None
        self._journal: Journal | None = None
        self._bypasses: Bypasses | None = None
        self._view = ClusterView()
        self._phases: list[str] = []
        self._began_s = 0.0
        self._recovered_s = -1.0
        self.interrupted = False

    def summary(self) -> RunSummary:
        return RunSummary(
            phases=tuple(self._phases),
            recovered=self._recovered_s >= 0,
            recovered_s=self._recovered_s,
            skipped_faults=tuple(self._experiment.skipped_on(self._deployment.name)),
            effective_faults=tuple(sorted(self._nemesis.effective)) if self._nemesis else (),
            interrupted=self.interrupted,
        )

    async def main(self) -> int:
        self._began_s = asyncio.get_running_loop().time()
        try:
            await (self._all_phases() if self._simulated else self._interruptible())
        except asyncio.CancelledError:
            self.interrupted = True
        finally:
            await self._end()
        return 0

    async def _interruptible(self) -> None:
        """All phases. Whatever of them goes on after an interruption, as a client library has swallowed the
        cancellation, is left alone and records nothing any more."""
        self._abandoned = await interruptible(self._all_phases(), INTERRUPT_S, lambda: self._report(STOPPING))
        if self._abandoned:
            self._beside.cancel()
            raise asyncio.CancelledError

    def _record(self, kind: str, **columns: Any) -> int:
        """Record a row. Raises ``RuntimeError`` in a task that was abandoned, another cancellation it would swallow,
        too; and in all once the run is over."""
        if self._ended or (self._abandoned and asyncio.current_task() in self._abandoned):
            raise RuntimeError("the run is over")
        return self._recorder.record(kind, **columns)

    async def _all_phases(self) -> None:
        self._journal = Journal(self._directory, durable=not self._simulated)
        self._phase("setup")
        faults = self._experiment.faults_on(self._deployment.name, self._seed)
        self._nemesis = NemesisRunner(
            faults,
            deployment=self._deployment,
            driver=self._driver,
            record=self._record,
            journal=self._journal,
            view=lambda: self._view,
            draws=self._draws,
            mutant=self._mutant,
        )
        workloads: list[Workload] = [use.build() for use in self._experiment.workloads]
        load = await self._begin(faults)
        async with Group() as group:
            self._beside = group
            group.start(self._watch())
            group.start(self._measure_lag())
            if not self._simulated:
                group.start(self._nemesis.accidents.watch())
            self._phase("ready")
            if not await self._writable(load, load.queues[:1], READY_S):
                raise DeploymentError(f"no write was acknowledged within {READY_S:g} s; last seen: {self._view}")
            self._phase("load")
            await self._load(load, workloads, self._nemesis)
            self._phase("heal")
            await self._nemesis.heal()
            self._phase("recover")
            await self._recover(load)
            self._phase("drain")
            await self._drain(load, workloads)
            group.cancel()
        self._phase("collect")
        await self._within(COLLECT_S, self._driver.collect(self._deployment, self._record))

    async def _begin(self, faults: Sequence[FaultSpec]) -> _Load:
        """Begin the cluster; return what workloads see of the run."""
        demands = demands_of(faults)
        self._expect(demands)
        with named(faults):
            self._view = await bring_up(
                self._deployment,
                self._driver,
                mutant=self._mutant,
                on_trace=self._on_trace,
                record=self._record,
                ruled=CanRuleRequests in demands.powers,
            )
        fresh = ""
        if not getattr(self._deployment, "STARTS", True):
            await check_empty(self._driver, self._deployment)
            fresh = f"storm-{crc32(str(self._directory.absolute()).encode()):08x}-"
        self._bypasses = Bypasses(self._deployment, self._record, demands)
        return _Load(
            self._deployment,
            self._driver,
            self._record,
            lambda: self._view.servers,
            self._draws,
            self._bypasses,
            fresh,
        )

    def _expect(self, demands: Demands) -> None:
        """Say to the deployment, before it starts, what of this it must prepare for."""
        if isinstance(self._deployment, ExpectsLinkActions):
            self._deployment.expect_link_actions(demands.link_actions)
        if isinstance(self._deployment, ExpectsSkewedClocks) and CanSkewClocks in demands.powers:
            self._deployment.expect_skewed_clocks()
        if isinstance(self._deployment, ExpectsPowerCuts) and CanLoseUnsynced in demands.powers:
            self._deployment.expect_power_cuts()

    async def _end(self) -> None:
        """Undo what still lasts and stop; each of the two is tried whatever became of the other."""
        try:
            if self._nemesis is not None:
                await self._nemesis.heal()
        finally:
            try:
                self._phase("stop")
                if self._nemesis is not None:
                    await self._nemesis.accidents.last()
                for crash in getattr(self._deployment, "crashes", ()):
                    if getattr(crash, "by", EndedBy.ITSELF) is EndedBy.ITSELF:
                        self._record("harness", f="crash", value={"what": str(crash)})
                for loss in getattr(self._deployment, "losses", ()):
                    self._record("harness", f="host_lost", value={"what": loss})
                if self._bypasses is not None:
                    await self._bypasses.end()
            finally:
                await self._deployment.stop()
                if self._journal is not None:
                    self._journal.close()
        self._record("harness", f="end", value={"interrupted": self.interrupted})
        self._ended = True

    # Phases

    async def _load(self, load: _Load, workloads: list[Workload], nemesis: NemesisRunner) -> None:
        names = [use.name for use in self._experiment.workloads]
        answers = [Answers(name, self._record) for name in names]
        async with Group() as group:
            pairs = zip(workloads, answers, strict=True)
            scripts = [group.start(workload.run(load.recorded_by(own))) for workload, own in pairs]
            await nemesis.run(self._experiment.duration_s, self._experiment.quiet_s)
            load.stop()
            loop = asyncio.get_running_loop()
            deadline = loop.time() + STOP_S
            while not all(script.done() for script in scripts) and loop.time() < deadline:
                await asyncio.sleep(RETRY_S)
            if not all(script.done() for script in scripts):
                self._overran(STOP_S)
                group.cancel()
        for own in answers:
            own.note()

    async def _recover(self, load: _Load) -> None:
        """Wait until every replica is in sync and each queue takes a write again."""
        loop = asyncio.get_running_loop()
        begin_s, begin_ns = loop.time(), self._deployment.now_ns()
        bound_s = self._experiment.bounds.recover_s
        settled = False
        while not settled and loop.time() < begin_s + bound_s:
            await asyncio.sleep(RETRY_S)
            settled = self._view.settled and self._view.asked_ns >= begin_ns
        left_s = begin_s + bound_s - loop.time()
        if settled and await self._writable(load, load.queues, left_s):
            self._recovered_s = loop.time() - begin_s
            self._record("harness", f="recovered", value={"seconds": round(self._recovered_s, 3)})
            return
        silent = f"no send was acknowledged on each queue within {bound_s:g} s"
        why = silent if settled else f"not settled: {self._view.lacks()}"
        self._record("harness", f="not_recovered", value={"reason": why, "seconds": bound_s})

    async def _drain(self, load: _Load, workloads: list[Workload]) -> None:
        await self._within(
            self._experiment.bounds.drain_s, load.gather(*(workload.drain(load) for workload in workloads))
        )
        if isinstance(self._driver, CanReadThroughNodes):
            reads = (read_copies(load, queue, self._driver.holders(queue)) for queue in load.queues)
            await self._within(self._experiment.bounds.drain_s, load.gather(*reads))

    async def _within(self, seconds: float, work: Coroutine[Any, Any, None]) -> None:
        """Await the work; when it takes too long, cut it off and record that."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            self._overran(seconds)

    def _overran(self, seconds: float) -> None:
        self._record("harness", f="overrun", value={"phase": self._phases[-1], "seconds": seconds})

    async def _writable(self, load: _Load, queues: tuple[QueueRef, ...], within_s: float) -> bool:
        """Send one message to each of the queues, from a client that no fault touches, until all were acknowledged."""
        if not queues:  # a system that holds objects alone
            return True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        client, worker = self._driver.client(self._deployment, HARNESS), Worker(load, "probe")
        try:
            for queue in queues:
                while not await self._probe(load, client, worker, queue):
                    if loop.time() >= deadline:
                        return False
                    await asyncio.sleep(RETRY_S)
            return True
        finally:
            client.close()

    async def _probe(self, load: _Load, client: Client, worker: Worker, queue: QueueRef) -> bool:
        message = next_message(load, queue)
        body = f"{message}:probe".encode()
        sent = await worker.do(
            "send",
            lambda: client.send(queue, f"{message:032X}", body),
            queue=queue,
            message=message,
            hash=body_hash(body),
        )
        if sent.ok:
            note(load, "acked", queue, sent.answer.offset)
        return sent.ok

    # Beside the phases

    async def _watch(self) -> None:
        """Ask the system who is what, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            asked_ns = self._deployment.now_ns()
            view = await self._driver.view(self._deployment, self._record)
            for group in self._view.groups:  # a node may have reported a later switch meanwhile
                view = view.with_leader(group.name, group.leader, group.epoch)
            self._view = replace(view, asked_ns=asked_ns)
            self._on_progress(self._phases[-1], loop.time() - self._began_s)
            await asyncio.sleep(POLL_S)

    def _on_trace(self, row: Mapping[str, object]) -> None:
        if self._simulated:
            self._recorder.record_trace(row)
        if row["f"] == "role":
            self._view = after_role(self._view, row)  # at once, so that faults hit the new master
        if self._nemesis is not None:
            self._nemesis.on_trace(row)

    async def _measure_lag(self) -> None:
        """Record when the harness itself did not run: what clients saw then says little about the system."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            late_s = loop.time() - due
            if late_s > STALL_S:
                self._record("harness", f="stall", value={"ms": round(late_s * 1000)})

    def _phase(self, phase: str) -> None:
        self._phases.append(phase)
        self._record("harness", f="phase", value={"phase": phase})
        self._report(phase)

    def _report(self, phase: str) -> None:
        self._on_progress(phase, asyncio.get_running_loop().time() - self._began_s)
