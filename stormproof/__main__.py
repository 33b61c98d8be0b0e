"""``python -m stormproof``, and the command ``stormproof``."""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec
from pathlib import Path

#: So many new objects before Python looks for garbage among them: nearly all that a command makes lives until it ends.
NEW_OBJECTS = 20_000


def main() -> None:
    """Run the command line, with packages of ours alone: ``python -m`` puts the working directory first on the path,
    and a folder ``chaos`` or ``reports`` there would take the place of ours."""
    gc.set_threshold(NEW_OBJECTS)
    home = Path(__file__).resolve().parent.parent
    if sys.path and Path(sys.path[0] or os.curdir).resolve() == Path.cwd() != home:
        del sys.path[0]
    found = find_spec("chaos")
    if found is None or Path(found.origin or os.devnull).resolve().parent != home / "chaos":
        # The other packages are looked at by cli.py, which needs this one.
        instead = Path(found.origin).parent if found and found.origin else "nothing"
        print(f"error: {instead} is imported as 'chaos' in the place of Stormproof's own {home / 'chaos'}:"
              " rename it, or take its parent off Python's path", file=sys.stderr)  # fmt: skip
        sys.exit(3)
    from stormproof import cli  # only now: it imports what the working directory may have hidden

    try:
        cli.main()
    finally:
        gc.freeze()  # Python's end looks through all objects for garbage, three times, though the memory goes anyway


if __name__ == "__main__":
    main()
