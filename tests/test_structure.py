"""The shape of the tree, held by tests: who may import whom, and what simulated code may not use."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("chaos", "workloads", "nemesis", "checkers", "reports", "reference", "drivers", "benchmarks", "examples")
PLUGIN_PACKAGES = ("workloads", "nemesis", "checkers", "drivers")

#: Module (or package prefix) → modules of ours that it may import. The longest prefix that fits a module counts.
#: ``*`` allows all of ours, and then third-party modules too.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "chaos.node": (),
    "chaos.ops": (),
    "chaos.verdict": (),
    "chaos.links": (),
    "chaos.columns": (),
    "chaos.errors": (),
    "chaos": ("*",),
    "reference": ("chaos.node", "reference"),
    "reference.__main__": ("chaos.node", "reference", "chaos.deployments._shell"),
    "workloads": ("chaos.workload", "chaos.ops", "chaos.driver"),
    "nemesis": (
        "chaos.fault",
        "chaos.targets",
        "chaos.links",
        "chaos.disks",
        "chaos.harm",
        "chaos.driver",
        "chaos.probes",
        "chaos.deployments._base",
    ),
    "drivers": ("chaos.driver", "chaos.ops", "chaos.node", "chaos.workload", "chaos.tasks", "chaos.links"),
    "drivers._tiering": ("chaos.driver", "chaos.ops", "chaos.node", "chaos.links", "reference.codes"),
    "drivers._collecting": (
        "chaos.driver",
        "chaos.ops",
        "chaos.node",
        "chaos.links",
        "reference.codes",
        "reference.records",
        "reference.objects",
    ),
    "drivers.reference": (
        "chaos.driver",
        "chaos.ops",
        "chaos.node",
        "chaos.workload",
        "chaos.tasks",
        "chaos.links",
        "reference.codec",
        "reference.codes",
        "reference.records",
        "reference.mutants",
    ),
    "checkers": (
        "chaos.ops",
        "chaos.columns",
        "chaos.history",
        "chaos.verdict",
        "chaos.checker",
        "chaos.errors",
        "checkers._",
    ),
    "reports": ("chaos.history", "chaos.columns", "chaos.verdict", "chaos.store", "chaos.errors", "reports"),
    "benchmarks": ("*",),
    "examples": (),
}
#: These see nothing but the standard library, so that a bare host needs only the wheel.
STANDARD_LIBRARY_ONLY = (
    "chaos.node",
    "chaos.ops",
    "chaos.verdict",
    "chaos.links",
    "chaos.columns",
    "chaos.errors",
    "chaos.deployments._shell",
    "chaos.deployments._stranger",
    "chaos.deployments._newcomers",
    "chaos.deployments._strictdisk",
    "chaos.deployments._hostagent",
    "chaos.deployments._procfs",
    "chaos.deployments._sshboot",
    "reference",
)
#: Code that the simulator reaches: one seed must give one history.
SIMULATED = (
    "chaos/runner.py",
    "chaos/schedule.py",
    "chaos/tasks.py",
    "chaos/workload.py",
    "chaos/deployments/sim.py",
    "chaos/deployments/_sim*.py",
    "workloads/*.py",
    "nemesis/*.py",
    "drivers/*.py",
    "reference/*.py",
)
FORBIDDEN_CALLS = {
    "asyncio.TaskGroup": "chaos.tasks has the one ordered task group",
    "asyncio.wait": "it returns sets, whose order differs between processes",
    "asyncio.as_completed": "its order differs between processes",
    "asyncio.all_tasks": "it returns a set",
    "asyncio.to_thread": "threads are not simulated",
    "asyncio.create_task": "tasks belong to chaos.tasks",
    "asyncio.gather": "chaos.tasks cancels in order",
    "time.time": "wall clock",
    "time.time_ns": "wall clock",
    "time.monotonic": "the clock is the environment's or the loop's",
    "time.monotonic_ns": "the clock is the environment's or the loop's",
    "time.perf_counter": "the clock is the environment's or the loop's",
    "time.sleep": "it would stop the whole simulation",
    "datetime.datetime.now": "wall clock",
    "uuid.uuid4": "not from the seed",
    "uuid.uuid1": "not from the seed",
    "os.urandom": "not from the seed",
    "random.random": "not from the seed",
    "random.randint": "not from the seed",
    "random.choice": "not from the seed",
    "random.shuffle": "not from the seed",
    "random.sample": "not from the seed",
}
ALLOWED_CALLS = {
    ("chaos/tasks.py", "asyncio.create_task"),
    ("reference/__main__.py", "*"),
}


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[dotted.removesuffix(".__init__")] = path
    return found


def imports(path: Path, module: str) -> set[str]:
    """All modules that a file imports anywhere in it, ``from package import name`` given as ``package.name``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == p or name.startswith(p + ".") or (p.endswith("_") and name.startswith(p)) for p in prefixes)


def rule_for(module: str) -> tuple[str, ...]:
    fitting = [prefix for prefix in MAY_IMPORT if within(module, (prefix,))]
    return MAY_IMPORT[max(fitting, key=len)]


def is_ours(name: str) -> bool:
    return name.split(".", 1)[0] in PACKAGES


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_follow_the_table(module: str) -> None:
    allowed = rule_for(module)
    if "*" in allowed:
        return
    ours = {name for name in imports(modules()[module], module) if is_ours(name)}
    package = module.split(".")[0]
    if package in PLUGIN_PACKAGES:
        private = (f"{package}._",)
        siblings = {n for n in ours if within(n, (package,)) and not within(n, private)} - {package}
        assert not siblings, "plug-ins import no plug-in"
        ours -= {package}  # its list of files, not a file of it
        allowed = (*allowed, *private)
    wrong = sorted(name for name in ours if not within(name, allowed))
    assert not wrong, f"{module} may import only {allowed}, but imports {wrong}"


@pytest.mark.parametrize("module", sorted(m for m in modules() if within(m, STANDARD_LIBRARY_ONLY)))
def test_core_needs_only_the_standard_library(module: str) -> None:
    foreign = {name.split(".")[0] for name in imports(modules()[module], module)} - set(sys.stdlib_module_names)
    assert foreign <= {"chaos", "reference"}, f"{module} imports {sorted(foreign)}"


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


@pytest.mark.parametrize("pattern", SIMULATED)
def test_simulated_code_stays_deterministic(pattern: str) -> None:
    paths = sorted(ROOT.glob(pattern))
    assert paths, f"nothing fits {pattern}"
    for path in paths:
        relative = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                name = dotted(node)
                if {(relative, name), (relative, "*")} & ALLOWED_CALLS:
                    continue
                assert name not in FORBIDDEN_CALLS, f"{relative}:{node.lineno}: {name}: {FORBIDDEN_CALLS[name]}"


def test_reference_code_has_no_async_and_no_sockets() -> None:
    for module, path in modules().items():
        if within(module, ("reference",)) and module != "reference.__main__":
            used = {name.split(".")[0] for name in imports(path, module)}
            assert not used & {"asyncio", "socket", "threading", "time", "secrets"}, module
            assert not [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.AsyncFunctionDef)]


def test_files_stay_readable() -> None:
    long = {m: n for m, p in modules().items() if (n := len(p.read_text("utf-8").splitlines())) > 600}
    assert not long, f"one concept a file, 600 lines at most: {long}"
