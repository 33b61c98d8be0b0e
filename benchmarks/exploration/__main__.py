"""All that three members of a group can do, from some beginnings and within bounds, and the planted bugs that this
finds: of Raft's core as the controllers use it, and of one group of a storage cluster.

``python -m benchmarks.exploration [controllers|groups] [--states N]`` takes some minutes. Ends with 1 if the correct
members break a law, or a planted bug is not found.
"""

from __future__ import annotations

import argparse
import sys
import time
from types import ModuleType

from benchmarks.exploration import groups, scopes
from benchmarks.exploration.scope import Explored

SUBJECTS = {"controllers": scopes, "groups": groups}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exploration", description=__doc__)
    parser.add_argument("subject", nargs="?", choices=SUBJECTS, help="what is explored (all)")
    parser.add_argument("--states", type=int, default=scopes.LONG, help="explore so many of each scope (%(default)s)")
    options = parser.parse_args()
    chosen = [options.subject] if options.subject else [*SUBJECTS]
    failed = [name for name in chosen if _has_failed(SUBJECTS[name], options.states)]
    return int(bool(failed))


def _has_failed(subject: ModuleType, states: int) -> bool:
    failed = False
    for scope in subject.SCOPES:
        began = time.monotonic()
        found: Explored = subject.explored(scope.name, most_states=states)
        failed |= bool(found.violation)
        whole = "all" if found.is_complete else "more left"
        took = f"{time.monotonic() - began:.1f} s"
        result = f"{found.violation}: {', '.join(found.path)}" if found.violation else "no law broken"
        print(f"{scope.name}: {found.states:,} states ({whole}), depth {found.depth}, {took}: {result}", flush=True)
    for bug, name in subject.BUGS.items():
        found = subject.explored(name, bug, states)
        failed |= not found.violation
        result = f"{found.violation}: {', '.join(found.path)}" if found.violation else "NOT FOUND"
        print(f"{bug}, {name}: {found.states:,} states: {result}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
