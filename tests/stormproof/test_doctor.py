"""What ``doctor`` says of the packages that only some drivers and loads need, and of deployments."""

from __future__ import annotations

from importlib import metadata

import pytest

from stormproof import doctor

NEEDS = [
    "click<9,>=8.1",
    'kio<0.7,>=0.6.5; extra == "kafka"',
    'pytest>=8; extra == "dev"',
    "two-things; extra == 'both'",
]


def test_each_extra_for_users_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: NEEDS)
    assert doctor.extras() == {"kafka": ["kio"], "both": ["two-things"]}

    def version(name: str) -> str:
        if name != "kio":
            raise metadata.PackageNotFoundError(name)
        return "0.6.5"

    monkeypatch.setattr(metadata, "version", version)
    kafka, both = doctor._extras()
    assert kafka.ok and kafka.found == "kio 0.6.5" and kafka.optional
    assert not both.ok and (both.found, both.mend) == ("without two-things", "pip install 'stormproof[both]'")


def test_what_a_deployment_lacks_is_what_it_says_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = doctor.Finding(what="Docker", ok=False, found="no engine", mend="start it")
    monkeypatch.setattr(doctor, "_docker", lambda: broken)
    assert (doctor.lacking("docker"), doctor.lacking("sim"), doctor.lacking("process")) == ("start it", "", "")
