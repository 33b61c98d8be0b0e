"""``python -m reference``: one node of the reference system as a process, behind real connections and a strict disk."""

from __future__ import annotations

from chaos.node import NodeSpec
from chaos.shell.node_process import main
from chaos.shell.outside import Outside, Unfit
from reference import build, codec
from reference.options import OPTIONS


def outside(spec: NodeSpec) -> Outside | None:
    """Return the real store of a gateway; None for other nodes. Raises :class:`Unfit`."""
    if not spec.options.get("store"):
        return None
    from reference.objectstore.bucket import Bucket

    try:
        return Bucket.of(spec)
    except ImportError:
        raise Unfit("obstore is not installed where it runs: pip install 'stormproof[cloud]'") from None
    except ValueError as error:
        raise Unfit(str(error)) from None


if __name__ == "__main__":
    main(build, lambda spec: codec(spec.mutant), OPTIONS, outside)
