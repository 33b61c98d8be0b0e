"""Injects an experiment's faults while the load lasts, proves their effect, and undoes every one of them.

For each attempt: the undo steps go to the journal, ``invoke`` into the history, then the injection happens and is
probed, then ``ok`` with its proof (or ``fail``); after the undo it is probed again, and another ``ok`` says whether
the fault was effective, and whether what it did is gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from chaos.deployment import CanAddNodes, CanPause, CanRuleDisks, CanRuleLinks, Deployment
from chaos.driver import (
    TIER_FAULT,
    CanAddBrokers,
    CanBreakTier,
    CanForceSwitch,
    CanRemoveBrokers,
    CanSwitch,
    ClusterView,
    Driver,
    Record,
    TierRule,
)
from chaos.errors import ChaosError
from chaos.experiment.model import FaultSpec
from chaos.experiment.schedule import Watch, moments
from chaos.experiment.targets import CLIENT
from chaos.fault import Achieves, Acts, Effect, Effects, Fault, Injection, NotNow, Probes, Undo, Verb, World
from chaos.ops import Failed, OpType, Unknown
from chaos.run import proven
from chaos.run.journal import Journal
from chaos.run.probes import ACROSS, EFFECT, WITHIN, Extent, caused
from chaos.tasks import Group

#: A fault that can't be injected, or had no effect, is tried again this often, for so long.
RETRY_S = 0.25
RETRY_FOR_S = 10.0
#: One whose rules hit nothing is injected so many times at most.
MOST_TIMES = 4
#: Of faults at random moments, those without effect after this part of the load go first; the others wait for them.
RIGHT_OF_WAY = 2 / 3
AT_LAST_EVERY_S = 1.0
#: How often it is looked whether a fault's own action has ended.
ENDING_S = 0.005
#: After an undo it is probed this often, for so long, until nothing of the fault shows any more.
GONE_EVERY_S = 0.1
GONE_WITHIN_S = 2.0
#: A node that is resumed after its disk has failed it has ended within this time.
ENDS_S = 1.0
#: Undo verbs whose subjects are rules; what a rule has held up or harmed is counted.
RULES = (Verb.CLEAR_RULE, Verb.CLEAR_DISK, Verb.MEND_TIER)


@dataclass(eq=False, slots=True)
class _Active:
    """An injection that is still to be undone."""

    name: str
    process: str
    fault: Fault
    injection: Injection
    #: What was seen after the injection, and which of its effects are proven so far.
    seen: Mapping[str, object] = field(default_factory=dict)
    proven: Effects = field(default_factory=dict)
    told: Effects = field(default_factory=dict)  # of these, what the history knows
    #: How many hits of its rules its own probe and those of others may have caused.
    hits: int = 0
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    acting: asyncio.Task[None] | None = None
    acted: asyncio.Event = field(default_factory=asyncio.Event)
    #: Nodes that its undo would start, but that it doesn't hold down now.
    up: set[str] = field(default_factory=set)

    async def act(self, world: World) -> None:
        """Have the fault go on acting."""
        try:
            await cast(Acts, self.fault).act(world, self.injection, self.rest)
        finally:
            self.acted.set()

    def holds(self, step: Undo) -> bool:
        """Whether what this step undoes is to last for as long as the injection does."""
        return step in self.injection.undo and not (step.verb is Verb.START and step.subject in self.up)

    async def rest(self, seconds: float) -> bool:
        """Sleep; False when the injection is to end meanwhile."""
        return await _rest_unless(self.ending, seconds)


class Storm:
    """The faults of one run. It is the :class:`chaos.fault.World` that they act upon."""

    def __init__(
        self,
        faults: list[FaultSpec],
        *,
        deployment: Deployment,
        driver: Driver,
        record: Record,
        journal: Journal,
        view: Callable[[], ClusterView],
        seed: int,
        mutant: str = "",
    ) -> None:
        self._specs = faults
        self._faults: list[list[Fault]] = [[step.use.build() for step in spec.steps()] for spec in faults]
        self._deployment = deployment
        self._driver = driver
        self._record = record
        self._journal = journal
        self._view = view
        self._seed = seed
        self._mutant = mutant
        self._active: list[_Active] = []
        self._count = 0
        self._switching = 0
        self._started_ns = -1  # when a node was started last
        self._owed: set[str] = set()  # nodes to be started once more when they are resumed
        self._over = asyncio.Event()
        self._group: Group | None = None
        self._watches: dict[str, list[tuple[Watch, Callable[[], None]]]] = {}
        self._tier_hits: Counter[str] = Counter()  # as traced, by rule
        self.effective: set[str] = set()

    # What faults see

    @property
    def deployment(self) -> object:
        return self._deployment

    @property
    def view(self) -> ClusterView:
        """As the runner sees it. Nothing is settled while a switch is under way or a fault holds a node down, nor until
        the runner has asked after a node was started."""
        view = self._view()
        old = 0 <= view.asked_ns < self._started_ns
        steps = ((active, step) for active in self._active for step in active.injection.undo)
        down = any(step.verb is Verb.START and active.holds(step) for active, step in steps)
        return replace(view, settled=False) if self._switching or down or old else view

    async def switch(self, target: str, *, forced: bool = False) -> Mapping[str, object]:
        """Raises :class:`NotNow` also for a node that a fault holds down: one that is wiped right now would become the
        only one who is sure to hold everything."""
        for active in self._active:
            if active.holds(Undo(verb=Verb.START, subject=target)):
                raise NotNow(f"{target} is down ({active.process})")
        self._switching += 1
        try:
            if forced:
                return await cast(CanForceSwitch, self._driver).force_switch(self._deployment, target)
            return await cast(CanSwitch, self._driver).switch(self._deployment, target)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error
        finally:
            self._switching -= 1

    async def remove(self, node: str) -> Mapping[str, object]:
        try:
            return await cast(CanRemoveBrokers, self._driver).remove_broker(self._deployment, node)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    async def add(self, node: str) -> Mapping[str, object]:
        """The history gets a row ``node_added`` once the group has taken it in, or should have."""
        driver = cast(CanAddBrokers, self._driver)
        spec = driver.broker(node, self._mutant)
        begun = await cast(CanAddNodes, self._deployment).add(spec)
        try:
            joined = await driver.welcome(self._deployment, node)
        finally:
            self._record("harness", f="node_added", node=node, value={"role": spec.role})
        return {node: begun, **joined}

    async def break_tier(self, rule_id: str, rule: TierRule) -> None:
        try:
            await cast(CanBreakTier, self._driver).break_tier(self._deployment, rule_id, rule)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        for active in self._active:
            if active.injection is injection:
                active.up = {step.subject for step in injection.undo if step.verb is Verb.START} - {*nodes}

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        shown = proven.by_action(injection, proof, only or tuple(Effect))
        for active in self._active:
            if active.injection is injection:
                active.proven = proven.merged(injection, active.proven, shown)

    async def start(self, node: str, injection: Injection) -> bool:
        step = Undo(verb=Verb.START, subject=node)
        for active in self._active:
            if active.injection is injection:
                active.up.add(node)
        if self._holds(step):
            return False
        await self._perform(step)
        return True

    # What the runner does

    @property
    def link_actions(self) -> frozenset[type]:
        """What its faults will do to links between nodes (classes of :data:`chaos.effects.links.ACTIONS`)."""
        steps = [step for number in range(len(self._specs)) for step in self._steps(number)]
        between = [fault for spec, fault in steps if getattr(spec.use.options, "target", "") != CLIENT]
        return frozenset(action for fault in between for action in getattr(fault, "link_actions", ()))

    @property
    def needs(self) -> frozenset[type]:
        """The powers that its faults will use."""
        faults = [fault for number in range(len(self._specs)) for _, fault in self._steps(number)]
        return frozenset(power for fault in faults for power in fault.needs)

    async def rage(self, duration_s: float, quiet_s: float = 0.0) -> None:
        """Inject the faults as scheduled for this long; in its last ``quiet_s`` seconds none lasts. Returns once no
        injection is under way any more; what then still lasts is left to :meth:`heal`."""
        await self._rage(max(0.0, duration_s - quiet_s))
        if quiet_s:
            await self.heal()
            await asyncio.sleep(min(quiet_s, duration_s))

    async def _rage(self, duration_s: float) -> None:
        self._over.clear()
        async with Group() as group:
            self._group = group
            for number, spec in enumerate(self._specs):
                if spec.schedule.when is not None:
                    self._await_event(group, number, Watch(spec.schedule.when), spec.schedule.when.event)
                else:
                    group.start(self._strike_at_times(group, number, duration_s))
            if any(spec.schedule.mean_s for spec in self._specs):
                group.start(self._strike_at_last(group, duration_s * RIGHT_OF_WAY))
            await asyncio.sleep(duration_s)
            self._watches.clear()
            self._over.set()
            for active in self._active:
                active.ending.set()

    def on_trace(self, row: Mapping[str, object]) -> None:
        """Look at one trace row; faults that wait for it are injected at once (in the simulator: before the messages
        of that step leave)."""
        if row["f"] == TIER_FAULT:
            self._tier_hits[str(cast(Mapping[str, object], row["value"])["rule"])] += 1
        waiting = self._watches and self._watches.get(cast(str, row["f"]))  # most runs watch for nothing
        if waiting:
            for watch, fire in waiting:
                if watch.due(row, self.view):
                    fire()

    async def heal(self) -> None:
        """Undo everything that still lasts, newest first. An undo that fails doesn't keep the others from being
        done; the first error is raised at the end."""
        first: Exception | None = None
        for active in reversed(list(self._active)):
            try:
                await self._undo(active)
            except Exception as error:  # whatever one undo met, the next ones must still be tried
                first = first or error
        if first is not None:
            raise first

    # One fault

    def _steps(self, number: int) -> list[tuple[FaultSpec, Fault]]:
        return list(zip(self._specs[number].steps(), self._faults[number], strict=True))

    def _await_event(self, group: Group, number: int, watch: Watch, event: str) -> None:
        fired = 0

        def fire() -> None:
            nonlocal fired
            group.start(self._strike(number, fired))
            fired += 1

        self._watches.setdefault(event, []).append((watch, fire))

    async def _strike_at_times(self, group: Group, number: int, duration_s: float) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        rng = Random(f"{self._seed}/schedule/{number}")
        for strike, moment in enumerate(moments(self._specs[number].schedule, duration_s, rng)):
            if not await self._rest(begin + moment - loop.time()):
                return
            if moment < duration_s * RIGHT_OF_WAY or not self._gives_way(number):
                group.start(self._strike(number, strike))

    async def _strike_at_last(self, group: Group, moment: float) -> None:
        """From that moment on inject what had no effect so far: whoever asks for a fault shall have it on every seed.
        One by one, since together they would leave no node for each other."""
        await self._rest(moment)
        for number, spec in enumerate(self._specs):
            for step, (which, fault) in enumerate(self._steps(number) if spec.schedule.mean_s else ()):
                if which.name not in self.effective and not self._over.is_set():
                    group.start(self._inflict(which, fault, Random(f"{self._seed}/fault/{number}/last/{step}")))
                    await self._rest(AT_LAST_EVERY_S)

    def _gives_way(self, number: int) -> bool:
        """Whether this fault waits because there is one at random moments that is still without effect, as it is not:
        in a dense storm some find no moment, such as a wipe, which needs all replicas in sync."""
        if not self._specs[number].schedule.mean_s:
            return False
        wanted = {step.name for spec in self._specs if spec.schedule.mean_s for step in spec.steps()}
        mine = {step.name for step in self._specs[number].steps()}
        return not wanted <= self.effective and mine <= self.effective

    async def _strike(self, number: int, strike: int) -> None:
        """Inject a fault and undo it when its time is over; then the next one of its sequence, if there is one. Of
        faults in turn, only the one whose turn it is."""
        steps = self._steps(number)
        if self._specs[number].in_turn:
            steps = [steps[strike % len(steps)]]
        for step, (spec, fault) in enumerate(steps):
            if step and self._over.is_set():
                return
            name = f"{self._seed}/fault/{number}/{strike}" + (f"/{step}" if step else "")
            if not await self._inflict(spec, fault, Random(name)):
                return
            if spec.rest_s and not await self._rest(spec.rest_s):
                return

    async def _inflict(self, spec: FaultSpec, fault: Fault, rng: Random) -> bool:
        """Inject a fault, and undo it in its time; once more when its rules hit nothing, nor did any of its kind so
        far. False when it lasts until the end of the load."""
        for _ in range(MOST_TIMES):
            active = await self._inject_within_bound(spec, fault, rng)
            if active is None:
                break
            if active.injection.passes:
                await _rest_unless(active.acted, spec.for_s or None)
            elif active.injection.undo and not (spec.for_s and await self._rest(spec.for_s)):
                return False
            await self._undo(active)
            if spec.name in self.effective or self._over.is_set():
                break
        return True

    async def _inject_within_bound(self, spec: FaultSpec, fault: Fault, rng: Random) -> _Active | None:
        """Try until the fault is effective; None when it never was within the bound."""
        deadline = asyncio.get_running_loop().time() + RETRY_FOR_S
        while True:
            active, reason = await self._inject(spec.name, fault, rng)
            if active is not None:
                return active
            if asyncio.get_running_loop().time() >= deadline or not await self._rest(RETRY_S):
                if reason:
                    self._refused(spec.name, reason)
                return None

    def _refused(self, name: str, reason: str) -> None:
        """Record a fault that could not even be planned."""
        process = self._next_process()
        self._record("fault", type=OpType.INVOKE, f=name, process=process, value={"targets": []})
        self._record("fault", type=OpType.FAIL, f=name, process=process, value={"reason": reason})

    async def _inject(self, name: str, fault: Fault, rng: Random) -> tuple[_Active | None, str]:
        """Plan and inject once. Returns what is to be undone later; or None, and why it can't be planned now ("" when
        it was planned, recorded, and had no effect)."""
        tag = f"fault-{self._count}"
        try:
            injection = fault.plan(self.view, rng, tag)
        except NotNow as reason:
            return None, str(reason)
        active = _Active(name, self._next_process(), fault, injection)
        self._journal.planned(active.process, injection.undo)
        self._active.append(active)
        self._told(active, OpType.INVOKE, _planned(injection))
        try:
            proof = await fault.inject(self, injection)
            probe = active.seen = await self._probe(active)
            shown = proven.by_injection(injection, proof, probe)
            active.proven = proven.merged(injection, active.proven, shown)
            if probe.get(EFFECT) == Extent.NONE:
                raise NotNow("the probe shows no effect")
        except NotNow as reason:
            await self._take_back(active)
            self._told(active, OpType.FAIL, {"reason": str(reason), **_proven(active, only_some=True)})
            return None, ""
        if probe:
            active.hits = min(await self._hits(active), caused(probe, ACROSS))
        self._told(active, OpType.OK, {"phase": "inject", "proof": dict(proof), **_proven(active), **_probed(probe)})
        active.told = active.proven
        if not _rules(injection) and not isinstance(fault, Achieves):
            self.effective.add(name)
        if isinstance(fault, Acts) and self._group is not None and not self._over.is_set():
            active.acting = self._group.start(active.act(self))
        else:
            active.acted.set()
        return active, ""

    async def _undo(self, active: _Active) -> None:
        """Undo and record whether the fault had an effect: rules must have held something up, besides probes."""
        await _let_end(active)
        rules = _rules(active.injection)
        by_rule = {step.subject: await self._hits_of(step) for step in rules}
        hits = sum(by_rule.values()) - active.hits
        achieved = not isinstance(active.fault, Achieves) or active.fault.achieved(self, active.injection)
        await self._take_back(active)
        effective = hits > 0 if rules else achieved
        if effective:
            self.effective.add(active.name)
        if rules and effective:
            shown = proven.by_hits(active.injection, [rule for rule, count in by_rule.items() if count], active.seen)
            active.proven = proven.merged(active.injection, active.proven, shown)
        proof = {"hits": hits} if rules else {}
        later = _proven(active, only_some=True)
        gone = await self._probe_until_gone(active)
        self._told(active, OpType.OK, {"phase": "undo", "effective": effective, "proof": proof, **later, **gone})

    async def _hits(self, active: _Active) -> int:
        """How often the rules that the injection put up have had an effect so far."""
        return sum([await self._hits_of(step) for step in _rules(active.injection)])

    async def _hits_of(self, step: Undo) -> int:
        if step.verb is Verb.CLEAR_DISK:
            return await cast(CanRuleDisks, self._deployment).disk_rule_hits(step.subject)
        if step.verb is Verb.MEND_TIER:
            told = await cast(CanBreakTier, self._driver).tier_hits(self._deployment, step.subject)
            return max(told, self._tier_hits[step.subject])  # a store that has ended meanwhile knows of none
        return await cast(CanRuleLinks, self._deployment).rule_hits(step.subject)

    async def _probe(self, active: _Active) -> Mapping[str, object]:
        """What is seen of it now. Connections that it tries may run into rules of others; these hits prove nothing."""
        if not isinstance(active.fault, Probes):
            return {}
        others = [other for other in self._active if other is not active] if _on_links(active.injection) else []
        before = [await self._hits_on_links(other) for other in others]
        probe = await active.fault.probe(self, active.injection)
        for other, hits in zip(others, before, strict=True):
            other.hits += max(0, min(caused(probe, ACROSS, WITHIN), await self._hits_on_links(other) - hits))
        return probe

    async def _hits_on_links(self, active: _Active) -> int:
        return sum([await self._hits_of(step) for step in _on_links(active.injection)])

    async def _probe_until_gone(self, active: _Active) -> Mapping[str, object]:
        """What is seen after the undo, for the history. ``restored``: nothing of the fault shows any more; not told
        while other faults last, whose effect may look the same. A probe that fails must not keep anything from being
        undone."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + GONE_WITHIN_S
        try:
            probe = await self._probe(active)
            while probe.get(EFFECT, Extent.NONE) != Extent.NONE and not self._active and loop.time() < deadline_s:
                await asyncio.sleep(GONE_EVERY_S)
                probe = await self._probe(active)
        except ChaosError as error:
            probe = {"error": str(error)}
        told = _probed(probe)
        if EFFECT in probe and (probe[EFFECT] == Extent.NONE or not self._active):
            told["restored"] = probe[EFFECT] == Extent.NONE
        return told

    async def _take_back(self, active: _Active) -> None:
        """Undo what no other injection that lasts has promised to undo later: a node that two faults hold down stays
        down until the second one lets it go, in whatever order they end."""
        self._active.remove(active)  # at once: of two that end at the same time, the later one must act
        try:
            for step in reversed(active.injection.undo):
                if not self._holds(step):
                    await self._perform(step)
        except BaseException:
            self._active.append(active)  # to be tried again by `heal`
            raise
        self._journal.done(active.process)

    def _holds(self, step: Undo) -> bool:
        return any(active.holds(step) for active in self._active)

    async def _perform(self, step: Undo) -> None:
        """Undo one step. A node that was started again has forgotten that a fault still holds it paused."""
        if step.verb is Verb.MEND_TIER:
            await cast(CanBreakTier, self._driver).mend_tier(self._deployment, step.subject)
        else:
            await self._deployment.undo(step)
        if step.verb is Verb.START:
            self._started_ns = self._deployment.now_ns()
        if step.verb is Verb.START and self._holds(Undo(verb=Verb.RESUME, subject=step.subject)):
            try:
                await cast(CanPause, self._deployment).pause(step.subject)
            except NotNow:  # another fault has taken it down meanwhile, or it ran all the time, and is paused
                self._owed.add(step.subject)
        elif step.verb is Verb.RESUME and step.subject in self._owed:
            await self._start_owed(step.subject)

    async def _start_owed(self, node: str) -> None:
        """Start a node that was paused when it was to be started: one whose disk had failed it before ends only now."""
        self._owed.discard(node)
        await asyncio.sleep(ENDS_S)
        step = Undo(verb=Verb.START, subject=node)
        if not self._holds(step):
            await self._perform(step)

    def _told(self, active: _Active, type: OpType, value: dict[str, Any]) -> None:
        targets = active.injection.targets
        node = targets[0] if len(targets) == 1 else ""
        self._record("fault", type=type, f=active.name, process=active.process, node=node, value=value)

    def _next_process(self) -> str:
        self._count += 1
        return f"fault-{self._count - 1}"

    async def _rest(self, seconds: float) -> bool:
        """Sleep; False when the load ended meanwhile."""
        return await _rest_unless(self._over, seconds)


def _rules(injection: Injection) -> list[Undo]:
    """The steps whose rules prove by their hits that the injection was effective; of others the injection proves it."""
    return [step for step in injection.undo if step.verb in RULES]


def _on_links(injection: Injection) -> list[Undo]:
    return [step for step in injection.undo if step.verb is Verb.CLEAR_RULE]


def _planned(injection: Injection) -> dict[str, object]:
    told: dict[str, object] = {"targets": list(injection.targets), "detail": dict(injection.detail)}
    return told if injection.effects is None else {**told, "effects": proven.as_json(injection.effects)}


def _proven(active: _Active, *, only_some: bool = False) -> dict[str, object]:
    """Of the declared effects those that were proven since the history was told last."""
    found = proven.beyond(active.proven, active.told)
    declared = active.injection.effects is not None and not only_some
    return {"proven": proven.as_json(found)} if found or declared else {}


def _probed(probe: Mapping[str, object]) -> dict[str, object]:
    return {"probe": dict(probe)} if probe else {}


async def _let_end(active: _Active) -> None:
    """Have the fault's own action end, so that it does nothing more that was undone. Its error is the group's."""
    active.ending.set()
    while active.acting is not None and not active.acting.done():
        await asyncio.sleep(ENDING_S)


async def _rest_unless(event: asyncio.Event, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(None if seconds is None else max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return True
    return False
