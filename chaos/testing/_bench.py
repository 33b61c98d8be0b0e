"""A small run in the simulator for the checks of this package: its rows in memory, and a deployment that watches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.deployments._sim.network import Host, Pipe, SimNet
from chaos.deployments.sim import SimConnection, SimDeployment
from chaos.draws import Draws
from chaos.driver import Driver
from chaos.experiment.model import Bounds, Experiment, FaultSpec, PluginUse
from chaos.fault import Undo, Verb, pressed
from chaos.plugins import PluginKind
from chaos.run.runner import RunSummary, run

Row = dict[str, Any]
BOUNDS = Bounds(recover_s=30.0, drain_s=30.0)

#: What undoes what a deployment was asked for, by its method; all others leave nothing behind.
UNDONE_BY: Mapping[str, Callable[[str], Undo]] = {
    **{
        name: lambda node: Undo(verb=Verb.START, subject=node)
        for name in ("kill", "terminate", "wipe", "lose_unsynced", "tear_writes")
    },
    **{name: lambda node: Undo(verb=Verb.START, subject=node) for name in ("harm_disk", "copy_disk", "roll_back_disk")},
    "pause": lambda node: Undo(verb=Verb.RESUME, subject=node),
    "set_rule": lambda rule: Undo(verb=Verb.CLEAR_RULE, subject=rule),
    "set_disk_rule": lambda rule: Undo(verb=Verb.CLEAR_DISK, subject=rule),
    "set_clock": lambda node: Undo(verb=Verb.RESET_CLOCK, subject=node),
    "slow_processor": lambda node: Undo(verb=Verb.RELEASE, subject=pressed(node, "cpu")),
    "limit_memory": lambda node: Undo(verb=Verb.RELEASE, subject=pressed(node, "memory")),
    "limit_descriptors": lambda node: Undo(verb=Verb.RELEASE, subject=pressed(node, "descriptors")),
    "hang_io": lambda node: Undo(verb=Verb.RELEASE, subject=pressed(node, "io")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(PluginUse):
    """A plug-in that needs no registration."""

    make: Callable[[], Any]

    def build(self) -> Any:
        return self.make()


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody asked of the deployment: ``what`` is the method's name; ``on`` its first argument."""

    time_ns: int
    what: str
    on: str
    more: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """An open connection that broke: neither of the two had closed it."""

    time_ns: int
    source: str
    target: str


class WatchedNet(SimNet):
    """Notes every open connection that breaks."""

    def __init__(self, sim: WatchedSim) -> None:
        super().__init__(sim.loop, Draws(sim.seed))
        self._sim = sim
        self._closing = False

    def close(self, host: Host, peer: str) -> None:
        self._closing = True
        try:
            super().close(host, peer)
        finally:
            self._closing = False

    def _break(self, pipe: Pipe, *, lose_sent: bool) -> None:
        if not self._closing and (pipe.accepted or pipe.back.accepted):
            self._sim.broken.append(Broken(self._loop.now_ns, pipe.source.name, pipe.target.name))
        super()._break(pipe, lose_sent=lose_sent)


class WatchedSim(SimDeployment):
    """The simulator, which notes what is asked of it. ``holding``: what was done and not undone yet, by what undoes
    it."""

    def __init__(self, seed: int) -> None:
        super().__init__(Draws(seed))
        self.seed = seed
        self.deeds: list[Deed] = []
        self.undone: list[Deed] = []
        self.broken: list[Broken] = []
        self.holding: dict[Undo, str] = {}
        self.clients: list[str] = []
        self._net = WatchedNet(self)

    def connect(self, client: str, node: str) -> SimConnection:
        if client not in self.clients:
            self.clients.append(client)
        return super().connect(client, node)

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes that there are by now."""
        return tuple(self._nodes)

    def life(self, node: str) -> int:
        """Return the number of the node's lives, this one included."""
        return self._nodes[node].incarnation

    async def undo(self, step: Undo) -> None:
        self.undone.append(Deed(self.now_ns(), str(step.verb), step.subject))
        await super().undo(step)
        self.holding.pop(step, None)

    def note(self, what: str, on: str, more: tuple[object, ...]) -> None:
        self.deeds.append(Deed(self.now_ns(), what, on, more))
        if what in UNDONE_BY:
            self.holding[UNDONE_BY[what](on)] = what


def _noting(name: str) -> Any:
    """Return the method of that name, which notes that it was called once it has acted. A clock is set also when the
    node doesn't report that."""
    original = getattr(SimDeployment, name)

    async def noted(self: WatchedSim, on: str, *args: object, **kwargs: object) -> Any:
        more = (*args, *sorted(kwargs.items()))
        if name == "set_clock":
            self.note(name, on, more)
        result = await original(self, on, *args, **kwargs)
        if name != "set_clock":
            self.note(name, on, more)
        return result

    return noted


for _name in UNDONE_BY:
    if hasattr(SimDeployment, _name):
        setattr(WatchedSim, _name, _noting(_name))


class Memory:
    """Records in memory. ``on_row`` hears of each row of the harness at once."""

    def __init__(self, now_ns: Callable[[], int], on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self._now_ns = now_ns
        self._on_row = on_row

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"index": len(self.rows), "kind": kind, "time_ns": self._now_ns(), **columns})
        self._on_row(self.rows[-1])
        return len(self.rows) - 1

    def record_trace(self, row: Mapping[str, Any]) -> int:
        self.rows.append({"index": len(self.rows), "kind": "trace", **row})
        return len(self.rows) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    rows: Sequence[Row]
    summary: RunSummary
    sim: WatchedSim

    def of(self, kind: str, **columns: object) -> list[Row]:
        return [row for row in self.rows if row["kind"] == kind and all(row.get(k) == v for k, v in columns.items())]


def play(
    driver: Driver,
    *,
    workload: Callable[[WatchedSim], Any],
    faults: Sequence[FaultSpec] = (),
    duration_s: float,
    seed: int,
    on_row: Callable[[WatchedSim, Row], None] = lambda sim, row: None,
) -> Play:
    """Play one whole run, as ``stormproof run --on sim`` has it, but for the verdict."""
    sim = WatchedSim(seed)
    memory = Memory(sim.now_ns, lambda row: on_row(sim, row))
    experiment = Experiment(
        name="check",
        system=PluginUse(kind=PluginKind.DRIVER, name="system", options=None),
        profile=driver.profile(),
        duration_s=duration_s,
        bounds=BOUNDS,
        workloads=(Made(kind=PluginKind.WORKLOAD, name="load", options=None, make=lambda: workload(sim)),),
        faults=tuple(faults),
    )
    with tempfile.TemporaryDirectory(prefix="stormproof-check-") as directory:
        summary = run(
            experiment, deployment=sim, driver=driver, directory=Path(directory), seed=seed, recorder=memory
        )  # fmt: skip
    return Play(rows=memory.rows, summary=summary, sim=sim)
