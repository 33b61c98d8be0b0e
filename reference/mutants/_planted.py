"""What a planted bug says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The part that stands for the node's own class, beside the names of its constructor's parts.
NODE = "node"
#: Where a planted bug of the frames stands, in the place of a node's role, and the name of the one part there.
WIRE, CODEC = "wire", "codec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A planted bug. ``parts``: role of the node → name of the part → the class that takes its place.

    ``law`` is the promise that it breaks, ``stands_for`` the real bug. ``scenario`` is the example that shows it where
    ``quickstart`` can't, and ``seed`` one with which it does.
    """

    name: str
    law: str
    stands_for: str
    parts: Mapping[str, Mapping[str, type]]
    scenario: str = ""
    seed: int = 1
