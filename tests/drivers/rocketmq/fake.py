"""A cluster that only answers: what each node says to each request stands in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import Connection, Disconnected
from reference.wire.command import Command

#: (node, code) → the answers in their order, of which the last one stays; a number is a code without more.
Answers = dict[tuple[str, int], list[Command]]


@dataclass(slots=True)
class FakeNetwork:
    """Implements :class:`chaos.driver.Network`. ``asked``: all requests so far, as (node, request). Time goes on by
    ``step_ns`` whenever somebody asks for it."""

    answers: Answers = field(default_factory=dict)
    asked: list[tuple[str, Command]] = field(default_factory=list)
    clock_ns: int = 0
    step_ns: int = 1_000_000

    def says(
        self, node: str, code: int, *, result: int = 0, body: object = None, remark: str = "", **fields: str
    ) -> None:
        """The node gives this answer to requests of this code from now on."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = Command(code=result, flags=1, fields=fields, body=content, remark=remark)
        self.answers[node, code] = [answer]

    def connect(self, client: str, node: str) -> Connection:
        return _FakeConnection(self, node)

    def now_ns(self) -> int:
        self.clock_ns += self.step_ns
        return self.clock_ns

    def codes(self, node: str) -> list[int]:
        """What this node was asked for, in order."""
        return [message.code for name, message in self.asked if name == node]

    def fields(self, code: int) -> Mapping[str, str]:
        """Of the last request of this code."""
        return next(message.fields for _, message in reversed(self.asked) if message.code == code)


@dataclass(slots=True)
class _FakeConnection:
    network: FakeNetwork
    node: str

    async def request(self, message: Command, timeout_s: float) -> Command:
        self.network.asked.append((self.node, message))
        answers = self.network.answers.get((self.node, message.code))
        if answers is None:
            raise Disconnected(f"{self.node} is down", sent=False)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def oneway(self, message: Command) -> None:
        raise AssertionError("the driver awaits every answer")

    def close(self) -> None:
        pass
