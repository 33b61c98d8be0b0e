"""Which properties RocketMQ's programs know, by the setters of their configuration classes: a program sets what it
finds a setter for and passes over everything else in silence, so that a misspelt property would test nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile

_COMMON = "org/apache/rocketmq/common/"
_NETTY = "org/apache/rocketmq/remoting/netty/Netty"
_SHARED = (f"{_NETTY}ServerConfig", f"{_NETTY}ClientConfig")
#: The classes into which a program reads its file, with those that they extend. A version may lack some.
BROKER = (
    f"{_COMMON}BrokerConfig",
    f"{_COMMON}BrokerIdentity",
    "org/apache/rocketmq/store/config/MessageStoreConfig",
    "org/apache/rocketmq/tieredstore/MessageStoreConfig",
    "org/apache/rocketmq/auth/config/AuthConfig",
    *_SHARED,
)
PROXY = ("org/apache/rocketmq/proxy/config/ProxyConfig", "org/apache/rocketmq/auth/config/AuthConfig")
CONTROLLER = (f"{_COMMON}ControllerConfig", f"{_COMMON}JraftConfig", *_SHARED)
#: Of a class file: the bytes of each kind of constant behind its tag, but for texts, which say their length.
_TEXT = 1
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_TWO_PLACES = (5, 6)


def complain(option: str, given: Iterable[str], lib: Path, classes: tuple[str, ...]) -> str:
    """Return what is wrong with these properties in the eyes of the programs in ``lib``; "" when all are known, or when
    the programs don't say."""
    known = properties(lib, classes)
    unknown = [one for one in given if one not in known]
    if not known or not unknown:
        return ""
    return f"{option}: " + "; ".join(f"RocketMQ knows no property {one!r}{_nearest(one, known)}" for one in unknown)


@cache
def properties(lib: Path, classes: tuple[str, ...]) -> frozenset[str]:
    """Return the properties that these classes have setters for, in whichever jar of ``lib`` they are; empty without
    them."""
    found: set[str] = set()
    for jar in sorted(lib.glob("rocketmq-*.jar")):
        try:
            with ZipFile(jar) as content:
                for name in {f"{one}.class" for one in classes} & set(content.namelist()):
                    found.update(map(_property, filter(_is_setter, _texts(content.read(name)))))
        except (OSError, BadZipFile, ValueError, IndexError, struct.error):
            continue
    return frozenset(found)


@cache
def class_called(name: str, lib: Path, jars: str) -> str:
    """Return the class of this name with its package, which differs between versions, in the jars of ``lib`` that match
    ``jars``; "" where there is none."""
    for jar in sorted(lib.glob(jars)):
        try:
            with ZipFile(jar) as content:
                for entry in content.namelist():
                    if entry.endswith(f"/{name}.class"):
                        return entry.removesuffix(".class").replace("/", ".")
        except (OSError, BadZipFile):
            continue
    return ""


def _nearest(name: str, known: Iterable[str]) -> str:
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return f", did you mean {by_lower[close[0]]}?" if close else ""


def _is_setter(text: str) -> bool:
    return text.isidentifier() and (text.startswith("setjRaft") or (text.startswith("set") and text[3:4].isupper()))


def _property(setter: str) -> str:
    return setter[3].lower() + setter[4:]


def _texts(content: bytes) -> list[str]:
    """Return all texts among the constants of a class file. Raises ``ValueError``, ``IndexError`` or ``struct.error``
    for anything else."""
    (count,) = struct.unpack_from(">8xH", content)
    at, number, texts = 10, 1, []
    while number < count:
        tag = content[at]
        if tag == _TEXT:
            (size,) = struct.unpack_from(">H", content, at + 1)
            texts.append(content[at + 3 : at + 3 + size].decode("utf-8", "replace"))
            at += 3 + size
        elif tag in _SIZES:
            at += 1 + _SIZES[tag]
        else:
            raise ValueError(f"byte {at}: {tag} is no kind of constant")
        number += 2 if tag in _TWO_PLACES else 1
    return texts
