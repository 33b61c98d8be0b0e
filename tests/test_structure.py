"""The shape of the tree, held by tests: who may import whom, and what simulated code may not use."""

from __future__ import annotations

import ast
import sys
import warnings
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    *("stormproof", "chaos", "workloads", "nemesis", "checkers", "reports", "reference", "drivers"),
    *("benchmarks", "examples", "images"),
)
PLUGIN_PACKAGES = ("workloads", "nemesis", "checkers", "drivers")

#: Package (or module) → packages and modules of ours that it may import besides itself. The longest name that fits a
#: module counts. The order: stormproof > reports > plug-ins > chaos, and drivers.reference > reference > chaos.node.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "stormproof": ("reports", "checkers", "nemesis", "workloads", "drivers", "chaos"),
    "reports": ("checkers", "nemesis", "workloads", "drivers", "chaos"),
    "checkers": ("chaos",),
    "nemesis": ("chaos",),
    "workloads": ("chaos",),
    "drivers": ("chaos",),
    "drivers._remoting": ("chaos", "reference.wire"),
    "drivers.reference": ("chaos", "reference"),
    "drivers.split": ("chaos", "reference"),
    "reference": ("chaos.node", "chaos.events"),
    "reference.__main__": ("chaos.node", "chaos.events", "chaos.shell", "reference"),
    "reference.objectstore.bucket": ("chaos.node", "chaos.shell.outside", "reference"),
    "reference.console": ("chaos.node", "chaos.events", "chaos.shell", "reference"),
    "reference.split.__main__": ("chaos.node", "chaos.events", "chaos.shell", "reference"),
    "chaos": (),
    "chaos.node": ("chaos.program", "chaos.events"),
    "chaos.events": (),
    "chaos.plain": ("chaos.node",),
    "chaos.program": (),
    "benchmarks": ("stormproof", "reports", "checkers", "nemesis", "workloads", "drivers", "reference", "chaos"),
    "examples": (),
    "images": (),
}
#: Inside ``chaos``: what a folder may import of its siblings. A module at the top of ``chaos`` counts by its name.
CORE = (
    *(
        "chaos.addresses",
        "chaos.draws",
        "chaos.errors",
        "chaos.events",
        "chaos.frames",
        "chaos.guarded",
        "chaos.holes",
        "chaos.merged_moments",
        "chaos.moments",
        "chaos.node",
        "chaos.operations",
        "chaos.ops",
        "chaos.plain",
        "chaos.program",
        "chaos.tasks",
        "chaos.verdict",
        "chaos.waiver",
    ),
    "chaos.version",
    "chaos.effects",
)
CONTRACTS = (
    *CORE,
    "chaos.driver",
    "chaos.services",
    "chaos.log_services",
    "chaos.delivery_services",
    "chaos.positions",
    "chaos.fault",
    "chaos.workload",
    "chaos.transaction_worker",
    "chaos.findings",
    "chaos.kernel",
    "chaos.law",
    "chaos.law_declaration",
    "chaos.shard_rows",
    "chaos.goal",
    "chaos.deployment",
    "chaos.plugins",
)
INSIDE_CHAOS: dict[str, tuple[str, ...]] = {
    "chaos.effects": ("chaos.errors",),
    "chaos.history": (
        *CORE,
        "chaos.driver",
        "chaos.services",
        "chaos.log_services",
        "chaos.delivery_services",
        "chaos.workload",
    ),
    "chaos.experiment": (*CONTRACTS,),
    "chaos.judging": (*CONTRACTS, "chaos.history"),
    "chaos.run": (*CONTRACTS, "chaos.experiment", "chaos.history"),
    "chaos.shell": (
        "chaos.addresses",
        "chaos.node",
        "chaos.program",
        "chaos.events",
        "chaos.effects",
        "chaos.history.trace_lines",
    ),
    "chaos.machines": (*CONTRACTS, "chaos.experiment", "chaos.history", "chaos.shell"),
    "chaos.deployments": (*CONTRACTS, "chaos.experiment", "chaos.history", "chaos.shell", "chaos.machines"),
    "chaos.testing": ("chaos",),
}
#: Package → who may see more of it than its public names: what measures its inside.
FRONT_DOORS: dict[str, tuple[str, ...]] = {"checkers.linearizable": ("benchmarks.linearizable",)}
#: These see nothing but the standard library, so that a bare host needs only the wheel.
STANDARD_LIBRARY_ONLY = (
    "chaos.addresses",
    "chaos.node",
    "chaos.plain",
    "chaos.program",
    "chaos.events",
    "chaos.operations",
    "chaos.ops",
    "chaos.verdict",
    "chaos.effects",
    "chaos.history.columns",
    "chaos.errors",
    "chaos.holes",
    "chaos.moments",
    "chaos.shell",
    "chaos.history.trace_lines",
    "chaos.machines.procfs",
    "chaos.machines.agent.commands",
    "chaos.machines.ssh.agent",
    "chaos.machines.ssh.boot",
    "reference",
)
#: Folders whose number of files is their nature; any other holds about twenty at most.
ONE_FILE_EACH = (
    *("nemesis", "workloads", "drivers", "checkers", "checkers/_goals", "examples", "chaos/deployments"),
    "stormproof/commands",
)
MOST_FILES = 22
#: A file of more lines may hold two concepts; one of more than the second number does.
LONG, LONGEST = 600, 800
#: A function fits on a screen; where it is held, and its most lines.
SCREEN, MOST_LINES = ("stormproof", "chaos", "nemesis", "checkers", "reports", "reference", "drivers", "workloads"), 50
#: Code that the simulator reaches: one seed must give one history.
SIMULATED = (
    "chaos/run/*.py",
    "chaos/experiment/schedule.py",
    "chaos/tasks.py",
    "chaos/workload.py",
    "chaos/deployments/sim.py",
    "chaos/deployments/_sim/*.py",
    "workloads/*.py",
    "nemesis/*.py",
    "drivers/*.py",
    "reference/**/*.py",
)
#: What reaches the world outside of a cluster, for a node, with a library of others.
OUTSIDE = {"reference.objectstore.bucket": {"obstore"}}
#: What people and supervisors start, and that; all else of ``reference`` is step functions.
PROGRAMS = ("reference.__main__", "reference.console", "reference.split.__main__", *OUTSIDE)
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
    ("chaos/tasks.py", "asyncio.wait"),  # of one task
    ("chaos/tasks.py", "asyncio.all_tasks"),  # of a run that has ended
    ("reference/__main__.py", "*"),
    ("reference/console.py", "*"),
}


#: Written into packages of users under their own names, so that a module there names its siblings relatively.
RENAMED = ("stormproof.driver_package",)
#: Where files of runs are read. What opens a file there is :mod:`chaos.guarded`, and these, each for its reason.
READERS = ("chaos.history", "chaos.judging.shard", "reports", "stormproof")
OPENERS = ("open", "read_text", "read_bytes", "write_text", "write_bytes", "ParquetFile", "read_table", "read_metadata")
MAY_OPEN = {
    "chaos.history.recorder": "makes the history of a new run",
    "chaos.history.bounded.shard_files": "has vetted the path before pyarrow opens it",
    "chaos.judging.shard": "has vetted the path before pyarrow opens it",
    "stormproof.driver_package": "is a server of somebody else's, written into a package of the user",
    "reports.matrix.note": "appends to the notes of a matrix",
    "chaos.history.archives": "makes the files of a new run",
    "stormproof.launch": "makes the files of a new run",
    "stormproof.commands._single": "makes a file of a new run",
    "chaos.history.remote_runs": "makes the files of a new run",
    "stormproof.serve": "has a guard of its own, which follows links within a run",
    "stormproof.scenario_run": "locks",
    "stormproof.shrinking.trial": "makes an experiment in a folder of its own",
    "stormproof.sweeping.plan": "makes a sweep",
    "stormproof.commands.init": "copies the package's examples",
    "stormproof.commands.new": "writes a package of the user",
    "stormproof.commands.list": "reads the experiments of the package",
    "stormproof.commands.report": "opens a browser",
    **dict.fromkeys(
        tuple(
            f"stormproof.{page}" for page in ("catalogue", "commands_page", "events_page", "laws_page", "options_page")
        ),
        "writes the docs",
    ),
    **dict.fromkeys(("stormproof.doctor", "stormproof.environment", "stormproof.cli"), "looks at this machine"),
    **dict.fromkeys(("stormproof.image", "stormproof.install", "stormproof.release"), "reads what is installed"),
}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[dotted.removesuffix(".__init__")] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path: Path, module: str) -> frozenset[str]:
    """All modules that a file imports anywhere in it, ``from package import name`` given as ``package.name``."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if within(module, RENAMED):
                continue
            assert node.level == 0, f"{module} imports relatively"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == p or name.startswith(p + ".") or (p.endswith("_") and name.startswith(p)) for p in prefixes)


def rule_for(module: str) -> tuple[str, ...]:
    fitting = [prefix for prefix in MAY_IMPORT if within(module, (prefix,))]
    return MAY_IMPORT[max(fitting, key=len)]


def is_ours(name: str) -> bool:
    return name.split(".", 1)[0] in PACKAGES


def ours_in(module: str) -> set[str]:
    """The modules of ours that a module imports, anywhere in it: under ``TYPE_CHECKING`` and in functions too."""
    known = modules()
    found = {name for name in imports(known[module], module) if is_ours(name)}
    return {name if name in known else name.rpartition(".")[0] for name in found} - {module}


def plugin_of(module: str) -> str:
    """``nemesis.kill`` of a plug-in and all below it; "" of what isn't one."""
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 and not parts[1].startswith("_") else ""


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_down(package: str) -> None:
    wrong = {module: found for module in modules() if within(module, (package,)) and (found := going_up(module))}
    assert not wrong


def going_up(module: str) -> str:
    """What a module imports and may not; "" if there is nothing."""
    package = module.split(".")[0]
    own = plugin_of(module) if package in PLUGIN_PACKAGES else package
    allowed = (*rule_for(module), *([own] if own else []))
    if package in PLUGIN_PACKAGES:
        allowed = (*allowed, f"{package}._")  # what several of a kind share; a plug-in never imports another one
    wrong = sorted(name for name in ours_in(module) if not within(name, allowed) and name != package)
    return f"{module} may import only {allowed}, but imports {wrong}" if wrong else ""


@pytest.mark.parametrize("room", FRONT_DOORS)
def test_a_room_is_entered_by_its_front_door(room: str) -> None:
    """Others import its public names from the package, and know nothing of what is in it."""
    outside = [module for module in modules() if not within(module, (room, *FRONT_DOORS[room]))]
    wrong = {module: sorted(it for it in ours_in(module) if it.startswith(f"{room}.")) for module in outside}
    assert {module: names for module, names in wrong.items() if names} == {}


@pytest.mark.parametrize("folder", INSIDE_CHAOS)
def test_the_library_has_an_order_of_its_own(folder: str) -> None:
    allowed = (folder, *INSIDE_CHAOS[folder])
    inside = [module for module in modules() if ".".join(module.split(".")[:2]) == folder]
    assert inside
    for module in inside:
        wrong = sorted(name for name in ours_in(module) if not within(name, allowed) and name != "chaos")
        assert not wrong, f"{module} may import only {allowed}, but imports {wrong}"


def test_no_imports_go_in_circles() -> None:
    graph = networkx.DiGraph((module, name) for module in modules() for name in ours_in(module))
    circles = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert not circles


def test_folders_stay_small() -> None:
    held: dict[str, int] = {}
    for path in modules().values():
        folder = path.parent.relative_to(ROOT).as_posix()
        held[folder] = held.get(folder, 0) + 1
    large = {folder: count for folder, count in held.items() if count > MOST_FILES and folder not in ONE_FILE_EACH}
    if large:
        warnings.warn(f"folders of more than {MOST_FILES} files: {large}", stacklevel=1)


def test_a_function_fits_on_a_screen() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for module, path in modules().items()
        if within(module, SCREEN)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES
    ]
    assert not wrong, f"more than {MOST_LINES} lines"


@pytest.mark.parametrize("module", sorted(m for m in modules() if within(m, STANDARD_LIBRARY_ONLY)))
def test_core_needs_only_the_standard_library(module: str) -> None:
    foreign = {name.split(".")[0] for name in imports(modules()[module], module)} - set(sys.stdlib_module_names)
    assert foreign <= {"chaos", "reference", *OUTSIDE.get(module, ())}, f"{module} imports {sorted(foreign)}"


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


def test_files_of_runs_are_opened_by_their_guard() -> None:
    """A run may come from anybody: a link in it, or a pipe, is noticed in one place. Files of the package are ours."""
    for module, path in modules().items():
        if not within(module, READERS) or within(module, tuple(MAY_OPEN)):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in OPENERS:
                text = ast.unparse(node)
                is_guarded = "__file__" in text or text.startswith(("guarded.", "History.open("))
                assert is_guarded, f"{module}:{node.lineno}: {text}"


def test_rows_of_runs_are_read_by_their_history() -> None:
    """Benchmarks may measure a part of the reader."""
    inner = ("chaos.history.row_files", "chaos.history.traces", "chaos.history.stream.stream_blocks")
    for module, path in modules().items():
        if not within(module, ("chaos.history", "benchmarks")):
            read = {name for name in imports(path, module) if within(name, inner)}
            assert not read, f"{module} reads rows with {', '.join(sorted(read))}"


def test_reference_code_has_no_async_and_no_sockets() -> None:
    for module, path in modules().items():
        if within(module, ("reference",)) and module not in PROGRAMS:
            used = {name.split(".")[0] for name in imports(path, module)}
            assert not used & {"asyncio", "socket", "threading", "time", "secrets"}, module
            assert not [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.AsyncFunctionDef)]


def test_files_stay_readable() -> None:
    lines = {module: len(path.read_text("utf-8").splitlines()) for module, path in modules().items()}
    long = {module: number for module, number in lines.items() if number > LONG}
    if long:
        warnings.warn(f"files of more than {LONG} lines: {long}", stacklevel=1)
    assert max(lines.values()) <= LONGEST, f"one concept a file, {LONGEST} lines at most: {long}"
