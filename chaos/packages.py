"""Which folder each of our top-level packages comes from: a user's folder of the same name may stand in front of ours.

Needs nothing but the standard library, so that it can be asked before anything else of ours is imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

#: Where our packages stand side by side: a checkout, or ``site-packages``.
HOME = Path(__file__).resolve().parent.parent


def hidden(package: str) -> str:
    """Return a sentence that names both folders when another folder is imported as ``package``; "" when ours is."""
    ours = HOME / package
    spec = find_spec(package)
    found = [Path(place).resolve() for place in (spec.submodule_search_locations or ())] if spec else []
    if found and found[0] == ours:
        return ""
    instead = f"the folder {found[0]}" if found else f"the module {spec.origin}" if spec and spec.origin else "nothing"
    return (
        f"{instead} is imported as {package!r} in the place of Stormproof's own {ours}:"
        " rename it, or take its parent off Python's path (PYTHONPATH, the working directory of `python -m`)"
    )
