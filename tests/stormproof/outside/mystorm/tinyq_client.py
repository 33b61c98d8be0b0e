"""A client of tinyq that is a program of its own: ``python3 tinyq_client.py HOST PORT``.

It writes what it is about to do as a JSON line, waits for the line that lets it, does it, and writes how it ended.
Nothing of Stormproof is in here.
"""

import json
import socket
import sys
import time


def ask(where, request):
    with socket.create_connection(where, timeout=2) as connection:
        lines = connection.makefile("rwb")
        lines.write(json.dumps(request).encode() + b"\n")
        lines.flush()
        return json.loads(lines.readline())


def say(line):
    print(json.dumps({**line, "time_ns": time.monotonic_ns()}), flush=True)


def main():
    where, number = (sys.argv[1], int(sys.argv[2])), 0
    while True:
        number += 1
        say({"id": number, "type": "invoke", "f": "send", "queue": 0})
        line = sys.stdin.readline()
        if not line:
            return
        told = json.loads(line)
        try:
            answer = ask(where, {"do": "append", "message": [told["key"], told["body"]]})
            say({"id": number, "type": "ok", "offset": answer["offset"]})
        except (OSError, ValueError, KeyError) as error:
            say({"id": number, "type": "info", "reason": str(error)})
        time.sleep(0.05)


if __name__ == "__main__":
    main()
