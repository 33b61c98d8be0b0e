"""The methods that are said to have decided something are there, in the class whose name they carry."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import reference
from chaos import plugins
from drivers.reference.policies import DECIDED_BY


def classes() -> dict[str, list[type]]:
    """All classes of the correct system by name."""
    found: dict[str, list[type]] = {}
    for module in pkgutil.walk_packages(reference.__path__, "reference."):
        if not module.name.startswith("reference.mutants") and not module.name.endswith("__main__"):
            for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if cls.__module__ == module.name:
                    found.setdefault(name, []).append(cls)
    return found


def test_each_method_that_decides_is_one_of_the_reference_system() -> None:
    known = classes()
    for method in {method for methods in DECIDED_BY.values() for method in methods}:
        cls, _, name = method.partition(".")
        found = [getattr(one, name) for one in known[cls] if hasattr(one, name)]
        assert len(found) == 1 and (callable(found[0]) or isinstance(found[0], property)), method


def test_a_driver_that_says_nothing_names_no_methods() -> None:
    assert plugins.decided_by("reference") == {row: [*methods] for row, methods in DECIDED_BY.items()}
    assert plugins.decided_by("no such driver") == {}
