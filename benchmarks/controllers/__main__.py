"""Apache RocketMQ's controllers, and the reference system's in both modes, compared: measures what is not known yet,
piece by piece, and writes ``benchmarks/results/controllers.md`` from all that is known.

``python -m benchmarks.controllers [--minutes M] [--folder DIR] [PIECE...]`` (``make bench-controller``). Ctrl-C stops
it, and the same command goes on where it was; ``--minutes 4`` begins no piece that would not end within four minutes,
as far as earlier ones show. ``--again`` measures pieces that are known. Ends with 1 when a piece could not be measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.controllers.page import write
from benchmarks.controllers.pieces import Piece, kept, pieces, run
from benchmarks.mutation.campaign import CACHE
from benchmarks.mutation.mutants import ROOT

PAGE = ROOT / "benchmarks" / "results" / "controllers.md"
#: What a piece may take, where nothing is known of it.
USUAL_S = 200


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.controllers", description=__doc__)
    arguments.add_argument("pieces", nargs="*", help="measure these alone (default: all)")
    arguments.add_argument("--minutes", type=float, default=None, help="begin nothing that would take longer")
    arguments.add_argument("--folder", type=Path, default=CACHE / "controllers", help="results (default: %(default)s)")
    arguments.add_argument("--again", action="store_true", help="measure also what is known")
    given = arguments.parse_args()
    names = [piece.name for piece in pieces()]
    if unknown := set(given.pieces) - set(names):
        arguments.error(f"no piece is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    wanted = [piece for piece in pieces() if not given.pieces or piece.name in given.pieces]
    left = [piece for piece in wanted if given.again or kept(piece.name, given.folder) is None]
    try:
        failed = measure(left, given.folder, given.minutes)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    write(given.folder, PAGE)
    print(f"{PAGE.relative_to(ROOT)} is written", file=sys.stderr)
    return 1 if failed else 0


def measure(left: list[Piece], folder: Path, minutes: float | None) -> int:
    """Measure these pieces as long as there is time; returns how many could not be."""
    begin_s, failed = time.monotonic(), 0
    for piece in left:
        if minutes is not None and time.monotonic() - begin_s + USUAL_S > 60 * minutes:
            continue
        print(f"{piece.name} …", file=sys.stderr, flush=True)
        try:
            took_s = run(piece, folder)["took_s"]
        except (OSError, RuntimeError) as error:  # a timeout is an OSError, too
            failed += 1
            print(f"{piece.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        else:
            print(f"{piece.name}: measured in {took_s} s", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
