"""Segments of a run that stand elsewhere than in its directory: under a URI, in a folder of the run's name.

Of such a segment its file in the directory keeps the name and the length, and has a hole; the manifest says where the
bytes are. They are read there only if the user has named that store, since a run may come from anybody.
"""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit

from chaos.errors import BadInput, DamagedHistory
from chaos.history import uris
from chaos.history.manifest import Sealed, Sum, sum_of

#: The variable that names the stores in which runs of this user keep segments: URIs with spaces between them.
VARIABLE = "STORMPROOF_SEGMENTS"


def checked(store: str) -> str:
    """Return the URI of a store as manifests name it. Raises :class:`BadInput` for what is none, or holds a key."""
    parts = urlsplit(store)
    if not uris.is_uri(store) or " " in store:
        raise BadInput(f"{uris.without_secrets(store)!r} is no URI (s3://BUCKET/PATH, file:///PATH)")
    if "@" in parts.netloc:
        raise BadInput(
            f"{uris.without_secrets(store)}: a run names the store of its segments, so the URI must hold no key;"
            " keys come from the environment"
        )
    return parts._replace(path=parts.path.rstrip("/")).geturl()


def allow(store: str) -> None:
    """Read what stands in this store, in this process and those that it starts."""
    os.environ[VARIABLE] = " ".join(dict.fromkeys([*os.environ.get(VARIABLE, "").split(), checked(store)]))


def uri_of(folder: str, name: str, offset: int) -> str:
    """Return where a segment is put: that of the file of this name which begins at this byte. ``folder``: of its
    run."""
    return uris.below(folder, quote(f"{name}@{offset}", safe="").replace("%", "="))


def place_of(sealed: Sealed, name: str, offset: int = 0) -> str | None:
    """Return the URI of a segment; None for one that stands in the run's directory. Raises :class:`BadInput` for a
    store that the user has not named."""
    folder = sealed.stored.get((name, offset))
    if folder is None:
        return None
    parts = urlsplit(folder)
    store = parts._replace(path=parts.path.rpartition("/")[0]).geturl()
    if store not in os.environ.get(VARIABLE, "").split():
        raise BadInput(
            f"segments of this run are under {uris.without_secrets(store)}: if you know that store,"
            f" name it with {VARIABLE}={store!r}"
        )
    return uri_of(folder, name, offset)


def fetch(sealed: Sealed, name: str, offset: int, checksum: Sum) -> bytes | None:
    """Return a segment that stands elsewhere; None for one that doesn't. Raises as :func:`place_of`, and as
    :func:`read`."""
    uri = place_of(sealed, name, offset)
    return None if uri is None else read(uri, checksum)


def read(uri: str, checksum: Sum) -> bytes:
    """Return what stands there. Raises :class:`DamagedHistory` where that can't be read, or is something else."""
    from pyarrow import ArrowException

    shown = uris.without_secrets(uri)
    try:
        files, path = uris.resolve(uri)
        with files.open_input_file(path) as file:
            data: bytes = file.read() if file.size() == checksum.length else b""
    except (ArrowException, ValueError, OSError) as error:
        raise DamagedHistory(f"{shown} can't be read: {uris.sentence(error, uri)}") from error
    if sum_of(data) != checksum:
        raise DamagedHistory(f"{shown} is not what was written: its checksum is wrong")
    return data
