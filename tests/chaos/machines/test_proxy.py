"""The proxy of links: what one side says the other hears, as late, as whole and as broken as the rules have it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chaos.effects.links import (
    HARNESS,
    Action,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    LinkRule,
    Pass,
    Reach,
    Reorder,
    Reset,
    SlowClose,
    Stall,
    Throttle,
)
from chaos.machines.proxy import HOST, MAX_HELD_BYTES, Proxy, preamble, try_link

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ALL = frozenset({"*"})


class Bench:
    """A proxy, and a node behind it whose connections the test holds in its hands."""

    def __init__(self) -> None:
        self.hellos: list[Any] = []
        self.proxy = Proxy(1, lambda hello, transport: self.hellos.append(hello))
        self.accepted: asyncio.Queue[tuple[dict[str, str], Stream]] = asyncio.Queue()

    async def begin(self) -> None:
        self.port = await self.proxy.listen()
        self.server = await asyncio.start_server(self._accept, HOST, 0)
        self.proxy.addresses["node"] = self.server.sockets[0].getsockname()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.put_nowait((json.loads(await reader.readline()), (reader, writer)))

    async def dial(self, source: str = "client", target: str = "node") -> Stream:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        writer.write(preamble(source, target))
        return reader, writer

    async def pair(self) -> tuple[Stream, Stream]:
        """An open connection, both ends."""
        near = await self.dial()
        assert await near[0].readexactly(1) == b"+"
        return near, (await self.accepted.get())[1]

    def rule(self, action: Action, source: str = "client", target: str = "node") -> None:
        self.proxy.set_rule("rule", LinkRule(frozenset({source}), frozenset({target}), action))


def with_bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def main() -> None:
        bench = Bench()
        await bench.begin()
        try:
            async with asyncio.timeout(15):
                await test(bench)
        finally:
            bench.proxy.close()
            bench.server.close()

    def run() -> None:
        asyncio.run(main())

    run.__name__ = test.__name__  # type: ignore[attr-defined]
    return run


async def silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), 0.1)
    except TimeoutError:
        return True
    return False


async def gone(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


@with_bench
async def test_the_target_learns_who_dials_and_bytes_flow(bench: Bench) -> None:
    near = await bench.dial()
    assert await near[0].readexactly(1) == b"+"
    hello, far = await bench.accepted.get()
    assert hello == {"from": "client", "to": "node"}
    blob = bytes(range(256)) * 20_000
    near[1].write(blob)
    assert await far[0].readexactly(len(blob)) == blob
    far[1].write(blob)
    assert await near[0].readexactly(len(blob)) == blob


@with_bench
async def test_the_end_comes_after_the_last_byte(bench: Bench) -> None:
    near, far = await bench.pair()
    near[1].write(b"x" * 300_000)
    near[1].close()
    assert await far[0].read() == b"x" * 300_000
    assert await gone(near[0])
    await asyncio.sleep(0.05)
    assert not bench.proxy.relays


@with_bench
async def test_a_dial_to_nobody_is_refused(bench: Bench) -> None:
    bench.proxy.addresses["dead"] = (HOST, 1)
    for target in ("nobody", "dead"):
        near = await bench.dial(target=target)
        assert await gone(near[0])
    await asyncio.sleep(0.05)
    assert not bench.proxy.relays


@with_bench
async def test_dropped_bytes_wait_and_come_when_the_rule_goes(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Drop())
    near[1].write(b"late")
    assert await silent(far[0])
    far[1].write(b"other way")
    assert await near[0].readexactly(9) == b"other way"
    assert bench.proxy.hits["rule"] == 1
    bench.proxy.clear_rule("rule")
    assert await far[0].readexactly(4) == b"late"


@with_bench
async def test_a_dropped_link_hides_the_death_of_a_peer(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Drop())
    near[1].write(b"last words")
    await near[1].drain()
    near[1].close()
    assert await silent(far[0])
    bench.proxy.clear_rule("rule")
    assert await far[0].read() == b"last words"


@pytest.mark.parametrize("sides", [("client", "node"), ("node", "client")])
def test_dials_hang_when_either_direction_is_dropped(sides: tuple[str, str]) -> None:
    @with_bench
    async def test(bench: Bench) -> None:
        bench.rule(Drop(), *sides)
        near = await bench.dial()
        assert await silent(near[0])
        bench.proxy.clear_rule("rule")
        assert await near[0].readexactly(1) == b"+"

    test()


@with_bench
async def test_a_stalled_link_presses_back_and_loses_nothing(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Drop())
    total = 0
    while total < 20 * MAX_HELD_BYTES:
        near[1].write(b"x" * 100_000)
        total += 100_000
        try:
            await asyncio.wait_for(near[1].drain(), 0.3)
        except TimeoutError:
            break
    assert MAX_HELD_BYTES < total < 20 * MAX_HELD_BYTES
    bench.proxy.clear_rule("rule")
    assert await far[0].readexactly(total) == b"x" * total


@with_bench
async def test_a_reader_that_does_not_read_presses_back(bench: Bench) -> None:
    near, far = await bench.pair()
    far[1].transport.pause_reading()  # type: ignore[attr-defined]
    total = 0
    while total < 20 * MAX_HELD_BYTES:
        near[1].write(b"x" * 100_000)
        total += 100_000
        try:
            await asyncio.wait_for(near[1].drain(), 0.3)
        except TimeoutError:
            break
    assert total < 20 * MAX_HELD_BYTES
    far[1].transport.resume_reading()  # type: ignore[attr-defined]
    assert await far[0].readexactly(total) == b"x" * total


@with_bench
async def test_delayed_bytes_keep_their_order(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Delay(100_000_000, 50_000_000))
    begin_s = asyncio.get_running_loop().time()
    for number in range(20):
        near[1].write(bytes([number]))
        await asyncio.sleep(0.002)
    assert await far[0].readexactly(20) == bytes(range(20))
    assert 0.1 <= asyncio.get_running_loop().time() - begin_s < 2
    assert bench.proxy.hits["rule"] > 5


@with_bench
async def test_what_is_delayed_is_held_by_a_later_drop(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Delay(50_000_000))
    near[1].write(b"on its way")
    await asyncio.sleep(0.02)
    bench.rule(Drop())
    assert await silent(far[0])
    bench.proxy.clear_rule("rule")
    assert await far[0].readexactly(10) == b"on its way"


@with_bench
async def test_a_stall_holds_up_what_comes_behind_it(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Stall(1000, 150_000_000))
    near[1].write(b"a")
    await asyncio.sleep(0.02)
    bench.proxy.clear_rule("rule")
    near[1].write(b"b")
    assert await silent(far[0])
    assert await far[0].readexactly(2) == b"ab"


@with_bench
async def test_a_reset_breaks_both_sides(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Reset())
    near[1].write(b"x")
    assert await gone(near[0]) and await gone(far[0])
    assert bench.proxy.hits["rule"] == 1 and not bench.proxy.relays
    bench.rule(Reset(0))
    near, far = await bench.pair()
    near[1].write(b"x")
    assert await far[0].readexactly(1) == b"x"


@with_bench
async def test_a_throttled_link_carries_so_much_and_lets_go_at_once_when_the_rule_goes(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Throttle(100_000))
    begin_s = asyncio.get_running_loop().time()
    for _ in range(10):
        near[1].write(b"x" * 2_000)
        await asyncio.sleep(0.001)
    assert await far[0].readexactly(20_000)
    assert 0.19 <= asyncio.get_running_loop().time() - begin_s < 2
    near[1].write(b"x" * 1_000_000)
    assert len(await far[0].readexactly(1)) == 1
    bench.proxy.clear_rule("rule")
    async with asyncio.timeout(3):
        await far[0].readexactly(999_999)


@with_bench
async def test_a_flipped_bit_is_one_bit_and_counted(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Corrupt(1000))
    near[1].write(bytes(100))
    got = await far[0].readexactly(100)
    assert sum(byte.bit_count() for byte in got) == 1 and bench.proxy.hits["rule"] == 1
    bench.rule(Corrupt(0))
    near[1].write(bytes(100))
    assert await far[0].readexactly(100) == bytes(100) and bench.proxy.hits["rule"] == 1


@with_bench
async def test_an_end_is_passed_on_late_or_when_the_rule_goes(bench: Bench) -> None:
    for early in (False, True):
        near, far = await bench.pair()
        bench.rule(SlowClose(60_000_000_000 if early else 200_000_000))
        near[1].write(b"last words")
        near[1].close()
        assert await far[0].readexactly(10) == b"last words"
        assert await silent(far[0])
        assert bench.proxy.hits["rule"] == 1
        if early:
            bench.proxy.clear_rule("rule")
        assert await gone(far[0])
        bench.proxy.clear_rule("rule")


@pytest.mark.parametrize("action", [Duplicate(1000, 300_000_000), Reorder(1000, 300_000_000)])
def test_what_tcp_puts_right_again_is_late_but_whole(action: Action) -> None:
    @with_bench
    async def test(bench: Bench) -> None:
        near, far = await bench.pair()
        bench.rule(action)
        for number in range(10):
            near[1].write(bytes([number]))
            await asyncio.sleep(0.002)
        assert await far[0].readexactly(10) == bytes(range(10))
        assert bench.proxy.hits["rule"] > 3

    test()


@with_bench
async def test_a_rule_that_passes_keeps_its_hits(bench: Bench) -> None:
    near, far = await bench.pair()
    bench.rule(Drop())
    near[1].write(b"x")
    assert await silent(far[0])
    bench.rule(Pass())
    assert await far[0].readexactly(1) == b"x"
    near[1].write(b"y")
    assert await far[0].readexactly(1) == b"y" and bench.proxy.hits["rule"] == 1


@with_bench
async def test_everybody_but_some(bench: Bench) -> None:
    bench.proxy.set_rule("rule", LinkRule(ALL, ALL, Drop(), frozenset({"node"})))
    near, far = await bench.pair()
    near[1].write(b"x")
    assert await far[0].readexactly(1) == b"x"


@with_bench
async def test_the_harness_is_never_touched(bench: Bench) -> None:
    bench.proxy.set_rule("rule", LinkRule(ALL, ALL, Drop()))
    near = await bench.dial(HARNESS)
    assert await near[0].readexactly(1) == b"+"
    assert bench.proxy.hits["rule"] == 0


@with_bench
async def test_the_first_rule_that_has_an_opinion_wins(bench: Bench) -> None:
    bench.rule(Drop())
    bench.proxy.set_rule("second", LinkRule(ALL, ALL, Reset()))
    near = await bench.dial()
    assert await silent(near[0])
    assert bench.proxy.hits == {"rule": 1, "second": 0}


@with_bench
async def test_garbage_instead_of_a_first_line_is_cut_off(bench: Bench) -> None:
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"from": "a"}\n', b"x" * 10_000):
        reader, writer = await asyncio.open_connection(HOST, bench.port)
        writer.write(garbage)
        assert await gone(reader)
    assert bench.hellos == []


@with_bench
async def test_an_exposed_port_needs_no_first_line(bench: Bench) -> None:
    port = bench.proxy.endpoints.port("outsider", "node", "")
    assert bench.proxy.endpoints.port("outsider", "node", "") == port
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"hi")
    hello, far = await bench.accepted.get()
    assert hello == {"from": "outsider/1", "to": "node"}
    assert await far[0].readexactly(2) == b"hi"
    far[1].write(b"ho")
    assert await reader.readexactly(2) == b"ho"


@pytest.mark.parametrize("sides", [("client", "node"), ("node", "client")])
@pytest.mark.parametrize("action", [Drop(), Reset()])
def test_a_probe_is_told_at_once_that_a_rule_stops_it(action: Action, sides: tuple[str, str]) -> None:
    @with_bench
    async def test(bench: Bench) -> None:
        assert await try_link(bench.port, "client", "node", 5) is Reach.WORKS
        await asyncio.sleep(0.05)  # its end has come through
        bench.rule(action, *sides)
        for _ in range(2):
            assert await try_link(bench.port, "client", "node", 60) is Reach.CUT  # or it takes too long
        assert bench.proxy.hits["rule"] == 2
        bench.proxy.addresses["node"] = (HOST, 1)
        if sides[0] == "client":  # also when nobody is there
            assert await try_link(bench.port, "client", "node", 60) is Reach.CUT
        bench.proxy.clear_rule("rule")
        assert await try_link(bench.port, "client", "node", 5) is Reach.FAILS
        await asyncio.sleep(0.05)
        assert not bench.proxy.relays

    test()


@with_bench
async def test_a_probe_that_is_late_or_refused_or_hits_no_rule_is_not_cut(bench: Bench) -> None:
    bench.rule(Drop(), "other")
    assert await try_link(bench.port, "client", "node", 5) is Reach.WORKS
    bench.rule(Delay(300_000_000))
    assert await try_link(bench.port, "client", "node", 0.05) is Reach.FAILS
    bench.rule(Pass())
    assert await try_link(bench.port, "client", "nobody", 5) is Reach.FAILS
    bench.proxy.close()
    bench.proxy.clear_rule("rule")
    assert await try_link(1, "client", "node", 5) is Reach.FAILS
