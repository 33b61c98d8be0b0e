"""As much of S3's protocol as reading, writing and removing files takes: a folder as the buckets of a server that
answers over HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WHEN = "2026-01-01T00:00:00.000Z"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        if self._path().parent == self.folder and self._path().is_dir():
            self._answer(200, b"", body=False)  # a bucket
        else:
            self._object(body=False)

    def do_GET(self) -> None:
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._list()
        else:
            self._object(body=True)

    def do_PUT(self) -> None:
        """An object, one part of it, or, where the name ends in a slash, a folder."""
        query = parse_qs(urlsplit(self.path).query)
        data, path = self._body(), self._path()
        if "partNumber" in query:
            path = path.with_name(f"{path.name}.part-{int(query['partNumber'][0]):05}")
        if urlsplit(self.path).path.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._answer(200, b"", body=True)

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        data, path = self._body(), self._path()
        if "delete" in query:
            for key in re.findall(rb"<Key>([^<]*)</Key>", data):
                if not key.endswith(b"/"):  # a folder is where its files are
                    (path / key.decode()).unlink(missing_ok=True)
            self._answer(200, b"<DeleteResult></DeleteResult>", body=True)
        elif "uploads" in query:
            text = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode(), body=True)
        else:
            parts = sorted(path.parent.glob(f"{path.name}.part-*"))
            path.write_bytes(b"".join(part.read_bytes() for part in parts))
            for part in parts:
                part.unlink()
            text = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            self._answer(200, text.encode(), body=True)

    def do_DELETE(self) -> None:
        path = self._path()
        if path.is_file():
            path.unlink()
        self._answer(204, b"", body=False)

    def _path(self) -> Path:
        return self.folder / unquote(urlsplit(self.path).path).strip("/")

    def _body(self) -> bytes:
        """What was sent; a checksum that goes along is passed over."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = _unchunked(self.rfile)
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        return _unchunked(BytesIO(data)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

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
        path = self._path()
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


def _unchunked(stream: IO[bytes]) -> bytes:
    """The pieces of a body that comes in pieces, each behind a line with its length; lines after the last one end with
    an empty one."""
    whole = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        whole += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return whole


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
