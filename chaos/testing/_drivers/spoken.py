"""What a driver's clients and the nodes have said to each other, byte by byte."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Spoken:
    """All that was said on one connection with this port of a node, by either side."""

    port: str
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    def hear(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Listen to these ends of a connection from now on."""
        write, feed = writer.write, reader.feed_data
        self.answered += getattr(reader, "_buffer", b"")  # a node may have spoken first

        def ask(data: bytes | bytearray | memoryview) -> None:
            self.asked += data
            write(data)

        def answer(data: bytes) -> None:
            self.answered += data
            feed(data)

        writer.write = ask  # type: ignore[method-assign]
        writer.writelines = lambda lines: ask(b"".join(lines))  # type: ignore[method-assign, assignment]
        reader.feed_data = answer  # type: ignore[method-assign, assignment]
