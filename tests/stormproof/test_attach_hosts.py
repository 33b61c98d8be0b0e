"""Programs on hosts that Stormproof did not start are loaded, hurt, judged, and left running as they were."""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.experiment.attached import Attach, Running
from chaos.experiment.inventory import Host
from chaos.machines.attach.host_fleet import placed
from chaos.program import Program
from stormproof.cli import _run
from tests.chaos.deployments.ssh_hosts import FREE, Hosts
from tests.stormproof.compose_project import PORT
from tests.stormproof.foreign import ANYWHERE, EXPERIMENT, OUTSIDE, PARTITION, installed
from tests.stormproof.test_attach import LASTING, begin, effective, until

PID, START = "/run/tinyq.pid", "/srv/start"
STARTS = f"""#!/bin/sh
setsid python3 /srv/tinyq_server.py /srv/tinyq.json >>/srv/log 2>&1 </dev/null &
echo $! >{PID}
"""


@dataclass
class Tinyq:
    """tinyq on the first two hosts, started by hand: the primary and its backup."""

    hosts: Hosts

    def begin(self) -> None:
        code = (OUTSIDE / "mystorm/tinyq_server.py").read_text()
        for number in (1, 0):
            backup = None if number else [self.hosts.address(1), PORT]
            config = {"listen": ["0.0.0.0", PORT], "disk": "/srv/disk", "backup": backup}
            self.hosts.shell(number, "mkdir", "-p", "/srv/disk")
            for path, text in (("tinyq_server.py", code), ("tinyq.json", json.dumps(config)), ("start", STARTS)):
                packed = base64.b64encode(text.encode()).decode()
                self.hosts.shell(number, "sh", "-c", f"echo {packed} | base64 -d >/srv/{path}; chmod 755 /srv/{path}")
            self.hosts.shell(number, START)

    def key(self, **others: str) -> str:
        """How an experiment names it."""
        lines = [
            "{"
            + ", ".join(
                f"{name}: {value}"
                for name, value in {
                    "host": host.host,
                    "name": host.name,
                    "user": host.user,
                    "key": host.key,
                    "known_hosts": host.known_hosts,
                }.items()
            )
            + "}"
            for host in self.hosts.inventory(**others)[:2]
        ]
        return (
            "hosts:\n" + "".join(f"  - {line}\n" for line in lines) + "attach:\n  nodes: {queue-0: h0, queue-1: h1}\n"
            f"  ports: {{queue: {PORT}}}\n  programs:\n"
            + "".join(f"    queue-{number}: {{pid: cat {PID}, start: {START}}}\n" for number in (0, 1))
        )

    def state(self, number: int) -> str:
        """The letter of its process, as `ps` tells; "" when it does not run."""
        words = [line.split() for line in self.hosts.shell(number, "ps", "-eo", "stat=,args=").splitlines()]
        return next((stat for stat, *rest in words if "/srv/tinyq_server.py" in rest), "")[:1]

    def id(self, number: int) -> str:
        return self.hosts.shell(number, "cat", PID).strip()

    def rules(self) -> str:
        flavours = ("iptables-nft", "iptables-legacy")
        told = "".join(self.hosts.shell(number, flavour, "-S") for number in (0, 1) for flavour in flavours)
        return "".join(line for line in told.splitlines() if "stormproof" in line.lower())

    def end(self) -> None:
        for number in (0, 1):
            self.hosts.shell(number, "sh", "-c", f"kill -KILL $(cat {PID}); rm -rf /srv/disk {PID}")


@pytest.fixture
def tinyq(hosts: Hosts) -> Iterator[Tinyq]:
    made = Tinyq(hosts)
    made.begin()
    yield made
    made.end()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return installed(tmp_path / "site")


@pytest.mark.full
@pytest.mark.ssh
@pytest.mark.parametrize("user", ["root", FREE])
def test_it_is_judged_and_left_as_it_was(tmp_path: Path, site: Path, tinyq: Tinyq, user: str) -> None:
    primary, backup = tinyq.id(0), tinyq.id(1)
    with begin(tmp_path, site, EXPERIMENT + ANYWHERE + PARTITION + tinyq.key(user=user)) as running:
        told, said = running.communicate(timeout=300)
    assert running.returncode == 0 and json.loads(told)["verdict"] == "VALID", told + said
    assert effective(tmp_path) == {"kill", "pause", "hiccup", "partition"}
    assert tinyq.id(1) == backup and tinyq.id(0) != primary, "the backup was only stopped and cut off"
    assert tinyq.state(0) == "S" and tinyq.state(1) == "S" and not tinyq.rules()


@pytest.mark.full
@pytest.mark.ssh
def test_a_killed_harness_leaves_what_heal_restores(
    tmp_path: Path, site: Path, tinyq: Tinyq, capsys: pytest.CaptureFixture[str]
) -> None:
    primary, backup, out = tinyq.id(0), tinyq.id(1), ["--out", str(tmp_path / "runs")]
    with begin(tmp_path, site, EXPERIMENT.replace("8s", "60s") + LASTING + tinyq.key()) as running:
        until(lambda: (tinyq.state(0), tinyq.state(1)) == ("", "T") and bool(tinyq.rules()))
        time.sleep(1)
        assert _run(["heal", *out]) == 0
        assert "is still driven by process" in capsys.readouterr().out
        running.send_signal(signal.SIGKILL)
    assert _run(["heal", *out]) == 0
    told = capsys.readouterr().out
    assert "node queue-0: started it again" in told and "node queue-1: let it go on" in told
    assert "node queue-1: removed the run's chains of the packet filter" in told
    assert tinyq.id(1) == backup and tinyq.id(0) != primary
    assert tinyq.state(0) == "S" and tinyq.state(1) == "S" and not tinyq.rules()
    assert _run(["heal", *out]) == 0
    assert "nothing to heal" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.ssh
def test_a_program_that_somebody_else_ends_leaves_it_undecided(tmp_path: Path, site: Path, tinyq: Tinyq) -> None:
    bounds = "bounds: {recover_s: 3, drain_s: 3}\n"
    faults = "  - kill: {target: queue-0}\n    at: 500ms\n    for: 500ms\n"
    began = tinyq.id(0)
    with begin(tmp_path, site, EXPERIMENT + faults + bounds + tinyq.key()) as running:
        until(lambda: tinyq.id(0) != began)
        time.sleep(1)
        tinyq.hosts.shell(1, "kill", "-KILL", tinyq.id(1))
        told, said = running.communicate(timeout=300)
    assert running.returncode == 2 and json.loads(told)["verdict"] == "UNKNOWN", told + said
    assert any("of node queue-1 on host h1 has ended, and not by this run" in why for why in json.loads(told)["why"])


@pytest.mark.full
@pytest.mark.ssh
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"pid: cat {PID}", "pid: cat /run/none.pid", "`cat /run/none.pid` ended with 1: cat: /run/none.pid: No such"),
        (f"pid: cat {PID}", "pid: echo 1", "`echo 1` printed 1, which is the id of no program of its own"),
        (f"pid: cat {PID}", "pid: echo 999999", "`echo 999999` printed 999999, and no such process runs"),
        (f"pid: cat {PID}", "pid: nonesuch", "`nonesuch` ended with 127: nonesuch: not found"),
        ("user: root", "user: careful", "careful can't become root"),
        ("known_hosts: ", "known_hosts: /none", "nobody has accepted its key yet"),
    ],
)
def test_a_program_that_can_not_be_taken_is_one_sentence(
    tmp_path: Path, site: Path, tinyq: Tinyq, old: str, new: str, said: str
) -> None:
    with begin(tmp_path, site, EXPERIMENT + ANYWHERE + tinyq.key().replace(old, new)) as running:
        _, told = running.communicate(timeout=300)
    assert running.returncode == 3 and said in told and "Traceback" not in told
    assert tinyq.state(0) == "S" and tinyq.state(1) == "S"


HOSTS = (Host(host="10.0.0.1", name="h0"), Host(host="10.0.0.2", name="h1"))
ONE = Running(pid=("cat", PID), start=(START,))
BOTH = {"queue-0": ONE, "queue-1": ONE}


@pytest.mark.parametrize(
    ("attach", "hosts", "said"),
    [
        (Attach(programs=BOTH, ports={"queue": 1}), (), "the hosts are missing"),
        (
            Attach(programs=BOTH, ports={"queue": 1}, nodes={"queue-0": "h0"}),
            HOSTS,
            "no host 'queue-1' for node queue-1",
        ),
        (
            Attach(programs=BOTH, nodes={"queue-0": "h0", "queue-1": "h1"}),
            HOSTS,
            "which number has port 'queue' of node",
        ),
        (
            Attach(programs=BOTH, ports={"queue": 1}, nodes={"queue-0": "h0", "queue-1": "h0"}),
            HOSTS,
            "queue-0 and queue-1 are both on host h0; each needs one of its own",
        ),
        (Attach(programs={"queue-0": ONE}, ports={"queue": 1}), HOSTS, "node queue-1 is missing: say `queue-1: {pid:"),
        (Attach(programs={**BOTH, "queue-2": ONE}), HOSTS, "attach, programs: there is no node 'queue-2'"),
        (
            Attach(programs=BOTH, compose="shop"),
            HOSTS,
            "is a Compose project (`compose`) or runs on hosts (`programs`)",
        ),
        (
            Attach(programs={"queue-0": ONE}, ports={"queue": 1}, nodes={"queue-0": "far"}),
            (Host(host="10.0.0.3", name="far", jump="bastion"), *HOSTS),
            "host far is reached through another (`jump`, `tunnel`), which is not for attach",
        ),
    ],
)
def test_what_is_wrong_with_the_names_is_told_before_any_host_is_reached(
    attach: Attach, hosts: tuple[Host, ...], said: str
) -> None:
    programs = {node: Program(argv=["tinyq"], ports={"queue": 0}) for node in BOTH}
    with pytest.raises(BadInput) as caught:
        placed(attach, programs, hosts)
    assert said in str(caught.value)
