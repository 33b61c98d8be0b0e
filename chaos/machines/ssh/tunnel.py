"""A port of this machine that leads to a port of a host, through the SSH connection with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from chaos.machines.ssh.host import SshHost

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 1 << 16


class Tunnel:
    """Open until ``close``. A connection that the host refuses is closed at once."""

    def __init__(self, host: SshHost, port: int) -> None:
        self._host = host
        self._port = port
        self._open = True
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)
        self.address: tuple[str, int] = LOOPBACK, self._listener.getsockname()[1]
        _start(self._accept)

    def close(self) -> None:
        self._open = False
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in `accept`
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while self._open:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            _start(self._carry, near)

    def _carry(self, near: socket.socket) -> None:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            far = self._host.open(LOOPBACK, self._port)
        except OSError:
            near.close()
            return
        _start(_pump, far, near)
        _pump(near, far)


def _pump(source: Any, sink: Any) -> None:
    """Carry bytes one way until either side ends; then both end."""
    try:
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
    except OSError:
        pass
    for side in (source, sink):
        try:
            side.shutdown(socket.SHUT_RDWR)
        except (OSError, EOFError):
            pass
        side.close()


def _start(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()
