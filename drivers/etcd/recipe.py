"""How etcd's server is built: a program of four lines around its module, from the Go module proxy."""

from __future__ import annotations

import re

from chaos.recipe import Recipe, Step

PROGRAM = "etcd"
_PREFERRED = "3.5.17"
_MAIN = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


def recipe(version: str) -> Recipe:
    """Return how a version is built. Raises ``ValueError`` for one whose server is not built so."""
    if not re.fullmatch(r"3\.[5-9]\.[0-9]{1,3}", version):
        raise ValueError(f"version: expected one of etcd 3.5.0 or newer, such as {_PREFERRED}, got {version!r}")
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
                lists=("go", "list", "-m", "-versions", "go.etcd.io/etcd/server/v3"),
            ),
            Step(
                command=("go", "build", "-trimpath", "-ldflags=-s -w", "-o", PROGRAM, "."),
                does="compiling, which takes a minute or two",
                mend="Go 1.22 or newer, 2 GiB of memory and 1 GiB in `go env GOCACHE` are needed",
            ),
        ),
        makes=(PROGRAM,),
    )


#: Other versions are made on demand.
RECIPES = (recipe(_PREFERRED),)
