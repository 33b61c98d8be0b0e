"""All that three members of Raft can do, from some beginnings and within bounds, and the planted bugs that this finds.

``python -m benchmarks.exploration [--states N]`` takes some minutes. Ends with 1 if the correct members break a law, or
a planted bug is not found.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.exploration.scopes import BUGS, LONG, SCOPES, explored


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exploration", description=__doc__)
    parser.add_argument("--states", type=int, default=LONG, help="explore so many of each scope (%(default)s)")
    states = parser.parse_args().states
    failed = False
    for scope in SCOPES:
        found = explored(scope.name, most_states=states)
        failed |= bool(found.violation)
        whole = "all" if found.is_complete else "more left"
        result = f"{found.violation}: {', '.join(found.path)}" if found.violation else "no law broken"
        print(f"{scope.name}: {found.states:,} states ({whole}), depth {found.depth}: {result}", flush=True)
    for bug, name in BUGS.items():
        found = explored(name, bug, states)
        failed |= not found.violation
        result = f"{found.violation}: {', '.join(found.path)}" if found.violation else "NOT FOUND"
        print(f"{bug}, {name}: {found.states:,} states: {result}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
