"""What clients ask of NATS, for faults on requests of a kind: messages, each paired with its reply by a subject."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaos.addresses import Reached
from chaos.frames import REFUSAL, Frame, Framing
from drivers.nats.api import API
from drivers.nats.client import OFFSETS, OFFSETS_SUBJECTS, subject_of
from drivers.nats.wire import MOST_BYTES

_MOST_LINE_BYTES = 65_536
#: The lines that the protocol knows; those with content behind them say its size in the end.
_WITH_CONTENT = frozenset({"PUB", "HPUB", "MSG", "HMSG"})
_LINES = _WITH_CONTENT | {"CONNECT", "INFO", "SUB", "UNSUB", "PING", "PONG", "+OK", "-ERR"}
#: By how the subject begins: what a request is called. The first that fits counts.
_KINDS: Mapping[str, str] = {
    subject_of(""): "send",
    f"{OFFSETS_SUBJECTS}.": "commit",
    f"{API}.STREAM.MSG.GET.{OFFSETS}": "committed",
    f"{API}.STREAM.MSG.GET.": "pull",
    f"{API}.CONSUMER.MSG.NEXT.": "pull",
    f"{API}.STREAM.INFO.": "bounds",
    "$JS.ACK.": "ack",
}


def frames(port: str) -> NatsFrames | None:
    """Return who reads one connection; None at the port for other servers."""
    return NatsFrames() if port in ("", "client") else None


FRAMING = Framing(reader=f"{__name__}:{frames.__name__}", kinds=tuple(dict.fromkeys(_KINDS.values())))


class NatsFrames:
    """Implements :class:`chaos.frames.Readdresses`. ``_listens``: the subjects that a client hears, by its numbers."""

    def __init__(self) -> None:
        self._listens: dict[str, str] = {}

    def requests(self, buffer: bytearray) -> list[Frame]:
        return [self._request(words, data) for words, data in _split(buffer)]

    def answers(self, buffer: bytearray, *, ended: bool) -> list[Frame]:
        said = [(words[1] if words[0] in ("MSG", "HMSG") else "", data) for words, data in _split(buffer)]
        return [Frame(data=data, number=inbox, paired=bool(inbox)) for inbox, data in said]

    def refusal(self, request: Frame) -> bytes:
        """Say that no server listens to the subject: then none has heard of the request."""
        inbox = str(request.number)
        number = next((number for number, subject in self._listens.items() if _fits(inbox, subject)), "")
        head = f"NATS/1.0 503 {REFUSAL}\r\n\r\n"
        return f"HMSG {inbox} {number} {len(head)} {len(head)}\r\n{head}\r\n".encode() if number else b""

    def readdress(self, request: Frame | None, answer: Frame, reached: Reached) -> bytes:
        """Readdress the other servers, which each one names in what it says of itself, first and whenever that changes:
        clients go on with them."""
        if not answer.data.upper().startswith(b"INFO "):
            return answer.data
        said = json.loads(answer.data[len("INFO ") :])
        others = said.get("connect_urls") if isinstance(said, dict) else None
        if not isinstance(others, list):
            return answer.data
        moved = {**said, "connect_urls": [reached(str(one)) for one in others]}
        return f"INFO {json.dumps(moved)} \r\n".encode()

    def _request(self, words: list[str], data: bytes) -> Frame:
        verb, *rest = words
        if verb == "SUB" and len(rest) > 1:
            self._listens[rest[-1]] = rest[0]
        elif verb == "UNSUB" and len(rest) == 1:
            self._listens.pop(rest[0], None)
        inbox = rest[1] if (verb, len(rest)) in (("PUB", 3), ("HPUB", 4)) else ""
        kind = next((kind for begin, kind in _KINDS.items() if inbox and rest[0].startswith(begin)), "")
        return Frame(data=data, kind=kind, number=inbox, paired=bool(inbox))


def _split(buffer: bytearray) -> list[tuple[list[str], bytes]]:
    """Take all whole lines off the front, with the content that belongs to them: their words, and the bytes. Raises
    ``ValueError``."""
    found: list[tuple[list[str], bytes]] = []
    while (end := buffer.find(b"\r\n")) >= 0:
        verb, *rest = buffer[:end].decode().split() or [""]
        whole = end + 2
        if verb.upper() not in _LINES:
            raise ValueError(f"{verb[:40]!r} is none of the protocol's words")
        if verb.upper() in _WITH_CONTENT:
            size = int(rest[-1]) if len(rest) > 1 else -1
            if not 0 <= size <= MOST_BYTES:
                raise ValueError("a message of a size that can't be")
            whole += size + 2
        if len(buffer) < whole:
            return found
        found.append(([verb.upper(), *rest], bytes(buffer[:whole])))
        del buffer[:whole]
    if len(buffer) > _MOST_LINE_BYTES:
        raise ValueError("a line that never ends")
    return found


def _fits(subject: str, listened: str) -> bool:
    """Return whether a subject is one of those that a subscription names: ``*`` is one word, ``>`` the rest."""
    words, wanted = subject.split("."), listened.split(".")
    if wanted[-1] == ">":
        words, wanted = words[: len(wanted) - 1], wanted[:-1]
    return len(words) == len(wanted) and all(one in ("*", word) for word, one in zip(words, wanted, strict=True))
