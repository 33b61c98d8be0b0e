"""A small recorded run that everything is done to, and every command that reads one, each with a bound on its time."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.history.manifest import Manifest
from reports.exports import formats
from stormproof import cli
from tests.stormproof.small_runs import planted

#: No command takes so long with a run of a few seconds, in seconds; on a busy machine neither.
PATIENCE_S = 300
TRACE, LOG = "traces/broker-9.jsonl", "logs/broker-9.log"
SECRET = "hunter2-is-the-secret"


class Hang(BaseException):
    """Nobody catches it."""


def recorded(folder: Path) -> Path:
    """An INVALID run with a file of each kind that a run may have, all of them sealed or written anew by commands."""
    run = planted(folder).directory
    for name, text in {TRACE: '{"f": "noise", "node": "broker-9", "step": 2}\n' * 3, LOG: "it said this\n"}.items():
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(text)
    with Manifest(run) as sealing:
        sealing.seal_files([TRACE])
    for words in (["check", str(run), "--engine", "local"], *(["export", str(run), "--to", one] for one in formats())):
        assert cli._run(words) in (0, 1)
    (run / "moments.json").write_text("{}")
    return run


def commands(run: Path, other: Path, scratch: Path) -> dict[str, list[str]]:
    """By what they are called here. ``other``: a run to compare with; ``scratch``: where new runs go."""
    one, to = str(run), ["--out", str(scratch)]
    return {
        "check": ["check", one, "--engine", "local", *to],
        "report": ["report", one, *to],
        "summary": ["summary", one, *to],
        "rows": ["rows", one, "0..50", *to],
        "explain": ["explain", one, *to],
        "finding": ["finding", one, *to],
        "diff": ["diff", one, str(other), *to],
        "other diff": ["diff", str(other), one, *to],
        **{f"export {name}": ["export", one, "--to", name, *to] for name in formats()},
        "runs": ["runs", str(run.parent)],
        "page of runs": ["runs", str(run.parent), "--html"],
        "latest": ["report", "--out", str(run.parent)],
        "follow": ["check", one, "--follow", "--engine", "local", *to],
        "scrub": ["scrub", one, "--wait", "0"],
        "replay": ["replay", one, "--engine", "local", *to],
        "clean": ["clean", "--keep", "failed", "--out", str(run.parent)],
    }


#: What does the run again takes a second each.
SLOW = {
    "moments": lambda run, scratch: ["explain", str(run), "--moments", "3", "--tries", "1", "--out", str(scratch)],
    "shrink": lambda run, scratch: ["shrink", str(run), "--within", "1s", "--out", str(scratch)],
}


@contextmanager
def bounded(seconds: int = PATIENCE_S) -> Iterator[None]:
    """Raises :class:`Hang` where something takes longer."""

    def late(*_: object) -> None:
        raise Hang(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call(capsys: pytest.CaptureFixture[str], words: list[str], what: object = "") -> tuple[int, str]:
    """The exit code of a command, and all that it printed: a bug of ours in it is a failure, of which it is told what
    was tried."""
    capsys.readouterr()
    with bounded():
        code = cli._run(words)
    printed = "".join(capsys.readouterr())
    assert "Traceback" not in printed and "bug of" not in printed, f"{what}: {words}\n{printed}"
    return code, printed


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """What stands in a folder, and when it was changed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        told = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(told.st_mode) else b""
        found[str(path.relative_to(folder))] = (told.st_mode, told.st_mtime_ns, content)
    return found


def _device(place: Path, _: Path) -> None:
    try:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: nobody comes to its end
    except OSError:  # only root may
        place.symlink_to("/dev/zero")


def _socket(place: Path, _: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(place.name)
    finally:
        os.chdir(here)


def _copied(place: Path, outside: Path) -> Path:
    """The file or folder that stood there, in ``outside``."""
    return outside / place.name


def _link_to_secret(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "secret")


def _hard_link(place: Path, outside: Path) -> None:
    if _copied(place, outside).is_dir():
        place.mkdir()
        for one in _copied(place, outside).iterdir():
            os.link(one, place / one.name)
    else:
        os.link(_copied(place, outside), place)


#: What is put in the place of a file or a folder of a run, whose copy stands in the second folder.
KINDS: Mapping[str, Callable[[Path, Path], None]] = {
    "link": lambda place, outside: place.symlink_to(_copied(place, outside)),
    "link to a secret": _link_to_secret,
    "link to nothing": lambda place, outside: place.symlink_to(outside / "nothing"),
    "link to itself": lambda place, _: place.symlink_to(place),
    "hard link": _hard_link,
    "pipe": lambda place, _: os.mkfifo(place),
    "device": _device,
    "socket": _socket,
    "folder": lambda place, _: place.mkdir(),
    "link to a device": lambda place, _: place.symlink_to("/dev/zero"),
}


def put(run: Path, name: str, kind: str, outside: Path) -> None:
    """Put something of this kind in the place of a file or folder of the run."""
    place = run / name
    outside.mkdir()
    (outside / "secret").write_text(f"{SECRET}\n")
    if place.is_dir():
        shutil.copytree(place, outside / place.name)
        shutil.rmtree(place)
    else:
        shutil.copy(place, outside / place.name)
        place.unlink()
    KINDS[kind](place, outside)
