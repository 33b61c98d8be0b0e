"""The systems that are measured: which code is theirs, and which experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos.errors import BadInput
from chaos.experiment.reader import load
from stormproof.launch import SIM
from stormproof.shipped import experiments

#: A deployment of programs on this machine, which can do what only the simulator can't.
PROGRAMS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system under test. ``folder`` holds its code, of which ``left_out`` is never changed: planted bugs, programs
    that people start, switches by which the harness makes the object store fail, and the gateway to a real store, which
    the simulator can't run. Its runs do not depend on what is
    ``elsewhere``. ``takes_profiles``: they can be under weaker profiles than its own. ``runs`` of the correct system
    are shared among all experiments, but the swarm has ``storms`` of its own, unless that is 0. Of the mutation score,
    ``sample``, ``seeds`` and ``draw`` are those of the published ``page``, and people rule on survivors in
    ``verdicts``."""

    name: str
    folder: str
    left_out: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    takes_profiles: bool
    runs: int
    storms: int = 0
    sample: int
    seeds: int
    draw: int
    page: str
    verdicts: str

    @property
    def prefix(self) -> str:
        """What stands before the names of its experiments."""
        return "" if self == REFERENCE else f"{self.name}/"

    @property
    def option(self) -> str:
        """What a command is given to measure it."""
        return "" if self == REFERENCE else f" --system {self.name}"

    @property
    def swarm(self) -> str:
        """The experiment whose storms are all different."""
        return f"{self.prefix}swarm"

    def state(self, folder: Path, what: str) -> Path:
        """Return the file of what is known of it."""
        return folder / (f"{what}.jsonl" if self == REFERENCE else f"{what}_{self.name}.jsonl")

    def experiments(self, root: Path) -> dict[str, Path]:
        """Return its experiments that the simulator can run, by name. Raises :class:`BadInput` for one that programs
        cannot run either."""
        own = {name: path for name, path in experiments(root).items() if name.rpartition("/")[0] == self.prefix[:-1]}
        return {name: path for name, path in own.items() if _is_for_the_simulator(path)}


def _is_for_the_simulator(path: Path) -> bool:
    try:
        load(path, deployment=SIM)
    except BadInput:
        load(path, deployment=PROGRAMS)
        return False
    return True


REFERENCE = System(
    name="reference",
    folder="reference",
    left_out=(
        *("reference/mutants", "reference/__main__", "reference/console", "reference/options"),
        *(f"reference/objectstore/{one}" for one in ("faults", "gateway", "bucket", "address", "asking")),
        "reference/split",
    ),
    elsewhere=("reference/split", "examples/systems", "tests/scenarios/split"),
    takes_profiles=True,
    runs=2_000,
    sample=300,
    seeds=100,
    draw=18,  # another one whenever laws were made for survivors of the last
    page="power.md",
    verdicts="verdicts.yaml",
)
SPLIT = System(
    name="split",
    folder="reference/split",
    left_out=("reference/split/mutants", "reference/split/__main__", "reference/split/options"),
    takes_profiles=False,
    runs=1_000,
    storms=300,
    sample=100,
    seeds=16,  # some 3 s of processor time each, so that 100 mutants take 40 minutes of it
    draw=1,
    page="split_mutation.md",
    verdicts="split_verdicts.yaml",
)
SYSTEMS = {system.name: system for system in (REFERENCE, SPLIT)}
