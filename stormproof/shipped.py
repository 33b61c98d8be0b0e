"""The experiments that come with Stormproof, by name.

``examples/`` are for people to start from, in folders by purpose; ``tests/scenarios/`` bring the reference system into
one corner each, where planted bugs show. Both are in the wheel, so that every command that ``stormproof list bugs``
gives works wherever Stormproof is installed.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

#: Of examples, the first folder is a purpose and no part of the name.
EXAMPLES, SCENARIOS = "stormproof.examples", "stormproof.scenario_files"


def experiments(root: Path | None = None) -> dict[str, Path]:
    """Return the file of each experiment, by its name, in alphabetical order: ``quickstart`` for the reference system,
    ``etcd/crashes`` for one of others. ``root``: a checkout whose files to name instead of the installed ones."""
    examples, scenarios = (
        (root / "examples", root / "tests" / "scenarios")
        if root is not None
        else (Path(str(resources.files(package))) for package in (EXAMPLES, SCENARIOS))
    )
    found = {_name(Path(*path.relative_to(examples).parts[1:])): path for path in examples.glob("*/**/*.yaml")}
    found |= {_name(path.relative_to(scenarios)): path for path in scenarios.rglob("*.yaml")}
    return dict(sorted(found.items()))


def word_for(file: Path) -> str:
    """Return how a command names the file of an experiment: by its name, if it comes with Stormproof."""
    return next((name for name, path in experiments().items() if path == file), str(file))


def of_reference(root: Path | None = None) -> dict[str, Path]:
    """Return those of :func:`experiments` that are for the reference system."""
    return {name: path for name, path in experiments(root).items() if "/" not in name}


def _name(path: Path) -> str:
    return path.with_suffix("").as_posix()
