"""One host of an inventory: the SSH connection with it, and the agent that acts for us there.

One connection for each host serves everything: the agent's lines go over one channel of it, clients' connections with
nodes behind a jump host over others. All calls block: they belong on a thread. Nothing that an inventory or an
experiment says ever becomes a word of a shell: what starts the agent is quoted, and all else is JSON on its input.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shlex
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko

from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.experiment.inventory import SSH_PORT, Host
from chaos.machines.agent.machine import result_of
from chaos.machines.node_package import NodeWheel
from chaos.machines.ssh import boot
from chaos.machines.ssh.boot import MARK
from chaos.version import VERSION

#: Bounds on waiting: for a connection, for the agent to begin (it may have to unpack its code), for an answer.
CONNECT_S = 10.0
BEGIN_S = 60.0
ANSWER_S = 10.0
#: What a command of root and a node's end may take is in the agent's own bounds.
SLOW_S = 30.0
SLOW = frozenset(
    {"root", "privilege", "clear", "remove", "wipe", "unpack", "program", "signal_program", "start_program"}
)
KEEPALIVE_S = 5
#: The oldest Python that nodes run with.
PYTHON = (3, 11)
#: What to do about a host that is lost.
LOST = "see that it is up, and that nothing cuts it off from here"
#: Lines that a login shell may print before the agent's own.
MOST_CHATTER = 1000
#: What the agent may say at once, and a line of the program that becomes it: a host that says more has gone wrong.
MOST_SAID_BYTES, MOST_LINE_BYTES = 64 << 20, 1 << 16
#: So much of what went wrong there is shown.
SHOWN_BYTES = 2000

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # our own errors say what goes wrong


class SshHost:
    """A host that we can connect with again and again. ``address`` and ``folder``: known once we have."""

    def __init__(self, host: Host, run: str, code: NodeWheel) -> None:
        self.host = host
        self.name = host.name
        self.address = host.address
        self.folder = ""
        self.root_by = ""
        self.run = run
        self._code = code
        self._clients: list[paramiko.SSHClient] = []
        self._channel: paramiko.Channel | None = None
        self._answers: Any = None
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._owner = 0

    def connect(self) -> None:
        """Connect, and begin the agent. Raises :class:`MachineError`: what is wrong, and what to do; :class:`HostLost`
        when nothing answers."""
        with self._connecting:
            self._check_owner()
            self.close()
            try:
                self._connect()
                self._begin_agent()
                begun = self.call("begin", run=self.run)
            except BaseException:
                self.close()
                raise
        self.address = self.address or str(begun["address"])
        self.folder = str(begun["folder"])

    def own(self) -> None:
        """Serve only this thread from now on: what others still have asked for must not be done behind its back."""
        with self._lock:
            self._owner = threading.get_ident()

    def become_root(self) -> None:
        """Find out how commands are run as root. Raises :class:`MachineError`."""
        try:
            self.root_by = str(self.call("privilege", password=self._password()))
        except HostLost:
            raise
        except DeploymentError as error:
            named = self.host.sudo_password_env
            held = f"the environment variable {named} holds another one" if named else "`sudo_password_env` names none"
            raise MachineError(
                f"host {self.name}: {self.host.user} can't become root, which faults on links need:"
                f" {str(error).partition(': ')[2]}; let that user run sudo without a password, or have an environment"
                f" variable hold the right one and name it as `sudo_password_env` in the inventory ({held})"
            ) from error

    def call(self, do: str, **arguments: object) -> Any:
        """Have the agent do this, and return its answer. Raises :class:`chaos.fault.NotNow` when it refuses,
        :class:`HostLost` when it doesn't answer, :class:`DeploymentError` when it has failed."""
        with self._lock:
            answer = self._ask({"do": do, **arguments}, SLOW_S if do in SLOW else ANSWER_S)
        return result_of(answer, f"host {self.name}")

    def as_root(self, do: str, **arguments: object) -> Any:
        """Do the same as :meth:`call`, for what the agent needs root for."""
        password = self._password() if self.root_by == "password" else ""
        return self.call(do, **arguments, how=self.root_by, password=password)

    def root(self, command: Sequence[str], given: str = "") -> tuple[int, str]:
        """Run a command as root, with this on its standard input; return its exit code and output."""
        code, output = self.as_root("root", command=list(command), given=given)
        return int(code), str(output)

    def open(self, host: str, port: int) -> paramiko.Channel:
        """Return a connection from the host to somewhere, for a tunnel. Raises ``OSError`` when it is refused."""
        transport = self._clients[-1].get_transport() if self._clients else None
        if transport is None:
            raise OSError(f"there is no connection with host {self.name}")
        try:
            return transport.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=CONNECT_S)
        except (paramiko.SSHException, EOFError) as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        """Let go of the host; what runs there runs on."""
        self._channel = self._answers = None
        for client in reversed(self._clients):
            client.close()
        self._clients = []

    def _check_owner(self) -> None:
        if self._owner not in (0, threading.get_ident()):
            raise HostLost(f"the run is over on host {self.name}")

    def _password(self) -> str:
        return os.environ.get(self.host.sudo_password_env, "") if self.host.sudo_password_env else ""

    def _ask(self, command: Mapping[str, object], within_s: float) -> Mapping[str, Any]:
        self._check_owner()
        channel, answers = self._channel, self._answers
        if channel is None:
            raise HostLost(f"there is no connection with host {self.name}")
        try:
            channel.settimeout(within_s)
            channel.sendall(json.dumps(command).encode() + b"\n")
            line = answers.readline(MOST_SAID_BYTES)
        except OSError as error:  # a timeout is one
            self.close()
            raise HostLost(f"host {self.name} does not answer within {within_s:g} s: {LOST}") from error
        if len(line) >= MOST_SAID_BYTES:
            self.close()
            raise HostLost(f"host {self.name} says more than {MOST_SAID_BYTES >> 20} MiB at once: {LOST}")
        if not line.endswith(b"\n"):
            self.close()
            raise HostLost(f"the connection with host {self.name} has ended: {LOST}")
        return self._read(line)

    def _read(self, line: str | bytes) -> Mapping[str, Any]:
        """Read an object of JSON. Raises :class:`HostLost` for anything else."""
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise HostLost(f"host {self.name} says what makes no sense, {line[:40]!r}: {LOST}")
        return answer

    # The connection

    def _connect(self) -> None:
        jump = self.host.jump_host()
        through = None
        if jump is not None:
            self._clients.append(_connected(jump, None))
            through = self.open(self.host.host, self.host.port)
        client = _connected(self.host, through)
        self._clients.append(client)
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(KEEPALIVE_S)
        with _explained(self.host):
            self._channel = transport.open_session(timeout=CONNECT_S)

    def _begin_agent(self) -> None:
        assert self._channel is not None
        spec = importlib.util.find_spec(boot.__name__)
        assert spec is not None and spec.origin is not None
        program = Path(spec.origin).read_text("utf-8")
        request = {
            "python": PYTHON,
            "directory": self.host.directory,
            "name": f"{VERSION}-{self._code.digest[:16]}",
            "bytes": len(self._code.data),
            "digest": self._code.digest,
        }
        with _explained(self.host):
            self._channel.settimeout(BEGIN_S)
            self._channel.exec_command(f"exec {shlex.join([self.host.python, '-c', program])}")
            self._answers = self._channel.makefile("rb")
            with suppress(OSError):  # it may have ended by itself: then what it has said shows why
                self._channel.sendall(json.dumps(request).encode() + b"\n")
            if self._heard().get("need"):
                self._channel.sendall(self._code.data)
            self._heard()

    def _heard(self) -> Mapping[str, Any]:
        """Return the next line of the program that becomes the agent."""
        assert self._channel is not None
        for _ in range(MOST_CHATTER):
            line = self._answers.readline(MOST_LINE_BYTES).decode("utf-8", "replace")
            if line.startswith(MARK):
                answer = self._read(line.removeprefix(MARK))
                if "problem" in answer:
                    needed = ".".join(map(str, PYTHON))
                    raise MachineError(
                        f"host {self.name}: {answer['problem']}; nodes need Python {needed} or newer (`python` in the"
                        " inventory says which one to run) and a `directory` that the user may write"
                    )
                return answer
            if not line:
                break
        if not self._channel.get_transport().is_active():
            raise HostLost(f"the connection with host {self.name} has ended")
        said = self._channel.recv_stderr(SHOWN_BYTES).decode("utf-8", "replace").strip() if self._channel.closed else ""
        raise MachineError(
            f"host {self.name}: {self.host.python} can't be run there{f' ({said})' if said else ''}: install Python, or"
            " say in the inventory which `python` to run"
        )


def _connected(host: Host, through: Any) -> paramiko.SSHClient:
    """Connect with a host whose key is known."""
    client = paramiko.SSHClient()
    known = Path(host.known_hosts).expanduser()
    try:
        if known.exists():
            client.load_host_keys(str(known))
        client.set_missing_host_key_policy(_Refuse(host, known))
        with _explained(host):
            client.connect(
                host.host,
                host.port,
                username=host.user,
                pkey=_key(host),
                look_for_keys=not host.key,
                sock=through,
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
            )
    except BaseException:
        client.close()
        raise
    return client


def _key(host: Host) -> paramiko.PKey | None:
    """Return the key of the inventory, if it names one. Raises :class:`MachineError`."""
    if not host.key:
        return None
    what = f"host {host.name}: the key {host.key}"
    try:
        return paramiko.PKey.from_path(Path(host.key).expanduser())
    except FileNotFoundError as error:
        raise MachineError(f"{what} is not there: correct `key` in the inventory") from error
    except (TypeError, paramiko.PasswordRequiredException) as error:
        load = f"ssh-add {shlex.quote(host.key)}"
        raise MachineError(f"{what} is encrypted: load it into an agent ({load}) and take it out here") from error
    except (OSError, ValueError, paramiko.SSHException, paramiko.UnknownKeyType) as error:
        raise MachineError(f"{what} is no private key that can be read ({error})") from error


class _Refuse(paramiko.MissingHostKeyPolicy):
    """A host whose key nobody has accepted might be another one."""

    def __init__(self, host: Host, known: Path) -> None:
        self._host = host
        self._known = known

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise MachineError(
            f"host {self._host.name}: nobody has accepted its key yet: {key.get_name()} {key.fingerprint}; compare that"
            f" with what the host itself says, and accept it by: {_accept(self._host, self._known, key)}"
        )


def _accept(host: Host, known: Path, key: paramiko.PKey) -> str:
    line = f"{_known_name(host)} {key.get_name()} {key.get_base64()}"
    return f"echo {shlex.quote(line)} >> {shlex.quote(str(known))}"


def _known_name(host: Host) -> str:
    return host.host if host.port == SSH_PORT else f"[{host.host}]:{host.port}"


@contextmanager
def _explained(host: Host) -> Iterator[None]:
    """Turn what goes wrong on the way to a host into one sentence that says what to do."""
    known = Path(host.known_hosts).expanduser()
    try:
        yield
    except paramiko.BadHostKeyException as error:
        key, name = error.key, _known_name(host)
        raise MachineError(
            f"host {host.name}: its key has changed: it is {key.get_name()} {key.fingerprint}, but {known} knows"
            f" {error.expected_key.fingerprint}; that may be another machine. If the change is right, accept it by:"
            f" ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(str(known))} && {_accept(host, known, key)}"
        ) from error
    except paramiko.AuthenticationException as error:
        with_key = f"with the key {host.key}" if host.key else "with the keys of the agent and of ~/.ssh"
        raise MachineError(
            f"host {host.name}: {host.host} does not let {host.user} in {with_key}: add the public key there to"
            " ~/.ssh/authorized_keys, or correct `user` and `key` in the inventory"
        ) from error
    except socket.gaierror as error:
        raise MachineError(
            f"host {host.name}: unknown host {host.host!r} ({error.strerror}): correct `host` in the inventory"
        ) from error
    except (TimeoutError, EOFError, OSError, paramiko.SSHException) as error:
        why = str(error) or "it does not answer"
        raise HostLost(
            f"host {host.name}: no SSH with {host.where} ({why}): see that the host is up, that sshd listens there, and"
            " that no firewall stands between"
        ) from error
