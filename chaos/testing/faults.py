"""``check_fault``: what every fault owes to those who judge a run, tried in the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from types import ModuleType
from typing import Any

from chaos import plugins
from chaos.driver import Client, Driver
from chaos.experiment.model import FaultSpec, Schedule
from chaos.experiment.targets import CLIENT
from chaos.fault import Effect
from chaos.ops import QueueRef
from chaos.plugins import PluginKind
from chaos.testing._bench import Made, Play, Row, WatchedSim, play
from chaos.workload import Load, Worker, body_hash, next_message

#: The fault begins after so long, and lasts so long unless it is over by itself; the load goes on for so long besides.
BEGINS_S, LASTS_S, ENDS_S = 2.0, 1.5, 4.0
#: What is left of a fault shows so long after its undo; before that nodes start and connections are made again.
GRACE_NS = 2_000_000_000
LOOK_S, SEND_S = 0.2, 0.1
#: So many messages a client sends before it closes its connections.
SENDS_OF_ONE = 10
BODY = b"chaos.testing" * 16

_GONE = frozenset({Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.LOSES_DISK, Effect.ADDS_REPLICA})
_LINKS = _GONE | {Effect.ISOLATES, Effect.CUTS, Effect.CUTS_CLIENTS, Effect.SLOWS, Effect.HARMS_TIER}
#: By what is seen from outside: which effects explain it, on the node or on one of the two.
EXPLAINED_BY: Mapping[str, frozenset[Effect]] = {
    "does not answer": _GONE | {Effect.SLOWS},
    "began a new life": _GONE,
    "can't be reached": _LINKS,
    "lost its connection": _LINKS | {Effect.SWITCHES_MASTER, Effect.REMOVES_REPLICA},
}
#: By what a fault asks of the deployment: this must be declared.
ASKED_FOR: Mapping[str, Effect] = {
    **dict.fromkeys(("kill", "lose_unsynced", "tear_writes", "copy_disk"), Effect.MAY_CRASH),
    **dict.fromkeys(("terminate", "pause"), Effect.TAKES_DOWN),
    **dict.fromkeys(("wipe", "harm_disk", "roll_back_disk"), Effect.LOSES_DISK),
    **dict.fromkeys(("slow_processor", "limit_descriptors", "limit_memory", "hang_io"), Effect.SLOWS),
    "set_clock": Effect.SKEWS_CLOCKS,
}
#: What is tried for an option in place of its default, where its type doesn't say.
WORDS = ("slave", "all", "controllers", "log/*", "*")
FACTORS = (2, 0.5, 10, 0.1)


@dataclass(frozen=True, slots=True, order=True)
class Seen:
    """Something that was seen from outside, of a node or of two."""

    time_ns: int
    what: str
    who: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' > '.join(self.who)} {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """What the fault did. ``at_injection`` is what was seen from the injection until the undo, ``at_undo`` what was
    seen from then on: nodes that do not answer or began a new life, connections that broke or can't be made."""

    effects: Mapping[str, Sequence[str]]
    proven: Mapping[str, Sequence[str]]
    at_injection: Sequence[Seen]
    at_undo: Sequence[Seen]


def check_fault(
    plugin: ModuleType,
    driver: Callable[[], Driver],
    *,
    rarely: Collection[Effect] = (),
    vary: Mapping[str, object] | None = None,
    lasts_s: float = LASTS_S,
    seed: int = 1,
    **options: Any,
) -> FaultReport:
    """Inject a fault into a simulated cluster under load, undo it, and look at all of it from outside.

    ``plugin`` is the fault's module (``create``, and ``Options`` if it has any), ``options`` its options, ``driver``
    makes a new system under test for each run. The fault lasts ``lasts_s`` seconds, or until it is over by itself if
    that is earlier. Effects in ``rarely`` need not show. ``vary`` names, for options where that can't be guessed,
    another value that must make a difference; None for one that can make none here.

    Raises ``AssertionError`` with everything that is wrong: effects that it has and doesn't declare, or declares and
    doesn't prove, something left behind by the undo, an option that does nothing, two runs of one seed that differ.
    """
    cls = plugins.options_class(plugin)
    trial = _Trial(plugin, driver, lasts_s, seed)
    first = trial.run(cls(**options))
    problems = [*_of_run(first, rarely)]
    if not problems:
        problems += _of_repetition(first, trial.run(cls(**options)))
        problems += _of_options(trial, first, cls, options, vary or {})
    if problems:
        title = f"the fault {trial.name} does not keep its promises:"
        raise AssertionError("\n".join([title, *(f"- {problem}" for problem in problems)]))
    begin, end = first.span
    seen = sorted(first.seen)
    return FaultReport(
        effects=first.effects,
        proven=first.proven,
        at_injection=[one for one in seen if begin <= one.time_ns < end],
        at_undo=[one for one in seen if end <= one.time_ns < first.load_ended_ns],
    )


class _Watch:
    """A load that sends a message every now and then, and looks at the cluster besides."""

    def __init__(self, sim: WatchedSim) -> None:
        self._sim = sim
        self.seen: list[Seen] = []

    async def run(self, load: Load) -> None:
        await load.gather(self._send(load), self._look(load))

    async def drain(self, load: Load) -> None: ...

    async def _send(self, load: Load) -> None:
        """Have clients send, one after the other: each sends a few messages and hangs up."""
        worker, turn = Worker(load, "producer"), 0
        while load.queues and not load.stopping:
            client = load.client("producer")
            for _ in range(SENDS_OF_ONE):
                await self._send_one(load, client, worker, load.queues[turn % len(load.queues)])
                turn += 1
            client.close()
            for node in self._sim.names:
                self._sim.connect("producer", node).close()

    async def _send_one(self, load: Load, client: Client, worker: Worker, queue: QueueRef) -> None:
        message = next_message(load, queue)
        key = f"{message:032X}"
        await worker.do(
            "send", lambda: client.send(queue, key, BODY), queue=queue, message=message, hash=body_hash(BODY)
        )  # fmt: skip
        await load.sleep(SEND_S)

    async def _look(self, load: Load) -> None:
        sim = self._sim
        lives = {node: sim.life(node) for node in sim.names}
        while not load.stopping:
            for node in sim.names:
                if not await sim.answers(node):
                    self._note("does not answer", node)
                if sim.life(node) != lives.setdefault(node, sim.life(node)):
                    self._note("began a new life", node)
                    lives[node] = sim.life(node)
            for way in (*combinations(sim.names, 2), *((CLIENT, node) for node in sim.names)):
                if not await sim.reaches(*way):
                    self._note("can't be reached", *way)
            await load.sleep(LOOK_S)

    def _note(self, what: str, *who: str) -> None:
        self.seen.append(Seen(self._sim.now_ns(), what, who))


@dataclass(slots=True)
class _Run:
    """One run, and what of it counts. ``left``: what the fault had not undone in the row of its undo."""

    name: str
    play: Play
    watch: _Watch
    left: list[str]
    seen: list[Seen] = field(init=False)

    def __post_init__(self) -> None:
        sim = self.play.sim
        broken = [
            Seen(one.time_ns, "lost its connection", tuple(_plain(sim, name) for name in (one.source, one.target)))
            for one in sim.broken
        ]
        self.seen = [*self.watch.seen, *broken]

    @property
    def ok(self) -> list[dict[str, Any]]:
        return [row["value"] for row in self.play.of("fault", type="ok")]

    @property
    def planned(self) -> list[dict[str, Any]]:
        done = {row["process"] for row in self.play.of("fault", type="ok")}
        return [row["value"] for row in self.play.of("fault", type="invoke") if row["process"] in done]

    @property
    def effects(self) -> Mapping[str, Sequence[str]]:
        return _union(value.get("effects") or {} for value in self.planned)

    @property
    def proven(self) -> Mapping[str, Sequence[str]]:
        return _union(value.get("proven") or {} for value in self.ok)

    @property
    def span(self) -> tuple[int, int]:
        """From the first injection until the last undo began."""
        rows = self.play.of("fault", type="invoke")
        last_deed = max((deed.time_ns for deed in self.play.sim.deeds), default=0)
        undone = [deed.time_ns for deed in self.play.sim.undone if deed.time_ns >= last_deed]
        return int(rows[0]["time_ns"]), min(undone, default=self.undone_ns)

    @property
    def undone_ns(self) -> int:
        rows = [row for row in self.play.of("fault", type="ok") if row["value"]["phase"] == "undo"]
        return max((int(row["time_ns"]) for row in rows), default=0)

    @property
    def load_ended_ns(self) -> int:
        (row,) = [row for row in self.play.of("harness", f="phase") if row["value"]["phase"] == "heal"]
        return int(row["time_ns"])


class _Trial:
    """Makes runs that differ in the options alone."""

    def __init__(self, plugin: ModuleType, driver: Callable[[], Driver], lasts_s: float, seed: int) -> None:
        self.plugin = plugin
        self._driver = driver
        self._lasts_s = lasts_s
        self._seed = seed
        self.name = plugin.__name__.rpartition(".")[2]

    def run(self, options: object) -> _Run:
        use = Made(
            kind=PluginKind.FAULT, name=self.name, options=options, make=lambda: self.plugin.create(options)
        )  # fmt: skip
        watches: list[_Watch] = []
        left: list[str] = []

        def load(sim: WatchedSim) -> _Watch:
            watches.append(_Watch(sim))
            return watches[0]

        def on_row(sim: WatchedSim, row: Row) -> None:
            if row["kind"] == "fault" and (row.get("value") or {}).get("phase") == "undo":
                left[:] = [f"{what}: no step {step.verb} {step.subject}" for step, what in sim.holding.items()]

        whole_s = BEGINS_S + 2 * self._lasts_s + ENDS_S  # twice: what hits nothing at first is injected again
        spec = FaultSpec(use=use, schedule=Schedule(at_s=(BEGINS_S,)), for_s=self._lasts_s)
        played = play(
            self._driver(), workload=load, faults=[spec], duration_s=whole_s, seed=self._seed, on_row=on_row
        )  # fmt: skip
        return _Run(self.name, played, watches[0], left)


# What may be wrong


def _of_run(it: _Run, rarely: Collection[Effect]) -> Iterator[str]:
    if it.name not in it.play.summary.effective_faults:
        reasons = [row["value"]["reason"] for row in it.play.of("fault", type="fail")]
        yield f"it never had an effect ({'; '.join(dict.fromkeys(reasons)) or 'its rules hit nothing'})"
        return
    if any("effects" not in value for value in it.planned):
        yield "it does not declare its effects: give each Injection `effects`, {} if it harms nobody"
        return
    yield from _undeclared(it)
    yield from _unproven(it, rarely)
    yield from _left(it)


def _undeclared(it: _Run) -> Iterator[str]:
    names = {*it.play.sim.names, CLIENT}
    known = {str(effect) for effect in Effect}
    for effect, nodes in it.effects.items():
        if effect not in known:
            yield f"{effect} is no effect of chaos.fault.Effect"
        if strangers := [node for node in nodes if node not in names]:
            yield f"it declares {effect} for {', '.join(strangers)}: there is no such node"
    by_node = {node: {effect for effect, nodes in it.effects.items() if node in nodes} for node in sorted(names)}
    for what, on in dict.fromkeys((deed.what, deed.on) for deed in it.play.sim.deeds):
        if what in ASKED_FOR and ASKED_FOR[what] not in by_node.get(on, set()):
            yield f"it asks for {what} of {on} and does not declare {ASKED_FOR[what]} for it"
    begin, end = it.span[0], it.load_ended_ns
    unexplained = {
        str(one): one
        for one in it.seen
        if begin <= one.time_ns <= end and not any(by_node.get(n, set()) & EXPLAINED_BY[one.what] for n in one.who)
    }
    for one in unexplained.values():
        when = "its undo" if one.time_ns >= it.span[1] else "it"
        yield f"after {when}: {one}; an effect that explains it: {_words(EXPLAINED_BY[one.what])}"


def _unproven(it: _Run, rarely: Collection[Effect]) -> Iterator[str]:
    for effect, nodes in it.effects.items():
        if nodes and not it.proven.get(effect) and effect not in rarely:
            yield (
                f"it declares {effect} for {', '.join(nodes)}, but neither its proof (by target), nor its probe, nor "
                f"hits of its rules showed it"
            )


def _left(it: _Run) -> Iterator[str]:
    yield from (f"its undo leaves {left}" for left in it.left)
    if not it.undone_ns:
        yield "it was not undone before the load ended"
        return
    lasting = {str(one) for one in it.watch.seen if it.undone_ns + GRACE_NS < one.time_ns <= it.load_ended_ns}
    yield from (f"{one} {GRACE_NS // 10**9} s after its undo" for one in sorted(lasting))
    if any(value.get("restored") is False for value in it.ok):
        yield "its probe still shows an effect after its undo (restored: false)"
    if not it.play.summary.recovered:
        reasons = [row["value"]["reason"] for row in it.play.of("harness", f="not_recovered")]
        yield f"the system does not recover from it: {'; '.join(reasons)}"


def _of_repetition(first: _Run, second: _Run) -> Iterator[str]:
    if (at := _first_difference(first, second)) is not None:
        where = f"first in row {at}" if at >= 0 else "in what the deployment is asked for"
        yield f"two runs of one seed differ, {where}: it may use no clock, and no randomness but its `rng`"


def _of_options(
    trial: _Trial, first: _Run, cls: type, options: Mapping[str, Any], vary: Mapping[str, object]
) -> Iterator[str]:
    for option in plugins.fields(cls):
        if option.name in vary and vary[option.name] is None:
            continue
        now = getattr(cls(**options), option.name)
        others = [vary[option.name]] if option.name in vary else [*_others(now, option)]
        tried = []
        for other in others:
            try:
                changed = cls(**{**options, option.name: other})
            except ValueError:
                continue  # it says itself that this can't be
            tried.append(other)
            if _first_difference(first, trial.run(changed)) is not None:
                break
        else:
            yield f"its option {option.name} does nothing: no difference with {', '.join(map(repr, [now, *tried]))}"


def _others(now: Any, option: Any) -> Iterator[Any]:
    """Yield other values of an option, those first that are likely to make a difference."""
    if isinstance(now, Enum):
        yield from (member for member in type(now) if member is not now)
    elif isinstance(now, bool):
        yield not now
    elif isinstance(now, int | float):
        within = option.metadata.get("within")
        make = int if isinstance(now, int) else float
        values = [make(now * factor) for factor in FACTORS] if now else [make(1)]
        yield from (value for value in values if value != now and (within is None or value in within))
    elif isinstance(now, tuple) and now and isinstance(now[0], Enum):
        yield from ((member,) for member in type(now[0]) if (member,) != now)
    elif isinstance(now, str):
        yield from (word for word in WORDS if word != now)


def _first_difference(first: _Run, second: _Run) -> int | None:
    """Return the first row that is another one, -1 if the deployment was asked for something else; None if there is
    none. What a fault merely says of itself is no difference."""
    if first.play.sim.deeds != second.play.sim.deeds:
        return -1
    one, other = [_effective(row) for row in first.play.rows], [_effective(row) for row in second.play.rows]
    if one == other:
        return None
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _effective(row: Row) -> Row:
    if row["kind"] != "fault":
        return row
    return {**row, "value": json.dumps({k: v for k, v in row["value"].items() if k != "detail"}, default=str)}


def _union(parts: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in parts:
        for effect, nodes in part.items():
            known = found.setdefault(effect, [])
            known += [node for node in nodes if node not in known]
    return found


def _plain(sim: WatchedSim, name: str) -> str:
    return CLIENT if name in sim.clients else name


def _words(effects: Collection[Effect]) -> str:
    return ", ".join(sorted(effects))
