"""How NATS's server is built: its own main package, from the Go module proxy."""

from __future__ import annotations

import re

from chaos.recipe import Recipe, Step

SYSTEM, PROGRAM = "nats", "nats-server"
_MODULE = "github.com/nats-io/nats-server/v2"
#: The preferred one first; of 2.10 the newest, and those for which Jepsen reported losses. Others are made on demand.
_VERSIONS = ("2.15.3", "2.12.1", "2.10.27", "2.10.20")


def recipe(version: str) -> Recipe:
    """Return how a version is built. Raises ``ValueError`` for one that can't be, or lacks what the driver asks."""
    if not re.fullmatch(r"2\.[1-9][0-9]{1,2}\.[0-9]{1,3}(-[A-Za-z0-9.]{1,20})?", version):
        raise ValueError(f"version: expected one of NATS 2.10.0 or newer, such as {_VERSIONS[0]}, got {version!r}")
    return Recipe(
        system=SYSTEM,
        version=version,
        tools={"go": "install Go 1.22 or newer, and call this command again"},
        files={"go.mod": "module stormproof/nats\n\ngo 1.22\n"},
        env={"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},  # a static binary, which runs in any container
        steps=(
            Step(
                command=("go", "get", f"{_MODULE}@v{version}"),
                does="downloading its modules",
                mend="the Go module proxy must be reachable, see `go env GOPROXY`; then call this command again",
                limit_s=900.0,
                lists=("go", "list", "-m", "-versions", _MODULE),
            ),
            Step(
                command=("go", "build", "-trimpath", "-ldflags=-s -w", "-o", PROGRAM, _MODULE),
                does="compiling, which takes a minute or two",
                mend="1 GiB of memory and 1 GiB in `go env GOCACHE` are needed",
            ),
        ),
        makes=(PROGRAM,),
    )


RECIPES = tuple(map(recipe, _VERSIONS))
