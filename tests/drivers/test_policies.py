"""The methods that are said to have decided something are there, in the class whose name they carry."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import reference
from chaos import plugins
from drivers.reference import policies as of_reference
from drivers.split import policies as of_split

DECIDED_BY = {"reference": of_reference.DECIDED_BY, "split": of_split.DECIDED_BY}


def classes(driver: str) -> dict[str, list[type]]:
    """All classes of the correct system by name. The split system has its own beside those that both have."""
    found: dict[str, list[type]] = {}
    for module in pkgutil.walk_packages(reference.__path__, "reference."):
        of_other = driver == "reference" and module.name.startswith("reference.split")
        if ".mutants" not in module.name and not module.name.endswith("__main__") and not of_other:
            for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if cls.__module__ == module.name:
                    found.setdefault(name, []).append(cls)
    return found


@pytest.mark.parametrize("driver", DECIDED_BY)
def test_each_method_that_decides_is_one_of_the_reference_system(driver: str) -> None:
    known = classes(driver)
    for method in {method for methods in DECIDED_BY[driver].values() for method in methods}:
        cls, _, name = method.partition(".")
        found = [getattr(one, name) for one in known[cls] if hasattr(one, name)]
        assert len(found) == 1 and (callable(found[0]) or isinstance(found[0], property)), method


def test_a_driver_that_says_nothing_names_no_methods() -> None:
    for driver, decided_by in DECIDED_BY.items():
        assert plugins.decided_by(driver) == {row: [*methods] for row, methods in decided_by.items()}
    assert plugins.decided_by("no such driver") == {}
