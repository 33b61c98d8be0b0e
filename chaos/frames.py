"""Requests and answers in the bytes of a connection, so that faults can hit requests of a kind.

A driver says in a :class:`Framing` who reads the connections of its system. The reader is called by name, for on some
deployments it works in another process than the driver: it must be a function of a module that can be imported there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from chaos.addresses import CanReaddress, Reached
from chaos.node import Codec, Malformed, Message

#: What an error answer says that no node has made.
REFUSAL = "stormproof: a fault has refused this request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One request or one answer, or whatever else is sent as a whole.

    ``data``: its bytes, as they came. ``kind``: what a request asks, as the driver calls it; "" is hit by no fault.
    ``number``: what pairs an answer with its request on one connection; None in protocols whose answers come in the
    order of the requests. ``paired``: False for a request that wants no answer, and for what a node says unasked."""

    data: bytes
    kind: str = ""
    number: Hashable = None
    paired: bool = True


class Frames(Protocol):
    """Reads one connection. May remember what it has read: it gets all bytes, each once, in the order in which they
    were sent; the data of the frames that it returns, one after the other, are these bytes. What neither of its
    methods can read (``ValueError``) ends it: the rest of the connection goes through untouched."""

    def requests(self, buffer: bytearray) -> Sequence[Frame]:
        """Take all whole frames of the client off the front of ``buffer``. Raises ``ValueError``."""

    def answers(self, buffer: bytearray, *, ended: bool) -> Sequence[Frame]:
        """Take all whole frames of the node off the front of ``buffer``; nothing follows it if the node has ``ended``
        the connection. Raises ``ValueError``."""

    def refusal(self, request: Frame) -> bytes:
        """Make the answer that the system itself gives to this request, in place of doing what it asks: an error after
        which surely nothing has happened. Nothing where this kind of request has none."""


@runtime_checkable
class Readdresses(Frames, Protocol):
    """Frames of a system whose answers name nodes by address. A client library dials what it is told, so that it would
    leave the proxies, on which rules on links hold, or reach nobody at all."""

    def readdress(self, request: Frame | None, answer: Frame, reached: Reached) -> bytes:
        """Return the data of the answer to this request, or (None) of what a node says unasked, with each address in it
        replaced by the one at which the client reaches that node. Raises ``ValueError`` for one that can't be read; it
        goes through untouched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """Who reads the connections of a system. ``reader``: ``module:function``; called with the name of the port of a
    program at which the connection arrives ("" for nodes of packages), it returns new :class:`Frames`, or None for a
    port at which something else is spoken. ``kinds``: all kinds that requests may have."""

    reader: str
    kinds: Sequence[str]

    def open(self, port: str) -> Frames | None:
        """Return who reads one connection with this port."""
        module, _, function = self.reader.partition(":")
        made: Frames | None = getattr(import_module(module), function)(port)
        return made


class CodecFrames:
    """Implements :class:`Frames` for a system whose messages have a codec; the simulator can read no other.

    ``kind_of`` names what a request asks. ``size_of`` says how many bytes the frame at the front of a buffer has, 0
    while that can't be known. ``error``: with what requests are refused (:meth:`chaos.node.Message.refused`)."""

    def __init__(
        self,
        codec: Codec,
        *,
        kind_of: Callable[[Any], str],
        size_of: Callable[[bytearray], int],
        error: Exception | None = None,
    ) -> None:
        self._codec = codec
        self.kind_of = kind_of
        self._size_of = size_of
        self.error = error or Malformed(REFUSAL)

    def requests(self, buffer: bytearray) -> list[Frame]:
        return [self._frame(data, asked=True) for data in self._split(buffer)]

    def answers(self, buffer: bytearray, *, ended: bool) -> list[Frame]:
        return [self._frame(data, asked=False) for data in self._split(buffer)]

    def refusal(self, request: Frame) -> bytes:
        return self._codec.encode(self._message(request.data).refused(self.error))

    def readdress(self, request: Frame | None, answer: Frame, reached: Reached) -> bytes:
        """See :class:`Readdresses`; for codecs of such a system (:class:`chaos.addresses.CanReaddress`)."""
        if request is None or not isinstance(self._codec, CanReaddress):
            return answer.data
        asked, answered = self._message(request.data), self._message(answer.data)
        changed = self._codec.readdress(asked.kind, answered, reached)
        return answer.data if changed is answered else self._codec.encode(changed)

    def _split(self, buffer: bytearray) -> list[bytes]:
        found, begin = [], 0
        while size := self._size_of(buffer[begin : begin + 16]):
            if len(buffer) < begin + size:
                break
            found.append(bytes(buffer[begin : begin + size]))
            begin += size
        del buffer[:begin]
        return found

    def _frame(self, data: bytes, *, asked: bool) -> Frame:
        """Return a frame of the client (``asked``) or the node. Both may ask something of the other: what a node asks
        never passes for an answer, and what a client answers for no request."""
        message = self._message(data)
        if not asked or message.is_response:
            return Frame(data=data, number=message.number, paired=message.is_response and not asked)
        return Frame(data=data, kind=self.kind_of(message), number=message.number, paired=not message.is_oneway)

    def _message(self, data: bytes) -> Message:
        (message,) = self._codec.decode(bytearray(data))
        return message
