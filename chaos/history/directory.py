"""Run directories: made once, never overwritten, and the only thing that ``run``, ``check`` and ``report`` share."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput, ChaosError, DamagedHistory, MachineError, meant
from chaos.history import manifest
from chaos.history.format import UnknownFormat, refuse_unknown
from chaos.history.manifest import Manifest, Sealed, sum_of
from chaos.history.run_meta import RUNNING as RUNNING
from chaos.history.run_meta import UP as UP
from chaos.history.run_meta import RunMeta
from chaos.history.verdict_json import verdict_json, verdict_of
from chaos.verdict import RunVerdict, Validity

META = "run.json"
VERDICT = "verdict.json"
EXPERIMENT = "experiment.yaml"
SHARDS = "shards"
TRACES = "traces"
#: How the names of files of traces end: as lines while nodes write them, then as segments (``NODE.0000.arrows``, …).
LINES, SEGMENTS = ".jsonl", ".arrows"
#: Of a run on hosts: where its nodes are. Nothing is left there once it says that it is ``cleared``.
HOSTS = "hosts.json"
#: What a run holds down of a cluster that it did not start: of containers, of programs on hosts.
ATTACHED = "attached.json"
ATTACHED_HOSTS = "attached_hosts.json"
LATEST = "latest"


def new_run(parent: Path, name: str, seed: int) -> Path:
    """Make a run's directory, ``NAME-SEED-TIME``; a number follows if it exists already. Raises :class:`BadInput` for a
    name that leads elsewhere."""
    if not is_run_name(name):
        raise BadInput(f"{name!r} is not a name for a run: expected letters, digits, '-', '_' and '.'")
    try:
        return new_folder(parent, f"{name}-{seed}-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    except OSError as error:
        raise MachineError(f"cannot make a run directory in {parent}: {error.strerror or error}") from error


def is_run_name(name: str) -> bool:
    """Return whether a run may be called so: a name leads nowhere else."""
    return "/" not in name and guarded.is_below(name)


def new_folder(parent: Path, stem: str) -> Path:
    """Make a folder of this name; a number follows if it exists already. Raises ``OSError``."""
    for number in count(1):
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if not path.is_dir():  # some parent is a file
                raise
    raise AssertionError("count() has no end")


def write_json(path: Path, value: object, *, sealed: bool = True) -> None:
    """Replace a JSON file of a run in one step; a reader sees the old or the new content, and the run's manifest
    vouches for both. Raises :class:`MachineError`."""
    data = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    if sealed:
        with Manifest(path.parent) as sealing:
            sealing.seal(path.name, sum_of(data))
    guarded.write(path, data)


def _read_json(path: Path, problem: str) -> dict[str, Any]:
    try:
        value = guarded.read_json(path)
    except FileNotFoundError:
        raise BadInput(f"{path.parent}: {problem}") from None
    except OSError as error:
        raise DamagedHistory(f"{path} can't be read: {error.strerror or error}") from error
    if not isinstance(value, dict):
        raise DamagedHistory(f"{path} holds no JSON object")
    return value


def write_meta(run: Path, json: Mapping[str, Any]) -> None:
    """Write ``run.json``, in one step."""
    write_json(run / META, dict(json))


def read_meta(run: Path) -> RunMeta:
    """Return what ``run.json`` says. Raises :class:`BadInput` if this is not a run directory, or one of a newer format,
    :class:`DamagedHistory` if it is torn, or says what is unknown here."""
    return RunMeta.of(_meta_json(run))


def _meta_json(run: Path) -> dict[str, Any]:
    json = _read_json(run / META, f"is not a run directory (it has no {META})")
    refuse_unknown(run / META, json)
    return json


def refuse_newer(run: Path) -> None:
    """Raise :class:`UnknownFormat` for a run of a newer format, for those who read rows alone. Whatever else may be
    wrong with its ``run.json``, or that there is none, is not reported."""
    try:
        read_meta(run)
    except UnknownFormat:
        raise
    except (ChaosError, OSError):
        return


def update_meta(run: Path, **changes: object) -> None:
    """Change some fields of ``run.json``, in one step. If it wasn't what had been written, the new one isn't either:
    nothing vouches for it."""
    sound = not manifest.altered(run, manifest.read(run), META, newest=2)
    write_json(run / META, {**_meta_json(run), **changes}, sealed=sound)


def trace_files(run: Path, sealed: Sealed) -> list[str]:
    """Return the files in which the traces of a run stand, as paths in its directory, in the order of their rows: of
    each node the segments, then the lines. As long as there are lines, only segments count for which the manifest
    vouches."""
    lines = guarded.listed(run, TRACES, LINES)
    segments = [(*node_and_number(name), name) for name in guarded.listed(run, TRACES, SEGMENTS)]
    found = [(name.removesuffix(LINES), sys.maxsize, name) for name in lines]
    found += [one for one in segments if f"{one[0]}{LINES}" not in lines or one[2] in sealed.files]
    return [name for _, _, name in sorted(found, key=lambda one: (f"{one[0]}{LINES}", *one[1:]))]


def line_files(run: Path) -> list[str]:
    """Return the files of a run into which nodes write their traces, as paths in its directory."""
    return guarded.listed(run, TRACES, LINES)


def sealed_segments(sealed: Sealed, lines: str) -> list[str]:
    """Return the segments that were made of these lines and for which the manifest vouches, in their order."""
    mine = [name for name in sealed.files if name.endswith(SEGMENTS)]
    return sorted(
        (name for name in mine if f"{node_and_number(name)[0]}{LINES}" == lines),
        key=node_and_number,
    )


def node_and_number(segment: str) -> tuple[str, int]:
    """Return of which node's trace a segment of this name is, and its place among those of that trace, from 0."""
    stem = segment.removesuffix(SEGMENTS)
    node, _, number = stem.rpartition(".")
    return (node, int(number)) if number.isascii() and number.isdecimal() else (stem, 0)


def shard_files(run: Path, folder: str = SHARDS) -> list[str]:
    """Return the shards in this folder of a run, as paths in its directory."""
    return guarded.listed(run, folder, ".parquet")


def seal(run: Path) -> None:
    """Have the manifest vouch for the files of a run as they stand there now: for histories that another program has
    recorded, as ``run.json`` and shards, or traces. Raises :class:`MachineError` when it can't be written."""
    names = [name for name in (META, EXPERIMENT) if guarded.is_there(run / name)]
    names += [*trace_files(run, manifest.read(run)), *shard_files(run)]
    with Manifest(run) as sealing:
        sealing.seal_files(names)


def altered(run: Path, sealed: Sealed, *, ended: bool) -> list[str]:
    """One sentence for each part of a run, besides its rows, that isn't what the manifest says. Of ``run.json`` the
    last but one version will do too, for a harness may be killed between its seal and its writing. The traces of a run
    that has not ``ended`` aren't sealed yet."""
    in_manifest = {name for name in sealed.files if name.startswith(f"{TRACES}/")}
    traces = sorted(in_manifest | set(trace_files(run, sealed))) if ended else sorted(in_manifest)
    problems = [manifest.altered(run, sealed, META, newest=2), manifest.altered(run, sealed, EXPERIMENT)]
    problems += [manifest.altered(run, sealed, name) for name in traces]
    return list(filter(None, problems))


def write_verdict(run: Path, verdict: RunVerdict) -> None:
    write_json(run / VERDICT, verdict_json(verdict))


def read_verdict(run: Path) -> RunVerdict:
    """Read ``verdict.json``. Raises :class:`BadInput` when the run was not judged yet, :class:`DamagedHistory` when it
    isn't what was found."""
    written = _read_json(run / VERDICT, "was not judged yet: run `stormproof check` on it first")
    try:
        verdict = verdict_of(written)
    except DamagedHistory as error:
        raise DamagedHistory(f"{run / VERDICT} is no verdict of ours: {error}") from error
    if problem := manifest.altered(run, manifest.read(run), VERDICT, newest=2):
        raise DamagedHistory(f"{run}: {problem}; run `stormproof check` on it to write it again")
    return verdict


def runs(parent: Path) -> list[Path]:
    """All run directories in this folder, the oldest first."""
    found = [path.parent for path in parent.glob(f"*/{META}")]
    return sorted(found, key=lambda run: ((run / META).lstat().st_mtime_ns, run.name))


def resolve(word: str, parent: Path) -> Path:
    """Return the run that a user means: a directory, the name of a run in ``parent``, or ``latest``."""
    if word == LATEST:
        known = runs(parent)
        if not known:
            raise BadInput(f"there is no run in {parent} yet")
        return known[-1]
    for path in (Path(word), parent / word):
        if (path / META).is_file() or (path.is_dir() and (path / SHARDS).is_dir()):
            return path
    if any(path.exists() for path in (Path(word), parent / word)):
        raise BadInput(f"{word}: is not a run directory (it has no {META})")
    hint = meant(word, (LATEST, *(run.name for run in runs(parent))))
    raise BadInput(f"there is no run {word}, here or in {parent}{hint and '; '}{hint}")


def trim(run: Path) -> None:
    """Keep of a run only what it is and what was found: ``run.json``, which says so, ``verdict.json``, and the manifest
    that vouches for both."""
    update_meta(run, trimmed=True)
    for path in sorted(run.iterdir()):
        if path.name in (META, VERDICT, manifest.FILE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_trimmed(run: Path) -> bool:
    """Return whether only the verdict was kept of a run; False where that is unknown."""
    try:
        return read_meta(run).trimmed
    except (ChaosError, OSError):
        return False


def clean(parent: Path, *, keep_failed: bool) -> list[Path]:
    """Remove runs; with ``keep_failed`` only those that were judged VALID. One that is going on, one whose cluster was
    left up, one that may have left something on hosts, and one of a newer format, which may do any of these, is never
    removed. Returns those gone."""
    gone = []
    for run in runs(parent):
        if run.is_symlink():  # it is somewhere else, and may be somebody else's
            continue
        try:
            running = goes_on(read_meta(run)) or _on_hosts(run)
            valid = guarded.is_there(run / VERDICT) and read_verdict(run).validity is Validity.VALID
        except UnknownFormat:
            continue
        except ChaosError:  # damaged, or no file at all
            running, valid = _on_hosts(run), False
        if not running and (valid or not keep_failed):
            shutil.rmtree(run)
            gone.append(run)
    return gone


def _on_hosts(run: Path) -> bool:
    """Return whether hosts, or a cluster of others, may still have something of it: only its directory names them."""
    return any(uncleared(run / name) for name in (HOSTS, ATTACHED, ATTACHED_HOSTS))


def uncleared(file: Path) -> bool:
    """Return whether such a file says that something is left, or can't be understood."""
    try:
        return guarded.read_json(file)["cleared"] is not True
    except FileNotFoundError:
        return False
    except (ChaosError, OSError, KeyError, TypeError):
        return True


def goes_on(meta: RunMeta) -> bool:
    """Return whether a run's nodes may be alive. When in doubt (its process id is in use, by whomever) they are."""
    if meta.state != RUNNING:
        return meta.state == UP
    if not meta.pid:
        return False
    try:
        os.kill(meta.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
