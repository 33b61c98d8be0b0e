"""One client that is a program: what it asks and what it was answered, as JSON lines on its standard output.

It says what it is about to do, and waits for the word to begin before it does it. So its invocations stand in the
history before they happen and its completions after, whatever the clocks and buffers on the way are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from chaos.driver import ClientCommand
from chaos.errors import DeploymentError
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.shell.parent import die_with
from chaos.tasks import Group
from chaos.workload import Load, Outcome, Worker, body_hash, next_message, note

#: A line holds no more than this.
LINE_BYTES = 8 << 20
SHOWN = 200
#: How often it is looked whether the load is over, and how long the program may then take to end.
LOOK_S = 0.1
END_S = 5.0
#: How often it is looked with whom it is connected.
CONNECTIONS_S = 1.0
#: Why an operation did not get the word to begin.
OVER = "the load is over"
#: The fields of an invocation besides ``id``, ``type``, ``f``, ``process``, ``queue``, ``time_ns`` and ``ANY``.
FIELDS: Mapping[str, Mapping[str, type]] = {
    "send": {},
    "delay": {"delay_ms": int},
    "transact": {"decision": str},
    "receive": {"group": str, "in_order": int},
    "receive_again": {"group": str, "key": str},
    "ack": {"group": str, "key": str},
    "pull": {"offset": int},
    "commit": {"group": str, "offset": int},
    "committed": {"group": str},
}
ANY = ("via", "ordering_key")
#: Operations that send a message of ours, and what becomes of one that a transaction holds.
SENDING = ("send", "delay", "transact")
DECISIONS = ("commit", "rollback")

#: Hears of an operation that has ended: what it was, on which queue, what it asked for, and its outcome.
Heard = Callable[[str, QueueRef, Mapping[str, Any], Outcome], None]


class Wrong(Exception):
    """What is wrong with a line."""


@dataclass(slots=True)
class _Open:
    """An operation that the program is about to do. ``may_begin``: whether it got the word to."""

    process: str
    f: str
    queue: QueueRef
    done: asyncio.Future[Mapping[str, Any]]
    may_begin: bool = False


class ClientProgram:
    """``name``: the client's, as link rules know it."""

    def __init__(self, load: Load, name: str, command: ClientCommand, heard: Heard | None = None) -> None:
        self._load = load
        self._name = name
        self._command = command
        self._heard = heard
        self._workers: dict[str, Worker] = {}
        self._open: dict[int, _Open] = {}
        self._last_ns: dict[str, int] = {}
        self._said: deque[str] = deque(maxlen=20)
        self._process: asyncio.subprocess.Process

    async def run(self, over: Callable[[], bool] | None = None) -> None:
        """Run it until the load is ``over``. Raises :class:`DeploymentError` for one that can't be started, ends before
        that, or writes what is no operation; what it had begun by then is of unknown outcome."""
        self._process = await self._begin()
        wrong: DeploymentError | None = None
        try:
            async with Group() as group:
                beside = group.start(self._listen()), group.start(self._look())
                try:
                    await self._obey(group, over or (lambda: self._load.stopping))
                except DeploymentError as error:
                    wrong = error
                for one in self._open.values():
                    if not one.done.done():
                        one.done.set_exception(Unknown("the client has ended") if one.may_begin else Failed(OVER))
                for one_task in beside:
                    one_task.cancel()
            if wrong is not None:
                raise wrong
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def _begin(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self._command.env},
                limit=LINE_BYTES,
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),
            )
        except (OSError, ValueError) as error:
            raise self._error(f"it can't be started: {error}") from error

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        with suppress(ValueError):  # a line without end
            while line := await self._process.stderr.readline():
                self._said.append(line.decode("utf-8", "replace").rstrip())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(CONNECTIONS_S)
            await self._load.look_for_bypass(self._name, self._process.pid)

    async def _obey(self, group: Group, over: Callable[[], bool]) -> None:
        """Take its lines until it ends; the end of its input says that the load is over."""
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None and writer is not None
        number, ends_ns = 0, -1
        while True:
            if ends_ns < 0 and over():
                writer.close()
                ends_ns = self._load.now_ns() + round(END_S * 1e9)
            elif 0 <= ends_ns < self._load.now_ns():
                return
            try:
                async with asyncio.timeout(LOOK_S):
                    line = await reader.readline()
            except TimeoutError:
                continue
            except ValueError:
                raise self._error(f"line {number + 1} is longer than {LINE_BYTES} bytes") from None
            number += 1
            if not line and ends_ns >= 0:
                return
            if not line:
                code = await self._process.wait()
                await asyncio.sleep(LOOK_S)  # what it said last is still on its way
                said = "\n".join(self._said)
                raise self._error(f"it ended by itself (exit code {code}) before the load was over\n{said}".rstrip())
            try:
                self._take(group, line)
            except Wrong as error:
                shown = line[:SHOWN].decode("utf-8", "replace").rstrip()
                raise self._error(f"line {number} {error}: {shown!r}") from None
            await asyncio.sleep(0)  # what this line completes is recorded before the next one is looked at

    def _error(self, why: str) -> DeploymentError:
        return DeploymentError(f"client {self._name} ({shlex.join(self._command.argv)}): {why}")

    # Lines

    def _take(self, group: Group, line: bytes) -> None:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise Wrong("is not JSON") from None
        if not isinstance(fields, dict):
            raise Wrong("is not a JSON object")
        number, kind = _of(fields, "id", int), _of(fields, "type", str)
        if kind == "invoke":
            self._invoked(group, number, fields)
        elif kind in ("ok", "fail", "info"):
            one = self._open.get(number)
            if one is None or one.done.done():
                raise Wrong(f"completes operation {number}, which is not under way")
            self._check_time(one.process, fields)
            _check_result(one.f, kind, fields)
            one.done.set_result(fields)
        else:
            raise Wrong("has a type that is none of invoke, ok, fail and info")

    def _invoked(self, group: Group, number: int, fields: Mapping[str, Any]) -> None:
        f, process = _of(fields, "f", str), _of(fields, "process", str, "0")
        if f not in FIELDS:
            raise Wrong(f"asks for {f!r}, which is none of {', '.join(FIELDS)}")
        if number in self._open:
            raise Wrong(f"begins operation {number} a second time")
        if any(one.process == process for one in self._open.values()):
            raise Wrong(f"begins an operation of process {process!r}, which has one under way")
        index = _of(fields, "queue", int, 0)
        if not 0 <= index < len(self._load.queues):
            raise Wrong(f"names queue {index}, of {len(self._load.queues)}")
        values = {name: _of(fields, name, kind) for name, kind in FIELDS[f].items()}
        values |= {name: _of(fields, name, str) for name in ANY if name in fields}
        if f == "transact" and values["decision"] not in DECISIONS:
            raise Wrong(f"decides {values['decision']!r}, which is none of {', '.join(DECISIONS)}")
        if "key" in values:
            values["message"] = _key(values.pop("key"))
        if f == "receive_again":
            values["hash"] = body_hash(_body(fields))
        self._check_time(process, fields)
        done: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        one = self._open[number] = _Open(process, f, self._load.queues[index], done)
        group.start(self._perform(number, one, values))

    def _check_time(self, process: str, fields: Mapping[str, Any]) -> None:
        """Check the time of a line: none is needed; one that is given must be possible."""
        if "time_ns" not in fields:
            return
        time_ns, now_ns = _of(fields, "time_ns", int), self._load.now_ns()
        before_ns = self._last_ns.get(process, 0)
        if not before_ns <= time_ns <= now_ns:
            raise Wrong(f"says that it is {time_ns} ns, not from {before_ns} (the line before) to {now_ns} (now)")
        self._last_ns[process] = time_ns

    async def _perform(self, number: int, one: _Open, values: dict[str, Any]) -> None:
        worker = self._workers.setdefault(one.process, Worker(self._load, f"{self._name}-{one.process}"))
        more: dict[str, Any] = {}
        if one.f in SENDING:
            message = next_message(self._load, one.queue)
            more = {"key": f"{message:032X}", "body": f"{message}:{self._name}"}
            values |= {"message": message, "hash": body_hash(more["body"].encode())}

        async def operation() -> Answer:
            one.may_begin = self._begin_operation({"id": number, **more})
            answer = _answer(one.f, await one.done)
            if not one.may_begin:  # it did something, without the word and perhaps without the message
                raise Unknown(OVER)
            return answer

        outcome = await worker.do(one.f, operation, queue=one.queue, **values)
        del self._open[number]
        if one.f == "send" and outcome.ok:
            note(self._load, "acked", one.queue, outcome.answer.offset)
        elif outcome.answer.messages:
            note(self._load, "seen", one.queue, outcome.answer.messages[-1].offset)
        if self._heard is not None:
            self._heard(one.f, one.queue, values, outcome)

    def _begin_operation(self, line: Mapping[str, Any]) -> bool:
        """Give the program the word to begin, and return True, unless the load is over: it came too late then."""
        writer = self._process.stdin
        assert writer is not None
        if writer.is_closing():
            return False
        writer.write(json.dumps(line).encode() + b"\n")
        return True


def _of(fields: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """Return a field of a line. Raises :class:`Wrong`."""
    value = fields.get(name, default)
    if type(value) is not kind:
        raise Wrong(f"needs {name!r}, {'a whole number' if kind is int else 'a text'}")
    return value


def _check_result(f: str, kind: str, fields: Mapping[str, Any]) -> None:
    """Raise :class:`Wrong` for a completion that says too little."""
    if kind != "ok":
        _of(fields, "reason", str, "")
    _of(fields, "message_id", str, "")
    if kind == "ok" and f in ("send", "committed"):
        _of(fields, "offset", int)
    elif kind == "ok" and f in ("pull", "receive"):
        for name in ("minimum", "maximum", "following"):
            _of(fields, name, int, -1)
        found = fields.get("messages", [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise Wrong("needs 'messages', a list of objects")
        for one in found:
            _of(one, "offset", int)
            _body(one)
            _of(one, "key", str, "")


def _body(fields: Mapping[str, Any]) -> bytes:
    """Return the body of a message, as a text or in base 64. Raises :class:`Wrong`."""
    if "base64" not in fields:
        return str(_of(fields, "body", str)).encode()
    try:
        return b64decode(_of(fields, "base64", str), validate=True)
    except ValueError:
        raise Wrong("needs 'base64', bytes in base 64") from None


def _key(key: str) -> int:
    """Return the number of the message with this key; -1 for one that is none of ours."""
    try:
        return int(key, 16) if len(key) == 32 else -1
    except ValueError:
        return -1


def _answer(f: str, fields: Mapping[str, Any]) -> Answer:
    """Return what an operation has learned. Raises :class:`Failed` and :class:`Unknown`."""
    if fields["type"] == "fail":
        raise Failed(fields.get("reason", ""))
    if fields["type"] == "info":
        raise Unknown(fields.get("reason", ""))
    if f not in ("pull", "receive"):
        value = {"message_id": fields["message_id"]} if "message_id" in fields else {}
        return Answer(offset=fields.get("offset", -1), value=value)
    messages = tuple(
        Delivered(offset=one["offset"], message=_key(one.get("key", "")), hash=body_hash(_body(one)))
        for one in fields.get("messages", [])
    )
    ends = {name: fields.get(name, -1) for name in ("minimum", "maximum", "following")}
    return Answer(**ends, messages=messages)
