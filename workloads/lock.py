"""Locks with fencing tokens on a key-value store, acquired and released by compare-and-set.

A lock is an object whose set holds the number 1, and its holder's number too while somebody holds it. A client takes
the lock by changing the set from free to held, and gives it back by changing it again, each time at the version that it
knows. The version after it was taken is the token, which grows with each holder.

Nothing here is elected: a deposed master may go on believing that it is master, and only a token, which the protected
resource compares, distinguishes it from its successor. Nobody breaks a lock either: it is held until the holder's
release took effect (the model ``fenced-lock``). A client whose call ended with an unknown outcome looks later whether
it holds the lock after all, and then gives it back; until that nobody else gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chaos.ops import Answer, Failed, Unknown
from chaos.services import FIRST_VERSION, CanHoldObjects, Objects
from chaos.workload import Load, Use, Worker
from workloads._objects import FIRST_MEMBER, RETRY_S, Guide, change_set, make, read_set

MODEL = "fenced-lock"
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients`` share ``locks``. Each tries to take one every ``gap_s`` seconds or so, and keeps it for up to
    ``hold_s``. ``drain_s`` bounds the time in which, at the end, every lock must be given back, taken and given back
    once more."""

    clients: int = field(default=8, metadata={"within": range(1, 101)})
    locks: int = field(default=3, metadata={"within": range(1, 1001)})
    gap_s: float = 0.1
    hold_s: float = 0.1
    drain_s: float = 20.0


@dataclass(slots=True)
class Lock:
    options: Options
    needs: Sequence[type] = (CanHoldObjects,)
    uses: Sequence[Use] = (Use.OBJECTS,)
    _made: list[str] = field(default_factory=list)

    async def run(self, load: Load) -> None:
        await load.gather(
            *(self._make(load, f"lock-{number}") for number in range(self.options.locks)),
            *(self._use(load, number) for number in range(self.options.clients)),
        )

    async def drain(self, load: Load) -> None:
        """Let every client give back what it still holds, and take each lock once more."""
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        clients = [_Client(load, number, f"lock-drain-{number}") for number in range(self.options.clients)]
        for client in clients:
            for name in self._made:
                await client.settle(name, deadline_ns)
        for number, name in enumerate(self._made):
            client = clients[number % len(clients)]
            token = NOBODY
            while token == NOBODY and load.now_ns() < deadline_ns:
                token = await client.take(name)
                await load.sleep(RETRY_S)
            await client.settle(name, deadline_ns)

    async def _make(self, load: Load, name: str) -> None:
        maker = f"{name}-maker"
        init = {MODEL: (NOBODY, FIRST_VERSION)}
        numbers = FIRST_MEMBER + self.options.clients
        if await make(load, load.objects(maker), Worker(load, maker), name, init, numbers=numbers):
            self._made.append(name)

    async def _use(self, load: Load, number: int) -> None:
        client = _Client(load, number, f"lock-client-{number}")
        rng = load.rng(f"lock-client-{number}/pace")
        while not load.stopping:
            await load.sleep(self.options.gap_s * (0.5 + rng.random()))
            if not self._made or load.stopping:
                continue
            name = rng.choice(self._made)
            if await client.take(name) == NOBODY:
                continue
            await load.sleep(self.options.hold_s * rng.random())
            while not load.stopping and not await client.give_back(name):
                await load.sleep(RETRY_S)


class _Client:
    """One client under its number in the set. ``_held``: lock → token, as far as it knows; a lock whose last call ended
    unclear is in ``_unclear`` until it has been read."""

    def __init__(self, load: Load, number: int, name: str) -> None:
        self._load = load
        self._objects: Objects = load.objects(name)
        self._worker = Worker(load, name)
        self._me = FIRST_MEMBER + 1 + number
        self._guide = Guide(self._objects.nodes, load.rng(name), astray=0.2)
        self._held: dict[str, int] = {}

    async def take(self, name: str) -> int:
        """Try to take the lock once: the token, or NOBODY. Gives it back instead when it turns out to be ours from an
        earlier call."""
        reader, node = self._guide.any(), self._guide.leader()

        async def acquire() -> Answer:
            epoch, holder = await self._look(name, reader)
            if holder == self._me:
                self._held[name] = epoch
            if holder != NOBODY:
                raise Failed(f"held by {holder} with token {epoch}", Answer(node=reader))
            return await self._change(name, node, epoch, [FIRST_MEMBER, self._me], token=epoch + 1)

        outcome = await self._worker.do("acquire", acquire, object=name, model=MODEL, holder=self._me)
        if outcome.answer.node == node:
            self._guide.learn(node, took=outcome.ok)
        if outcome.ok:
            self._held[name] = int(str(outcome.answer.value["token"]))
            return self._held[name]
        if name in self._held:
            await self.give_back(name)
        return NOBODY

    async def give_back(self, name: str) -> bool:
        """Try once to give back what we hold; True when we don't hold it any more, as far as we know."""
        if name not in self._held:
            return True
        node, token = self._guide.leader(), self._held[name]

        async def release() -> Answer:
            return await self._change(name, node, token, [FIRST_MEMBER], token=token)

        outcome = await self._worker.do(
            "release", release, object=name, model=MODEL, holder=self._me, token=token, to=node
        )
        self._guide.learn(node, took=outcome.ok)
        if outcome.ok or outcome.answer.value.get("refused"):
            del self._held[name]
        return name not in self._held

    async def settle(self, name: str, deadline_ns: int) -> None:
        """Find out whether we hold the lock, and give it back."""
        while self._load.now_ns() < deadline_ns:
            try:
                epoch, holder = await self._look(name, self._guide.any())
            except Failed:
                await self._load.sleep(RETRY_S)
                continue
            if holder != self._me:
                self._held.pop(name, None)
                return
            self._held[name] = epoch
            if await self.give_back(name):
                return
            await self._load.sleep(RETRY_S)

    async def _look(self, name: str, node: str) -> tuple[int, int]:
        """Return epoch and holder. Raises :class:`Failed`: to look has no effect."""
        try:
            seen = (await read_set(self._objects, name, node)).value
        except Unknown as error:
            raise Failed(error.reason, error.answer) from error
        members = seen["members"]
        assert isinstance(members, list)
        holder = next((member for member in members if member != FIRST_MEMBER), NOBODY)
        return int(str(seen["epoch"])), holder

    async def _change(self, name: str, node: str, expected: int, members: Sequence[int], *, token: int) -> Answer:
        """Change the lock's set. However it ends, the answer has the token of the call."""
        try:
            answer = await change_set(self._objects, name, node, expected=expected, members=members)
        except (Failed, Unknown) as error:
            answer = replace(error.answer, value={**error.answer.value, "token": token})
            raise type(error)(error.reason, answer) from error
        return replace(answer, value={"token": token})


def create(options: Options) -> Lock:
    return Lock(options)
