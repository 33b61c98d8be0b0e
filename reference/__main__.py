"""``python -m reference``: one node of the reference system as a process, behind real connections and a strict disk."""

from __future__ import annotations

from chaos.shell.node_process import main
from reference import build, codec
from reference.options import OPTIONS

if __name__ == "__main__":
    main(build, lambda spec: codec(spec.mutant), OPTIONS)
