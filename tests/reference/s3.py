"""A server that speaks as much of S3 as a gateway uses, and gets requests wrong when a test wants that."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BUCKET = "shelf"
#: Stands in what the server says of refused requests, as a real one repeats keys and signatures there.
SECRET = "AKIASECRETSECRET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """``status``: refuse with it, and with this code. ``done``: whether the request is carried out all the same.
    ``silent``: break the connection without an answer, after ``late_s``. ``blind``: heed no condition."""

    status: int = 0
    code: str = "SlowDown"
    done: bool = False
    silent: bool = False
    late_s: float = 0.0
    blind: bool = False


NONE = Trouble()


class SmallS3(ThreadingHTTPServer):
    """``meddle(method, key)`` says what becomes of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.meddle: Callable[[str, str], Trouble] = lambda method, key: NONE
        self.puts = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: who asked did not wait for a late answer."""

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}?endpoint=http://127.0.0.1:{self.server_address[1]}&region=us-east-1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SmallS3

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        trouble = self.server.meddle(self.command, key)
        status, headers, content = 404, dict[str, str](), _error("NoSuchBucket")
        if bucket == BUCKET and (trouble.done or not (trouble.status or trouble.silent)):
            with self.server.lock:
                status, headers, content = self._done(key, parse_qs(parts.query, True), body, blind=trouble.blind)
        time.sleep(trouble.late_s)
        if trouble.silent:
            self.close_connection = True
            return
        if trouble.status:
            status, headers, content = trouble.status, {}, _error(trouble.code)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Length", str(len(content))))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = do  # noqa: N815

    def _done(
        self, key: str, query: dict[str, list[str]], body: bytes, *, blind: bool
    ) -> tuple[int, dict[str, str], bytes]:
        objects = self.server.objects
        if self.command == "POST":
            for one in ElementTree.fromstring(body).iter():
                if one.tag.endswith("Key"):
                    objects.pop(str(one.text), None)
            return 200, {}, b"<DeleteResult></DeleteResult>"
        if "list-type" in query:
            return 200, {}, self._listing(query["prefix"][0])
        if self.command == "PUT":
            return self._put(key, body, blind=blind)
        if self.command == "DELETE":
            objects.pop(key, None)
            return 204, {}, b""
        if key not in objects:
            return 404, {}, _error("NoSuchKey")
        found = objects[key]
        about = {"ETag": _tag(found), "Last-Modified": "Mon, 30 Nov 2026 08:00:00 GMT"}
        return 200, about | ({"Length": str(len(found))} if self.command == "HEAD" else {}), found

    def _put(self, key: str, body: bytes, *, blind: bool) -> tuple[int, dict[str, str], bytes]:
        self.server.puts += 1
        objects, expected = self.server.objects, self.headers.get("If-Match")
        if not blind and self.headers.get("If-None-Match") == "*" and key in objects:
            return 412, {}, _error("PreconditionFailed")
        if not blind and expected is not None and (key not in objects or _tag(objects[key]) != expected):
            return 412, {}, _error("PreconditionFailed")
        objects[key] = body
        return 200, {"ETag": _tag(body)}, b""

    def _listing(self, prefix: str) -> bytes:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>{escape(_tag(body))}</ETag>"
            "<LastModified>2026-11-30T08:00:00.000Z</LastModified></Contents>"
            for key, body in sorted(self.server.objects.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()


def _tag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><AWSAccessKeyId>{SECRET}</AWSAccessKeyId></Error>".encode()


@contextmanager
def small_s3() -> Iterator[SmallS3]:
    server = SmallS3()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
