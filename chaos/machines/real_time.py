"""What deployments in real time have in common: the run's event loop, the nodes' traces, waiting with a bound."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.driver import OnTrace
from chaos.fault import NotNow
from chaos.history.trace_lines import Decoder
from chaos.machines.dials import Opener
from chaos.shell import clocks
from chaos.shell.connections import CONNECTED, PING

POLL_S = 0.005
TAIL_EVERY_S = 0.05
#: After an interruption what goes on has this time to end, once everything was undone.
WIND_UP_S = 1.0
#: How the threads are called on which drivers make calls that block.
THREADS = "stormproof-calls"
#: What has not ended then. The process must not wait for it either.
LEFT: list[str] = []


def execute(main: Coroutine[Any, Any, int]) -> int:
    """Run to the end. The first Ctrl-C or SIGTERM cancels ``main``, so that it can heal and close its history.

    Raises ``KeyboardInterrupt`` if ``main`` ended by that.
    """
    interrupted = False

    async def body() -> int:
        nonlocal interrupted
        asyncio.get_running_loop().set_default_executor(threads)
        task = asyncio.create_task(main)
        with _interrupts(task) as came:
            try:
                return await task
            finally:
                interrupted = bool(came)

    runner, threads = asyncio.Runner(), ThreadPoolExecutor(thread_name_prefix=THREADS)
    try:
        return runner.run(body())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not interrupted or _wound_up(runner.get_loop(), threads):
            runner.close()


def _wound_up(loop: asyncio.AbstractEventLoop, threads: ThreadPoolExecutor) -> bool:
    """Cancel what is left of an interrupted run; False when some of it goes on: tasks that swallow that, or calls on
    threads that block. Nobody waits for them then, nor does the process at its end (:data:`LEFT`)."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, left = loop.run_until_complete(asyncio.wait(left, timeout=WIND_UP_S))
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    threads.shutdown(wait=False, cancel_futures=True)
    deadline_s = time.monotonic() + WIND_UP_S
    while (busy := _busy()) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    LEFT.extend([*(str(task.get_coro()) for task in left), *busy])
    return not (left or busy)


def _busy() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(THREADS)]


class Tail:
    """Follows the nodes' trace files and hands their rows on, soon after they were written."""

    def __init__(self, files: Mapping[str, Path], on_trace: OnTrace) -> None:
        self._files = dict(files)
        self._on_trace = on_trace
        self._read_bytes = dict.fromkeys(files, 0)
        self._decoders = {name: Decoder() for name in files}
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def follow(self, node: str, file: Path) -> None:
        """Follow one file more, from its beginning."""
        self._read_bytes[node] = 0
        self._decoders[node] = Decoder()
        self._files[node] = file

    async def end(self) -> None:
        """Hand on what is left. Raises what ``on_trace`` raised."""
        if not self._task.done():
            self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            pass
        self._poll()

    async def _follow(self) -> None:
        while True:
            self._poll()
            await asyncio.sleep(TAIL_EVERY_S)

    def _poll(self) -> None:
        for name, path in self._files.items():
            try:
                with path.open("rb") as file:
                    file.seek(self._read_bytes[name])
                    data = file.read()
            except FileNotFoundError:
                continue
            whole = data[: data.rfind(b"\n") + 1]
            self._read_bytes[name] += len(whole)
            for line in filter(None, whole.split(b"\n")):
                try:
                    row = self._decoders[name].decode(line)
                except ValueError:  # who reads the run reports it as damage
                    continue
                if row is not None:
                    self._on_trace(row)


async def until(there: Callable[[], Any], within_s: float) -> Any:
    """Ask again and again until the answer is true; the last answer, true or not, when the time is up."""
    deadline_s = time.monotonic() + within_s
    while not (answer := there()) and time.monotonic() < deadline_s:
        await asyncio.sleep(POLL_S)
    return answer


@contextmanager
def _interrupts(task: asyncio.Task[int]) -> Iterator[list[int]]:
    """Cancel the task on the first SIGINT or SIGTERM (the second raises ``KeyboardInterrupt``); yields what came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    loop = asyncio.get_running_loop()

    def interrupt(number: int) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        task.cancel()

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in before:
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield came
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def _streams(host: str, port: int, opener: Opener | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if opener is None:
        return await asyncio.open_connection(host, port)
    return await asyncio.open_connection(sock=await opener((host, port)))


async def ask_clocks(host: str, port: int, within_s: float, opener: Opener | None = None) -> dict[str, int]:
    """Return what the clocks of the node that listens there show. Raises :class:`NotNow` when it doesn't say so."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await _streams(host, port, opener)
            try:
                writer.write(clocks.ASK + b"\n")
                shown: dict[str, int] = json.loads(await reader.readline())
                return shown
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError) as error:
        raise NotNow(f"it does not report its clocks within {within_s:g} s") from error


async def ping(host: str, port: int, within_s: float, opener: Opener | None = None) -> bool:
    """Return whether the node that listens there answers; one that is stopped doesn't, though its machine takes the
    call."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await _streams(host, port, opener)
            try:
                writer.write(PING + b"\n")
                return await reader.read(1) == CONNECTED
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
