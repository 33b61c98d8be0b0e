"""``check_workload``: what every workload owes to the laws that judge what its clients saw, tried in the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from types import ModuleType
from typing import Any, cast

from chaos import log_services, plugins, services
from chaos.deployment import CanPause
from chaos.driver import ClusterView, Driver, Network, Profile, promising
from chaos.effects.links import HARNESS
from chaos.experiment.capabilities import can, methods
from chaos.experiment.model import FaultSpec, Schedule
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, each, on
from chaos.ops import OpType, Unknown
from chaos.plugins import PluginKind
from chaos.testing._bench import Made, Play, Row, play

#: The load goes on for so long; in its middle the nodes that serve stand still for a while, so that outcomes
#: are unknown.
LASTS_S, HUNG_AT_S, HANGS_S = 7.0, 2.0, 3.0
#: Operations that only look.
READS = frozenset(
    {"pull", "delivered", "committed", "bounds", "drain", "read", "find_topic", "assign", "seek", "poll", "heartbeat"}
)
#: The methods of drivers that make clients of their optional powers.
SERVICES = frozenset(
    service
    for module in (services, log_services)
    for name, power in vars(module).items()
    if name.startswith(("Can", "Has"))
    for service in methods(power)
)
#: Processes of the harness itself.
PROBE = "probe."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReport:
    """How many operations there were, by ``(f, type)`` of their completions."""

    ended: Mapping[tuple[str, str], int]


def check_workload(
    plugin: ModuleType, driver: Callable[[], Driver], *, reads_only: bool = False, seed: int = 1, **options: Any
) -> WorkloadReport:
    """Run a workload in the simulator against a system whose master hangs for a while, and look at what it recorded.

    ``plugin`` is the workload's module (``create``, and ``Options`` if it has any), ``options`` its options, ``driver``
    makes a new system under test for each run. One that never writes is ``reads_only``.

    Raises ``AssertionError`` with everything that is wrong: an operation without an end, an unknown outcome that is not
    recorded as ``info``, a process that acts after one or does two things at a time, a load or drain that doesn't end
    in time, no acknowledged write, two runs of one seed that differ.
    """
    made = plugins.options_class(plugin)(**options)
    name = plugin.__name__.rpartition(".")[2]
    needs, able = getattr(plugin.create(made), "needs", ()), type(driver())
    lacking = [need.__name__ for need in needs if not can(able, need)]
    if lacking:
        raise AssertionError(f"the workload {name} can't be checked with this driver: it lacks {', '.join(lacking)}")
    first, raised = _run(plugin, made, driver, seed)
    problems = [*_of_operations(first), *_of_outcomes(first, raised), *_of_end(first), *_of_evidence(first, reads_only)]
    if not problems and _run(plugin, made, driver, seed)[0].rows != first.rows:
        problems = ["two runs of one seed differ: it may use no clock but load.now_ns, no randomness but load.rng"]
    if problems:
        title = f"the workload {name} does not keep its promises:"
        raise AssertionError("\n".join([title, *(f"- {problem}" for problem in problems)]))
    ended = Counter((str(row["f"]), str(row["type"])) for row in _ops(first) if row["type"] != OpType.INVOKE)
    return WorkloadReport(ended=dict(ended))


class _Hang:
    """Stops the master, or the first node of a system that has none."""

    needs = (CanPause,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        target = next(iter((*view.leaders, *view.brokers, *view.controllers, *view.others)), "")
        if not target:
            raise NotNow("no node is known yet")
        effects = on((target,), Effect.TAKES_DOWN)
        return Injection(targets=(target,), undo=(Undo(verb=Verb.RESUME, subject=target),), effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanPause, world.deployment).pause)


class _Client:
    """Counts the unknown outcomes that a client's calls have."""

    def __init__(self, inner: object, raised: Counter[str]) -> None:
        self._inner = inner
        self._raised = raised

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name == "close" or not callable(method):
            return method

        async def counted(*args: object, **kwargs: object) -> Any:
            try:
                return await method(*args, **kwargs)
            except Unknown:
                self._raised[name] += 1
                raise

        return counted


class _Driver:
    """The driver, whose clients are watched, but for those of the harness."""

    def __init__(self, inner: Driver, raised: Counter[str]) -> None:
        self._inner = inner
        self._raised = raised

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return partial(self._watched, found) if name in SERVICES else found

    def _watched(self, service: Callable[..., object], *args: Any, **kwargs: Any) -> _Client:
        return _Client(service(*args, **kwargs), self._raised)

    def promising(self, profile: Profile) -> _Driver:
        return _Driver(promising(self._inner, profile), self._raised)

    def client(self, network: Network, name: str) -> Any:
        made = self._inner.client(network, name)
        return made if name == HARNESS else _Client(made, self._raised)


def _run(
    plugin: ModuleType, options: object, driver: Callable[[], Driver], seed: int
) -> tuple[Play, Counter[str]]:  # fmt: skip
    raised: Counter[str] = Counter()
    hang = Made(kind=PluginKind.FAULT, name="hang", options=None, make=_Hang)
    played = play(
        cast(Driver, _Driver(driver(), raised)),
        workload=lambda sim: plugin.create(options),
        faults=[FaultSpec(use=hang, schedule=Schedule(at_s=(HUNG_AT_S,)), for_s=HANGS_S)],
        duration_s=LASTS_S,
        seed=seed,
    )
    return played, raised


def _ops(it: Play) -> list[Row]:
    return [row for row in it.of("op") if not str(row["process"]).startswith(PROBE)]


def _of_operations(it: Play) -> Iterator[str]:
    """Yield where a process does two things at a time, ends one never, or acts after an unknown outcome."""
    under_way: dict[str, Row] = {}
    retired: set[str] = set()
    for row in _ops(it):
        process = str(row["process"])
        if row["type"] == OpType.INVOKE:
            if process in under_way:
                yield f"{process} begins {row['f']} while its {under_way[process]['f']} has not ended"
            if process in retired:
                yield f"{process} begins {row['f']} after an unknown outcome: another process must go on"
            under_way[process] = row
        elif row["f"] != "delivered":
            begun = under_way.pop(process, None)
            if begun is None or row.get("op") != begun["index"]:
                yield f"a completion of {row['f']} by {process} names no operation that is under way"
            if row["type"] == OpType.INFO:
                retired.add(process)
    for process, row in under_way.items():
        yield f"{row['f']} of {process}, row {row['index']}, never ends"


def _of_outcomes(it: Play, raised: Counter[str]) -> Iterator[str]:
    recorded = sum(row["type"] == OpType.INFO for row in _ops(it))
    if recorded < sum(raised.values()):
        calls = ", ".join(f"{count} of {name}" for name, count in sorted(raised.items()))
        yield f"clients reported unknown outcomes ({calls}), but only {recorded} are recorded as info"


def _of_end(it: Play) -> Iterator[str]:
    for row in it.of("harness", f="overrun"):
        yield f"its {row['value']['phase']} did not end within {row['value']['seconds']:g} s"
    if not it.summary.recovered:
        yield "the system did not recover from a node that hung, so that the drain proves nothing"


def _of_evidence(it: Play, reads_only: bool) -> Iterator[str]:
    fine = {str(row["f"]) for row in _ops(it) if row["type"] == OpType.OK}
    if not fine:
        yield "no operation of it succeeded"
    elif not reads_only and not fine - READS:
        yield "no write of it was acknowledged: nothing can be judged"
