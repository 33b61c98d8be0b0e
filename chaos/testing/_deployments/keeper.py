"""A server that keeps lines, for checks of deployments: ``python3 keeper.py IP PORT DISK``.

It speaks JSON lines over TCP, and knows nothing of Stormproof.

    {"do": "keep", "line": TEXT}           ->  {}, once the line is on the disk
    {"do": "kept"}                         ->  {"lines": [TEXT, ...], "life": WORD}, another one in each life
    {"do": "pass", "to": NAME}             ->  what the server of that name has kept, or {"error": WHY}

``conf/others.json`` holds the address of each: {NAME: [HOST, PORT]}.
"""

import json
import os
import socket
import socketserver
import sys

PASS_S = 1.0
LIFE = os.urandom(8).hex()
IP, PORT, PATH = sys.argv[1], int(sys.argv[2]), os.path.join(sys.argv[3], "kept")


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            asked = json.loads(line)
            answer = getattr(self, asked.pop("do") + "_")(**asked)
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def keep_(self, line: str) -> dict[str, object]:
        with open(PATH, "a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        return {}

    def kept_(self) -> dict[str, object]:
        if not os.path.exists(PATH):
            return {"lines": [], "life": LIFE}
        with open(PATH) as file:
            return {"lines": file.read().splitlines(), "life": LIFE}

    def pass_(self, to: str) -> dict[str, object]:
        with open("conf/others.json") as file:
            host, port = json.load(file)[to]
        try:
            with socket.create_connection((host, int(port)), timeout=PASS_S) as connection:
                lines = connection.makefile("rwb")
                lines.write(b'{"do": "kept"}\n')
                lines.flush()
                answer: dict[str, object] = json.loads(lines.readline())
                return answer
        except (OSError, ValueError) as error:
            return {"error": str(error)}


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main() -> None:
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    with Server((IP, PORT), Handler) as server:
        print("keeper serves at", IP, PORT, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
