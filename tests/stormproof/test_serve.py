"""A folder of runs in a browser: what is shown, and that nothing else is."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from chaos.errors import BadInput
from stormproof.serve import LOOPBACK, server

SECRET = "not for you"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.html").write_text(SECRET)
    runs = tmp_path / "runs"
    run = runs / "small 1%"
    (run / "logs").mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"name": "small"}))
    (run / "report.html").write_text("<!doctype html><title>The report</title>")
    (run / "logs" / "broker-0.log").write_text("it began\n")
    (run / "out.html").symlink_to("../../secret.html")
    (run / "same.html").symlink_to("report.html")
    (run / "circle.html").symlink_to("circle.html")
    os.mkfifo(run / "pipe.html")
    (runs / "elsewhere").symlink_to(tmp_path)
    (runs / "no-run").mkdir()
    (runs / "no-run" / "note.html").write_text(SECRET)
    (runs / "note.html").write_text(SECRET)
    return runs


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with server(folder, 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield serving.server_address[1]
        serving.shutdown()
        thread.join()


def ask(port: int, path: str, *, method: str = "GET", host: str = "localhost") -> tuple[int, str, str]:
    """Status, type and text of the answer."""
    connection = HTTPConnection(LOOPBACK, port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), text


def test_the_index_leads_to_the_reports(port: int, folder: Path) -> None:
    status, kind, text = ask(port, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8") and 'href="small%201%25/report.html"' in text
    assert ask(port, "/small%201%25/report.html")[2].endswith("<title>The report</title>")
    assert ask(port, "/small%201%25/same.html")[0] == 200
    assert ask(port, "/small%201%25/logs/broker-0.log") == (200, "text/plain; charset=utf-8", "it began\n")
    assert ask(port, "/small%201%25/report.html", method="HEAD") == (200, "text/html; charset=utf-8", "")
    assert not (folder / "index.html").exists(), "it only reads"


@pytest.mark.parametrize(
    "path",
    [
        "/note.html",
        "/no-run/note.html",
        "/elsewhere/secret.html",
        "/small%201%25/out.html",
        "/small%201%25/circle.html",
        "/small%201%25/pipe.html",
        "/small%201%25/logs",
        "/small%201%25/",
        "/small%201%25",
        "/small%201%25/../note.html",
        "/small%201%25/..%2Fnote.html",
        "/small%201%25/%2e%2e/%2e%2e/secret.html",
        "/../secret.html",
        "//etc/passwd",
        "/small%201%25//etc/passwd",
        "/small%201%25/%2Fetc%2Fpasswd",
        "/small%201%25/report.html%00",
        "/small%201%25/" + "x" * 5000,
        "/small%201%25/%ff",
    ],
)
def test_what_is_no_file_of_a_run_is_not_there(port: int, path: str) -> None:
    status, _, text = ask(port, path)
    assert status == 404 and SECRET not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(port: int, method: str) -> None:
    assert ask(port, "/small%201%25/report.html", method=method)[0] == 405


def test_only_names_of_the_loopback_are_answered(port: int) -> None:
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST"):
        assert ask(port, "/", host=host)[0] == 200
    for host in (
        "",
        "it.example",
        f"it.example:{port}",
        "localhost.it.example",
        "localhost@it.example",
        "[",
        "0.0.0.0",
    ):
        assert ask(port, "/small%201%25/report.html", host=host)[0] == 403, host


def test_it_listens_on_the_loopback_alone_and_says_what_it_cannot_do(port: int, folder: Path) -> None:
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    with pytest.raises(BadInput, match="try another --port"):
        server(folder, port)
    with pytest.raises(BadInput, match="is no folder"):
        server(folder / "nothing", 0)
