"""``python -m stormproof``: the command line."""

from __future__ import annotations

from stormproof.cli import main

if __name__ == "__main__":
    main()
