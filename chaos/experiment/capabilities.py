"""What a deployment and its links can do, and what a fault asks of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from chaos import plugins
from chaos.effects.links import ACTIONS
from chaos.errors import BadInput, ChaosError
from chaos.plugins import PluginKind


def can(host: type, power: type) -> bool:
    """Return whether a class has all methods of a capability protocol."""
    return all(callable(getattr(host, name, None)) for name in methods(power))


def methods(power: type) -> list[str]:
    return [name for name, member in vars(power).items() if not name.startswith("_") and callable(member)]


def link_actions(fault: object) -> tuple[type, ...]:
    """Return what a fault does to links; nothing for most faults."""
    return tuple(getattr(fault, "link_actions", ()))


def link_actions_of(host: type, *, clients: bool = False) -> frozenset[type]:
    """Return what the links of a deployment can do, or those of its clients; all, if its class doesn't say."""
    able = getattr(host, "LINK_ACTIONS", ACTIONS.values())
    return frozenset(getattr(host, "CLIENT_LINK_ACTIONS", able) if clients else able)


def faults_on_links(able: frozenset[type]) -> list[str]:
    """Return the faults that do to links only these things, as they are without options."""
    found = []
    for name in plugins.names(PluginKind.FAULT):
        try:
            used = link_actions(plugins.build(PluginKind.FAULT, name))
        except (ChaosError, TypeError):  # broken, or one that can't be made without options
            continue
        if used and able.issuperset(used):
            found.append(name)
    return found


def deployments_that(can_do: Callable[[type], bool]) -> list[str]:
    """Return the names of the deployments whose class is able to do something; broken ones are left out."""
    found = []
    for name in plugins.names(PluginKind.DEPLOYMENT):
        with suppress(ChaosError):
            if can_do(deployment_class(name)):
                found.append(name)
    return found


def deployment_class(name: str) -> type:
    """Return the class of the deployment of this name. Raises :class:`BadInput` when there is none."""
    module = plugins.load(PluginKind.DEPLOYMENT, name)
    classes = [
        found
        for found in vars(module).values()
        if isinstance(found, type) and hasattr(found, "execute") and not getattr(found, "_is_protocol", False)
    ]
    for found in sorted(classes, key=lambda found: found.__module__ != module.__name__):  # its own before what it uses
        return found
    raise BadInput(f"deployment {name!r} is broken: {module.__name__} has no class with a method execute()")
