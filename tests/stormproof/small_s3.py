"""As much of S3's protocol as reading takes: a folder as the buckets of a server that answers over HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WHEN = "2026-01-01T00:00:00.000Z"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self._object(body=False)

    def do_GET(self) -> None:
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._list()
        else:
            self._object(body=True)

    def _list(self) -> None:
        parts = urlsplit(self.path)
        prefix = parse_qs(parts.query).get("prefix", [""])[0]
        bucket = self.folder / unquote(parts.path).strip("/")
        found = [(path.relative_to(bucket).as_posix(), path) for path in sorted(bucket.rglob("*")) if path.is_file()]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{WHEN}</LastModified><Size>{path.stat().st_size}</Size>"
            '<ETag>"x"</ETag></Contents>'
            for key, path in found
            if key.startswith(prefix)
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        )
        self._answer(200, text.encode(), body=True)

    def _object(self, *, body: bool) -> None:
        self.asked.append(self.path)
        path = self.folder / unquote(urlsplit(self.path).path).strip("/")
        if not path.is_file():
            self._answer(404, b"", body=body)
            return
        data = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self._answer(206 if wanted else 200, data[int(wanted[1]) : int(wanted[2]) + 1] if wanted else data, body=body)

    def _answer(self, status: int, data: bytes, *, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("ETag", '"x"')
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The server's HOST:PORT, and the paths of the objects that it was asked for."""
    handler = type("Handler", (_Handler,), {"folder": folder, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", handler.asked
        server.shutdown()
        thread.join()
