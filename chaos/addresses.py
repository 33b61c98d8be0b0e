"""Which node an address is: each node has several, and systems tell their clients of one or another of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

#: Given an address that a node has named (``HOST:PORT``, or the name of a node), returns the one at which a certain
#: client reaches that node; the same where nobody knows it.
Reached = Callable[[str], str]


class AddressBook:
    """Node and port of each address, whatever the case of its letters. A node may get other addresses in mid-run."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}
        self._places: dict[str, tuple[str, str]] = {}

    def enter(self, node: str, known: Mapping[str, str]) -> None:
        """Enter all addresses of a node, each with the name of its port, in the place of those that it had."""
        self._known[node] = known
        self._places = {
            address.lower(): (one, port) for one, all_its in self._known.items() for address, port in all_its.items()
        }

    def find(self, address: str) -> tuple[str, str] | None:
        """Return the node that has this address and the name of the port ("" for its main one); None if none has."""
        return self._places.get(address.lower())


@runtime_checkable
class CanReaddress(Protocol):
    """Optional power of a codec whose messages hold addresses of nodes, or their names in the place of these."""

    def readdress(self, request: int, answer: Any, reached: Reached) -> Any:
        """Return the answer to a request of this kind for a client that reaches nodes at other addresses; the same
        object where it names none."""
