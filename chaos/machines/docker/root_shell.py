"""A shell that root keeps open in a container, so that a command there costs milliseconds.

Each ``exec`` has the engine start a process in a new way from the outside, which takes a tenth of a second on a busy
machine and may lose its output; a fault that changes many rules would take long. The shell ends with the connection, so
nothing is left when the harness dies.
"""

from __future__ import annotations

import shlex
import socket
import struct
import threading
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chaos.errors import DeploymentError
from chaos.machines.docker.engine import engine_errors

if TYPE_CHECKING:
    from docker import DockerClient

ANSWER_S = 30.0
#: A frame of the engine's stream: which stream it is, three bytes of nothing, how long it is.
_FRAME = struct.Struct(">BxxxI")
_END = b"\x1estormproof "


class RootShell:
    """Runs one command after the other; threads may share it."""

    def __init__(self, client: DockerClient, container: str, node: str) -> None:
        self._node = node
        with engine_errors():
            begun = client.api.exec_create(container, ["sh"], stdin=True, user="0:0")["Id"]
            stream: Any = client.api.exec_start(begun, socket=True)
        self._stream = stream  # it closes the socket when it goes
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._socket.settimeout(ANSWER_S)
        self._lock = threading.Lock()
        self._received = bytearray()

    def run(self, command: Sequence[str], given: str = "") -> tuple[int, str]:
        """Run a command; return its exit code and output, both streams in one. ``given`` is its standard input."""
        line = shlex.join(command)
        fed = f"echo {b64encode(given.encode()).decode()} | base64 -d | {line}" if given else f"{line} </dev/null"
        script = f"{fed} 2>&1; printf '\\036stormproof %d\\n' $?\n"
        with self._lock:
            try:
                self._socket.sendall(script.encode())
                output = self._until_end()
            except OSError as error:
                raise DeploymentError(
                    f"the container of node {self._node} that holds its network answers no more ({error}); nobody may"
                    " stop it while the run lasts: start it again"
                ) from error
        text, _, code = output.rpartition(_END)
        return int(code), text.decode("utf-8", "replace").strip()

    def close(self) -> None:
        self._stream.close()

    def _until_end(self) -> bytes:
        output = bytearray()
        while not (output.endswith(b"\n") and _END in output):
            _, size = _FRAME.unpack(self._take(_FRAME.size))
            output += self._take(size)
        return bytes(output)

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("it has ended")
            self._received += data
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken
