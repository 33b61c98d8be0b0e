"""Answers to clients outside of the cluster, which reach nodes by addresses: nodes' names in them become addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from chaos.addresses import CanReaddress
from chaos.node import Message

#: How many unanswered requests are remembered.
MAX_ASKED = 65_536


class AddressRewriter:
    """Rewrites the answers to one such client. ``codec`` is that of the node that answers."""

    def __init__(self, codec: object, addresses: Mapping[str, str]) -> None:
        self._codec = codec
        self._addresses = addresses
        self._asked: dict[int, int] = {}

    def asks(self, request: Message) -> None:
        """Remember what the client's request was about, until the answer."""
        if not request.is_response and not request.is_oneway:
            self._asked[request.number] = request.kind
            if len(self._asked) > MAX_ASKED:
                del self._asked[next(iter(self._asked))]

    def rewritten(self, message: Message) -> Message:
        request = self._asked.pop(message.number, None) if message.is_response else None
        if request is None or not isinstance(self._codec, CanReaddress):
            return message
        return cast(Message, self._codec.readdress(request, message, self._reached))

    def _reached(self, name: str) -> str:
        return self._addresses.get(name, name)
