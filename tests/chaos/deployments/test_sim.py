"""The simulated world: steps, links, faults, and the same history for the same seed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos import deployment
from chaos.deployments import sim
from chaos.driver import ClusterSpec, Disconnected
from chaos.effects.links import HARNESS, Delay, Drop, LinkRule, Reset, Stall
from chaos.errors import DeploymentError
from chaos.fault import NotNow, Undo, Verb
from chaos.plain import PlainMessage
from tests.chaos.deployments import sim_toys as toys

ROOT = Path(__file__).parents[3]
MS = 1_000_000
ALL = frozenset({"*"})


def rule(source: str, target: str, action: Any) -> LinkRule:
    return LinkRule(frozenset({source}), frozenset({target}), action)


def undo(verb: Verb, subject: str) -> Undo:
    return Undo(verb=verb, subject=subject)


def test_the_simulator_has_every_power() -> None:
    world = sim.create(run_id="x", directory=Path("/nonexistent"), seed=1)
    powers = ("Deployment", "CanKill", "CanPause", "CanWipe", "CanRuleLinks", "CanSkewClocks")
    assert [name for name in powers if not isinstance(world, getattr(deployment, name))] == []
    world.loop.close()


def test_one_seed_is_one_history_in_every_process() -> None:
    def fresh(seed: int, hash_seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        command = [sys.executable, "-m", toys.__name__, str(seed)]
        return subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    digests = {fresh(5, hash_seed) for hash_seed in (0, 1, 77, 4_000_000_000)} | {toys.digest(5)}
    assert len(digests) == 1
    assert toys.digest(6) not in digests


def test_requests_take_virtual_time() -> None:
    async def script(world: Any) -> None:
        assert (await world.ask("echo-0", toys.ECHO, b"hello")).body == b"hello"
        first_ns = world.sim.now_ns()
        await world.ask("echo-0", toys.ECHO, b"again")
        again_ns = world.sim.now_ns() - first_ns
        assert 0.4 * MS < again_ns < 2.2 * MS and first_ns > again_ns, "the first request also dials"

    world = toys.World(toys.cluster()).run(script)
    assert [row["value"]["text"] for row in world.of("got")] == ["hello", "again"]
    assert [(row["incarnation"], row["step"]) for row in world.rows] == [(1, 1), (1, 2), (1, 3)]


def test_unanswered_requests_time_out_and_late_answers_meet_nobody() -> None:
    async def script(world: Any) -> None:
        with pytest.raises(TimeoutError, match=r"echo-0 within 0\.01 s"):
            await world.ask("echo-0", toys.LATER, timeout_s=0.01, delay_ns="20000000")
        assert (await world.ask("echo-0", toys.ECHO, b"x", timeout_s=1)).body == b"x"
        await asyncio.sleep(0.1)

    world = toys.World(toys.cluster()).run(script)
    assert len(world.of("timer")) == 1


def test_a_killed_node_refuses_and_its_connections_break() -> None:
    async def script(world: Any) -> None:
        await world.ask("echo-0", toys.GOSSIP, b"meet")
        pending = world.ask("echo-0", toys.LATER, delay_ns=str(10**10))
        async with toys.Group() as group:
            task = group.start(expect_break(pending, sent=True))
            await asyncio.sleep(0.01)
            proof = await world.sim.kill("echo-0")
            assert proof["incarnation"] == 1 and proof["alive"] is False
            await task
        await expect_break(world.ask("echo-0", toys.ECHO), sent=False)
        with pytest.raises(NotNow):
            await world.sim.kill("echo-0")
        await world.sim.undo(undo(Verb.START, "echo-0"))
        await world.sim.undo(undo(Verb.START, "echo-0"))
        assert (await world.ask("echo-0", toys.ECHO, b"back")).body == b"back"
        await asyncio.sleep(20)

    async def expect_break(request: Any, *, sent: bool) -> None:
        with pytest.raises(Disconnected) as caught:
            await request
        assert caught.value.sent is sent

    world = toys.World(toys.cluster(count=2)).run(script)
    assert [(row["node"], row["value"]["peer"]) for row in world.of("closed")] == [("echo-1", "echo-0")]
    assert [row["incarnation"] for row in world.of("start", "echo-0")] == [1, 2]
    assert world.of("timer") == [], "a kill drops timers"


def test_acknowledged_writes_survive_kills_and_unsynced_ones_may_not() -> None:
    lost = 0
    for seed in range(30):
        acked: list[str] = []

        async def client(world: Any, acked: list[str] = acked) -> None:
            for number in range(50):
                text = f"{number:03};"
                try:
                    await world.ask("writer-0", toys.WRITE, text.encode())
                    acked.append(text)
                except Disconnected:
                    return

        async def script(world: Any, seed: int = seed) -> None:
            async with toys.Group() as group:
                group.start(client(world))
                await asyncio.sleep(0.03 + seed / 10_000)
                await world.sim.kill("writer-0")
            await world.sim.undo(undo(Verb.START, "writer-0"))
            await asyncio.sleep(0.01)

        world = toys.World(toys.cluster("writer"), seed).run(script)
        left = world.of("start")[-1]["value"]["content"]
        assert acked and left.startswith("".join(acked)), seed
        lost += len(world.of("append")) * 4 > len(left.rstrip("\0"))
    assert 3 < lost < 30, "some kills hit a write between its step and its sync, and some of those lose it"


def test_an_answer_held_for_a_sync_never_overtakes_the_sync() -> None:
    async def script(world: Any) -> None:
        await toys.gather(*(world.ask("writer-0", toys.WRITE, b"x") for _ in range(20)))

    world = toys.World(toys.cluster("writer")).run(script)
    assert [row["value"]["token"] for row in world.of("synced")] == list(range(1, 21))


def test_a_pause_in_the_busy_window_holds_the_sends_until_resume() -> None:
    async def script(world: Any) -> None:
        await world.ask("echo-0", toys.ECHO)
        hit = asyncio.Event()
        world.sim._nodes["echo-0"].on_trace = lambda row: hit.set()
        async with toys.Group() as group:
            task = group.start(world.ask("echo-0", toys.ECHO, b"stale", timeout_s=9))
            await hit.wait()
            await world.sim.pause("echo-0")
            with pytest.raises(NotNow):
                await world.sim.pause("echo-0")
            late = group.start(world.ask("echo-0", toys.ECHO, b"queued", timeout_s=9))
            await asyncio.sleep(5)
            assert not task.done() and not late.done()
            await world.sim.undo(undo(Verb.RESUME, "echo-0"))
            await world.sim.undo(undo(Verb.RESUME, "echo-0"))
        assert (task.result().body, late.result().body) == (b"stale", b"queued")

    toys.World(toys.cluster()).run(script)


def test_a_kill_in_the_busy_window_may_lose_the_sends_of_the_step() -> None:
    outcomes = set()

    async def script(world: Any) -> None:
        await world.ask("echo-0", toys.ECHO)
        hit = asyncio.Event()
        world.sim._nodes["echo-0"].on_trace = lambda row: hit.set()
        async with toys.Group() as group:
            task = group.start(outcome(world))
            await hit.wait()
            await world.sim.kill("echo-0")
        outcomes.add(task.result())

    async def outcome(world: Any) -> str:
        try:
            return str((await world.ask("echo-0", toys.ECHO, b"got it")).body)
        except Disconnected:
            return "broken"

    for seed in range(20):
        toys.World(toys.cluster(), seed).run(script)
    assert outcomes == {"b'got it'", "broken"}


def test_backlog_and_overdue_timers_come_in_any_order_after_a_pause() -> None:
    orders = set()

    async def script(world: Any) -> None:
        async with toys.Group() as group:
            group.start(world.ask("echo-0", toys.LATER, delay_ns="20000000", timeout_s=9))
            await asyncio.sleep(0.01)
            await world.sim.pause("echo-0")
            for text in (b"1", b"2", b"3"):
                group.start(world.ask("echo-0", toys.ECHO, text, timeout_s=9))
            await asyncio.sleep(0.1)
            await world.sim.undo(undo(Verb.RESUME, "echo-0"))

    for seed in range(30):
        rows = toys.World(toys.cluster(), seed).run(script).rows
        orders.add("".join(row["value"].get("text", "T") for row in rows[2:]))
    assert orders == {"T123", "1T23", "12T3", "123T"}


def test_dropped_bytes_wait_and_flow_in_order_when_the_rule_goes() -> None:
    async def script(world: Any) -> None:
        sim = world.sim
        await world.ask("echo-0", toys.GOSSIP, b"0")
        await asyncio.sleep(0.01)
        await sim.set_rule("cut", rule("echo-0", "echo-1", Drop()))
        for number in range(1, 20):
            await world.ask("echo-0", toys.GOSSIP, str(number).encode())
            if number == 15:
                await asyncio.sleep(3)
                assert len(world.of("got", "echo-1")) == 1 and await sim.rule_hits("cut") == 15
                await sim.undo(undo(Verb.CLEAR_RULE, "cut"))
                await sim.undo(undo(Verb.CLEAR_RULE, "cut"))
        await asyncio.sleep(0.1)
        assert await sim.rule_hits("cut") == 0

    world = toys.World(toys.cluster(count=2)).run(script)
    assert [row["value"]["text"] for row in world.of("got", "echo-1")] == [str(n) for n in range(20)]
    assert world.of("closed") == []


def test_a_rule_also_stops_what_is_under_way() -> None:
    async def script(world: Any) -> None:
        await world.ask("echo-0", toys.ECHO)
        world.sim.connect("client", "echo-0").oneway(PlainMessage(kind=toys.ECHO))
        await world.sim.set_rule("cut", rule("client", "echo-0", Drop()))
        await asyncio.sleep(1)
        assert len(world.of("got")) == 1

    toys.World(toys.cluster()).run(script)


def test_dials_hang_on_a_cut_link_and_death_is_hidden_by_it() -> None:
    async def script(world: Any) -> None:
        sim = world.sim
        await world.ask("echo-0", toys.GOSSIP, b"meet")
        await asyncio.sleep(0.01)
        await sim.set_rule("cut", rule("echo-1", "echo-0", Drop()))
        await sim.kill("echo-1")
        await world.ask("echo-0", toys.GOSSIP, b"lost")
        with pytest.raises(TimeoutError):
            await sim.set_rule("wall", rule("client", "echo-1", Drop()))
            await world.ask("echo-1", toys.ECHO, timeout_s=2)
        assert world.of("closed") == []
        await sim.undo(undo(Verb.START, "echo-1"))
        await sim.undo(undo(Verb.CLEAR_RULE, "cut"))
        await asyncio.sleep(0.01)
        assert [row["node"] for row in world.of("closed")] == ["echo-0"]
        await world.ask("echo-0", toys.GOSSIP, b"anew")
        await asyncio.sleep(0.01)

    world = toys.World(toys.cluster(count=2)).run(script)
    assert [row["value"]["text"] for row in world.of("got", "echo-1")] == ["meet", "anew"]


def test_the_harness_is_never_cut_off() -> None:
    async def script(world: Any) -> None:
        await world.sim.set_rule("wall", LinkRule(ALL, ALL, Drop()))
        answer = await world.sim.connect(HARNESS, "echo-0").request(PlainMessage(kind=toys.ECHO, body=b"x"), 1)
        assert answer.body == b"x" and await world.sim.rule_hits("wall") == 0
        with pytest.raises(TimeoutError):
            await world.ask("echo-0", toys.ECHO)

    toys.World(toys.cluster()).run(script)


def test_delay_stall_and_reset() -> None:
    async def took_ms(world: Any) -> float:
        before = world.sim.now_ns()
        await world.ask("echo-0", toys.ECHO, timeout_s=5)
        return (world.sim.now_ns() - before) / MS

    async def script(world: Any) -> None:
        sim = world.sim
        await world.ask("echo-0", toys.ECHO)
        await sim.set_rule("a", rule("client", "*", Delay(50 * MS, 10 * MS)))
        assert 50 < await took_ms(world) < 63
        await sim.undo(undo(Verb.CLEAR_RULE, "a"))
        await sim.set_rule("a", rule("echo-0", "client", Stall(1000, 700 * MS)))
        assert 700 < await took_ms(world) < 703
        await sim.undo(undo(Verb.CLEAR_RULE, "a"))
        await sim.set_rule("a", rule("client", "echo-0", Reset()))
        with pytest.raises(Disconnected):
            await took_ms(world)
        assert await sim.rule_hits("a") == 1
        await asyncio.sleep(0.01)
        await sim.undo(undo(Verb.CLEAR_RULE, "a"))
        assert await took_ms(world) < 5

    world = toys.World(toys.cluster()).run(script)
    assert [row["value"]["peer"] for row in world.of("closed")] == ["client"]


def test_a_wipe_leaves_an_empty_disk() -> None:
    async def script(world: Any) -> None:
        await world.ask("writer-0", toys.WRITE, b"gone")
        proof = await world.sim.wipe("writer-0")
        assert proof["was_alive"] is True and proof["files_removed"] == 1
        await world.sim.undo(undo(Verb.START, "writer-0"))

    world = toys.World(toys.cluster("writer")).run(script)
    assert [row["position"] for row in world.of("start")] == [-1, -1]


def test_a_node_without_a_disk_dies_when_it_asks_for_one() -> None:
    async def script(world: Any) -> None:
        assert (await world.ask("writer-0", toys.COUNT)).body == b""

    (spec,) = toys.cluster("writer").nodes
    world = toys.World(ClusterSpec(nodes=[replace(spec, disk=False)], codec=toys.NoCodec()))
    with pytest.raises(Disconnected):
        world.run(script)
    (crash,) = world.of("crash")
    assert crash["value"]["error"] == "OSError: this node has no disk, and asks for 'log'"


def test_the_clock_of_a_node_that_is_down_shows_nothing() -> None:
    async def script(world: Any) -> None:
        await world.sim.kill("echo-1")
        with pytest.raises(NotNow, match="is not running"):
            await world.sim.set_clock("echo-1", jump_ns=10**9)

    toys.World(toys.cluster(count=2)).run(script)


def test_clocks_drift_and_jump_and_are_reset() -> None:
    async def script(world: Any) -> None:
        clock = world.sim._nodes["echo-0"].clock
        mono, wall = clock.mono_ns(), clock.wall_ns()
        proof = await world.sim.set_clock("echo-0", jump_ns=3600 * 10**9, drift_ppm=500_000)
        assert proof["wall_after_ns"] - proof["wall_before_ns"] == 3600 * 10**9  # type: ignore[operator]
        assert clock.mono_ns() == mono
        before = world.sim.now_ns()
        await world.ask("echo-0", toys.LATER, delay_ns="300000000")
        assert 200 * MS < world.sim.now_ns() - before < 204 * MS, "a fast clock's timers are early"
        await world.sim.undo(undo(Verb.RESET_CLOCK, "echo-0"))
        await world.sim.undo(undo(Verb.RESET_CLOCK, "echo-0"))
        passed = world.sim.now_ns() - before
        assert abs(clock.wall_ns() - wall - 1.5 * passed) < MS, "the jump is taken back, the drift has ended"

    toys.World(toys.cluster()).run(script)


def test_a_node_that_raises_dies_and_says_why() -> None:
    async def script(world: Any) -> None:
        with pytest.raises(Disconnected):
            await world.ask("echo-0", toys.FAIL)

    world = toys.World(toys.cluster()).run(script)
    (crash,) = world.of("crash")
    assert crash["value"]["error"] == "ValueError: asked to fail" and crash["value"]["at"].startswith("sim_toys.py:")
    assert [c.error for c in world.sim.crashes] == ["ValueError: asked to fail"]
    assert "sim_toys.py" in world.sim.crashes[0].traceback
    assert str(world.sim.crashes[0]).startswith("echo-0, life 1, step 2: ValueError: asked to fail at sim_toys.py:")


def test_an_error_of_the_recorder_is_no_crash_of_the_node() -> None:
    def broken(row: object) -> None:
        raise OSError("disk full")

    world = toys.World(toys.cluster())

    async def main() -> int:
        await world.sim.start(world.spec, broken)
        return 0

    with pytest.raises(OSError, match="disk full"):
        world.sim.execute(main())
    assert world.sim.crashes == []


def test_bad_clusters_are_refused_with_a_reason() -> None:
    async def main(world: Any) -> int:
        await world.sim.start(world.spec, print)
        return 0

    twice = toys.cluster()
    twice = type(twice)(nodes=[*twice.nodes, *twice.nodes], codec=twice.codec)
    with pytest.raises(DeploymentError, match="two nodes are named 'echo-0'"):
        (world := toys.World(twice)).sim.execute(main(world))

    async def stranger(world: Any) -> None:
        with pytest.raises(DeploymentError, match="no node 'nobody'; the nodes are echo-0"):
            world.sim.connect("client", "nobody")

    toys.World(toys.cluster()).run(stranger)


def test_ctrl_c_cancels_the_run_once_so_that_it_can_heal() -> None:
    healed = []

    async def main() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(10**4)
        finally:
            await asyncio.sleep(1)
            healed.append(True)
        return 0

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        toys.World(toys.cluster()).sim.execute(main())
    assert healed == [True] and signal.getsignal(signal.SIGINT) is before


def test_a_stuck_run_still_heals_and_says_that_it_was_stuck() -> None:
    healed = []

    async def main() -> int:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(1)
            healed.append(True)
        return 0

    with pytest.raises(DeploymentError, match="stuck"):
        toys.World(toys.cluster()).sim.execute(main())
    assert healed == [True]
