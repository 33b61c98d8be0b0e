"""Connections that begin elsewhere, or only to see whether they come about. Imports only the standard library."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from errno import EADDRINUSE, EADDRNOTAVAIL, EINPROGRESS
from typing import cast

Address = tuple[str, int]
#: Gives the harness a connection with an address that it can't dial itself; raises ``OSError``.
Opener = Callable[[Address], Awaitable[socket.socket]]


def come_about(begun: Sequence[socket.socket | None], within_s: float) -> list[bool]:
    """Return which of these connections come about in time; they are closed. None: it failed at once."""
    works = [False] * len(begun)
    deadline_s = time.monotonic() + within_s
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for number, probe in enumerate(begun):
            if probe is not None:
                waiting.register(stack.enter_context(probe), selectors.EVENT_WRITE, number)
        while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _ in waiting.select(left_s):
                waiting.unregister(key.fileobj)
                error = cast(socket.socket, key.fileobj).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                works[key.data] = error == 0
    return works


def dialled(ports: Sequence[int], host: str, port: int) -> socket.socket | None:
    """Return a connection that was begun from one of these ports; None if that failed. A port from which such a one has
    ended just now can't be taken at once."""
    for own in ports:
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", own))
        except OSError:
            probe.close()
            continue
        found = begin(probe, host, port)
        if found in (0, EINPROGRESS):
            return probe
        probe.close()
        if found not in (EADDRINUSE, EADDRNOTAVAIL):
            return None
    return None


def begin(probe: socket.socket, host: str, port: int) -> int:
    """Begin a connection; the system's number for how that went."""
    probe.setblocking(False)
    try:
        return probe.connect_ex((host, port))
    except OSError:
        return EADDRINUSE
