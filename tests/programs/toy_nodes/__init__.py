"""Small nodes that run in the simulator and as processes alike; tests hold that both mean the same."""

from __future__ import annotations

from typing import Any

from chaos.events import COLUMNS, Event
from chaos.node import Env, NodeSpec
from chaos.plain import PlainMessage

ECHO, WRITE, READ, FORWARD, FAIL, DROP_ME, COUNT, NUMBER = range(1, 9)
SYNC_FIRST, SYNC_NOT = "first", "not"


class Free(Event):
    """An event with whatever fields a test likes."""

    def __init__(self, f: str, **fields: Any) -> None:
        self.name, self.fields = f, fields

    def row(self, time_ns: int, node: str, incarnation: int, step: int) -> dict[str, Any]:
        columns = {name: self.fields.get(name, -1) for name in COLUMNS}
        value = {name: told for name, told in self.fields.items() if name not in COLUMNS}
        whose = {"kind": "trace", "time_ns": time_ns, "node": node, "incarnation": incarnation, "step": step}
        return {**whose, "f": self.name, **columns, "value": value}


class Toy:
    """Answers ``ECHO``; appends a ``WRITE``'s body to its log and answers when that is durable, or at once when told
    to; passes a ``FORWARD`` on to a peer, and the peer's answer back; counts up to a peer, a message a number."""

    def __init__(self, spec: NodeSpec) -> None:
        self.asked: dict[int, tuple[str, PlainMessage]] = {}
        self.forwards = self.ticks = 0

    def start(self, env: Env) -> None:
        size = env.disk.size("folder/log")
        env.trace(Free("start", position=size, files=env.disk.list()))
        env.set_timer("tick", 5_000_000)
        env.set_timer("never", 5_000_000)
        env.cancel_timer("never")

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        if message.is_response:
            asker, question = self.asked.pop(message.number)
            env.send(asker, question.reply(body=message.body, fields=message.fields))
        elif message.kind == ECHO:
            env.trace(Free("echo", source=source))
            env.send(source, message.reply(body=message.body, fields={**message.fields, "node": env.name}))
        elif message.kind == WRITE:
            self._write(env, source, message)
        elif message.kind == READ:
            size = env.disk.size("folder/log")
            env.send(source, message.reply(body=env.disk.read("folder/log") if size > 0 else b""))
        elif message.kind == FORWARD:
            self.forwards += 1  # a number for each, as answers may come in any order
            self.asked[self.forwards] = (source, message)
            env.send(message.fields["to"], PlainMessage(kind=ECHO, number=self.forwards, body=message.body))
        elif message.kind == NUMBER:
            env.trace(Free("number", offset=int(message.body)))
        elif message.kind == COUNT:
            for number in range(100):
                env.send(message.fields["to"], PlainMessage(kind=NUMBER, is_oneway=True, body=str(number).encode()))
            env.send(source, message.reply())
        elif message.kind == FAIL:
            raise ValueError("asked to fail")
        elif message.kind == DROP_ME:
            env.close(source)

    def _write(self, env: Env, source: str, message: PlainMessage) -> None:
        end = max(0, env.disk.size("folder/log"))
        env.disk.write("folder/log", end, message.body)
        env.trace(Free("append", position=end))
        after = env.disk.sync(["folder/log"]) if message.fields["sync"] == SYNC_FIRST else None
        env.send(source, message.reply(fields={"held": "yes"}), after=after)

    def timer(self, env: Env, name: str) -> None:
        self.ticks += 1
        env.trace(Free("timer", name=name))
        if name == "tick" and self.ticks < 3:
            env.set_timer("tick", 5_000_000)

    def done(self, env: Env, token: int) -> None:
        env.trace(Free("synced", token=token))

    def closed(self, env: Env, peer: str) -> None:
        env.trace(Free("closed", peer=peer))
        for number, (asker, question) in list(self.asked.items()):
            if question.fields["to"] == peer:
                del self.asked[number]
                env.send(asker, question.reply(error=f"{peer} is gone"))


def build(spec: NodeSpec) -> Toy:
    return {"toy": Toy}[spec.role](spec)
