"""Where the objects of a gateway stand: a URL that holds no secret, so that a run may record it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

#: By scheme, what may stand behind the question mark. Credentials never do: the node has them from its environment.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "s3": ("region", "endpoint", "virtual_hosted_style_request", "skip_signature"),
    "gs": ("base_url", "skip_signature"),
    "az": ("account_name", "endpoint", "use_emulator", "skip_signature"),
    "file": (),
    "memory": (),
}
_CREDENTIALS = "credentials come from the environment of the node, such as AWS_ACCESS_KEY_ID, for runs record a URL"
_URLS, _FLAGS = ("endpoint", "base_url"), ("virtual_hosted_style_request", "use_emulator", "skip_signature")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,254}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9-]{1,80}")
_PATH = re.compile(r"(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """``bucket``: also a container of Azure; "" for a file system and for memory. ``path``: below that, without a slash
    at either end but for that of a file system."""

    scheme: str
    bucket: str = ""
    path: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where objects stand, without the settings."""
        return f"{self.scheme}://{self.bucket}{'/' if self.bucket and self.path else ''}{self.path}"

    @property
    def speaks_plainly(self) -> bool:
        """Return whether it is reached without TLS."""
        return any(self.settings.get(name, "").startswith("http://") for name in _URLS)

    @classmethod
    def of(cls, text: str) -> StoreAddress:
        """Read a URL. Raises ``ValueError``, which repeats nothing that may be a secret."""
        try:
            parts = urlsplit(text)
        except ValueError:
            raise ValueError("store: this is not a URL") from None
        if parts.scheme not in SETTINGS:
            raise ValueError(
                f"store: expected a URL of {', '.join(f'{one}://' for one in SETTINGS)}, such as s3://BUCKET"
            )
        if "@" in parts.netloc or parts.fragment:
            raise ValueError(f"store: a URL has no user, password or fragment here; {_CREDENTIALS}")
        settings = _settings(parts)
        if parts.scheme in ("file", "memory"):
            return cls(scheme=parts.scheme, path=_folder(parts))
        if not _BUCKET.fullmatch(parts.netloc) or not _PATH.fullmatch(parts.path):
            raise ValueError(
                f"store: expected {parts.scheme}://BUCKET/PATH of letters, digits and ._-, the path is optional"
            )
        return cls(scheme=parts.scheme, bucket=parts.netloc, path=parts.path.strip("/"), settings=settings)


def _folder(parts: SplitResult) -> str:
    path = unquote(parts.path)
    if parts.scheme == "memory" and (parts.netloc or path.strip("/")):
        raise ValueError("store: expected memory:// alone, which has no path")
    if parts.scheme == "file" and (parts.netloc or not path.strip("/") or "\0" in path or ".." in path.split("/")):
        raise ValueError("store: expected file:///PATH, the absolute path of a folder")
    return path.rstrip("/")


def _settings(parts: SplitResult) -> dict[str, str]:
    known, found = SETTINGS[parts.scheme], dict[str, str]()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            words = f"it has {', '.join(known)}" if known else f"{parts.scheme}:// has none"
            raise ValueError(f"store: there is no setting {name[:40]!a}; {words}; {_CREDENTIALS}")
        if name in _FLAGS and value not in ("true", "false"):
            raise ValueError(f"store: {name} is true or false")
        if name in _URLS:
            _check_endpoint(name, value)
        elif name not in _FLAGS and not _WORD.fullmatch(value):
            raise ValueError(f"store: {name} is a word of letters, digits and -")
        found[name] = value
    return found


def _check_endpoint(name: str, value: str) -> None:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"store: {name} is a URL such as https://HOST:PORT, without a user, a query or a fragment")
