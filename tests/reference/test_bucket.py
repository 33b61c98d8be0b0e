"""Real stores behind a gateway: which are fit, how each of their answers is understood, and what is never repeated."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import pytest

from chaos.shell.outside import Unfit
from reference.objectstore import bucket as buckets
from reference.objectstore.address import StoreAddress
from reference.objectstore.asking import ABSENT, ANY, CONDITION, SAME, tags
from reference.objectstore.bucket import Bucket
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.gateway_world import World
from tests.reference.s3 import BUCKET, NONE, SECRET, SmallS3, Trouble, small_s3

pytest.importorskip("obstore", reason="not there: pip install 'stormproof[cloud]'")
ROOT = Path(__file__).parents[2]
MOTO = ROOT / ".cache" / "moto-env" / "bin" / "moto_server"
WRITERS, RACES = 8, 20


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def s3() -> Iterator[SmallS3]:
    with small_s3() as server:
        yield server


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    if not MOTO.exists():
        pytest.skip(f"moto is not there: make {MOTO.parents[1].relative_to(ROOT)}/ready")
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen(
        [MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            _make_bucket(f"http://127.0.0.1:{port}/{BUCKET}")
            yield f"s3://{BUCKET}?endpoint=http://127.0.0.1:{port}&region=us-east-1"
        finally:
            server.terminate()


def _make_bucket(url: str) -> None:
    deadline_s = monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10):
                return
        except OSError:
            if monotonic() > deadline_s:
                raise
            sleep(0.2)


@pytest.fixture(params=["memory", "small", "moto"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return "memory://"
    found = request.getfixturevalue("s3" if request.param == "small" else "moto")
    return found if isinstance(found, str) else str(found.url)


def bucket_at(url: str, prefix: str = "run-1", **options: object) -> Bucket:
    return Bucket(StoreAddress.of(url), prefix, **options)  # type: ignore[arg-type]


def put(key: str, body: bytes, **fields: str) -> Command:
    return Command(code=Request.STORE_PUT, fields={"key": key, **fields}, body=body)


def get(key: str) -> Command:
    return Command(code=Request.STORE_GET, fields={"key": key})


# Addresses


def test_an_address_is_a_place_and_settings_without_a_secret() -> None:
    found = StoreAddress.of("s3://shelf/of/mine?region=eu-west-1&endpoint=http://127.0.0.1:9000")
    assert (found.bucket, found.path, found.url) == ("shelf", "of/mine", "s3://shelf/of/mine")
    assert found.settings == {"region": "eu-west-1", "endpoint": "http://127.0.0.1:9000"} and found.speaks_plainly
    assert StoreAddress.of("file:///var/tmp/a%20b/").path == "/var/tmp/a b"
    assert not StoreAddress.of("gs://shelf").speaks_plainly
    assert StoreAddress.of("memory://").url == "memory://"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://shelf?access_key_id=SECRET", "no setting 'access_key_id'"),
        ("s3://shelf?secret_access_key=SECRET", "credentials come from the environment"),
        ("s3://SECRET:SECRET@shelf", "no user, password"),
        ("s3://shelf?endpoint=https://SECRET:SECRET@host", "endpoint is a URL"),
        ("s3://shelf?endpoint=https://host?sig=SECRET", "endpoint is a URL"),
        ("az://shelf?sas_key=SECRET", "no setting 'sas_key'"),
        ("gs://shelf?service_account_key=SECRET", "no setting"),
        ("s3://shelf?skip_signature=SECRET", "true or false"),
        ("s3://shelf?region=SECRET%20SECRET", "region is a word"),
        ("s3://shelf#SECRET", "fragment"),
        ("https://SECRET:SECRET@host/shelf?X-Amz-Signature=SECRET", "expected a URL of s3://"),
        ("SECRET", "expected a URL of"),
        ("s3://[SECRET", "not a URL"),
        ("s3://", "s3://BUCKET"),
        ("s3://shelf/$(SECRET)", "s3://BUCKET"),
        ("s3://shelf/../SECRET", "s3://BUCKET"),
        ("file://host/SECRET", "absolute path"),
        ("file:///", "absolute path"),
        ("file:///a/../SECRET", "absolute path"),
        ("memory://SECRET", "alone"),
    ],
)
def test_a_wrong_address_is_refused_in_a_sentence_that_repeats_no_secret(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^store: ") as caught:
        StoreAddress.of(url)
    assert said in str(caught.value) and "SECRET" not in str(caught.value)


def test_an_address_that_the_environment_does_not_complete_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(ValueError, match=r"make no store \(MissingAccount\)"):
        bucket_at("az://shelf")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match=r"make no store"):
        bucket_at(f"file://{tmp_path}/file/below", single_writer=True)
    bucket_at("az://shelf?account_name=me&skip_signature=true")
    bucket_at("gs://shelf?skip_signature=true")


# Proof


@pytest.mark.parametrize("alone", [False, True])
def test_a_fit_store_is_proven_and_left_as_it_was(url: str, alone: bool) -> None:
    async def main() -> Command:
        bucket = bucket_at(url, f"fit-{alone}", single_writer=alone)
        await bucket.begin()
        return await bucket.answer(Command(code=Request.STORE_LIST, fields={"prefix": "", "after": "", "most": "9"}))

    assert json.loads(asyncio.run(main()).body) == []


def proof(url: str, **options: object) -> str:
    with pytest.raises(Unfit) as caught:
        asyncio.run(bucket_at(url, **options).begin())
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_folder_needs_a_single_writer(tmp_path: Path) -> None:
    assert "no conditional writes" in proof(f"file://{tmp_path}")
    asyncio.run(bucket_at(f"file://{tmp_path}", single_writer=True).begin())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_store_that_heeds_no_condition_is_unfit(s3: SmallS3) -> None:
    s3.meddle = lambda method, key: Trouble(blind=True)
    assert "does not refuse to create what is there" in proof(s3.url)
    assert "does not refuse to create what is there" in proof(s3.url, single_writer=True)


def test_a_store_that_replaces_whatever_the_e_tag_is_unfit_but_for_a_single_writer(s3: SmallS3) -> None:
    puts: list[str] = []

    def meddle(method: str, key: str) -> Trouble:
        puts.extend([key] if method == "PUT" else [])
        return Trouble(blind=method == "PUT" and puts.count(key) > 2)

    s3.meddle = meddle
    said = proof(s3.url)
    assert "no conditional writes" in said and "single_writer: true" in said
    asyncio.run(bucket_at(s3.url, single_writer=True).begin())


def test_a_bucket_that_is_not_there_and_one_that_refuses_us_are_named_at_once(s3: SmallS3) -> None:
    began_s = monotonic()
    assert "NoSuchBucket" in proof(s3.url.replace(BUCKET, "nowhere"))
    s3.meddle = lambda method, key: Trouble(status=403, code="ExpiredToken")
    assert "no object can be made there (PermissionDeniedError 403 ExpiredToken)" in proof(s3.url)
    assert monotonic() - began_s < buckets.PROOF_S


def test_a_store_in_trouble_is_tried_again_and_one_that_cannot_be_reached_is_named(
    s3: SmallS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [Trouble(status=503), NONE, Trouble(silent=True), NONE, NONE, NONE, Trouble(status=429)]
    s3.meddle = lambda method, key: left.pop(0) if left else NONE
    asyncio.run(bucket_at(s3.url).begin())
    assert not left
    monkeypatch.setattr(buckets, "PROOF_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    assert "can't be reached" in proof(f"s3://{BUCKET}?endpoint=http://127.0.0.1:{port}&region=us-east-1")


# Answers


def test_what_a_store_says_of_an_error_is_understood_and_not_repeated(
    s3: SmallS3, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> list[Command]:
        bucket = bucket_at(s3.url, timeout_ms=300)
        made = await bucket.answer(put("a", b"1", **{CONDITION: ABSENT}))
        found = [
            made,
            await bucket.answer(put("a", b"2", **{CONDITION: ABSENT})),
            await bucket.answer(put("a", b"2", **{CONDITION: SAME, "e_tag": '"other"'})),
            await bucket.answer(get("b")),
        ]
        for trouble in (
            Trouble(status=403, code="AccessDenied"),
            Trouble(status=401, code="ExpiredToken"),
            Trouble(status=503),
            Trouble(status=429),
            Trouble(status=500, code="InternalError", done=True),
            Trouble(late_s=1.0, done=True),
            Trouble(silent=True, done=True),
        ):
            s3.meddle = lambda method, key, trouble=trouble: trouble  # type: ignore[misc]
            found.append(await bucket.answer(put("a", b"3", **{CONDITION: SAME, **tags(made.fields)})))
        return found

    found = asyncio.run(main())
    assert [answer.code for answer in found] == [
        Response.SUCCESS,
        Response.STORE_EXISTS,
        Response.STORE_CONFLICT,
        Response.STORE_ABSENT,
        Response.NO_PERMISSION,
        Response.NO_PERMISSION,
        *[Response.SYSTEM_ERROR] * 5,
    ]
    remarks = [answer.remark for answer in found[4:]]
    assert remarks[:5] == [
        "PermissionDeniedError 403 AccessDenied",
        "UnauthenticatedError 401 ExpiredToken",
        "GenericError 503 SlowDown",
        "GenericError 429 SlowDown",
        "GenericError 500 InternalError",
    ]
    said = capsys.readouterr().out
    assert all(remark in said for remark in remarks)
    assert SECRET not in said + "".join(remarks)


def test_nothing_is_done_twice_for_one_request(s3: SmallS3) -> None:
    """The library's own retries would make a conditional write fail because of its first attempt."""
    s3.meddle = lambda method, key: Trouble(status=503, done=True)
    answer = asyncio.run(bucket_at(s3.url).answer(put("a", b"1", **{CONDITION: ABSENT})))
    assert answer.code == Response.SYSTEM_ERROR and s3.puts == 1


def test_a_local_store_says_that_nothing_is_under_way_any_more(tmp_path: Path) -> None:
    async def main() -> list[Command]:
        bucket = bucket_at(f"file://{tmp_path}")
        (tmp_path / "run-1" / "folder").mkdir(parents=True)
        (tmp_path / "run-1" / "file").write_bytes(b"1")
        return [
            await bucket.answer(put("file/below", b"1", **{CONDITION: ANY})),
            await bucket.answer(put("folder", b"1", **{CONDITION: ANY})),
        ]

    assert {answer.code for answer in asyncio.run(main())} == {Response.SYSTEM_BUSY}


def test_one_of_eight_writers_wins_every_race(url: str) -> None:
    async def main() -> None:
        writers = [bucket_at(url, "races") for _ in range(WRITERS)]
        for writer in writers:
            writer._store = writers[0]._store  # a memory has no other way to be shared
        for race in range(RACES):
            key = f"m{race}"
            made = await _race(writers, key, {CONDITION: ABSENT}, refused=Response.STORE_EXISTS)
            again = await _race(writers, key, {CONDITION: SAME, **tags(made.fields)}, refused=Response.STORE_CONFLICT)
            found = await writers[0].answer(get(key))
            assert tags(found.fields) == tags(again.fields)

    asyncio.run(main())


async def _race(writers: list[Bucket], key: str, fields: dict[str, str], *, refused: Response) -> Command:
    body = fields[CONDITION]
    asked = [writer.answer(put(key, f"{body} {n}".encode(), **fields)) for n, writer in enumerate(writers)]
    answers = await asyncio.gather(*asked)
    (won,) = [answer for answer in answers if answer.code == Response.SUCCESS]
    # S3 may refuse a write beside another one with 409 instead of 412, which the library takes for the other refusal.
    assert {answer.code for answer in answers if answer is not won} <= {refused, Response.STORE_EXISTS}
    return won


# A gateway before a server that gets things wrong


def gateway_at(runner: asyncio.Runner, url: str, prefix: str = "run-1", **options: object) -> World:
    bucket = bucket_at(url, prefix, timeout_ms=300)
    return World(lambda asked: runner.run(bucket.answer(asked)), **{"timeout_ms": 3000, **options})


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(status=503),
        Trouble(status=503, done=True),
        Trouble(status=429),
        Trouble(status=500, code="InternalError", done=True),
        Trouble(status=409, code="ConditionalRequestConflict"),
        Trouble(silent=True),
        Trouble(silent=True, done=True),
        Trouble(late_s=0.6, done=True),
    ],
    ids=repr,
)
def test_whatever_becomes_of_an_attempt_the_write_is_done_once(s3: SmallS3, trouble: Trouble) -> None:
    with asyncio.Runner() as runner:
        world = gateway_at(runner, s3.url)
        for number, expected in ((1, -1), (2, 1), (3, 2)):
            left = [trouble]
            s3.meddle = lambda method, key, left=left: left.pop() if left and method == "PUT" else NONE  # type: ignore[misc]
            answer = world.cas("m", expected, json.dumps({"version": number}).encode())
            assert answer.code == Response.SUCCESS and not left
        assert world.get("m").body == b'{"version": 3}'
    assert [row["version"] for row in world.rows("store_cas")] == [1, 2, 3]
    assert {row["outcome"] for row in world.rows("store_cas")} == {"applied"}


def test_a_store_that_stays_away_loses_the_request_within_its_time(s3: SmallS3) -> None:
    s3.meddle = lambda method, key: Trouble(status=503)
    with asyncio.Runner() as runner:
        world = gateway_at(runner, s3.url, timeout_ms=500)
        assert world.put("x", b"1").code == Response.SYSTEM_ERROR
        (lost,) = world.rows("store_lost")
        assert lost["error"] == "GenericError 503 SlowDown" and world.now_ns <= 500_000_000
        s3.meddle = lambda method, key: NONE
        assert world.put("x", b"1").code == Response.SUCCESS


def test_two_gateways_before_one_server_agree_on_one_winner(url: str) -> None:
    with asyncio.Runner() as runner:
        world = gateway_at(runner, url, "two")
        for number in range(1, 6):
            body = json.dumps({"version": number}).encode()
            asked = [
                world.ask(Request.STORE_CAS, body, key="m", expected=number - 1 or -1, at=f"store-{n % 2}")
                for n in range(WRITERS)
            ]
            world.settle()
            codes = [world.answers[one].code for one in asked]
            assert codes.count(Response.SUCCESS) == 1
            assert codes.count(Response.STORE_CONFLICT) == WRITERS - 1


def test_the_process_passes_on_what_keeps_it_from_serving(tmp_path: Path) -> None:
    """As a person starts it: one sentence, and exit code 3."""

    def said(**options: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
        environment |= {
            "NODE_ADDRESSES": "store-0=127.0.0.1:0",
            "NODE_DISK": "none",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **{f"NODE_{name.upper()}": value for name, value in options.items()},
        }
        command = [sys.executable, "-m", "reference", "objectstore", "store-0"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        return done.stderr

    assert "store-0: store: expected a URL of" in said(store="ftp://x", prefix="p")
    assert "store-0: prefix: expected letters" in said(store="memory://", prefix="../p")
    assert "single_writer: true" in said(store=f"file://{tmp_path}/objects", prefix="p")
