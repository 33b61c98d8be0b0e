"""One request of a driver to one node, and what its end says of what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chaos.driver import Disconnected
from chaos.ops import Failed, Unknown
from reference.wire.command import Command

#: No number of 64 bits has more, its sign counted.
MOST_DIGITS = 20
#: With fewer digits it surely has 64 bits.
SURE_DIGITS = 19


class Asks(Protocol):
    """What takes requests: a :class:`chaos.driver.Connection`, or less than that."""

    async def request(self, message: Command, timeout_s: float) -> Command:
        """Do as :meth:`chaos.driver.Connection.request`."""


async def ask(connection: Asks, message: Command, timeout_s: float) -> Command:
    """Send one request and return the answer. Raises :class:`Failed` when it surely never left, :class:`Unknown` when
    no answer came."""
    try:
        return await connection.request(message, timeout_s)
    except TimeoutError as error:
        raise Unknown("timeout") from error
    except Disconnected as error:
        if error.sent:
            raise Unknown(f"connection lost: {error}") from error
        raise Failed(f"not connected: {error}") from error


def number(fields: Mapping[str, str], name: str) -> int:
    """Return a field that holds a whole number of 64 bits; -1 where there is none."""
    text = fields.get(name, "")
    if len(text) < SURE_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    found = int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= MOST_DIGITS else -1
    return found if -(2**63) <= found < 2**63 else -1
