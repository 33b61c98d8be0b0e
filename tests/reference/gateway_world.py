"""Gateways before one real store, whose every answer a test may spoil: what they ask of it waits until the test lets it
go on, in whatever order."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.events import Event
from chaos.node import OUTSIDE, NodeSpec
from reference.objectstore.asking import ABSENT, ANY, BARE, CONDITION
from reference.objectstore.gateway import Gateway
from reference.objectstore.serving import unframe
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.free_events import fields_of, name_of
from tests.reference.seam import deliver

#: What may become of a request to the store: it is done and answered; done, and its answer lost; not done, and the
#: answer lost; not done before the test says so, and the answer lost; or refused, since credentials have expired.
DONE, ANSWER_LOST, LOST, LATE, DENIED = "done", "answer_lost", "lost", "late", "denied"


def head_of(stored: bytes) -> dict[str, Any]:
    parts = unframe(stored)
    assert parts is not None
    return parts[0]


@dataclass
class Cloud:
    """A store that refuses what conditions forbid; an e_tag is the hash of the content, as S3's. ``history``: each
    write that took effect, by its mark and its caller's id."""

    objects: dict[str, bytes] = field(default_factory=dict)
    history: list[tuple[str, str]] = field(default_factory=list)
    late: list[Command] = field(default_factory=list)
    fate: Callable[[Command], str] = lambda request: DONE

    def answer(self, request: Command) -> Command:
        fate = self.fate(request)
        if fate == DENIED:
            return request.reply(Response.NO_PERMISSION, remark="expired")
        if fate == LATE:
            self.late.append(request)
        answer = self.do(request) if fate in (DONE, ANSWER_LOST) else None
        return answer if answer is not None and fate == DONE else request.reply(Response.SYSTEM_ERROR, remark=fate)

    def land(self) -> None:
        """Do what came late."""
        while self.late:
            self.do(self.late.pop(0))

    def do(self, request: Command) -> Command:
        key = request.fields.get("key", "")
        match request.code:
            case Request.STORE_PUT:
                return self._put(request, key)
            case Request.STORE_GET:
                if key not in self.objects:
                    return request.reply(Response.STORE_ABSENT)
                body = b"" if BARE in request.fields else self.objects[key]
                return request.reply(fields=self._tags(key), body=body)
            case Request.STORE_DELETE:
                self.objects.pop(key, None)
                return request.reply()
            case Request.STORE_CLEAR:
                self.objects.clear()
                return request.reply()
        prefix, after, most = (request.fields[name] for name in ("prefix", "after", "most"))
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        page = [[key, len(self.objects[key]), self._tags(key)["e_tag"]] for key in keys[: int(most)]]
        more = "true" if len(keys) > len(page) else "false"
        return request.reply(fields={"more": more}, body=json.dumps(page).encode())

    def _put(self, request: Command, key: str) -> Command:
        condition, there = request.fields[CONDITION], key in self.objects
        if condition == ABSENT and there:
            return request.reply(Response.STORE_EXISTS)
        if condition not in (ABSENT, ANY) and not (there and self._tags(key)["e_tag"] == request.fields["e_tag"]):
            return request.reply(Response.STORE_CONFLICT)
        self.objects[key] = request.body
        head = head_of(request.body)
        self.history.append((head["mark"], head["ask"]["request"]))
        return request.reply(fields=self._tags(key))

    def _tags(self, key: str) -> dict[str, str]:
        return {"e_tag": hashlib.md5(self.objects[key], usedforsecurity=False).hexdigest()}


class World:
    """Gateways that share a store, and a client called ``broker-0``. ``answer``: how the store answers; that of a
    :class:`Cloud` unless another one is given."""

    def __init__(self, answer: Callable[[Command], Command] | None = None, **options: object) -> None:
        self.cloud = Cloud()
        self.answer = answer or self.cloud.answer
        self.options = options
        self.now_ns = 0
        self.traces: list[dict[str, Any]] = []
        self.answers: dict[int, Command] = {}
        self.gateways: dict[str, Hosted] = {}
        self._opaque = 0

    def gateway(self, name: str = "store-0") -> Hosted:
        if name not in self.gateways:
            self.start(name)
        return self.gateways[name]

    def start(self, name: str = "store-0") -> None:
        """Begin a life. What an earlier one has under way with the store stays under way."""
        before = self.gateways.get(name)
        self.gateways[name] = Hosted(self, name, before.incarnation + 1 if before else 1)

    def ask(self, code: Request, body: bytes = b"", *, at: str = "store-0", **fields: object) -> int:
        self._opaque += 1
        texts = {"request": f"r{self._opaque}", "queue": "3"} | {name: str(value) for name, value in fields.items()}
        gateway = self.gateway(at)
        deliver(gateway.node, gateway, "broker-0", Command(code=code, opaque=self._opaque, fields=texts, body=body))
        return self._opaque

    def do(self, code: Request, body: bytes = b"", **fields: Any) -> Command:
        opaque = self.ask(code, body, **fields)
        self.settle()
        return self.answers[opaque]

    def put(self, key: str, body: bytes, **where: Any) -> Command:
        return self.do(Request.STORE_PUT, body, key=key, **where)

    def cas(self, key: str, expected: int, body: bytes, **where: Any) -> Command:
        return self.do(Request.STORE_CAS, body, key=key, expected=expected, **where)

    def get(self, key: str, **where: Any) -> Command:
        return self.do(Request.STORE_GET, key=key, **where)

    def delete(self, key: str, **where: Any) -> Command:
        return self.do(Request.STORE_DELETE, key=key, **where)

    def listing(self, prefix: str, after: str = "", **where: Any) -> Command:
        return self.do(Request.STORE_LIST, prefix=prefix, after=after, **where)

    def settle(self, rng: Random | None = None) -> None:
        """Go on until nothing is under way: what was asked of the store first, then timers."""
        while self.step(rng):
            pass

    def step(self, rng: Random | None = None) -> bool:
        """Let one thing happen; False if there is nothing."""
        asking = [one for one in self.gateways.values() if one.asked]
        if asking:
            one = rng.choice(asking) if rng else asking[0]
            request = one.asked.pop(rng.randrange(len(one.asked)) if rng else 0)
            deliver(one.node, one, OUTSIDE, self.answer(request))
            return True
        timers = sorted((at, name, one.name) for one in self.gateways.values() for name, at in one.timers.items())
        if not timers:
            return False
        at, name, gateway = timers[0]
        self.now_ns = max(self.now_ns, at)
        hosted = self.gateways[gateway]
        del hosted.timers[name]
        hosted.node.timer(hosted, name)
        return True

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.traces if row["f"] == name]


class Hosted:
    """One life of a gateway. Implements what it uses of :class:`chaos.node.Env`."""

    def __init__(self, world: World, name: str, incarnation: int) -> None:
        self.world, self.name, self.incarnation = world, name, incarnation
        self.rng = Random(0)
        self.asked: list[Command] = []
        self.timers: dict[str, int] = {}
        self.acted = 0
        self.node = Gateway(
            NodeSpec(name=name, role="objectstore", package="reference", disk=False, options=world.options)
        )
        self.node.start(self)  # type: ignore[arg-type]

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        self.acted += 1
        if to == OUTSIDE:
            self.asked.append(message)
        else:
            assert to == "broker-0" and message.is_response and message.opaque not in self.world.answers
            self.world.answers[message.opaque] = message

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.timers[name] = self.world.now_ns + delay_ns

    def mono_ns(self) -> int:
        return self.world.now_ns

    def trace(self, event: Event) -> None:
        self.acted += 1
        self.world.traces.append({"f": name_of(event), **fields_of(event), "node": self.name})


def version(number: int, **more: object) -> bytes:
    """Return an object that says its version."""
    return json.dumps({"version": number, **more}).encode()


#: Before what gateways are tested: a store that is scripted, and two of the library.
STORES = ("scripted", "memory://", "file://")


@contextmanager
def world_before(kind: str, folder: Path) -> Iterator[World]:
    """Yield a gateway before one of :data:`STORES`; a store in files stands in the folder."""
    if kind == "scripted":
        yield World()
        return
    pytest.importorskip("obstore", reason="not there: pip install 'stormproof[cloud]'")
    from reference.objectstore.address import StoreAddress
    from reference.objectstore.bucket import Bucket

    alone = kind == "file://"
    with asyncio.Runner() as runner:
        bucket = Bucket(StoreAddress.of(f"{kind}{folder}" if alone else kind), "run-1", single_writer=alone)
        runner.run(bucket.begin())
        yield World(lambda asked: runner.run(bucket.answer(asked)), single_writer=alone)
