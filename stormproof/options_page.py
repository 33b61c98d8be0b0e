"""The options of systems and workloads, and the events of triggers, as a page that is read from their code.

``python -m stormproof.options_page docs/options.md`` writes the tables of that page again, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind
from stormproof.catalogue import explained, fill, options_of, prose

#: Where the page on histories says when each event is traced.
MEANINGS = "[meanings](history.md#brokers)"
#: What a driver's module may have: by role of a node, each option's type and meaning; and each event's class.
NODE_OPTIONS, EVENTS = "NODE_OPTIONS", "EVENTS"


def write(page: str) -> str:
    """Return the page with its tables made again. Raises :class:`chaos.errors.BadInput` for a broken plug-in."""
    return fill(page, {"systems": _systems(), "workloads": _workloads()})


def _systems() -> Iterator[str]:
    for name in plugins.names(PluginKind.DRIVER):
        module = plugins.load(PluginKind.DRIVER, name)
        yield from _plugin(name, module)
        for role, options in getattr(module, NODE_OPTIONS, {}).items():
            yield from _of_nodes(role, options)
        if events := getattr(module, EVENTS, {}):
            names = ", ".join(f"`{name}`" for name in events)
            yield from (*prose(f"Events that a trigger (`when`) can wait for ({MEANINGS}): {names}."), "")


def _workloads() -> Iterator[str]:
    for name in plugins.names(PluginKind.WORKLOAD):
        yield from _plugin(name, plugins.load(PluginKind.WORKLOAD, name))


def _plugin(name: str, module: ModuleType) -> Iterator[str]:
    cls = plugins.options_class(module)
    yield from (f"### {name}", "", *prose(plugins.summary(module)), "")
    if options := options_of(cls):
        yield from explained(" ".join((cls.__doc__ or "").split()), options)


def _of_nodes(role: str, options: Mapping[str, tuple[type, str]]) -> Iterator[str]:
    if options:
        yield from (f"Options of each {role}:", "")
        yield from (f"* `{name}` ({kind.__name__}): {meaning}" for name, (kind, meaning) in options.items())
        yield ""


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        try:
            path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")
        except BadInput as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
