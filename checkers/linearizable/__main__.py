"""``python -m checkers.linearizable`` builds the jar, and the class-data archive that shortens the start of its JVM."""

from __future__ import annotations

import sys

from chaos.errors import MachineError
from checkers.linearizable import jar, rehearsal


def main() -> int:
    try:
        if note := jar.build():
            print(note, file=sys.stderr)
    except MachineError as error:
        print(error, file=sys.stderr)
        return 3
    try:
        rehearsal.build_archive()
    except MachineError as error:
        print(f"{error}; the checker will start more slowly", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
