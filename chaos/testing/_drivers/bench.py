"""The cluster on which a driver is checked, and the list of what is wrong with the driver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from chaos.deployment import Deployment
from chaos.driver import CanSetUp, ClusterView, Driver
from chaos.history.columns import GIVEN
from chaos.ops import Answer, Failed, OpType, Unknown
from chaos.testing._drivers.network import unreliable
from chaos.testing._drivers.views import problems_of, regressions

T = TypeVar("T")

#: No single call of a driver may take longer.
CALL_S = 120.0
POLL_S = 0.5
#: What a row may have besides its kind.
COLUMNS = frozenset(GIVEN)


class Ended(Exception):
    """Nothing more can be checked; what is wrong has been noted."""


class Broken:
    """What stands for the result of a call that raised what it may not raise; the problem has been noted."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a call of a client ended; ``type`` is None when it ended in a way that no call may end."""

    type: OpType | None
    answer: Answer
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.type is OpType.OK


class Bench:
    """``problems``: what is wrong, each once. ``unchecked``: what this system gave no opportunity to check, and why."""

    def __init__(self, driver: Driver, deployment: Deployment, mutant: str, ready_s: float) -> None:
        self.driver = driver
        self.deployment = deployment
        self.network = unreliable(deployment)
        self.mutant = mutant
        self.problems: dict[str, None] = {}
        self.unchecked: list[str] = []
        self.nodes: set[str] = set()
        self.rows: list[dict[str, Any]] = []
        self.traced: dict[str, str] = {}  # event → the first node that traced it
        self._ready_s = ready_s
        self._last = ClusterView()

    def require(self, holds: bool, problem: str) -> bool:
        """Note the problem unless this holds."""
        if not holds:
            self.problems[problem] = None
        return holds

    def on_trace(self, row: Mapping[str, object]) -> None:
        self.traced.setdefault(str(row["f"]), str(row["node"]))

    def record(self, kind: str, **columns: object) -> int:
        """Keep a row and look at it: a :class:`chaos.driver.Record`."""
        what = f"a row {kind} {columns.get('f', '')}".rstrip()
        unknown = sorted(set(columns) - COLUMNS)
        self.require(not unknown, f"{what} has columns that histories don't have: {', '.join(unknown)}")
        try:
            json.dumps(columns.get("value"))
        except (TypeError, ValueError) as error:
            self.require(False, f"{what} has a value that is not JSON: {error}")
        self.rows.append({"kind": kind, **columns})
        return len(self.rows) - 1

    # Calls

    async def call(self, what: str, work: Awaitable[T], *, may_fail: bool = False) -> T | Failed | Unknown | Broken:
        """Return what a call of the driver returned; :class:`Broken` after an exception that may not escape. With
        ``may_fail`` the two that a client raises are returned, too."""
        try:
            async with asyncio.timeout(CALL_S) as limit:
                return await work
        except (Failed, Unknown) as error:
            if may_fail:
                return error
            self.require(False, f"{what} raised {type(error).__name__}: {error.reason}")
        except Exception as error:
            if limit.expired():
                self.require(False, f"{what} did not end within {CALL_S:g} s")
                return Broken()
            only = "; only chaos.ops.Failed and chaos.ops.Unknown may escape" if may_fail else "; it must never raise"
            self.require(False, f"{what} raised {type(error).__name__}: {error}{only}")
        return Broken()

    async def ask(self, what: str, work: Awaitable[Answer]) -> Result:
        """Return how a call of a client ended."""
        ended = await self.call(what, work, may_fail=True)
        if isinstance(ended, Failed):
            return Result(OpType.FAIL, ended.answer, ended.reason)
        if isinstance(ended, Unknown):
            return Result(OpType.INFO, ended.answer, ended.reason)
        if isinstance(ended, Answer):
            strange = ended.node and ended.node not in self.nodes
            self.require(not strange, f"{what}: Answer.node is {ended.node!r}, which is not a node of the cluster")
            return Result(OpType.OK, ended)
        if not isinstance(ended, Broken):
            self.require(False, f"{what} returned {ended!r}, expected a chaos.ops.Answer")
        return Result(None, Answer())

    # The cluster

    async def view(self) -> ClusterView:
        """Return what the driver says of the cluster now, looked over."""
        view = await self.call("view", self.driver.view(self.network, self.record))
        if not isinstance(view, ClusterView):
            wrong = f"view returned {view!r}, expected a chaos.driver.ClusterView"
            self.require(isinstance(view, Broken), wrong)
            raise Ended
        for problem in (*problems_of(view, self.nodes), *regressions(self._last, view)):
            self.require(False, problem)
        self._last = view
        return view

    async def set_up(self) -> None:
        """Have the driver make what its system needs, and see that it may be asked again."""
        driver = self.driver
        if not isinstance(driver, CanSetUp):
            return
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._ready_s
        while not (made := await self.call("set_up", driver.set_up(self.network))):
            await self.view()
            if loop.time() > deadline_s:
                self.require(False, f"set_up does not return True within {self._ready_s:g} s of its start")
                raise Ended
            await asyncio.sleep(POLL_S)
        self.require(made is True or isinstance(made, Broken), f"set_up returned {made!r}, expected a bool")
        await self.settled("after its set-up")
        again = await self.call("set_up", driver.set_up(self.network))
        text = f"set_up returned {again!r} when all was made; it must leave that as it is, and return True"
        self.require(again is True or isinstance(again, Broken), text)

    async def settled(self, when: str) -> ClusterView:
        """Wait until the driver says that the cluster is settled."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._ready_s
        while not (view := await self.view()).settled:
            if loop.time() > deadline_s:
                self.require(False, f"view never says that the system is settled within {self._ready_s:g} s {when}")
                raise Ended
            await asyncio.sleep(POLL_S)
        return view

    async def until(self, holds: Callable[[ClusterView], bool], within_s: float) -> ClusterView | None:
        """Return the first view of which this holds; None when there is none in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + within_s
        while not holds(view := await self.view()):
            if loop.time() > deadline_s:
                return None
            await asyncio.sleep(POLL_S)
        return view
