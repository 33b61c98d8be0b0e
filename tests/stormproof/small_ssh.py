"""A small SSH server on loopback, which runs commands as who we are: a host for tests that have no containers."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import paramiko

HOST = "127.0.0.1"


class SmallSsh:
    """``key``, ``known_hosts``: files on the side of whoever logs in."""

    def __init__(self, folder: Path) -> None:
        self.key, self.known_hosts = folder / "key", folder / "known_hosts"
        own, self._theirs = paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
        self._theirs.write_private_key_file(str(self.key))
        self._own = own
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.known_hosts.write_text(f"[{HOST}]:{self.port} {own.get_name()} {own.get_base64()}\n")
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for transport in self._transports:
            transport.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                transport = paramiko.Transport(stream)
                transport.add_server_key(self._own)
                self._transports.append(transport)
                with suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=_Session(self._theirs))


class _Session(paramiko.ServerInterface):
    def __init__(self, known: paramiko.PKey) -> None:
        self._known = known

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL if key == self._known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_execute, args=(channel, command.decode()), daemon=True).start()
        return True


def _execute(channel: paramiko.Channel, command: str) -> None:
    """As sshd does it: the command gets what is sent, until the channel is closed."""
    environment = {**os.environ, "SSH_CONNECTION": f"{HOST} 1 {HOST} 22"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, env=environment, bufsize=0)
    assert process.stdin is not None and process.stdout is not None

    def feed() -> None:
        with suppress(OSError):
            while data := channel.recv(1 << 16):
                process.stdin.write(data)
        with suppress(OSError):
            process.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    with suppress(OSError):
        while data := os.read(process.stdout.fileno(), 1 << 16):
            channel.sendall(data)
    channel.send_exit_status(process.wait())
    channel.close()
