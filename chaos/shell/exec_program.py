"""Becomes the program of a node: ``python -m chaos.shell.exec_program FILE``, which holds a :class:`Launch`.

It writes the files that the driver gave, and then is the program, under the same process id; nothing of ours is left in
that but its environment's marks. Imports only the standard library and ours that do the same.
"""

from __future__ import annotations

import os
import shlex
import sys
from base64 import b64decode
from pathlib import Path

from chaos.shell import files_below
from chaos.shell.launch import Launch
from chaos.shell.parent import die_with

#: In the environment until the program runs.
STARTING = "STORMPROOF_STARTING"
#: What shells say of a command that isn't there, or can't be run.
NO_COMMAND = 127


def main() -> None:
    launch = Launch.from_json(Path(sys.argv[1]).read_text("utf-8"))
    if launch.parent:
        die_with(launch.parent)
    sys.exit(become(launch))


def become(launch: Launch) -> str | int:
    """Be the program from now on; what is wrong when that can't be."""
    program, home = launch.program, Path(launch.home)
    assert program is not None, "said by who starts it"
    try:
        for folder in (home, Path(launch.disk)):
            folder.mkdir(parents=True, exist_ok=True)
        for path, text in program.files.items():
            files_below.write(home, path, b64decode(text))
        os.chdir(home)
    except OSError as error:
        return f"node {launch.spec.name}: its files can't be written: {error}"
    ours = (STARTING, "PYTHONPATH", "PYTHONSAFEPATH")  # the others are how our code is found
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    try:
        os.execvpe(program.argv[0], program.argv, {**environment, **program.env})
    except OSError as error:
        print(f"{shlex.join(program.argv)}: {error.strerror}: {program.argv[0]}", file=sys.stderr)
    return NO_COMMAND


if __name__ == "__main__":
    main()
