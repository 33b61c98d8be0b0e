"""How etcd's server is built: a program of four lines around its module, from the Go module proxy."""

from __future__ import annotations

from chaos.recipe import Recipe, Step

PROGRAM = "etcd"
_MAIN = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


def _recipe(version: str) -> Recipe:
    module = f"module stormproof/etcd\n\ngo 1.22\n\nrequire go.etcd.io/etcd/server/v3 v{version}\n"
    return Recipe(
        system="etcd",
        version=version,
        tools={"go": "install Go 1.22 or newer, and call this command again"},
        files={"go.mod": module, "main.go": _MAIN},
        env={"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},  # a static binary, which runs in any container
        steps=(
            Step(
                command=("go", "mod", "tidy"),
                does="downloading its modules",
                mend="the Go module proxy must be reachable, see `go env GOPROXY`; then call this command again",
                limit_s=900.0,
            ),
            Step(
                command=("go", "build", "-trimpath", "-ldflags=-s -w", "-o", PROGRAM, "."),
                does="compiling, which takes a minute or two",
                mend="Go 1.22 or newer, 2 GiB of memory and 1 GiB in `go env GOCACHE` are needed",
            ),
        ),
        makes=(PROGRAM,),
    )


#: The preferred one first; ``stormproof install etcd@3.5`` takes the first that begins so.
RECIPES = tuple(_recipe(version) for version in ("3.5.17",))
