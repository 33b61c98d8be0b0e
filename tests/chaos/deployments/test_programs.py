"""Nodes that are programs of others, as processes: started, seen, hurt and ended, whatever they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.deployments import process
from chaos.driver import ClusterSpec, Dials, Disconnected
from chaos.effects.links import Drop, LinkRule
from chaos.errors import BadInput, DeploymentError
from chaos.fault import Undo, Verb
from chaos.machines import procfs
from chaos.machines.agent import logs
from chaos.machines.lifecycle import programs
from chaos.node import NodeSpec
from chaos.program import Answers, LogSays, Program, Reached

pytestmark = pytest.mark.process

NODE = "prog-0"
#: Answers every line with itself, in capitals.
ECHO = """\
import os, socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
print('serving', *sys.argv[1:], os.environ.get('WORD', ''), flush=True)
Server((sys.argv[1], int(sys.argv[2])), Echo).serve_forever()
"""


def echo(**more: Any) -> Program:
    files = {"echo.py": ECHO.encode(), "conf/name": "{name} at {ip}:{port}"}
    return Program(argv=["python3", "-S", "echo.py", "{ip}", "{port}"], files=files, ports={"main": 0}, **more)


def shell(script: str, **more: Any) -> Program:
    return Program(argv=["sh", "-c", script], **more)


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.it: Any = process.create(run_id=directory.name, directory=directory, seed=1)

    def run(self, script: Callable[[], Coroutine[Any, Any, None]], *given: Program) -> None:
        nodes = [NodeSpec(name=f"prog-{n}", role="broker", program=program) for n, program in enumerate(given)]

        async def main() -> int:
            try:
                await self.it.start(ClusterSpec(nodes=nodes), lambda row: None)
                await script()
            finally:
                await self.it.stop()
            return 0

        try:
            self.it.execute(main())
        finally:
            assert procfs.of_run(self.directory) == [], "everything ends that was started here"

    def refused(self, *given: Program) -> str:
        """Why they can't be started."""
        with pytest.raises((DeploymentError, BadInput)) as caught:
            self.run(nothing, *given)
        return str(caught.value)

    async def asked(self, text: str, client: str = "c") -> str:
        async with asyncio.timeout(5):
            reader, writer = await cast(Dials, self.it).dial(client, NODE)
            writer.write(f"{text}\n".encode())
            answer = (await reader.readline()).decode().strip()
            writer.close()
            return answer


async def nothing() -> None: ...


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_program_serves_is_paused_killed_and_begins_again(world: World) -> None:
    async def ask(reached: Reached) -> bool:
        reader, writer = await asyncio.open_connection(*reached["main"])
        writer.write(b"ready?\n")
        found = await reader.readline() == b"READY?\n"
        writer.close()
        return found

    async def script() -> None:
        it = world.it
        assert await world.asked("hello") == "HELLO"
        host, port = await it.endpoint("lib", NODE)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"by myself\n")
        assert await reader.readline() == b"BY MYSELF\n"
        writer.close()
        await it.pause(NODE)
        assert not await it.answers(NODE) and await it.reaches("c", NODE)  # its kernel still accepts
        await it.undo(Undo(verb=Verb.RESUME, subject=NODE))
        assert await it.answers(NODE)
        await it.set_rule("cut", LinkRule(frozenset({"c"}), frozenset({NODE}), Drop()))
        assert not await it.reaches("c", NODE) and await world.asked("other", client="d") == "OTHER"
        await it.undo(Undo(verb=Verb.CLEAR_RULE, subject="cut"))
        killed = await it.kill(NODE)
        assert not killed["alive"] and not await it.answers(NODE)
        with pytest.raises(Disconnected):
            await world.asked("nobody")
        await it.undo(Undo(verb=Verb.START, subject=NODE))
        assert await world.asked("again") == "AGAIN"
        ended = await it.terminate(NODE)
        assert ended["orderly"] and it.crashes == ()
        assert await it.files(NODE, ["conf/*"]) == {"conf/name": len((await it.read_file(NODE, "conf/name")).decode())}

    world.run(script, echo(ready=Answers(ask=ask), keep=["conf/**"], env={"WORD": "by {name}"}))
    kept = (world.directory / "kept" / NODE / "conf" / "name").read_text()
    said = (world.directory / "logs" / f"{NODE}.log").read_text()
    assert kept.startswith(f"{NODE} at 127.") and "serving" in said and f"by {NODE}" in said


def test_one_that_is_never_ready(world: World) -> None:
    said = world.refused(shell("echo about to; exec sleep 60", ports={"main": 0}, begin_s=1.5))
    assert "prog-0 runs, but was not ready within 1.5 s: waited for port main (127." in said
    assert said.endswith(
        "it listens at no port; the last line of its log: about to, which the run keeps as logs/prog-0.log"
    )
    said = World(world.directory / "log").refused(shell("exec sleep 60", ready=LogSays(pattern="^up"), begin_s=0.1))
    assert "waited for a line of its log that matches '^up'" in said and "; its log is empty, " in said


def test_one_that_binds_the_wrong_address(world: World) -> None:
    program = echo(begin_s=3.0)
    wrong = Program(
        argv=[*program.argv[:3], "127.0.0.1", "{port}"], files=program.files, ports={"main": 0}, begin_s=3.0
    )
    assert "it listens at 127.0.0.1:" in world.refused(wrong)


def test_one_that_ends_at_once(world: World) -> None:
    said = world.refused(shell("echo no config >&2; exit 3", ports={"main": 0}))
    assert said == "node prog-0 ended at its start (exit code 3); the last line of its log: no config"


def test_a_command_that_is_not_there(world: World) -> None:
    said = world.refused(Program(argv=["no-such-command", "--flag"]))
    assert "(exit code 127)" in said and "no-such-command --flag: No such file or directory: no-such-command" in said


def test_an_unknown_node_in_a_template_stops_it_before_anything_starts(world: World) -> None:
    said = world.refused(shell("echo {ip:prog-7} {port:nobody.x}"))
    assert "there is no node 'prog-7'" in said and "there is no node 'nobody'" in said
    assert not (world.directory / "logs").exists()


def test_one_that_goes_into_the_background_is_ended_with_what_it_left(world: World) -> None:
    said = world.refused(shell("setsid sleep 321 & sleep 0.1; exit 0", ports={"main": 0}))
    assert "a program must stay in the foreground" in said  # and nothing lives: `run` looks


def test_signals_reach_whoever_left_the_group(world: World) -> None:
    async def script() -> None:
        def states() -> set[str]:
            return {one.state() for one in procfs.marked({procfs.NODE: NODE, procfs.RUN: str(world.directory)})}

        await world.it.pause(NODE)
        assert states() == {"T"}
        await world.it.undo(Undo(verb=Verb.RESUME, subject=NODE))
        await world.it.kill(NODE)
        assert await wait_for(lambda: not states())

    world.run(script, shell("setsid sleep 322 & echo two; exec sleep 323", ready=LogSays(pattern="two")))


async def wait_for(there: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 5
    while not there() and time.monotonic() < deadline_s:
        await asyncio.sleep(0.01)
    return there()


def test_one_that_ignores_sigterm_is_killed(world: World) -> None:
    async def script() -> None:
        ended = await world.it.terminate(NODE)
        assert not ended["orderly"] and not ended["alive"]

    program = shell(
        "trap '' TERM; echo deaf; while :; do sleep 0.1; done", ready=LogSays(pattern="deaf"), orderly_s=0.3
    )
    world.run(script, program)


def test_a_log_that_is_flooded_takes_no_more_than_its_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.directory / "prog.log"
    for name in ("HEAD_BYTES", "TAIL_BYTES", "SLACK_BYTES"):
        monkeypatch.setattr(logs, name, 64 * 1024)
    with path.open("ab", buffering=0) as log:
        log.write(b"the first line\n")
        for _ in range(64):
            log.write(b"flood flood\n" * 4096)
            logs.cap(path)
        log.write(b"the last line\n")
    assert path.stat().st_blocks * 512 <= 4 * 64 * 1024 < path.stat().st_size
    assert logs.says(path, 0, "^the first line$") and logs.says(path, 0, "^the last line$")
    assert logs.end_of(path, 4096).endswith("the last line")
    logs.close_up(path)
    text = path.read_text()
    assert path.stat().st_size < 3 * 64 * 1024 and text.startswith("the first line") and "bytes were left out" in text


def test_what_is_kept_is_bounded_and_leads_nowhere_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_KEPT_BYTES", 1000)
    script = (
        "cd {disk}; mkdir a; echo x > a/small; head -c 2000 /dev/zero > a/large; ln -s /etc a/out; mkfifo a/p; echo up"
    )
    world.run(nothing, shell(f"{script}; exec sleep 60", ready=LogSays(pattern="up"), keep=["a/**"]))
    kept = world.directory / "kept"
    assert [path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()] == [
        f"{NODE}.left-out.txt",
        f"{NODE}/a/small",
    ]
    assert (kept / f"{NODE}.left-out.txt").read_text() == "a/large (2000 bytes)\n"


@pytest.mark.full
def test_two_programs_find_each_other(world: World) -> None:
    """Each at an address of its own, so that both may take the same port."""

    def fixed() -> Program:
        return Program(
            argv=["python3", "-S", "echo.py", "{ip}", "{port}"],
            files={"echo.py": ECHO.encode()},
            ports={"main": 23_456},
        )

    async def script() -> None:
        assert await world.asked("one") == "ONE"
        first, second = ((world.directory / "logs" / f"prog-{n}.log").read_text().split() for n in (0, 1))
        assert first[1] != second[1] and first[2] == second[2] == "23456"

    world.run(script, fixed(), fixed())
