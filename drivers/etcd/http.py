"""One POST over HTTP/1.0, the form that ends with the connection: what answers late can be nobody else's answer."""

from __future__ import annotations

import asyncio

from chaos.driver import Dials

#: What is larger is no answer to a test.
MOST_BYTES = 16 * 2**20


class Broken(ConnectionError):
    """The connection ended, or what came makes no sense; the request may have been sent."""


async def post(network: Dials, client: str, node: str, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
    """Send a request and return status and body of the answer. Raises :class:`chaos.driver.Disconnected` when the node
    refused the connection, ``TimeoutError`` when the time was over, and :class:`Broken`."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await network.dial(client, node)
        try:
            head = f"POST {path} HTTP/1.0\r\nHost: {node}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            return _parsed(await _all(reader))
        except OSError as error:
            raise Broken(f"the connection with {node} broke: {error}") from error
        finally:
            writer.close()  # a server that still works on it gives up


async def _all(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while chunk := await reader.read(65_536):
        found += chunk
        if len(found) > MOST_BYTES:
            raise Broken("the answer is too large")
    return bytes(found)


def _parsed(answer: bytes) -> tuple[int, bytes]:
    head, end, body = answer.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    status = rest[:3]
    if not end or not version.startswith(b"HTTP/1.") or not (len(status) == 3 and status.isdigit()):
        raise Broken("no answer of HTTP came before the connection ended")
    return int(status), body
