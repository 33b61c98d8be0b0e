"""How NATS's server is built: its own main package, from the Go module proxy."""

from __future__ import annotations

from chaos.recipe import Recipe, Step

PROGRAM = "nats-server"
_MODULE = "github.com/nats-io/nats-server/v2"
#: The preferred one first; of each older line its newest, and those in which losses were reported.
VERSIONS = ("2.15.3", "2.14.10", "2.12.15", "2.12.1", "2.11.17", "2.10.27", "2.10.22", "2.10.20")


def _recipe(version: str) -> Recipe:
    return Recipe(
        system="nats",
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
            ),
            Step(
                command=("go", "build", "-trimpath", "-ldflags=-s -w", "-o", PROGRAM, _MODULE),
                does="compiling, which takes a minute or two",
                mend="1 GiB of memory and 1 GiB in `go env GOCACHE` are needed",
            ),
        ),
        makes=(PROGRAM,),
    )


RECIPES = tuple(map(_recipe, VERSIONS))
