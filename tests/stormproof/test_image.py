"""What the image of nodes holds."""

from __future__ import annotations

import pytest

from chaos import plugins
from chaos.plugins import PluginKind
from stormproof import image


def test_the_image_holds_the_packages_of_the_nodes_of_all_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = {
        node.package
        for name in plugins.names(PluginKind.DRIVER)
        for node in plugins.build(PluginKind.DRIVER, name).cluster("").nodes
    }
    assert made_of and image.systems() == tuple(sorted(made_of))
    shipped = plugins.names(PluginKind.DRIVER)
    monkeypatch.setattr(plugins, "names", lambda kind: (*shipped, "no_such_driver"))
    assert image.systems() == tuple(sorted(made_of)), "a driver that does not load spoils nobody's image"
