"""The bill of materials of a release, in CycloneDX.

``python -m stormproof.release.sbom requirements.lock pyproject.toml .venv/bin/python`` prints it, with the Python of
the environment that ``make dist`` makes from ``stormproof/release/requirements.lock``. ``cyclonedx-py`` reads the lock
file (every package, and the hashes of its files) and the environment of the Python that is named last (descriptions,
licences). This joins the two, and adds what the lock alone says: who needs whom, where, and what only development
needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.errors import BadInput
from chaos.version import VERSION
from stormproof.release.lock import Locked, canonical, direct_needs, extra_needs, read_lock, runtime_needs

#: What the lock says of a package that CycloneDX has no field for: where it is needed, and for which extra.
MARKER, EXTRA = "stormproof:marker", "stormproof:extra"


def join(
    listed: Mapping[str, Any], installed: Mapping[str, Any], lock: Sequence[Locked], project: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the bill of materials.

    ``listed`` and ``installed`` are what ``cyclonedx-py`` reads from the lock and from an environment, ``project`` is
    the table of that name of ``pyproject.toml``. What only an extra needs has the scope ``optional``, and names it;
    what only development needs is ``excluded``. A package that the environment doesn't have in this version has no
    licence. Raises :class:`BadInput` unless ``listed`` has the packages of the lock, each with its version and all its
    hashes.
    """
    files = {purl_of(it): it for it in listed["components"]}
    if {it.purl: {digits for _, digits in it.hashes} for it in lock} != {it: hashes_of(files[it]) for it in files}:
        raise BadInput("cyclonedx-py read other packages or hashes from the lock than are in it")
    packages = {purl_of(it): it for it in installed["components"]}
    direct, extras = direct_needs(project), extra_needs(lock, project)
    scopes = {**dict.fromkeys(extras, "optional"), **dict.fromkeys(runtime_needs(lock, project), "required")}
    product = listed["metadata"]["component"]
    product["version"] = VERSION
    product["purl"] = product["bom-ref"] = purl_of(product)
    for one in lock:
        component = files[one.purl]
        component |= {"bom-ref": one.purl, "scope": scopes.get(one.name, "excluded")}
        said = {MARKER: one.marker, EXTRA: extras.get(one.name, "")}
        if properties := [{"name": name, "value": value} for name, value in said.items() if value]:
            component["properties"] = properties
        del component["description"]  # the entry of the lock, hashes and all
        for key in ("description", "licenses"):
            if value := packages.get(one.purl, {}).get(key):
                component[key] = value
    needs = {product["bom-ref"]: [it.purl for it in lock if it.name in direct]}
    needs |= {one.purl: [it.purl for it in lock if one.name in it.needed_by] for one in lock}
    return {**listed, "dependencies": [{"ref": who, "dependsOn": whom} for who, whom in needs.items()]}


def purl_of(component: Mapping[str, Any]) -> str:
    """Return the package URL of a component, its name as PyPI compares it."""
    return f"pkg:pypi/{canonical(component['name'])}@{component['version']}"


def hashes_of(component: Mapping[str, Any]) -> set[str]:
    """Return the hex digits of all hashes of a component's files."""
    return {it["content"] for place in component.get("externalReferences", ()) for it in place.get("hashes", ())}


def cyclonedx(*words: str) -> Any:
    """Return what ``cyclonedx-py`` of this environment prints. It compares that with the schema itself."""
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", *words, "--sv", "1.6", "--output-reproducible"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main(lock: str, project: str, python: str) -> None:
    """Print the bill of materials of a lock file, a ``pyproject.toml`` and an environment."""
    listed = cyclonedx("requirements", "--pyproject", project, lock)
    installed = cyclonedx("environment", python)
    table = tomllib.loads(Path(project).read_text("utf-8"))["project"]
    text = json.dumps(join(listed, installed, read_lock(Path(lock).read_text("utf-8")), table), indent=2)
    _validate(text)
    print(text)


def _validate(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise BadInput(f"the bill of materials does not fit CycloneDX 1.6: {wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
