"""Files under URIs that pyarrow can read: ``s3://BUCKET/PATH?endpoint_override=…``, ``file:///PATH``."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit


def is_uri(word: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", word) is not None


def resolve(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it, without a slash at its end. Raises what pyarrow does for one
    that nobody can read: ``pyarrow.ArrowException``, ``ValueError`` or ``OSError``."""
    from pyarrow.fs import FileSystem

    files, path = FileSystem.from_uri(uri)
    return files, path.rstrip("/")


def below(uri: str, *names: str) -> str:
    """Return the URI of what has these names below ``uri``."""
    parts = urlsplit(uri)
    return parts._replace(path="/".join([parts.path.rstrip("/"), *names])).geturl()


def without_secrets(uri: str) -> str:
    """Return a URI as it may be printed: keys may stand in front of its host, and behind its path. A path is returned
    as it is."""
    if not is_uri(uri):
        return uri
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def sentence(error: BaseException, uri: str) -> str:
    """Return what went wrong under a URI, in a line that names none of its keys."""
    return (str(error) or type(error).__name__).splitlines()[0].replace(uri, without_secrets(uri))
