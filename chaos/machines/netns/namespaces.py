"""Network namespaces that a process makes for itself, as an ordinary user: one for each node, joined by a bridge.

Who makes a user namespace of its own may make network namespaces in it and rule what is in them: addresses, packet
filter, traffic control. Nothing of it is seen outside, and all of it ends with the last process and socket in it. Our
user keeps its number inside, so what is started there has no privileges; only the tools of :meth:`World.run` get some.
Root needs no user namespace, and stays what it is. Linux's calls are made by ctypes, for Python 3.11 lacks them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.errors import DeploymentError, MachineError
from chaos.machines.agent.tools import run, where_is

#: All nodes are in this network, the bridge too, and it is the same in every run: none knows of another.
NETWORK, BITS = "10.199", 16
#: What stands for the namespace of the bridge, where the harness's own connections begin.
BRIDGE = ""
_BRIDGE_ADDRESS = f"{NETWORK}.0.1"
_FIRST_NODE = 10
#: What is needed of the system, by package of Debian's.
TOOLS = {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables"}

_NEWNET, _NEWUSER = 0x40000000, 0x10000000
_PR_CAP_AMBIENT, _RAISE, _CLEAR_ALL = 47, 2, 4
_NET_ADMIN, _NET_RAW = 12, 13
_CAPABILITY_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class World:
    """All namespaces of one run; making it moves this process into the bridge's. Threads may share it, but must begin
    after it was made. ``lock``: a file that tools lock."""

    def __init__(self, lock: Path) -> None:
        """Raise :class:`MachineError` where this can't be done."""
        if missing := sorted({package for tool, package in TOOLS.items() if where_is(tool) is None}):
            raise MachineError(
                f"network namespaces need the system's tools ip, tc and iptables: install them (Debian/Ubuntu: apt-get"
                f" install {' '.join(missing)}), or run `--on process`, which needs nothing"
            )
        _leave_the_network()
        self._namespaces: dict[str, int] = {BRIDGE: _namespace()}
        self._environment = {"XTABLES_LOCKFILE": str(lock)}  # where it usually is only root may write
        self._adding = threading.Lock()
        bridge = "link add bridge type bridge\nlink set bridge up\n"
        self._ip(BRIDGE, f"{_UP.format('lo')}{bridge}addr add {_BRIDGE_ADDRESS}/{BITS} dev bridge\n")

    def add(self, nodes: Sequence[str]) -> dict[str, str]:
        """Make a namespace for each of these; return their addresses."""
        with self._adding:
            begun = len(self._namespaces) - 1 + _FIRST_NODE
            numbers = dict(zip(nodes, range(begun, begun + len(nodes)), strict=True))
            with self.inside(BRIDGE):
                for node in nodes:
                    _call("unshare", _NEWNET)
                    self._namespaces[node] = _namespace()
            ends = {node: f"peer name eth0 netns /proc/self/fd/{self._namespaces[node]}" for node in nodes}
            cables = [f"link add n{number} type veth {ends[node]}\n" for node, number in numbers.items()]
            plugs = [f"link set n{number} master bridge addrgenmode none up\n" for number in numbers.values()]
            self._ip(BRIDGE, "".join((*cables, *plugs)), *(self._namespaces[node] for node in nodes))
        addresses = {node: f"{NETWORK}.{number >> 8}.{number & 255}" for node, number in numbers.items()}
        for node, address in addresses.items():
            self._ip(node, f"{_UP.format('lo')}addr add {address}/{BITS} dev eth0\n{_UP.format('eth0')}")
        return addresses

    @contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Put this thread, what it opens and what it starts into the node's namespace. It must not wait for other tasks
        of an event loop meanwhile."""
        _call("setns", self._namespaces[node], _NEWNET)
        try:
            yield
        finally:
            _call("setns", self._namespaces[BRIDGE], _NEWNET)

    def run(self, node: str, command: Sequence[str], given: str, *descriptors: int) -> tuple[int, str]:
        """Run a tool in the node's namespace, with the right to rule it, this on its standard input, and these
        descriptors; return its exit code and output."""
        with self.inside(node), _privileges_handed_on():
            return run(command, given, self._environment, descriptors)

    def _ip(self, node: str, batch: str, *descriptors: int) -> None:
        code, output = self.run(node, ["ip", "-batch", "-"], batch, *descriptors)
        if code:
            raise DeploymentError(f"the network of {node or 'the bridge'} can't be set up: {output}")


_UP = "link set {} addrgenmode none up\n"


def _leave_the_network() -> None:
    """Go into a network namespace of our own, and before into a user namespace where that is needed for it. Raises
    :class:`MachineError`."""
    user, group = os.geteuid(), os.getegid()
    try:
        if user == 0 and _libc.unshare(_NEWNET) == 0:
            return
        _call("unshare", _NEWUSER | _NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise MachineError(
            f"this system gives an ordinary user no network namespaces ({error.strerror}): allow user namespaces"
            " (sysctl user.max_user_namespaces above 0; kernel.unprivileged_userns_clone=1 on Debian,"
            " kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or run as root, or run `--on docker` or"
            " `--on process`"
        ) from error


def _namespace() -> int:
    """Return a descriptor of the network namespace in which this thread is."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _privileges_handed_on() -> Iterator[None]:
    """Give programs that this thread starts what they need to rule networks, though they are not root's."""
    if os.geteuid() == 0:
        yield
        return
    _let_inherit()
    for capability in (_NET_ADMIN, _NET_RAW):
        _call("prctl", _PR_CAP_AMBIENT, _RAISE, capability, 0, 0)
    try:
        yield
    finally:
        _call("prctl", _PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Set(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def _let_inherit() -> None:
    """Let all that this thread may do be handed on."""
    header, sets = _Header(_CAPABILITY_VERSION, 0), (_Set * 2)()
    _call("capget", ctypes.byref(header), sets)
    for one in sets:
        one.inheritable = one.permitted
    _call("capset", ctypes.byref(header), sets)


def _call(name: str, *arguments: object) -> None:
    """Make a call of the system. Raises ``OSError``."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
