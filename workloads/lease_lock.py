"""Locks that the system lends for a time, used without comparing tokens.

A holder renews its lock and, when that fails, gives it up before the time is over. That is safe as long as it notices.
A holder that stands still for longer (a garbage collection, a suspended machine) neither renews nor notices: the system
gives the lock to the next client, and there are two holders (the model ``fenced-lock``). ``pauses`` makes some holders
stand still so. Only a token that the protected resource compares distinguishes the two, as the workload ``lock`` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from chaos.ops import Answer, Failed, Unknown
from chaos.services import CanLendLocks, Locks
from chaos.workload import Load, Use, Worker

MODEL = "fenced-lock"
NOBODY = -1
RETRY_S = 0.1
#: A lock is given up when this share of its time is left and no renewal was answered; a renewal that is asked for then
#: has ended well before.
SPARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients`` share ``locks``. Each tries to take one every ``gap_s`` seconds or so, lent for ``lease_s`` at a
    time, and keeps it for up to ``hold_s``. A share of ``pauses`` of the holders stand still for ``pause_s`` instead.
    ``drain_s`` bounds the time in which, at the end, every lock must be taken and given back once more."""

    clients: int = field(default=5, metadata={"within": range(1, 101)})
    locks: int = field(default=2, metadata={"within": range(1, 1001)})
    gap_s: float = 0.2
    hold_s: float = 1.0
    lease_s: float = 2.0
    pauses: float = 0.0
    pause_s: float = 4.0
    drain_s: float = 20.0


@dataclass(slots=True)
class LeaseLock:
    options: Options
    needs: Sequence[type] = (CanLendLocks,)
    uses: Sequence[Use] = (Use.OBJECTS,)

    async def run(self, load: Load) -> None:
        for name in self._names():
            await self._declare_free(load, name)
        await load.gather(*(self._use(load, number) for number in range(self.options.clients)))

    async def drain(self, load: Load) -> None:
        """Take and give back every lock once more."""
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        holder = _Holder(load, self.options, self.options.clients, "lease-lock-drain")
        for name in self._names():
            while not await holder.hold(name, 0.0) and load.now_ns() < deadline_ns:
                await load.sleep(RETRY_S)

    def _names(self) -> Sequence[str]:
        return [f"lease-lock-{number}" for number in range(self.options.locks)]

    async def _declare_free(self, load: Load, name: str) -> None:
        """Declare a lock free: nobody has ever asked for it."""

        async def free() -> Answer:
            return Answer()

        await Worker(load, f"{name}-maker").do("create", free, object=name, init={MODEL: [NOBODY, NOBODY]})

    async def _use(self, load: Load, number: int) -> None:
        holder = _Holder(load, self.options, number, f"lease-lock-client-{number}")
        rng = load.rng(f"lease-lock-client-{number}/pace")
        while not load.stopping:
            await load.sleep(self.options.gap_s * (0.5 + rng.random()))
            if not load.stopping:
                await holder.hold(rng.choice(self._names()), self.options.hold_s * rng.random())


class _Holder:
    """One client under its number. ``_until_ns``: how long it may count on the lock that it holds."""

    def __init__(self, load: Load, options: Options, number: int, name: str) -> None:
        self._load = load
        self._options = options
        self._locks: Locks = load.locks(name)
        self._worker = Worker(load, name)
        self._rng: Random = load.rng(name)
        self._me = number
        self._until_ns = 0

    async def hold(self, name: str, seconds: float) -> bool:
        """Take the lock, keep it for so long, and give it back; False when it could not be taken."""
        node = self._any()

        async def acquire() -> Answer:
            self._renewed_at(self._load.now_ns())
            answer = await self._locks.acquire(name, node, lease_s=self._options.lease_s)
            if self._left_s() <= 0:
                raise Unknown("the lock came so late that it may be somebody else's again", answer)
            return answer

        asked: dict[str, Any] = {"object": name, "model": MODEL, "holder": self._me}
        taken = await self._worker.do("acquire", acquire, to=node, **asked)
        if not taken.ok:
            return False
        if self._rng.random() < self._options.pauses:
            began_ns, stood_still_s = self._load.now_ns(), self._options.pause_s
            if await self._load.sleep(stood_still_s):  # it neither renews nor notices
                stood_still_s = (self._load.now_ns() - began_ns) / 1e9
            asked["stood_still_s"] = stood_still_s
        else:
            await self._keep(name, node, self._load.now_ns() + round(seconds * 1e9))
        token, giver = taken.answer.value.get("token"), self._any()

        async def release() -> Answer:
            try:
                return replace(await self._locks.release(name, giver), value={"token": token})
            except Failed as error:  # it is given up all the same, and the system takes it back when its time is over
                raise Unknown(error.reason, error.answer) from error

        await self._worker.do("release", release, to=giver, token=token, **asked)
        return True

    async def _keep(self, name: str, node: str, end_ns: int) -> None:
        """Renew the lock until ``end_ns``, or until it must be given up because renewals fail."""
        while not self._load.stopping:
            began_ns = self._load.now_ns()
            try:
                await self._locks.renew(name, node)
                self._renewed_at(began_ns)
            except (Failed, Unknown):
                node = self._any()
            rest_s = min((end_ns - self._load.now_ns()) / 1e9, self._left_s())
            if rest_s <= 0:
                return
            await self._load.sleep(min(rest_s, self._options.lease_s / 4))

    def _renewed_at(self, began_ns: int) -> None:
        self._until_ns = began_ns + round(self._options.lease_s * 1e9)

    def _left_s(self) -> float:
        """Return for how long the lock may be kept without another renewal."""
        return (self._until_ns - self._load.now_ns()) / 1e9 - SPARE * self._options.lease_s

    def _any(self) -> str:
        return self._rng.choice(self._locks.nodes)


def create(options: Options) -> LeaseLock:
    return LeaseLock(options)
