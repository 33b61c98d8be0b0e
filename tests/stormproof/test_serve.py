"""A folder of runs in a browser: what is shown, and that nothing else is."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.verdict import Validity
from reports import render
from stormproof import serve
from stormproof.serve import LOOPBACK, server
from tests.browser import Browser, browser, needs_browser
from tests.reports.comparison.test_pair import SENDS, recorded
from tests.reports.index.test_index import judged
from tests.stormproof import small_runs

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


def answered(port: int, path: str, method: str, *headers: tuple[str, str]) -> tuple[HTTPResponse, str]:
    """The answer, and its text."""
    connection = HTTPConnection(LOOPBACK, port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def ask(port: int, path: str, *, method: str = "GET", host: str = "localhost") -> tuple[int, str, str]:
    """Status, type and text of the answer."""
    answer, text = answered(port, path, method, *([("Host", host)] if host else []))
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


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://it.example"}, 403),
        ({"Origin": "https://localhost"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),  # a link that somebody follows
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),  # as a picture or a script
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_pages_from_elsewhere_are_not_answered(port: int, headers: dict[str, str], status: int) -> None:
    for path in ("/", "/small%201%25/report.html"):
        found, _ = answered(port, path, "GET", ("Host", "localhost"), *headers.items())
        assert found.status == status
    several = [("Host", "localhost"), ("Host", "it.example")]
    assert answered(port, "/", "GET", *several)[0].status == 403


#: What a page of a run tries; what it could read goes into ``window.stolen``, under the name of the attempt.
THIEF = """<!doctype html><title>thief</title><body><script>
window.stolen = {}; window.done = [];
const own = (name, attempt) => window.done.push(
  (async () => attempt())().then(got => { if (got) window.stolen[name] = String(got); }, () => {}));
const loaded = (tag, name, value) => new Promise((yes, no) => {
  const made = document.createElement(tag); made[name] = value; made.onload = () => yes(made); made.onerror = no;
  document.body.append(made); setTimeout(no, 3000); });
own("index", () => fetch("/").then(answer => answer.text()));
own("another run", () => fetch("/other/run.json").then(answer => answer.text()));
own("by XMLHttpRequest", () => new Promise((yes, no) => { const asked = new XMLHttpRequest();
  asked.onload = () => yes(asked.responseText); asked.onerror = no; asked.open("GET", "/other/run.json");
  asked.send(); }));
own("in a frame", () => loaded("iframe", "src", "/").then(made => made.contentDocument.body.textContent));
own("as a script", () => loaded("script", "src", "/other/run.json"));
own("as a picture", () => loaded("img", "src", "/other/picture.svg"));
own("in a window", () => { const made = window.open("/"); return new Promise(yes => setTimeout(
  () => yes(made && made.document.body.textContent), 300)); });
own("storage", () => { localStorage.setItem("kept", "for other pages"); return localStorage.getItem("kept"); });
own("cookie", () => { document.cookie = "kept=1"; return document.cookie; });
own("origin", () => window.origin === "null" ? "" : window.origin);
</script>"""


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@needs_browser
def test_a_page_of_a_run_reads_neither_the_index_nor_other_runs(
    port: int, folder: Path, page: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "run.json").write_text("{}")
    (folder / "other" / "picture.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>')
    (folder / "small 1%" / "report.html").write_text(THIEF)

    def stolen() -> dict[str, str]:
        page.open(f"http://localhost:{port}/small%201%25/report.html")
        page.run("Promise.all(window.done).then(() => true)")
        found: dict[str, str] = json.loads(page.run("JSON.stringify(window.stolen)"))
        return found

    assert stolen() == {}
    assert page.run("document.title") == "thief", "its own script has run"
    page.open(f"http://localhost:{port}/")
    assert page.run("document.links.length") == 1 and page.complaints == []
    monkeypatch.setattr(serve, "POLICY_OF_PAGES", "frame-ancestors 'self'")  # which is what that saves us from
    assert {"index", "another run", "by XMLHttpRequest", "as a picture", "storage", "cookie"} <= stolen().keys()


def test_two_runs_are_compared_and_nothing_else(port: int, folder: Path) -> None:
    judged(recorded(folder / "a"), Validity.VALID)
    judged(recorded(folder / "b&", sends=SENDS[:4]), Validity.INVALID)
    status, kind, text = ask(port, "/compare?run=a&run=b%26")
    assert (status, kind) == (200, "text/html; charset=utf-8") and "A is VALID, B is INVALID" in text
    assert ask(port, "/compare?run=a&run=small%201%25")[0] == 200, "one that was not judged"
    for query in ("", "?run=a", "?run=a&run=a&run=a", "?" + "run=a&" * 99):
        assert ask(port, f"/compare{query}")[0] == 400, query
    for name in ("none", "..", "", "elsewhere", "no-run", "%2Fetc", "a%00", "%ff", "x" * 5000):
        assert ask(port, f"/compare?run=a&run={name}")[0] in (400, 404), name


@needs_browser
def test_two_ticked_runs_lead_to_their_page(port: int, folder: Path, page: Browser) -> None:
    judged(recorded(folder / "a", started="2026-01-02T03:04:05+00:00"), Validity.VALID)
    judged(recorded(folder / "b", sends=SENDS[:4], started="2026-01-02T03:04:06+00:00"), Validity.INVALID)
    page.open(f"http://localhost:{port}/")
    assert page.run("document.querySelector('#compare').disabled")
    page.run("document.querySelectorAll('[value=a], [value=b]').forEach(box => box.click())")
    assert not page.run("document.querySelector('#compare').disabled")
    page.follow("document.querySelector('#compare').click()")
    assert page.run("document.querySelector('h1').textContent") != "" and page.complaints == []
    assert page.run("location.pathname") == "/compare" and page.run("window.origin") == "null"
    axes = page.run("document.querySelectorAll('.axis .seconds').length, document.querySelectorAll('.which').length")
    assert axes == 2 and page.run("document.querySelectorAll('.axis .tools').length") == 1


@needs_browser
def test_a_report_is_whole_in_its_sandbox(port: int, folder: Path, page: Browser) -> None:
    found = small_runs.planted(folder)
    render(found.directory)
    page.open(f"http://localhost:{port}/{found.directory.name}/report.html")
    assert page.complaints == [] and page.run("window.origin") == "null"
    served = page.run("document.body.innerText")
    page.open(found.directory / "report.html")
    assert page.run("document.body.innerText") == served


def test_it_listens_on_the_loopback_alone_and_says_what_it_cannot_do(port: int, folder: Path) -> None:
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    with pytest.raises(BadInput, match="try another --port"):
        server(folder, port)
    with pytest.raises(BadInput, match="is not a folder"):
        server(folder / "nothing", 0)
