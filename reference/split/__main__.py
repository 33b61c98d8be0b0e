"""``python -m reference.split``: one node of a split cluster as a process, behind real connections."""

from __future__ import annotations

from chaos.shell.node_process import main
from reference.split import build, codec
from reference.split.options import OPTIONS

if __name__ == "__main__":
    main(build, lambda spec: codec(spec.mutant), OPTIONS)
