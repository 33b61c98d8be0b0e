"""What a driver whose consumer groups have members may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.log_services import CanHaveGroups, GroupMember
from chaos.ops import Answer
from chaos.testing._drivers.bench import Bench
from chaos.testing._drivers.logs import RETRY_S, Logs

GROUP = "check-members"
#: A group may take so many sessions to give queues to other members, and so long besides.
SESSIONS, LATER_S = 3.0, 10.0


class Members:
    """Clients of one group. ``owned``: by the number of each that is a member its queues, and in which generation."""

    def __init__(self, logs: Logs, clients: Sequence[GroupMember]) -> None:
        self.logs = logs
        self.clients = clients
        self.all = {queue.index for queue in logs.queues}
        self.owned: dict[int, tuple[set[int], int]] = {}

    async def stay(self, number: int) -> None:
        """Have a client join or stay a member, and note what it owns."""
        member = self.clients[number]
        call, name = (member.heartbeat(), "heartbeat") if number in self.owned else (self._join(member), "join")
        result = await self.logs.bench.ask(f"group_member: {name}", call)
        value = result.answer.value
        if not result.ok:
            if value.get("fenced"):
                self.owned.pop(number, None)
            return
        queues, generation = value.get("queues"), value.get("generation")
        if not (isinstance(queues, list) and {*queues} <= self.all and isinstance(generation, int)):
            text = f"group_member: {name} says {dict(value)!r}, expected `queues`, their indexes, and `generation`"
            self.logs.bench.require(False, text)
            return
        self.logs.following(f"group_member: {name}", result)
        self.owned[number] = {*queues}, generation
        if value.get("rejoin"):
            del self.owned[number]

    async def _join(self, member: GroupMember) -> Answer:
        return await member.join(sorted({queue.topic for queue in self.logs.queues}))

    def _shared_by(self, members: Sequence[int]) -> int:
        """Return the generation in which these members own each queue once; -1 if there is none."""
        owned = [self.owned[member] for member in members if member in self.owned]
        queues = sorted(queue for mine, _ in owned for queue in mine)
        generations = {generation for _, generation in owned}
        is_whole = queues == sorted(self.all) and len(owned) == len(members) and len(generations) == 1
        return min(generations) if is_whole else -1

    async def share(self, members: Sequence[int], when: str, *, after: int = -1) -> int:
        """Wait until these members alone own all queues, each one of them, in a generation after this one. Return
        which; -1, and a problem noted, if that never comes."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + SESSIONS * self.clients[0].session_s + LATER_S
        is_over = False

        async def keep(member: int) -> None:
            while not is_over:
                await self.stay(member)
                await asyncio.sleep(RETRY_S)

        # At once, since the join of one may wait for that of another.
        keeping = [asyncio.ensure_future(keep(member)) for member in members]
        try:
            while loop.time() < end_s:
                if (generation := self._shared_by(members)) > after:
                    return generation
                await asyncio.sleep(RETRY_S)
        finally:
            is_over = True
            await asyncio.gather(*keeping)
        text = f"group_member: {when}, there is no new generation in which the members own each queue once"
        self.logs.bench.require(False, text)
        return -1


async def check_group_member(bench: Bench, driver: CanHaveGroups) -> None:
    """Join a group, share it with another member, and be put out of it for one's silence."""
    logs = Logs(bench)
    clients = [driver.group_member(bench.network, f"check-member-{number}", GROUP) for number in range(2)]
    members = Members(logs, clients)
    first = await members.share([0], "with one member")
    if first < 0:
        return
    second = await members.share([0, 1], "with two members", after=first)
    if second < 0:
        return
    queue = logs.queues[0]
    owner = next(number for number, (queues, _) in members.owned.items() if queue.index in queues)
    silent, other = clients[owner], 1 - owner
    if await logs.ok("group_member: commit", silent.commit({queue: 1})) is None:
        return
    stored = await logs.committed(queue, GROUP)
    bench.require(stored in (1, -2), f"group_member: committed says {stored} after a commit of 1 ended well")
    if await members.share([other], "after a member was silent for long", after=second) < 0:
        return
    await logs.fenced("group_member: commit of a member that was put out", silent.commit({queue: 2}))
    stored = await logs.committed(queue, GROUP)
    bench.require(stored in (1, -2), f"group_member: committed says {stored} after a commit of 2 was refused")
    await logs.ok("group_member: leave", clients[other].leave())
