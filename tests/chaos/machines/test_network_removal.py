"""A network is removed although the engine counts somebody in it still, or somebody else was first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from chaos.errors import DeploymentError
from chaos.machines.docker import engine, heal


class Network:
    """Of an engine that refuses to remove it so often, with these words, and counts ``ghost`` in it until told not
    to."""

    name = "stormproof-r"

    def __init__(self, refusals: int, words: str, status: int = 403) -> None:
        self.refusals, self.words, self.status = refusals, words, status
        self.attrs: dict[str, Any] = {"Containers": {"e1": {"Name": "ghost"}}}
        self.disconnected: list[str] = []
        self.removed = False

    def remove(self) -> None:
        if self.refusals:
            self.refusals -= 1
            kind = NotFound if self.status == 404 else APIError
            answer: Any = SimpleNamespace(status_code=self.status, url="")
            raise kind("refused", response=answer, explanation=self.words)
        self.removed = True

    def reload(self) -> None:
        """The engine says the same again."""

    def disconnect(self, name: str, force: bool) -> None:
        assert force
        self.disconnected.append(name)


def clear(network: Network, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(heal, "PAUSE_S", 0.0)
    found: Iterator[tuple[list[Any], list[Any]]] = iter([([], [network]), ([], [])])
    monkeypatch.setattr(heal, "of_run", lambda client, directory: next(found))
    client: Any = None
    return heal.clear(client, Path("runs/r"))


def test_whoever_the_engine_counts_in_a_network_still_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(2, f"error while removing network: network r has {engine.IN_USE}")
    assert clear(network, monkeypatch) == ["run r: removed the network stormproof-r"]
    assert network.removed and network.disconnected == ["ghost", "ghost"]


def test_a_network_that_somebody_else_removed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(1, "network r not found", 404)
    assert clear(network, monkeypatch) == [] and not network.removed


@pytest.mark.parametrize(
    ("refusals", "words"), [(heal.MOST_LOOKS, f"network r has {engine.IN_USE}"), (1, "no permission")]
)
def test_a_network_that_stays_is_told_in_the_words_of_the_engine(
    refusals: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeploymentError, match=f"refused: {words}"):
        clear(Network(refusals, words), monkeypatch)
