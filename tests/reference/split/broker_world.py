"""A broker whose meta and whose stores are played: each of its requests waits until the test answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.events import Event
from chaos.node import NOWHERE, Address, Disk, NodeSpec
from reference.split.broker.node import Broker
from reference.split.requests import AppendAnswer, ConfirmAnswer, FenceAnswer, Refusal
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import to_json
from tests.free_events import fields_of, name_of
from tests.reference.seam import deliver

MS = 1_000_000
LIFE, TOPIC_ID = 5, 11
STORES = ("store-0", "store-1", "store-2")
REPLICAS = [f"{name}#{disk}" for disk, name in enumerate(STORES, 1)]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of the broker's that waits for its answer."""

    to: str
    message: Command


class PlayedEnv:
    """An environment without a world: messages are kept, and time stands still."""

    name = "broker-0"
    incarnation = 1

    def __init__(self) -> None:
        self.rng = Random(1)
        self.now = 0
        self.timers: dict[str, int] = {}
        self.sent: list[Sent] = []
        self.traces: list[tuple[str, dict[str, Any]]] = []

    @property
    def disk(self) -> Disk:
        raise AssertionError("a broker has no disk")

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        self.sent.append(Sent(to, message))

    def close(self, peer: str) -> None: ...

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return NOWHERE, NOWHERE

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.timers[name] = self.now + delay_ns

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def mono_ns(self) -> int:
        return self.now

    def wall_ns(self) -> int:
        return self.now

    def trace(self, event: Event) -> None:
        self.traces.append((name_of(event), fields_of(event)))


class BrokerWorld:
    """``slices`` slices of ``groups`` groups, all owned by the broker in epoch 1, with one topic ``t`` in them.

    ``answers`` are those that clients got, by the number of their request.
    """

    def __init__(self, broker: type[Broker] = Broker, *, groups: int = 1, slices: int = 1, **more: Any) -> None:
        parts = more.pop("parts", {})
        options = {"metas": ["meta-0"], "groups": groups, "slices": slices, **more}
        self.env = PlayedEnv()
        self.broker = broker(NodeSpec(name="broker-0", role="broker", package="p", options=options), **parts)
        self.answers: dict[int, Command] = {}
        self.revision = 100
        self._versions: dict[tuple[str, str], int] = {}
        self._requests = 1000
        self.broker.start(self.env)
        watch = self.take(Request.METADATA_WATCH)
        self.answer(self.take(Request.META_REGISTER), fields={"life": str(LIFE)})
        self.groups, self.slices = groups, slices
        rows = [self.row("store", name, disk=disk, word="w", zone="", state="up") for disk, name in enumerate(STORES)]
        rows.append(self.broker_row())
        lists = {"birth": REPLICAS, "voters": REPLICAS, "learners": [], "wanted": REPLICAS}
        rows += [self.row("group", str(number), index=1, **lists) for number in range(groups)]
        rows += [self.owner(number, 1) for number in range(slices)]
        rows.append(self.topic(queues=4))
        body = to_json({"entries": rows})
        self.answer(watch, fields={"revision": str(self.revision)}, body=body)

    # Meta

    def row(self, kind: str, name: str, **value: Any) -> list[Any]:
        """Return an entry of meta's catalog in its next version."""
        self.revision += 1
        version = self._versions[kind, name] = self._versions.get((kind, name), 0) + 1
        return [kind, name, version, self.revision, value]

    def owner(self, number: int, epoch: int, broker: str = "broker-0", life: int = LIFE) -> list[Any]:
        return self.row("owner", f"slice-{number}", broker=broker, life=life, epoch=epoch)

    def broker_row(self, life: int = LIFE, nonce: str = "n") -> list[Any]:
        return self.row("broker", "broker-0", life=life, nonce=nonce, state="up")

    def topic(self, name: str = "t", *, queues: int = 4, deleted: bool = False, topic_id: int = TOPIC_ID) -> list[Any]:
        limits = {"retain_ms": 0, "retain_bytes": 0}
        return self.row("topic", name, id=topic_id, queues=queues, deleted=deleted, **limits)

    def learn(self, *rows: list[Any]) -> None:
        """Let the broker know of changes of meta's catalog."""
        *late, watch = self.waiting(Request.METADATA_WATCH)
        self.env.sent = [one for one in self.env.sent if one is not watch and one not in late]
        self.answer(watch, fields={"revision": str(self.revision)}, body=to_json({"changes": rows}))

    # Requests of the broker

    def waiting(self, code: int) -> list[Sent]:
        """Return the requests of this kind that wait, oldest first."""
        return [one for one in self.env.sent if one.message.code == code and not one.message.is_response]

    def take(self, code: int, to: str = "") -> Sent:
        """Return the oldest request of this kind that waits; it does so no more."""
        found = next(one for one in self.waiting(code) if to in ("", one.to))
        self.env.sent.remove(found)
        return found

    def deliver(self, source: str, message: Command) -> None:
        """Deliver a message to the broker, and keep what it answers to clients."""
        deliver(self.broker, self.env, source, message)  # type: ignore[arg-type]
        self._collect()

    def _collect(self) -> None:
        for one in [one for one in self.env.sent if one.message.is_response]:
            self.env.sent.remove(one)
            assert one.message.opaque not in self.answers, "a request was answered twice"
            self.answers[one.message.opaque] = one.message

    def answer(self, asked: Sent, code: int = 0, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.deliver(asked.to, asked.message.reply(code, fields or {}, body))

    def refuse(self, asked: Sent, code: int, **known: Any) -> None:
        """Answer as a store that refuses."""
        self.deliver(asked.to, Refusal(code=code, remark="no", **known).reply(asked.message))

    def fenced(self, end: int = 0, **found: Any) -> None:
        """Answer the oldest FENCE with what the group holds."""
        asked = self.take(Request.GROUP_FENCE)
        known = FenceAnswer(end=end, **{"queues": (), "commits": (), **found})
        self.deliver(asked.to, known.reply(asked.message))

    def open(self) -> None:
        """Answer all FENCEs: the groups are empty."""
        while self.waiting(Request.GROUP_FENCE):
            self.fenced()

    def stored(self, asked: Sent) -> None:
        """Answer an append: it is committed and applied."""
        end = int(asked.message.fields["position"]) + len(asked.message.body)
        self.deliver(asked.to, AppendAnswer(end=end).reply(asked.message))

    def confirmed(self, starts: Sequence[tuple[int, int, int]] = ()) -> None:
        """Answer the oldest GROUP_CONFIRM with yes."""
        asked = self.take(Request.GROUP_CONFIRM)
        self.deliver(asked.to, ConfirmAnswer(starts=tuple(starts)).reply(asked.message))

    # Clients

    def ask(self, code: int, body: bytes = b"", source: str = "client", **fields: object) -> int:
        """Send a client's request; return its number."""
        self._requests += 1
        texts = {key: str(value) for key, value in fields.items()}
        self.deliver(source, Command(code=code, opaque=self._requests, fields=texts, body=body))
        return self._requests

    def send(self, body: bytes = b"m", queue: int = 0, name: str = "slice-0", **more: object) -> int:
        fields = {"b": "t", "e": queue, "f": 0, "g": 0, "h": 0, "i": "", **({"n": name} if name else {}), **more}
        return self.ask(Request.SEND_MESSAGE_V2, body, **fields)

    def pull(self, offset: int, queue: int = 0, wait_ms: int = 0, **more: object) -> int:
        fields = {"topic": "t", "queueId": queue, "queueOffset": offset, "maxMsgNums": 32, "bname": "slice-0"}
        fields |= {"sysFlag": 2 if wait_ms else 0, "suspendTimeoutMillis": wait_ms, **more}
        return self.ask(Request.PULL_MESSAGE, **fields)

    def of_queue(self, code: int, queue: int = 0, **more: object) -> int:
        return self.ask(code, **{"topic": "t", "queueId": queue, "bname": "slice-0", **more})

    def code(self, number: int) -> int | None:
        """Return the code of the answer to a client's request; None while there is none."""
        answer = self.answers.get(number)
        return None if answer is None else answer.code

    # Time and connections

    def run(self, ms: int) -> None:
        """Let time pass, and fire the timers that are due."""
        until = self.env.now + ms * MS
        while due := [(at, name) for name, at in self.env.timers.items() if at <= until]:
            self.env.now, name = max(self.env.now, min(due)[0]), min(due)[1]
            del self.env.timers[name]
            self.broker.timer(self.env, name)  # type: ignore[arg-type]
            self._collect()
        self.env.now = until

    def cut(self, peer: str) -> None:
        """Break the connection with a node; what it was asked is lost."""
        self.env.sent = [one for one in self.env.sent if one.to != peer]
        self.broker.closed(self.env, peer)  # type: ignore[arg-type]
        self._collect()

    def traced(self, f: str) -> list[dict[str, Any]]:
        """Return what was traced of a kind."""
        return [fields for name, fields in self.env.traces if name == f]


NOT_STORED, UNKNOWN = Response.SERVICE_NOT_AVAILABLE, Response.FLUSH_SLAVE_TIMEOUT
