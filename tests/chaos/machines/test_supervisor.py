"""The supervisor's port: who has not shown the token gets no more than a moment and 128 bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from chaos.machines.local.supervisor import MAX_TOKEN_BYTES, _Control


class Boss:
    token = "a" * 32


class Transport:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def said(*data: bytes) -> tuple[bool, bool]:
    """Whether somebody who says this is dropped, and trusted."""

    async def main() -> tuple[bool, bool]:
        boss: Any = Boss()
        control, transport = _Control(boss), Transport()
        control._transport = transport  # type: ignore[assignment]
        control._impatience = asyncio.get_running_loop().call_later(60, transport.abort)
        for part in data:
            control.data_received(part)
        control.connection_lost(None)
        assert control._buffer == b""
        return transport.aborted, control._trusted

    return asyncio.run(main())


def test_who_knows_the_token_may_say_it_in_parts() -> None:
    assert said(b"a" * 20, b"a" * 12, b"\n") == (False, True)


def test_who_does_not_is_dropped() -> None:
    assert said(b"b" * 32 + b"\n") == (True, False)
    assert said(b"\xff\n") == (True, False)
    assert said(b"a" * MAX_TOKEN_BYTES) == (False, False)
    assert said(b"a" * (MAX_TOKEN_BYTES + 1)) == (True, False)
    assert said(b"a" * 32, b"x" * 200 + b"\n") == (True, False)
