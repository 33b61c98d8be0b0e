"""Requests to the object store: each ends once, and by no answer but its own."""

from __future__ import annotations

from typing import Any

from reference.tier.store_client import Answer, StoreClient
from reference.wire.command import Command


class Env:
    """One life of a broker; keeps what it sends."""

    name = "broker-0"

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.sent: list[Command] = []

    def mono_ns(self) -> int:
        return 0

    def set_timer(self, name: str, delay_ns: int) -> None:
        pass

    def trace(self, event: object) -> None:
        pass

    def send(self, to: str, message: Command) -> None:
        self.sent.append(message)


def test_an_answer_to_an_earlier_life_is_taken_for_none_of_this_one() -> None:
    told: list[Answer] = []
    lives: list[Any] = [Env(1), Env(2)]
    for env in lives:
        client = StoreClient("store-0", 10**9)
        for key in ("segment", "manifest"):
            client.ask(env, "get", key, lambda env, answer: told.append(answer), queue=0, epoch=1)
    earlier, now = lives
    for message in (*earlier.sent, *now.sent, *now.sent):
        assert client.message(now, "store-0", message.reply(body=message.fields["request"].encode()))
    assert [answer.body for answer in told] == [b"broker-0/2/1", b"broker-0/2/2"]
