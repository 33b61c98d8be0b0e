"""What the image of nodes holds."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from docker.errors import APIError

from chaos import plugins
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.plugins import PluginKind
from stormproof import image


def nodes(driver: str) -> Sequence[NodeSpec]:
    try:
        return plugins.build(PluginKind.DRIVER, driver).cluster("").nodes
    except BadInput as error:
        assert "is not installed here" in str(error)
        return ()


def test_the_image_holds_the_packages_of_the_nodes_of_all_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = {
        node.package
        for name in plugins.names(PluginKind.DRIVER)
        for node in nodes(name)
        if node.package  # the others are programs of somebody else's
    }
    assert made_of and image.systems() == tuple(sorted(made_of))
    shipped = plugins.names(PluginKind.DRIVER)
    monkeypatch.setattr(plugins, "names", lambda kind: (*shipped, "no_such_driver"))
    assert image.systems() == tuple(sorted(made_of)), "a driver that does not load spoils nobody's image"


def test_a_build_ends_well_while_somebody_else_cleans_up() -> None:
    class Images:
        def prune(self, filters: dict[str, object]) -> None:
            assert filters["until"] == image.STAGE_AGE, "stages of a build that is under way must stay"
            raise APIError("a prune operation is already running")

        def list(self, name: str) -> list[object]:
            self.listed = name
            return []

    engine = SimpleNamespace(images=Images())
    image._forget_old(engine)  # type: ignore[arg-type]
    assert engine.images.listed == "stormproof-node"
