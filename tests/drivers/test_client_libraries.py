"""Drivers whose client library opens its own connections are checked like all others: answers get lost to it, too."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.deployments import process
from chaos.driver import Client, Dials, Network
from chaos.ops import Failed, Unknown
from chaos.plugins import PluginKind, load
from chaos.testing import check_driver
from stormproof.driver_package.stormproof_tinyq.driver import ServerClient
from tests.stormproof.foreign import TOY, installed

pytestmark = pytest.mark.process

REQUEST_S = 0.5
NOTHING_TOLD = "collect: it records nothing, and the driver declares nothing that it would record"
Refusal = Callable[[Exception, bool], Exception]


class Library:
    """A blocking client library, one connection for all requests; it knows nothing of Stormproof."""

    def __init__(self, where: tuple[str, int]) -> None:
        self._lines = socket.create_connection(where, timeout=REQUEST_S).makefile("rwb")

    def ask(self, request: Mapping[str, object]) -> Mapping[str, Any]:
        self._lines.write(json.dumps(request).encode() + b"\n")
        self._lines.flush()
        answer: Mapping[str, Any] = json.loads(self._lines.readline())
        return answer


def honest(error: Exception, sent: bool) -> Exception:
    return Unknown(str(error)) if sent else Failed(str(error))


def sure(error: Exception, sent: bool) -> Exception:
    """Takes a connection that broke for a request that was not done."""
    return Failed(str(error))


def with_library(driver: Any, refusal: Refusal, *, is_retrying: bool = False) -> Any:
    class LibraryClient(ServerClient):
        _libraries: dict[str, Library]

        async def ask(self, node: str = "queue-0", **request: object) -> Mapping[str, Any]:
            libraries = self.__dict__.setdefault("_libraries", {})
            for is_last in (False, True) if is_retrying else (True,):
                sent = False
                try:
                    if node not in libraries:
                        where = await cast(Dials, self._network).endpoint(self._name, node)
                        libraries[node] = await asyncio.to_thread(Library, where)
                    sent = True
                    return await asyncio.to_thread(libraries[node].ask, request)
                except (OSError, ValueError) as error:
                    libraries.pop(node, None)
                    if is_last:
                        raise refusal(error, sent) from error
            raise AssertionError

    class WithLibrary(driver.Tinyq):  # type: ignore[name-defined, misc]
        def client(self, network: Network, name: str) -> Client:
            return cast(Client, LibraryClient(network, name))

    return WithLibrary()


@pytest.fixture
def tinyq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(installed(tmp_path / "site"))
    driver = load(PluginKind.DRIVER, "tinyq")
    monkeypatch.setattr(f"{TOY}.REQUEST_S", REQUEST_S)
    return driver


def checked(driver: Any, tmp_path: Path) -> tuple[str, ...]:
    host = process.create(run_id="check", directory=tmp_path / "run", seed=1)
    return check_driver(driver, deployment=host, load_s=1.0)


def test_a_library_that_keeps_to_the_rules_passes(tinyq: Any, tmp_path: Path) -> None:
    left = checked(with_library(tinyq, honest), tmp_path)
    assert left == (NOTHING_TOLD,), "and its answers were lost, or that would be told"


def test_a_driver_that_takes_a_broken_connection_for_a_refusal_is_found(tinyq: Any, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"\(connection lost\) ended as Failed, but"):
        checked(with_library(tinyq, sure), tmp_path)


def test_a_library_that_tries_again_by_itself_is_found(tinyq: Any, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="stored the message more than once"):
        checked(with_library(tinyq, honest, is_retrying=True), tmp_path)
