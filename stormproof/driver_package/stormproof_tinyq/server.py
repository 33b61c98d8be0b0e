"""tinyq: a queue server of somebody else's, in one file. ``python3 server.py CONFIG.json``.

It speaks JSON lines over TCP. A *primary* appends to its log and answers once the *backup* has the message on its disk
too; a backup stores what its primary sends. Nothing of Stormproof is in here.

    {"do": "append", "message": M}  ->  {"offset": N}, or {"unknown": WHY}
    {"do": "read", "offset": N}     ->  {"message": M or null, "end": N}, or {"refused": WHY}
    {"do": "commit", "group": G, "offset": N}  ->  {}
    {"do": "committed", "group": G} ->  {"offset": N}, -1 for a group that has none
    {"do": "state"}                 ->  {"end": N, "confirmed": N}
    {"do": "store", "offset": N, "messages": [M, ...]}  ->  {"end": N}

With ``"lazy": true`` it answers an append before it has done anything for it, and does that every three seconds. With
``"garbled": true`` a backup stores another text in the place of every tenth message.
"""

from __future__ import annotations

import io
import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Mapping
from typing import Any

ANSWER_S = 2.0
RETRY_S = 0.2
LAZY_S = 3.0

Message = list[str]  # its key and its body
Json = dict[str, Any]


class Log:
    """Messages, one a line; a torn last line was never acknowledged."""

    def __init__(self, path: str) -> None:
        self.file = io.FileIO(path, "a+")
        self.file.seek(0)
        lines = self.file.read().split(b"\n")
        self.messages: list[Message] = [json.loads(line) for line in lines[:-1]]
        self.file.truncate(sum(len(line) + 1 for line in lines[:-1]))

    def append(self, messages: list[Message]) -> None:
        self.file.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        os.fsync(self.file.fileno())
        self.messages += messages


class Queue:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.log = Log(os.path.join(config["disk"], "log"))
        self.backup: tuple[str, int] | None = tuple(config["backup"]) if config.get("backup") else None
        self.lazy = config.get("lazy", False)
        self.garbled = config.get("garbled", False)
        self.pending: list[Message] = []
        self.groups: dict[str, int] = {}
        self.groups_file = os.path.join(config["disk"], "groups")
        if os.path.exists(self.groups_file):
            with open(self.groups_file) as file:
                self.groups = json.load(file)
        self.confirmed = 0 if self.backup else len(self.log.messages)
        self.changed = threading.Condition()

    def append(self, message: Message) -> Json:
        with self.changed:
            if self.lazy:
                self.pending.append(message)
                return {"offset": len(self.log.messages) + len(self.pending) - 1}
            offset = len(self.log.messages)
            self.log.append([message])
            self.changed.notify_all()
            if self.changed.wait_for(lambda: self.confirmed > offset, ANSWER_S):
                return {"offset": offset}
        return {"unknown": "the backup has not confirmed it"}

    def read(self, offset: int) -> Json:
        with self.changed:
            if not self.confirmed and self.log.messages:
                return {"refused": "the backup has not been heard yet"}
            end = self.confirmed
            return {"message": self.log.messages[offset] if 0 <= offset < end else None, "end": end}

    def commit(self, group: str, offset: int) -> Json:
        with self.changed:
            self.groups[group] = offset
            with open(self.groups_file + ".part", "w") as file:
                json.dump(self.groups, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.groups_file + ".part", self.groups_file)
            folder = os.open(os.path.dirname(self.groups_file), os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            return {}

    def committed(self, group: str) -> Json:
        with self.changed:
            return {"offset": self.groups.get(group, -1)}

    def state(self) -> Json:
        with self.changed:
            return {"end": len(self.log.messages), "confirmed": self.confirmed}

    def store(self, offset: int, messages: list[Message]) -> Json:
        with self.changed:
            end = len(self.log.messages)
            if messages and offset <= end < offset + len(messages):
                new = messages[end - offset :]
                if self.garbled:
                    new = [[key, "?" if at % 10 == 9 else body] for at, (key, body) in enumerate(new, end)]
                self.log.append(new)
            self.confirmed = len(self.log.messages)
            return {"end": self.confirmed}

    def replicate(self, backup: tuple[str, int]) -> None:
        """Send the backup what it lacks, for ever."""
        while True:
            try:
                with socket.create_connection(backup, timeout=ANSWER_S) as connection:
                    lines = connection.makefile("rwb")
                    offset = 0
                    messages: list[Message] = []
                    while True:
                        lines.write(
                            json.dumps({"do": "store", "offset": offset, "messages": messages}).encode() + b"\n"
                        )
                        lines.flush()
                        offset = json.loads(lines.readline())["end"]
                        with self.changed:
                            self.confirmed = min(offset, len(self.log.messages))
                            self.changed.notify_all()
                            self.changed.wait_for(lambda: len(self.log.messages) > self.confirmed, RETRY_S)
                            messages = self.log.messages[offset : offset + 100]
            except (OSError, ValueError, KeyError):
                threading.Event().wait(RETRY_S)

    def catch_up(self) -> None:
        while True:
            threading.Event().wait(LAZY_S)
            with self.changed:
                self.log.append(self.pending)
                self.pending = []
                self.changed.notify_all()


class Handler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        for line in self.rfile:
            asked = json.loads(line)
            answer = getattr(self.server.queue, asked.pop("do"))(**asked)
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64
    queue: Queue


def main() -> None:
    with open(sys.argv[1]) as file:
        config = json.load(file)
    os.makedirs(config["disk"], exist_ok=True)
    queue = Queue(config)
    if queue.backup:
        threading.Thread(target=queue.replicate, args=(queue.backup,), daemon=True).start()
    if queue.lazy:
        threading.Thread(target=queue.catch_up, daemon=True).start()
    with Server(tuple(config["listen"]), Handler) as server:
        server.queue = queue
        print("tinyq serves at", *config["listen"], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
