"""What a node asks for the world outside of its cluster, such as a store in a cloud.

A step function can't wait, and libraries that reach the world are asynchronous. So the node sends its shell ordinary
messages, to :data:`chaos.node.OUTSIDE`; each is answered once, in a later step. Imports only the standard library.
"""

from __future__ import annotations

from typing import Any, Protocol

from chaos.node import Message


class Unfit(Exception):
    """What is outside can't serve this node, whatever it asks; one sentence says why and what to do."""


class Outside(Protocol):
    """Serves one node, in its process. Requests are answered as they are done, in any order."""

    async def begin(self) -> None:
        """Find out whether it can serve, before the node's first life begins. Raises :class:`Unfit`."""

    async def answer(self, request: Any) -> Message:
        """Do what a message of the node asks for, and return the answer. An exception ends the node's life."""
