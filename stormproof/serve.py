"""Shows a folder of runs to browsers on this machine: its index, made again for each look, and the files of its runs.

It only reads, listens on the loopback alone, and answers only what is asked of a name of the loopback, so that a page
from elsewhere whose name was bound to 127.0.0.1 sees nothing. What is no regular file below a run, or is one only
through a link that leads out of it, isn't there.

A run may be a stranger's, and its pages may hold any script. So each file of a run comes with a policy that makes it a
world of its own: it has its own scripts and styles, asks nobody for anything, and is no part of this server's origin.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import closing
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

from chaos.errors import BadInput
from chaos.history import directory, manifest
from reports.comparison import html as comparison
from reports.comparison.pair import pair
from reports.index import html
from reports.index.overview import overview, readable, sweeps
from reports.sweeps import PLAN

LOOPBACK = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
#: How each kind of file is shown; any other is offered for saving.
TYPES = {
    ".html": "text/html; charset=utf-8",
    **dict.fromkeys((".json", ".jsonl", ".yaml", ".xml", ".log", ".md", ".txt"), "text/plain; charset=utf-8"),
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
OTHER = "application/octet-stream"
#: For every answer: nothing is fetched, framed, sent or opened, and no script runs.
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: For the pages of runs: their own scripts run, in an origin that nothing else has.
POLICY_OF_PAGES = f"{POLICY.replace('sandbox;', 'sandbox allow-scripts;')}; script-src 'unsafe-inline'"
#: For the index: two of its runs are chosen in a form.
POLICY_OF_INDEX = POLICY_OF_PAGES.replace("allow-scripts", "allow-scripts allow-forms").replace(
    "form-action 'none'", "form-action 'self'"
)
#: The address of two runs side by side, and so many fields one may have.
COMPARED, FIELDS = "/compare", 16
#: A client that says nothing for so long is hung up on.
PATIENCE_S = 30.0
PIECE = 1 << 16


class Server(ThreadingHTTPServer):
    daemon_threads = True


def server(folder: Path, port: int) -> Server:
    """Return a server of this folder of runs, which listens already; 0 is any free port. Raises :class:`BadInput` when
    there is no such folder, or the port is taken."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder")
    try:
        return Server((LOOPBACK, port), partial(_Handler, folder.resolve()))
    except OSError as error:
        raise BadInput(f"cannot listen on {LOOPBACK}:{port}: {error.strerror or error}; try another --port") from error


def file_of(folder: Path, path: str) -> BinaryIO | None:
    """Return the file that a path of an address names, ``/RUN/FILE``; None for whatever isn't to be shown."""
    name, *parts = [unquote(part, errors="surrogateescape") for part in path.split("/")[1:]]
    run = run_of(folder, name)
    if run is None or not parts or not all(map(_is_name, parts)):
        return None
    try:
        whole = run.joinpath(*parts).resolve(strict=True)
        if not whole.is_relative_to(run):
            return None
        number = os.open(whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, RuntimeError):  # gone, forbidden, too long, or links in a circle
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    return os.fdopen(number, "rb")


def run_of(folder: Path, name: str) -> Path | None:
    """Return the run of this name, or the sweep, whose failed runs are in it; None where there is none."""
    if not _is_name(name):
        return None
    run = folder / name
    try:
        known = any((run / file).is_file() for file in (directory.META, manifest.FILE, PLAN))
    except OSError:  # too long, or forbidden
        return None
    return run if known and not run.is_symlink() else None


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part


class _Handler(BaseHTTPRequestHandler):
    """``GET`` and ``HEAD``; anything else is refused."""

    server_version = "stormproof"
    sys_version = ""
    timeout = PATIENCE_S

    def __init__(self, folder: Path, *more: object) -> None:
        self._folder = folder
        super().__init__(*more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if refused := self._refusal():
            self.send_error(HTTPStatus.FORBIDDEN, refused)
            return
        path = urlsplit(self.path).path
        if path == "/":
            title, lines = readable(self._folder.name), overview(self._folder)
            self._send_page(html.page(title, lines, sweeps(self._folder), compared_at=COMPARED), POLICY_OF_INDEX)
        elif path == COMPARED:
            self._compare()
        elif found := file_of(self._folder, path):
            with closing(found):
                kind = TYPES.get(Path(path).suffix, OTHER)
                self._send(found, kind, POLICY_OF_PAGES if kind == TYPES[".html"] else POLICY)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def _compare(self) -> None:
        """Answer with the two runs side by side that the address names."""
        try:
            names = parse_qs(urlsplit(self.path).query, errors="surrogateescape", max_num_fields=FIELDS).get("run", [])
        except ValueError:
            names = []
        if len(names) != 2:
            self.send_error(HTTPStatus.BAD_REQUEST, "tick two runs")
            return
        first, second = (run_of(self._folder, name) for name in names)
        if first is None or second is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send_page(comparison.page(pair(first, second), self._folder), POLICY_OF_PAGES)

    def _send_page(self, text: str, policy: str) -> None:
        page = text.encode()
        self._head(TYPES[".html"], policy, len(page))
        if self.command != "HEAD":
            self.wfile.write(page)

    def _refusal(self) -> str:
        """Return why this isn't answered; "" if it is. A browser names as ``Origin`` the page that asks, where that is
        another one than this server's (``null`` for one in a sandbox, as those of runs are); what somebody follows a
        link to has none."""
        hosts, origins = (self.headers.get_all(name, []) for name in ("Host", "Origin"))
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if re.sub(r":\d+$", "", host, flags=re.ASCII) not in NAMES:
            return f"ask for one of {', '.join(NAMES)}"
        foreign = any(origin.lower() != f"http://{host}" for origin in origins)
        return "another page asks for this" if foreign or self._is_fetched_from_elsewhere() else ""

    def _is_fetched_from_elsewhere(self) -> bool:
        """Return whether a page of another origin wants to have this as a part of itself, as a script or a picture: for
        that browsers name no ``Origin``."""
        site, mode = (self.headers.get(f"Sec-Fetch-{name}", "").lower() for name in ("Site", "Mode"))
        return site not in ("", "none", "same-origin") and mode != "navigate"

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _send(self, file: BinaryIO, kind: str, policy: str) -> None:
        left = os.fstat(file.fileno()).st_size  # a run that goes on may make it longer
        self._head(kind, policy, left)
        while self.command != "HEAD" and left and (piece := file.read(min(left, PIECE))):
            self.wfile.write(piece)
            left -= len(piece)

    def _head(self, kind: str, policy: str, length: int) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is for the address alone."""
