"""A run on a terminal of 80 columns and 24 lines: all that a person has to see is on the screen when it has ended."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests import tutorial

COLUMNS, LINES = 80, 24
README_TEXT = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
README = tutorial.parse(README_TEXT)
(SHOWN,) = README.commands
CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n")


def screen(text: str) -> list[str]:
    """The lines that a terminal has shown, the part that scrolled away too; of its commands those that ours use."""
    lines, row, column, place = [""], 0, 0, 0
    for found in CONTROL.finditer(text + "\n"):
        for letter in text[place : found.start()]:
            if column == COLUMNS:
                row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
            lines[row] = f"{lines[row][:column]:<{column}}{letter}{lines[row][column + 1 :]}"
            column += 1
        place = found.end()
        if found[0] == "\r":
            column = 0
        elif found[0] == "\n":
            row, column = row + 1, 0
        elif found[2] == "A":
            row -= int(found[1] or 1)
        elif found[2] == "K":
            lines += [""] * (row + 1 - len(lines))
            lines[row] = "" if found[1] == "2" else lines[row][:column]
        else:
            assert found[2] in "mhl", found[0]
    return [line.rstrip() for line in lines]


def typed(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Run a command on a terminal; its exit code and what stands there at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    line = [sys.executable, "-P", "-m", "stormproof", *words]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(line, cwd=folder, env={**environment, "TERM": "xterm"}, **streams) as process:
        os.close(theirs)
        said = b""
        try:
            while more := os.read(ours, 1 << 16):
                said += more
        except OSError:  # the last who had the terminal open has closed it
            pass
    os.close(ours)
    lines = screen(said.decode())
    while lines and not lines[-1]:
        lines.pop()
    return process.returncode, lines


#: Each command that the README proposes is run here.
assert re.findall(r"^stormproof ([^#]+?) *#", README_TEXT, re.MULTILINE) == ["demo"]
DEMO = (
    *("1 of 2: the correct system under faults, on sim", "✓ VALID  quickstart, seed 7, sim", "Nothing was lost: "),
    *("2 of 2: the same system with a planted bug", "✕ INVALID  stale-master, seed 1, sim", "why: broker-2 "),
    *("The correct system kept its promises, and the planted bug was caught.", "runs/stale-master-1-"),
)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("demo",), 0, DEMO),
        (
            ("run", "quickstart", "--on", "sim", "--seed", "7"),
            0,
            ("✓ VALID  quickstart, seed 7, sim", "Nothing was lost: 1,739 acknowledged writes", "  report   runs/"),
        ),
        (
            tuple(SHOWN.line.split()[1:]),
            1,
            (
                *("✕ INVALID  stale-master, seed 1, sim", "720 acknowledged messages were lost", "why: broker-2 "),
                *("decided by Replication.acknowledged_end", "  explain  stormproof explain latest"),
                *("  shrink   stormproof shrink latest", "  report   runs/", "  replay   stormproof run "),
            ),
        ),
    ],
    ids=["demo", "green", "red"],
)
def test_what_it_prints_fits_on_the_screen(
    words: tuple[str, ...], code: int, said: tuple[str, ...], tmp_path: Path
) -> None:
    ended, lines = typed(tmp_path, *words)
    assert ended == code, lines
    assert len(lines) <= (LINES if words == ("demo",) else LINES - 1) and max(map(len, lines)) <= COLUMNS, "\n".join(
        lines
    )
    places = [next((at for at, line in enumerate(lines) if one in line), -1) for one in said]
    assert -1 not in places and places == sorted(places), "\n".join(lines)
    assert not [line for line in lines if line.startswith("promise ")], "the table is for -v"
    assert words != ("demo",) or (tmp_path / lines[-1]).is_file()
    assert ended == 0 or tutorial.fits(SHOWN.printed, lines), "the README shows what is printed"
