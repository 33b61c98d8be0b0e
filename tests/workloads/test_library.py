"""The load of a client library: what it orders, and for how long its groups read on after recovery."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand
from chaos.ops import Answer, Delivered, QueueRef
from chaos.workload import Load, Use, uses_of
from workloads.library import Options, create

pytestmark = pytest.mark.process
#: What the real program wrote: a message that comes later, and later what a group is given. It obeys as many lines.
SENDS = """
echo '{"id":1,"type":"invoke","via":"check","decision":"commit","f":"transact","process":"transaction-0","queue":0}'
read go; echo '{"id":1,"type":"ok","message_id":"0A000005"}'; cat
"""
GIVES = """
echo '{"id":1,"type":"invoke","group":"library-push","in_order":0,"f":"receive","process":"push-0-0","queue":0}'
read go; echo '{"id":1,"type":"ok","messages":[{"offset":0,"key":"%032X","base64":"MDpsaWJyYXJ5"}]}'; cat
"""


#: Later than any deadline of these tests.
LATER_NS = 100 * 10**9


class Reader:
    """A client of a queue that holds as many messages as anybody has seen, or was told of."""

    def __init__(self, load: FakeLoad) -> None:
        self._load = load

    async def bounds(self, queue: QueueRef) -> Answer:
        return Answer(minimum=0, maximum=self._end)

    async def pull(self, queue: QueueRef, offset: int, *, limit: int) -> Answer:
        found = tuple(Delivered(offset=one, message=one, hash=1) for one in range(offset, self._end))
        return Answer(maximum=self._end, messages=found)

    @property
    def _end(self) -> int:
        return 1 + max(self._load.shared[what].get(0, -1) for what in ("acked", "seen"))

    def close(self) -> None: ...


class FakeLoad:
    """Its driver's client program is a shell that does what the ``scripts`` say, one for each start. ``loaded``: with
    so many rows the load is over; ``said``: with so many all has been said, and the time for the rest runs out."""

    queues = (QueueRef(index=0, topic="t", queue_id=0),)
    brokers = ()

    def __init__(self, *scripts: str, loaded: int = 0, said: int = 1_000) -> None:
        self.scripts = list(scripts)
        self.orders: list[Mapping[str, int]] = []
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}
        self.rows: list[dict[str, Any]] = []
        self._loaded, self._said = loaded, said

    @property
    def stopping(self) -> bool:
        return len(self.rows) >= self._loaded

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, **columns})
        return len(self.rows) - 1

    async def look_for_bypass(self, client: str, pid: int) -> None: ...

    def now_ns(self) -> int:
        return time.monotonic_ns() + (LATER_NS if len(self.rows) >= self._said else 0)

    def rng(self, name: str) -> Random:
        return Random(name)

    async def sleep(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await asyncio.gather(*coroutines)

    def client(self, name: str) -> Reader:
        return Reader(self)

    async def library_command(self, name: str, orders: Mapping[str, int]) -> ClientCommand:
        self.orders.append(orders)
        return ClientCommand(argv=["sh", "-c", self.scripts.pop(0)])


def follow(load: FakeLoad, options: Options) -> list[tuple[str, str]]:
    """Load and drain; what was recorded of the wait for the groups."""

    async def both() -> None:
        workload = create(options)
        await workload.run(cast(Load, load))
        await workload.drain(cast(Load, load))

    asyncio.run(both())
    return [(str(row["type"]), row["value"]["group"]) for row in load.rows if row["f"] == "caught_up"]


ONE_GROUP = Options(sync=0, asynchronous=0, ordered=0, batch=0, transaction=1, orderly=0, pull=0, drain_s=60)


def test_a_group_reads_on_until_it_was_given_what_is_owed() -> None:
    load = FakeLoad(SENDS, GIVES % 0, loaded=2)
    began_ns = load.now_ns()
    assert follow(load, ONE_GROUP) == [("invoke", "library-push"), ("ok", "library-push")]
    assert load.now_ns() - began_ns < ONE_GROUP.drain_s * 1e9  # it did not wait for the bound
    assert load.orders[0]["transaction"] == 1 and load.orders[0]["push"] == 1 and load.orders[0]["sync"] == 0
    assert load.orders[1] == {"answer_checks": 1, "push": 1}
    ends = {row["f"]: row for row in load.rows if str(row["type"]) == "ok"}
    assert ends["caught_up"]["offset"] == 1 and ends["caught_up"]["value"]["received"] == 1
    assert ends["drain"]["offset"] == 1 and load.rows.index(ends["drain"]) > load.rows.index(ends["caught_up"])


SENT_TO_7 = """
echo '{"id":1,"type":"invoke","f":"send","queue":0}'; read go; echo '{"id":1,"type":"ok","offset":7}'; cat
"""
GIVES_7 = """
echo '{"id":1,"type":"invoke","group":"library-%s","in_order":%d,"f":"receive","queue":0}'
read go; echo '{"id":1,"type":"ok","messages":[{"offset":7,"key":"","body":"0:library"}]}'; cat
"""


@pytest.mark.parametrize(("group", "in_order", "end"), [("orderly", 1, 8), ("push", 0, 0)])
def test_a_group_that_reads_in_order_has_come_by_what_stands_below(group: str, in_order: int, end: int) -> None:
    """Marks of transactions have offsets, too, and no group is ever given them."""
    load = FakeLoad(SENT_TO_7, GIVES_7 % (group, in_order), loaded=2, said=6)
    orders = {"sync": 1, "asynchronous": 0, "ordered": 0, "batch": 0, "push": 0, "orderly": 0, "pull": 0, group: 1}
    follow(load, Options(**orders, drain_s=60))
    (done,) = (row for row in load.rows if row["f"] == "caught_up" and str(row["type"]) == "ok")
    assert done["offset"] == end


def test_a_group_that_is_not_given_what_is_owed_is_waited_for_to_the_bound() -> None:
    load = FakeLoad(SENDS, GIVES % 77, loaded=2, said=6)
    began_ns = load.now_ns()
    assert follow(load, ONE_GROUP) == [("invoke", "library-push"), ("ok", "library-push")]
    assert load.now_ns() - began_ns >= ONE_GROUP.drain_s * 1e9


POPS = """
read_on() { read go; echo "$1"; }
echo '{"id":1,"type":"invoke","via":"sync","f":"send","process":"sync-0","queue":0}'
read_on '{"id":1,"type":"ok","offset":0}'
"""
NOTHING = """
echo '{"id":2,"type":"invoke","group":"library-pop","in_order":0,"f":"receive","process":"pop-0","queue":0}'
read go; echo '{"id":2,"type":"ok","messages":[]}'; cat
"""
AGAIN = f"""
echo '{{"id":2,"type":"invoke","group":"library-pop","f":"receive_again","process":"p","key":"{0:032X}","body":""}}'
read go; echo '{{"id":2,"type":"ok"}}'; cat
"""
POP = Options(asynchronous=0, ordered=0, batch=0, push=0, orderly=0, pull=0, pop=1, drain_s=60)


def test_what_comes_again_stands_where_it_was_sent_to() -> None:
    """Its offset is not told then, but known from the send."""
    load = FakeLoad(f"{POPS} cat", AGAIN, loaded=2)
    began_ns = load.now_ns()
    follow(load, POP)
    assert load.now_ns() - began_ns < POP.drain_s * 1e9
    (end,) = (row for row in load.rows if row["f"] == "caught_up" and str(row["type"]) == "ok")
    assert end["offset"] == 1 and end["value"]["received"] == 1


def test_an_empty_answer_shows_that_a_pop_consumer_has_reached_the_system() -> None:
    for script, received, said in ((NOTHING, 1, 5), ("cat", 0, 3)):
        load = FakeLoad(f"{POPS} cat", script, loaded=2, said=said)
        follow(load, POP)
        (end,) = (row for row in load.rows if row["f"] == "caught_up" and str(row["type"]) == "ok")
        assert end["offset"] == 0 and end["value"]["received"] == received


def test_producers_alone_wait_for_no_group() -> None:
    load = FakeLoad("cat")
    assert follow(load, Options(push=0, orderly=0, pull=0)) == [] and len(load.orders) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sync": 0, "asynchronous": 0, "ordered": 0, "batch": 0, "push": 0, "orderly": 0, "pull": 0}, "neither"),
        ({"delay": 1, "push": 0, "orderly": 0, "pull": 0}, "nobody would notice what comes"),
        ({"rate_per_s": 0}, "expected more than 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options(**options)


def test_it_says_what_it_operates_on() -> None:
    assert uses_of(create(Options())) == (Use.QUEUES, Use.DELIVERIES)
