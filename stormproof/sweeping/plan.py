"""What a sweep is to do, as ``sweep.json`` in its directory says it: so that another process can go on with it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory, MachineError
from chaos.history import directory as store
from chaos.version import VERSION
from reports.sweeps import PLAN

ROWS = "rows"
RUNS = "runs"
EXPERIMENTS = "experiments"
ROOT = Path(__file__).resolve().parents[2]
#: What a run and its verdict depend on, and what an executor needs to make them.
PACKAGES = ("chaos", "checkers", "drivers", "nemesis", "reference", "reports", "stormproof", "workloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An experiment: ``name`` as people know it, ``path`` as it was given, ``copy`` the copy that is run (a path in the
    sweep's directory), and the SHA-256 of its text."""

    name: str
    path: str
    copy: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``first`` to ``last`` are the seeds that each file is run with. ``code``: a digest of what the verdicts depend
    on. ``keep_all``: histories of VALID runs too; ``no_loss_by_policy``: as in
    :class:`stormproof.launch.Launch`; ``beside``: the folder into which the runs go, "" for the sweep's
    own directory."""

    files: Sequence[File]
    first: int
    last: int
    mutant: str = ""
    keep_all: bool = False
    no_loss_by_policy: bool = False
    beside: str = ""
    version: str = VERSION
    code: str = ""

    @property
    def seeds(self) -> range:
        return range(self.first, self.last + 1)

    def runs(self) -> list[tuple[int, int]]:
        """Return (file, seed) of all runs, in the order in which they are begun: the first seed of each file first."""
        return [(number, seed) for seed in self.seeds for number in range(len(self.files))]


def code_digest(
    root: Path = ROOT,
    folders: Sequence[str] = PACKAGES,
    suffixes: Sequence[str] = (".py",),
    without: tuple[str, ...] = (),
) -> str:
    """Return the digest of all that a verdict depends on: the files of these folders (the code of this installation),
    but those whose paths begin with ``without``."""
    digest = hashlib.sha256()
    for path in (path for folder in folders for path in sorted((root / folder).rglob("*"))):
        name = path.relative_to(root).as_posix()
        if path.suffix in suffixes and not name.startswith(without):
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def row_path(directory: Path, key: tuple[Any, ...]) -> Path:
    return directory / ROWS / f"{key[0]}-{key[1]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One run of the sweep in ``directory``, an absolute path: the place of its experiment, and its seed. ``reports``:
    write the page of a run that is not VALID."""

    directory: str
    file: int
    seed: int
    reports: bool = True

    @property
    def key(self) -> tuple[int, int]:
        return self.file, self.seed

    @property
    def row(self) -> Path:
        return row_path(Path(self.directory), self.key)


def create(
    out: Path,
    files: Sequence[tuple[Path, str, str]],
    seeds: range,
    *,
    mutant: str = "",
    keep_all: bool = False,
    beside: bool = False,
    no_loss_by_policy: bool = False,
) -> tuple[Path, Plan]:
    """Make a sweep's directory in ``out``, for these experiments (path, name, text). Raises :class:`MachineError`."""
    name = files[0][1] if len(files) == 1 else f"{files[0][1]}-and-{len(files) - 1}-more"
    stem = f"{name}-sweep-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    try:
        directory = store.new_folder(out, stem)
        for folder in (ROWS, EXPERIMENTS):
            (directory / folder).mkdir()
        copies = []
        for number, (path, title, text) in enumerate(files):
            copy = f"{EXPERIMENTS}/{number}/{path.stem}.yaml"  # its name is the experiment's, if that has no other
            (directory / copy).parent.mkdir()
            (directory / copy).write_text(text, "utf-8")
            copies.append(File(name=title, path=str(path), copy=copy, sha256=_sum(text)))
        plan = Plan(
            files=copies,
            first=seeds[0],
            last=seeds[-1],
            mutant=mutant,
            keep_all=keep_all,
            no_loss_by_policy=no_loss_by_policy,
            beside=str(out.resolve()) if beside else "",
            code=code_digest(),
        )
        data = json.dumps(dataclasses.asdict(plan), indent=2, ensure_ascii=False) + "\n"
        guarded.replace(directory / PLAN, data.encode())
    except OSError as error:
        raise MachineError(f"cannot make the directory of a sweep in {out}: {error.strerror or error}") from error
    return directory, plan


def read(directory: Path) -> Plan:
    """Return the plan of a sweep. Raises :class:`BadInput` where there is none, or none of ours."""
    path = directory / PLAN
    try:
        value = guarded.read_json(path)
        return _plan(value)
    except FileNotFoundError:
        raise BadInput(f"{directory} is no directory of a sweep (it has no {PLAN})") from None
    except (TypeError, KeyError, AttributeError, DamagedHistory) as error:
        raise BadInput(f"{path} is no plan of a sweep: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error


def _plan(value: Mapping[str, Any]) -> Plan:
    plan = Plan(**{**value, "files": [File(**file) for file in value["files"]]})
    if not (isinstance(plan.first, int) and isinstance(plan.last, int) and 0 <= plan.first <= plan.last):
        raise TypeError("its seeds are no range")
    if not plan.files:
        raise TypeError("it has no experiment")
    for file in plan.files:
        if Path(file.copy).is_absolute() or ".." in Path(file.copy).parts:
            raise TypeError(f"the copy {file.copy!r} is not in its directory")
    return plan


def resume(
    directory: Path,
    files: Sequence[tuple[Path, str, str]],
    seeds: range | None,
    mutant: str | None,
    *,
    no_loss_by_policy: bool = False,
) -> Plan:
    """Return the plan of a sweep that goes on. What is given again must be what it was begun with. Raises
    :class:`BadInput` with everything that differs: rows of two experiments, or of two versions, are no table."""
    plan = read(directory)
    wrong = []
    if files and [_sum(text) for _, _, text in files] != [file.sha256 for file in plan.files]:
        given, begun = ", ".join(str(path) for path, _, _ in files), ", ".join(file.path for file in plan.files)
        wrong.append(f"{directory} was begun with {begun}, as it was then; {given} is another experiment")
    for file in plan.files:
        if _text_sum(directory / file.copy) != file.sha256:
            wrong.append(f"{directory / file.copy} is not what the sweep was begun with")
    if seeds is not None and seeds != plan.seeds:
        wrong.append(f"{directory} was begun with the seeds {plan.first}..{plan.last}, not {seeds[0]}..{seeds[-1]}")
    if mutant is not None and mutant != plan.mutant:
        wrong.append(f"{directory} was begun with the planted bug {plan.mutant or 'none'}, not {mutant or 'none'}")
    if no_loss_by_policy and not plan.no_loss_by_policy:
        wrong.append(f"{directory} was begun without --no-loss-by-policy")
    if plan.code != code_digest():
        wrong.append(
            f"{directory} was begun by other code (stormproof {plan.version}, {plan.code}), whose rows can't be set"
            " beside those of this one: begin again"
        )
    if wrong:
        raise BadInput(*wrong)
    return plan


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text_sum(path: Path) -> str:
    try:
        return hashlib.sha256(guarded.read(path)).hexdigest()
    except (OSError, BadInput):
        return ""
