"""Whether a driver's optional powers do what they declare: each is used once, on a settled system."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from chaos.deployment import CanAddNodes, CanKill, CanReplaceNodes
from chaos.driver import (
    CanAddBrokers,
    CanBreakTier,
    CanDrain,
    CanForceSwitch,
    CanFrame,
    CanRemoveBrokers,
    CanSwitch,
    CanUpgrade,
    ClusterView,
    ReplicaGroup,
    ReportsVersion,
    TellsEvents,
    TierEffect,
    TierRule,
    promising,
)
from chaos.errors import BadInput
from chaos.events import MalformedMessage
from chaos.fault import NotNow, Undo, Verb
from chaos.log_services import CanHaveGroups, CanReadLogs, CanTransact
from chaos.node import NodeSpec
from chaos.ops import Failed, Unknown
from chaos.services import (
    CanBeOperated,
    CanCreateTopics,
    CanDeleteTopics,
    CanHoldObjects,
    CanHoldReads,
    CanKeepMetadata,
    HasLimits,
)
from chaos.testing._drivers.bench import Bench, Broken
from chaos.testing._drivers.framing import check_framing
from chaos.testing._drivers.limits import check_limits
from chaos.testing._drivers.logs import check_log_reader
from chaos.testing._drivers.members import check_group_member
from chaos.testing._drivers.metadata import check_metadata
from chaos.testing._drivers.objects import check_objects
from chaos.testing._drivers.queues import Queues
from chaos.testing._drivers.topics import check_deletion, check_topics
from chaos.testing._drivers.transactions import check_transactions
from chaos.testing._drivers.waiting import check_waiting

#: How long what a power is for may take to be seen in the view, once the power has ended.
SEEN_S = 30.0
#: A refusal may have a passing reason; a power that is refused so often in a row has another one.
TRIES, RETRY_S = 5, 1.0
#: So long the tier is broken at most; somebody should ask something of it meanwhile.
BROKEN_S = 20.0
RULE = "check-0"
#: What no system calls a version.
NO_VERSION = "no such version"

Check = Callable[[Bench, Any, Queues], Awaitable[None]]


async def check_powers(bench: Bench, load: Queues) -> None:
    """Use every optional power that the driver declares; ``load`` is what makes a system use its tier."""
    driver = bench.driver
    bench.require(
        promising(driver, driver.profile()).profile() == driver.profile(),
        "promising(profile()) makes a driver with another profile",
    )
    for power, check in CHECKS.items():
        if isinstance(driver, power):
            await check(bench, driver, load)


def check_events(bench: Bench) -> None:
    """Check that the driver knows all events that its nodes have traced so far, but for what every node traces that
    is sent nonsense."""
    if isinstance(bench.driver, TellsEvents):
        known = set(bench.driver.events())
        for event, node in bench.traced.items():
            bench.require(
                event in known or event == MalformedMessage.f,
                f"{node} traces {event}, which events() does not name",
            )


def _check_evidence(bench: Bench, what: str, found: object) -> None:
    """Check that what a power returned can stand in the history."""
    if isinstance(found, Broken):
        return
    if not isinstance(found, Mapping):
        bench.require(False, f"{what} returned {found!r}, expected a mapping of evidence")
        return
    try:
        json.dumps(dict(found))
    except (TypeError, ValueError) as error:
        bench.require(False, f"the evidence of {what} is not JSON: {error}")


def _with_followers(view: ClusterView) -> ReplicaGroup | None:
    """Return a group in which somebody in sync can take over; one that is easily moved where there is one."""
    able = [group for group in view.groups if set(group.followers) & set(group.in_sync)]
    return min(able, key=lambda group: group.holds_data, default=None)


def _leads(group: ReplicaGroup, target: str) -> Callable[[ClusterView], bool]:
    """Return a function that says whether the node leads this group in a later epoch."""

    def holds(view: ClusterView) -> bool:
        now = [one for one in view.groups if one.name == group.name]
        return any(one.leader == target and one.epoch > group.epoch for one in now)

    return holds


async def _switch(bench: Bench, driver: object, load: Queues, *, power: str) -> None:
    """Switch to a follower in sync and see whether it leads afterwards, in a later epoch."""
    reason = ""
    for _ in range(TRIES):
        group = _with_followers(await bench.settled(f"before {power}"))
        if group is None:
            bench.unchecked.append(f"{power}: no group has a follower in sync")
            return
        target = next(name for name in sorted(group.followers) if name in group.in_sync)
        found = await bench.call(power, getattr(driver, power)(bench.network, target, group.name), may_fail=True)
        if isinstance(found, Broken):
            return
        if isinstance(found, Failed | Unknown):
            reason = found.reason
            await asyncio.sleep(RETRY_S)
            continue
        _check_evidence(bench, power, found)

        seen = await bench.until(_leads(group, target), SEEN_S)
        text = f"{power} to {target} returned, but {SEEN_S:g} s later view doesn't say that it leads in a new epoch"
        bench.require(seen is not None, text)
        await bench.settled(f"after {power}")
        return
    text = f"{power} to a follower in sync of a settled system was refused {TRIES} times: {reason};"
    bench.require(False, f"{text} a driver that can't do it must not have the method")


async def _operate(bench: Bench, driver: CanBeOperated) -> None:
    """Have an operator switch to a follower in sync; what is found afterwards must be what the tool reported."""
    group = _with_followers(await bench.settled("before an operator's switch"))
    if group is None:
        bench.unchecked.append("operator: no group has a follower in sync")
        return
    operator = driver.operator(bench.network, "check-operator")
    bench.require(group.name in operator.groups, f"operator: groups lacks {group.name}, which view has")
    before = (await bench.ask("operator: find_master", operator.find_master(group.name))).answer.value
    target = next(name for name in sorted(group.followers) if name in group.in_sync)
    elected = await bench.ask("operator: elect", operator.elect(group.name, target))
    if elected.ok:
        seen = await bench.until(_leads(group, target), SEEN_S)
        bench.require(
            seen is not None, f"operator: elect of {target} ended well, but {SEEN_S:g} s later it does not lead"
        )
    after = (await bench.ask("operator: find_master", operator.find_master(group.name))).answer.value
    for value in (before, after):
        members = value.get("in_sync")
        named = {value.get("master"), *(members if isinstance(members, list) else ())}
        sound = isinstance(value.get("epoch"), int) and isinstance(members, list) and named <= bench.nodes
        text = f"operator: find_master says {dict(value)!r}, expected `master`, `epoch`, and nodes that are `in_sync`"
        bench.require(sound, text)
    await bench.settled("after an operator's switch")


async def _remove(bench: Bench, driver: CanRemoveBrokers) -> None:
    """Remove a follower that is down, and let it join again; the leader may not be removed."""
    view = await bench.settled("before remove_broker")
    group = _with_followers(view)
    host = bench.deployment
    if group is None or not isinstance(host, CanKill):
        why = "no group has a follower in sync" if group is None else f"{host.name} can't kill nodes"
        bench.unchecked.append(f"remove_broker: {why}")
        return
    refused = await bench.call("remove_broker", driver.remove_broker(bench.network, group.leader), may_fail=True)
    bench.require(
        isinstance(refused, Failed | Broken), f"remove_broker of a leader, {group.leader}, was not refused with Failed"
    )
    view = await bench.settled("before remove_broker")
    node = next(name for name in group.followers if name not in view.leaders)
    await host.kill(node)
    found = await bench.call("remove_broker", driver.remove_broker(bench.network, node), may_fail=True)
    if isinstance(found, Failed | Unknown):
        bench.require(False, f"remove_broker of {node}, a follower that is down, failed: {found.reason}")
    elif not isinstance(found, Broken):
        _check_evidence(bench, "remove_broker", found)
        gone = await bench.until(lambda view: not any(node in one.in_sync for one in view.groups), SEEN_S)
        text = f"remove_broker of {node} returned, but {SEEN_S:g} s later view still says that it is in sync"
        bench.require(gone is not None, text)
    await host.undo(Undo(verb=Verb.START, subject=node))
    await bench.settled(f"after {node} was removed and started again")


async def _add(bench: Bench, driver: CanAddBrokers) -> None:
    """Add the first newcomer."""
    view = await bench.settled("before a broker is added")
    text = f"newcomers() says {tuple(driver.newcomers())}, view.newcomers {view.newcomers}"
    bench.require(tuple(driver.newcomers()) == view.newcomers, text)
    host = bench.deployment
    if not view.newcomers or not isinstance(host, CanAddNodes):
        why = f"{host.name} can't add nodes" if view.newcomers else "newcomers() names nobody"
        bench.unchecked.append(f"broker and welcome: {why}")
        return
    node = view.newcomers[0]
    spec = driver.broker(node, bench.mutant)
    if not bench.require(spec.name == node, f"broker({node!r}) describes a node named {spec.name!r}"):
        return
    bench.nodes.add(node)
    try:
        await host.add(spec)
    except NotNow as reason:
        bench.require(False, f"{node}, which newcomers() names, can't be added: {reason}")
        return
    _check_evidence(bench, "welcome", await bench.call("welcome", driver.welcome(bench.network, node)))
    view = await bench.settled(f"after {node} was added")
    bench.require(node in view.brokers, f"{node} was welcomed, but view does not name it as a replica")
    bench.require(node not in driver.newcomers(), f"{node} was welcomed, but newcomers() still names it")


async def _upgrade(bench: Bench, driver: CanUpgrade) -> None:
    """Start a follower as it is started in the version that runs, and have it be as before."""
    version = driver.system_version() if isinstance(driver, ReportsVersion) else ""
    before = {spec.name: spec for spec in driver.cluster(bench.mutant).nodes}  # type: ignore[attr-defined]
    if not bench.require(bool(version), "in_version: system_version() must say which version runs"):
        return
    specs = _in_version(bench, driver, version)
    _in_version(bench, driver, NO_VERSION)
    if specs is None:
        return
    text = f"in_version describes the nodes {', '.join(sorted(specs))}, expected {', '.join(sorted(before))}"
    bench.require(specs.keys() == before.keys(), text)
    for name, spec in specs.items():
        ports = spec.program.ports if spec.program else {}
        own = before[name].program if name in before else None
        bench.require(ports == (own.ports if own else {}), f"in_version gives {name} other ports than it has")
    group, host = _with_followers(await bench.settled("before in_version")), bench.deployment
    if group is None or not isinstance(host, CanKill) or not isinstance(host, CanReplaceNodes):
        bench.unchecked.append(f"in_version: no group has a follower in sync, or {host.name} can't replace nodes")
        return
    node = sorted(group.followers)[0]
    for verbs in ((Verb.START,), (Verb.RESTORE, Verb.START)):
        await host.kill(node)
        if verbs[0] is Verb.START:
            await host.replace(specs[node])
        for verb in verbs:
            await host.undo(Undo(verb=verb, subject=node))
        await bench.settled(f"after {node} was started in version {version}")


def _in_version(bench: Bench, driver: CanUpgrade, version: str) -> Mapping[str, NodeSpec] | None:
    """Return the nodes in a version; None for one that is refused, as :data:`NO_VERSION` must be."""
    try:
        specs = driver.in_version(version)
    except (ValueError, BadInput) as error:
        bench.require(version == NO_VERSION, f"in_version refuses {version}, which runs: {error}")
        return None
    except Exception as error:
        text = f"in_version raised {type(error).__name__}: {error}; only ValueError and BadInput may escape"
        bench.require(False, text)
        return None
    text = f"in_version takes {version!r}; it must refuse what is no version of the system"
    bench.require(version != NO_VERSION, text)
    return specs


async def _drain(bench: Bench, driver: CanDrain) -> None:
    """Drain a leader in whose place another node can lead, and let it serve again."""
    group = _with_followers(await bench.settled("before drain"))
    if group is None:
        bench.unchecked.append("drain: no group has a follower in sync")
        return
    node = group.leader
    found = await bench.call("drain", driver.drain(bench.network, node), may_fail=True)
    if isinstance(found, Failed | Unknown):
        bench.require(False, f"drain of {node} failed on a settled system: {found.reason}")
    elif not isinstance(found, Broken):
        _check_evidence(bench, "drain", found)
        gone = await bench.until(lambda view: node not in view.leaders, SEEN_S)
        text = f"drain of {node} returned, but {SEEN_S:g} s later view still says that it leads"
        bench.require(gone is not None, text)
    for _ in range(2):  # it must be idempotent
        done = await bench.call("undrain", driver.undrain(bench.network, node))
        bench.require(done is True or isinstance(done, Broken), f"undrain of {node} returned {done!r}, expected True")
    await bench.settled("after a node was drained")


async def _use_objects(bench: Bench, driver: CanHoldObjects) -> None:
    await check_objects(bench)
    await bench.settled("after objects were used")


async def _break_tier(bench: Bench, driver: CanBreakTier, load: Queues) -> None:
    """Have the tier refuse everything under load, until it has refused something."""
    if not (await bench.settled("before break_tier")).tier:
        bench.unchecked.append("break_tier: view names no tier")
        return
    rule = TierRule(effect=TierEffect.REFUSE)
    put_up = await bench.call("break_tier", driver.break_tier(bench.network, RULE, rule), may_fail=True)
    if isinstance(put_up, Failed | Unknown):
        bench.require(False, f"break_tier failed on a settled system: {put_up.reason}")
    loop = asyncio.get_running_loop()
    end_s = loop.time() + BROKEN_S
    hits: object = 0
    while hits == 0 and loop.time() < end_s:
        await load.send_for(RETRY_S)
        hits = await bench.call("tier_hits", driver.tier_hits(bench.network, RULE))
    wrong = f"tier_hits returned {hits!r}, expected a number"
    if bench.require(isinstance(hits, int | Broken), wrong) and not hits:
        bench.unchecked.append(f"tier_hits: nobody asked anything of the tier within {BROKEN_S:g} s")
    for _ in range(2):  # it must be idempotent
        await bench.call("mend_tier", driver.mend_tier(bench.network, RULE))
    left = await bench.call("tier_hits", driver.tier_hits(bench.network, RULE))
    bench.require(
        isinstance(left, Broken) or left == 0, f"tier_hits says {left!r} of a rule that was taken down, expected 0"
    )
    await bench.settled("after the tier was broken")


def _alone(check: Callable[[Bench, Any], Awaitable[None]]) -> Check:
    """Return a check that needs no load."""

    async def checked(bench: Bench, driver: object, load: Queues) -> None:
        await check(bench, driver)

    return checked


#: What is done with each power, in this order.
CHECKS: Mapping[type, Check] = {
    CanSwitch: partial(_switch, power="switch"),
    CanForceSwitch: partial(_switch, power="force_switch"),
    CanBeOperated: _alone(_operate),
    CanRemoveBrokers: _alone(_remove),
    CanAddBrokers: _alone(_add),
    CanDrain: _alone(_drain),
    CanBreakTier: _break_tier,
    CanUpgrade: _alone(_upgrade),
    CanFrame: check_framing,
    CanHoldReads: _alone(check_waiting),
    CanReadLogs: _alone(check_log_reader),
    CanTransact: _alone(check_transactions),
    CanHaveGroups: _alone(check_group_member),
    CanHoldObjects: _alone(_use_objects),
    CanCreateTopics: _alone(check_topics),
    CanDeleteTopics: _alone(check_deletion),
    CanKeepMetadata: _alone(check_metadata),
    HasLimits: _alone(check_limits),
}
