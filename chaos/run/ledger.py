"""The ledger of a run's faults: which injections last, what was proven of each, and the rows and journal lines of all.

Each attempt has a row ``invoke`` after its undo steps are in the journal, and then ``ok`` or ``fail``; its undo has
another ``ok`` (see ``docs/history.md``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from chaos.driver import Record
from chaos.fault import Acts, Effects, Fault, Injection, Undo, Verb, World
from chaos.ops import OpType
from chaos.run import proven
from chaos.run.journal import Journal

Seen = Mapping[str, object]
#: How often it is looked whether a fault's own action has ended.
ENDING_S = 0.005


@dataclass(eq=False, slots=True)
class Active:
    """An injection that is still to be undone."""

    name: str
    process: str
    fault: Fault
    injection: Injection
    #: What was seen after the injection, which of its effects are proven, and which of these the history knows.
    seen: Seen = field(default_factory=dict)
    proven: Effects = field(default_factory=dict)
    recorded: Effects = field(default_factory=dict)
    #: How many hits of its rules its own probe and those of others may have caused.
    hits_of_probes: int = 0
    #: Nodes that its undo would start, but that it doesn't hold down now.
    up: set[str] = field(default_factory=set)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    acting: asyncio.Task[None] | None = None
    acted: asyncio.Event = field(default_factory=asyncio.Event)

    def holds(self, step: Undo) -> bool:
        """Return whether what this step undoes is to last for as long as the injection does."""
        return step in self.injection.undo and not (step.verb is Verb.START and step.subject in self.up)

    def prove(self, effects: Effects) -> None:
        self.proven = proven.merged(self.injection, self.proven, effects)

    async def act(self, fault: Acts, world: World) -> None:
        """Have the fault go on acting."""
        try:
            await fault.act(world, self.injection, self.rest)
        finally:
            self.acted.set()

    async def rest(self, seconds: float) -> bool:
        """Sleep; False when the injection is to end meanwhile."""
        return await rest_unless(self.ending, seconds)

    async def end_action(self) -> None:
        """Have the fault's own action end, so that it does nothing more that was undone. Its error is raised by the
        group that runs it."""
        self.ending.set()
        while self.acting is not None and not self.acting.done():
            await asyncio.sleep(ENDING_S)


class Ledger:
    """``active`` are the injections that last, oldest first; ``effective`` the names of faults that had an effect."""

    def __init__(self, record: Record, journal: Journal) -> None:
        self._record = record
        self._journal = journal
        self._count = 0
        self.active: list[Active] = []
        self.effective: set[str] = set()

    @property
    def next_process(self) -> str:
        """What the next injection will be called."""
        return f"fault-{self._count}"

    # What holds

    def of(self, injection: Injection) -> Iterator[Active]:
        return (active for active in self.active if active.injection is injection)

    def holds(self, step: Undo) -> bool:
        """Return whether an injection that lasts has promised to undo this later."""
        return any(active.holds(step) for active in self.active)

    def holder(self, node: str) -> Active | None:
        """Who holds this node down, if anybody does."""
        step = Undo(verb=Verb.START, subject=node)
        return next((active for active in self.active if active.holds(step)), None)

    def holds_any_down(self) -> bool:
        steps = ((active, step) for active in self.active for step in active.injection.undo)
        return any(step.verb is Verb.START and active.holds(step) for active, step in steps)

    # What becomes of an injection

    def refused(self, name: str, reason: str) -> None:
        """Record that a fault could not even be planned, so that it had no effect, whatever it declares of those that
        are."""
        process = self._next()
        self._record("fault", type=OpType.INVOKE, f=name, process=process, value={"targets": [], "effects": {}})
        self._record("fault", type=OpType.FAIL, f=name, process=process, value={"reason": reason})

    def planned(self, name: str, fault: Fault, injection: Injection) -> Active:
        """Promise its undo, before anything happens."""
        active = Active(name, self._next(), fault, injection)
        self._journal.planned(active.process, injection.undo)
        self.active.append(active)
        value: dict[str, object] = {"targets": list(injection.targets), "detail": dict(injection.detail)}
        if injection.effects is not None:
            value["effects"] = proven.as_json(injection.effects)
        self._row(active, OpType.INVOKE, value)
        return active

    def injected(self, active: Active, proof: Seen) -> None:
        value: dict[str, object] = {"phase": "inject", "proof": dict(proof)}
        if active.injection.effects is not None:
            value["proven"] = {}
        self._row(active, OpType.OK, {**value, **self._newly_proven(active), **_probed(active.seen)})

    def failed(self, active: Active, reason: str) -> None:
        """Record that it had no effect, and was taken back."""
        self._row(active, OpType.FAIL, {"reason": reason, **self._newly_proven(active)})

    def undone(self, active: Active, *, effective: bool, proof: Seen, probe: Seen, restored: bool | None) -> None:
        """Record its undo. ``restored``: whether nothing of it shows any more; None when that is unknown."""
        value = {"phase": "undo", "effective": effective, "proof": dict(proof), **self._newly_proven(active)}
        outcome = {} if restored is None else {"restored": restored}
        self._row(active, OpType.OK, {**value, **_probed(probe), **outcome})

    @contextmanager
    def closing(self, active: Active) -> Iterator[None]:
        """Within this its undo steps are done. It holds nothing any more from the beginning on, for of two that end at
        the same time the later one must act; an error leaves it to be tried again by ``heal``."""
        self.active.remove(active)
        try:
            yield
        except BaseException:
            self.active.append(active)
            raise
        self._journal.done(active.process)

    def _next(self) -> str:
        process = self.next_process
        self._count += 1
        return process

    def _newly_proven(self, active: Active) -> dict[str, object]:
        found = proven.beyond(active.proven, active.recorded)
        active.recorded = active.proven
        return {"proven": proven.as_json(found)} if found else {}

    def _row(self, active: Active, type: OpType, value: Mapping[str, object]) -> None:
        targets = active.injection.targets
        node = targets[0] if len(targets) == 1 else ""
        self._record("fault", type=type, f=active.name, process=active.process, node=node, value=dict(value))


def _probed(probe: Seen) -> dict[str, object]:
    return {"probe": dict(probe)} if probe else {}


async def rest_unless(event: asyncio.Event, seconds: float | None) -> bool:
    """Sleep for so long (for ever: None); False when the event came meanwhile."""
    try:
        async with asyncio.timeout(None if seconds is None else max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return True
    return False
