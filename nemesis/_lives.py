"""What the faults that end nodes and start them again have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import cast

from chaos.deployment import CanKill, CanProbe, CanTerminate
from chaos.fault import Effect, Effects, Injection, NotNow, Rest, Undo, Verb, World, on, together

#: How often it is looked whether a node has come back.
LOOK_S = 0.1


class How(StrEnum):
    KILL = "kill"
    STOP = "stop"


def power(how: How) -> type:
    return CanKill if how == How.KILL else CanTerminate


def starts(nodes: Sequence[str]) -> tuple[Undo, ...]:
    return tuple(Undo(verb=Verb.START, subject=name) for name in nodes)


def downs(nodes: Sequence[str]) -> Effects:
    """Return what it does to nodes to be ended. An orderly end is no crash, but one that takes too long is ended by
    force."""
    return on(nodes, Effect.TAKES_DOWN, Effect.MAY_CRASH)


async def take_down(world: World, how: How, nodes: Sequence[str]) -> Mapping[str, object]:
    """End these nodes, all at once. Raises :class:`NotNow` when none of them ran."""
    host = world.deployment
    act = cast(CanKill, host).kill if how == How.KILL else cast(CanTerminate, host).terminate
    return await together(nodes, act)


async def bring_up(world: World, injection: Injection, nodes: Sequence[str]) -> None:
    """Start those of the nodes, all at once, that nobody else holds down."""

    async def start(node: str) -> Mapping[str, object]:
        return {"started": await world.start(node, injection)}

    await together(nodes, start)


async def again(world: World, injection: Injection, how: How, nodes: Sequence[str]) -> bool:
    """End these nodes once more, in mid-fault; False when none of them ran."""
    try:
        world.prove(injection, await take_down(world, how, nodes))
    except NotNow:
        return False
    return True


async def one_by_one(
    world: World,
    injection: Injection,
    rest: Rest,
    strike: Callable[[str], Awaitable[bool]],
    *,
    down_s: float,
    pause_s: float,
    within_s: float,
) -> None:
    """Have each target down for ``down_s`` and serve again before the next one goes; the injection has ended the first.
    ``strike`` ends another one, and returns False where it can't be ended now."""
    for turn, node in enumerate(injection.targets):
        world.hold(injection, (node,))
        if turn and not await strike(node):
            continue
        if not await rest(down_s):
            return
        await world.start(node, injection)
        if not await comes_back(world, node, rest, pause_s=pause_s, within_s=within_s):
            return


async def comes_back(world: World, node: str, rest: Rest, *, pause_s: float, within_s: float) -> bool:
    """Wait until a node that was started serves again: a broker in sync under a master, any other one when it answers.
    It is not believed before ``pause_s``, for what is known of the cluster may be older than the restart, and not
    waited for longer than ``within_s``. False when the injection is to end meanwhile."""
    left_s = within_s - pause_s
    if not await rest(pause_s):
        return False
    while left_s > 0 and not await _serves(world, node):
        if not await rest(LOOK_S):
            return False
        left_s -= LOOK_S
    return True


async def _serves(world: World, node: str) -> bool:
    if groups := world.view.groups_of(node):
        return all(group.leader and node in group.in_sync for group in groups)
    return await world.deployment.answers(node) if isinstance(world.deployment, CanProbe) else True
