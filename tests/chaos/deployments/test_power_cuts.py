"""Programs of others that lose their power: what they synced is there, the rest is gone, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from chaos.deployment import CanLoseUnsynced, Demands, ExpectsPowerCuts
from chaos.deployments import netns, process
from chaos.driver import ClusterSpec
from chaos.effects.corruption import Harm, Kind
from chaos.errors import ChaosError, MachineError
from chaos.experiment import powers
from chaos.experiment.capabilities import deployment_class
from chaos.fault import NotNow, Undo, Verb
from chaos.machines import procfs
from chaos.machines.agent import powered_disk
from chaos.machines.local import power_cuts
from chaos.machines.local.heal import heal
from chaos.machines.netns import trial
from chaos.node import NodeSpec
from chaos.program import LogSays, Program
from nemesis import lose_unsynced
from tests.ordinary_user import as_ordinary_user, folder_of_an_ordinary_user

pytestmark = pytest.mark.process

NODE = "prog-0"
#: In its first life it writes some bytes that it syncs and some that it doesn't, by calls and by mapped pages.
WRITER = """\
import mmap, os, sys, time
os.chdir(sys.argv[1])
if not os.path.exists('log'):
    log = os.open('log', os.O_CREAT | os.O_RDWR)
    os.write(log, b'durable')
    os.fsync(log)
    mapped = os.open('mapped', os.O_CREAT | os.O_RDWR)
    os.truncate(mapped, 1 << 20)
    pages = mmap.mmap(mapped, 1 << 20)
    pages[:5] = b'msync'
    pages.flush(0, 4096)
    os.fsync(os.open('.', os.O_RDONLY))  # from here on nothing is synced, which would take the rest along
    os.write(log, b' and lost')
    pages[8192:8196] = b'lost'
    open('never synced', 'w').write('lost')
print('written', flush=True)
time.sleep(600)
"""
PROGRAM = Program(argv=["python3", "-S", "-c", WRITER, "{disk}"], ready=LogSays(pattern="written"), keep=["log"])


@pytest.fixture(scope="module")
def can_cut(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips, with the reason, on a machine where programs can't lose power."""
    try:
        power_cuts.try_out()
    except MachineError as error:
        pytest.skip(str(error))


def run(module: Any, directory: Path, script: Callable[[Any], Coroutine[Any, Any, None]], *nodes: NodeSpec) -> None:
    it = module.create(run_id=directory.name, directory=directory, seed=1)
    it.expect_power_cuts()

    async def main() -> int:
        try:
            specs = nodes or (NodeSpec(name=NODE, role="broker", program=PROGRAM),)
            await it.start(ClusterSpec(nodes=specs), lambda row: None)
            await script(it)
        finally:
            await it.stop()
        return 0

    try:
        it.execute(main())
    finally:
        assert procfs.of_run(directory) == [] and left_of(directory) == []


def left_of(directory: Path) -> list[str]:
    """Mounts below a folder, of any process of this machine, and loop devices that are files there."""
    found = {
        line for table in Path("/proc").glob("[0-9]*/mountinfo") for line in _lines(table) if str(directory) in line
    }
    backing = (line for told in Path("/sys/block").glob("loop*/loop/backing_file") for line in _lines(told))
    return sorted(found) + [line for line in backing if str(directory) in line]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


@pytest.mark.parametrize("module", [process, netns])
def test_a_power_cut_takes_what_was_not_synced(can_cut: None, tmp_path: Path, module: Any) -> None:
    async def script(it: Any) -> None:
        assert (await it.read_file(NODE, "log")) == b"durable and lost"
        cut = await it.lose_unsynced(NODE)
        assert not cut["alive"]
        assert {name: cut[name] for name in ("files_lost", "files_back", "blocks_lost")} == {
            "files_lost": 1,  # the one that was never synced
            "files_back": 0,
            "blocks_lost": 2,  # of the log, and of the mapped file
        }
        with pytest.raises(NotNow, match="not running"):
            await it.lose_unsynced(NODE)
        assert await it.files(NODE, ["**"]) == {"log": 7, "mapped": 1 << 20}
        assert await it.read_file(NODE, "log") == b"durable"
        mapped = await it.read_file(NODE, "mapped")
        assert mapped[:5] == b"msync" and mapped[5:].strip(b"\0") == b""
        await it.undo(Undo(verb=Verb.START, subject=NODE))
        assert await it.lose_unsynced(NODE) | {"blocks_lost": 0}, "it can be done again"
        assert it.crashes == () and procfs.of_run(tmp_path), "its own are still there"

    run(module, tmp_path, script)
    assert (tmp_path / "kept" / NODE / "log").read_bytes() == b"durable"
    assert sorted(os.listdir(tmp_path / "nodes")) == [NODE], "its disk is a folder again, as after every run"
    assert (tmp_path / "nodes" / NODE / "log").read_bytes() == b"durable"


def test_all_else_can_be_done_to_such_a_disk(can_cut: None, tmp_path: Path) -> None:
    async def script(it: Any) -> None:
        marked = await it.mark_disk(NODE)
        harmed = await it.harm_disk(NODE, marked, Harm(kind=Kind.FLIP, draw=1, files="log"))
        (flipped,) = harmed["harmed"]
        assert flipped["file"] == "log" and await it.read_file(NODE, "log") != b"durable and lost"
        await it.undo(Undo(verb=Verb.START, subject=NODE))
        await it.copy_disk(NODE)
        wiped = await it.wipe(NODE)
        assert wiped["files_removed"] == 3 and await it.files(NODE, ["**"]) == {}
        await it.undo(Undo(verb=Verb.START, subject=NODE))
        assert await it.read_file(NODE, "log") == b"durable and lost", "it begins anew"
        back = await it.roll_back_disk(NODE)
        assert back["put_back"]["names"] == ["log"]
        await it.undo(Undo(verb=Verb.START, subject=NODE))
        await it.lose_unsynced(NODE)

    run(process, tmp_path, script)


def test_two_disks_and_one_that_comes_later_are_apart(can_cut: None, tmp_path: Path) -> None:
    async def script(it: Any) -> None:
        await it.add(NodeSpec(name="late", role="broker", program=PROGRAM))
        for node in (NODE, "late"):
            assert (await it.lose_unsynced(node))["files_lost"] == 1
        assert await it.read_file("other", "log") == b"durable and lost"

    nodes = [NodeSpec(name=name, role="broker", program=PROGRAM) for name in (NODE, "other")]
    run(netns, tmp_path, script, *nodes)


@pytest.mark.full
def test_a_disk_that_another_one_uses_is_no_power_cut(can_cut: None, tmp_path: Path, monkeypatch: Any) -> None:
    async def script(it: Any) -> None:
        with pytest.raises(ChaosError, match=r"the disk in .*prog-0 can't be unmounted: .*busy"):
            await it.lose_unsynced(NODE)

    intruder = Program(argv=["sh", "-c", "cd {disk}/../prog-0; exec sleep 600"])
    nodes = [NodeSpec(name=NODE, role="broker", program=PROGRAM), NodeSpec(name="x", role="broker", program=intruder)]
    run(process, tmp_path, script, *nodes)


#: Leaves the run as it is, with a power cut behind it.
KILLED = """\
import asyncio, os, signal, sys
from pathlib import Path
from chaos.deployments import netns
from chaos.driver import ClusterSpec
from chaos.node import NodeSpec
from tests.chaos.deployments.test_power_cuts import NODE, PROGRAM
directory = Path(sys.argv[1])
it = netns.create(run_id=directory.name, directory=directory, seed=1)
it.expect_power_cuts()
async def main():
    await it.start(ClusterSpec(nodes=[NodeSpec(name=NODE, role="broker", program=PROGRAM)]), lambda row: None)
    await it.lose_unsynced(NODE)
    os.kill(os.getpid(), signal.SIGKILL)
it.execute(main())
"""


@pytest.mark.full
def test_a_killed_harness_leaves_no_mount(can_cut: None, tmp_path: Path) -> None:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": path}, check=False, timeout=100
    )
    assert killed.returncode == -signal.SIGKILL
    assert left_of(tmp_path) != [], "its supervisor still holds the disk"
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(), "and nobody else ever saw it"
    assert any("ended the supervisor" in line for line in heal(tmp_path))
    assert gone(tmp_path) and (tmp_path / "nodes" / f"{NODE}.ext4").exists()


def gone(directory: Path) -> bool:
    async def wait() -> bool:
        for _ in range(500):
            if left_of(directory) == []:
                return True
            await asyncio.sleep(0.01)
        return False

    return asyncio.run(wait())


def test_who_is_not_root_is_refused_before_anything_starts() -> None:
    with folder_of_an_ordinary_user() as folder:
        script = KILLED.replace("netns", "process").replace("sys.argv[1]", repr(str(folder / "run")))
        (folder / "run").mkdir(mode=0o777)
        (folder / "run").chmod(0o777)
        done = as_ordinary_user(folder, "-c", script)
        assert done.returncode == 1 and not (folder / "run" / "lives").exists()
    said = done.stderr.strip().splitlines()[-1]
    assert said == (
        "chaos.errors.MachineError: a program can't lose unsynced bytes here: only root may mount a file system; that"
        " takes root, mkfs.ext4 and loop devices, on which its disk is mounted; what would do without: `kill`, or say"
        " `on: [...]` for this fault"
    )


@pytest.mark.parametrize("module", [process, netns])
def test_it_is_known_before_anything_is_written_that_power_can_not_be_cut(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(name: str) -> dict[str, str]:
        if name == powered_disk.__name__:
            raise MachineError("only root may mount a file system")
        return {"netem": "", "tee": ""}

    monkeypatch.setattr(power_cuts, "tried", tried)
    monkeypatch.setattr(trial, "tried", tried)
    program, ours = (NodeSpec(name=NODE, role="broker", **what) for what in ({"program": PROGRAM}, {"package": "x"}))
    cut = Demands(powers=frozenset({CanLoseUnsynced}))
    module.check([program], demands=Demands())
    module.check([ours], demands=cut)
    with pytest.raises(MachineError, match="only root"):
        module.check([program], demands=cut)


def test_a_machine_without_the_tools_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(powered_disk, "where_is", lambda tool: None if tool == "mkfs.ext4" else tool)
    with pytest.raises(
        MachineError, match=r"here: mkfs.ext4 is not installed \(Debian/Ubuntu: apt-get install e2fsprogs"
    ):
        powered_disk.begin(tmp_path)


def test_too_little_room_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 300 << 20
    monkeypatch.setattr(powered_disk.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": free}))
    assert powered_disk.room_of_each(tmp_path, 2) == 75 << 20
    with pytest.raises(
        OSError, match=r"^3 disks that can lose their power need 384 MiB of free room in .*, and 300 MiB"
    ):
        powered_disk.room_of_each(tmp_path, 3)


def test_elsewhere_the_experiment_is_refused() -> None:
    node = NodeSpec(name=NODE, role="broker", program=PROGRAM)
    fault = lose_unsynced.create(lose_unsynced.Options())
    for name in ("process", "netns"):
        host = deployment_class(name)
        assert issubclass(host, ExpectsPowerCuts) and not list(powers.unable(host, name, [node], "", fault))
    for name in ("docker", "ssh"):
        host = deployment_class(name)
        assert not issubclass(host, ExpectsPowerCuts) and issubclass(host, CanLoseUnsynced)
        assert list(powers.unable(host, name, [node], "", fault)) == [
            "node prog-0 is a program, to which it can't be done: what it has not synced is the kernel's, and outlives"
            " it; what would do: root's `--on netns` or `--on process`, whose disks can lose their power; or `kill`"
        ]
