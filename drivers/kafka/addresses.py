"""Brokers' addresses in Kafka's answers: official clients dial what these name.

kio reads an answer in the version in which it was asked for. So that clients ask in none that kio lacks, brokers seem
to know only versions that it has, of the requests whose answers name brokers.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import partial
from operator import is_
from typing import Any

from chaos.addresses import Reached
from drivers.kafka import wire

#: Kafka's number of each request whose answer names brokers, and the first version in which it does.
_NAMES_BROKERS = {0: 10, 1: 16, 3: 0, 10: 0, 60: 0, 78: 0, 79: 0}
#: Kafka's number of the request for the versions that a broker knows.
_VERSIONS = 18


def readdress(request: bytes, answer: bytes, reached: Reached) -> bytes:
    """Return the frame of an answer with the addresses at which its client reaches brokers. Raises ``ValueError`` for
    one that can't be read."""
    key, version = int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")
    if key == _VERSIONS:
        return wire.changed(key, version, answer, _known)
    first = _NAMES_BROKERS.get(key)
    if first is None or version < first:
        return answer
    return wire.changed(key, version, answer, partial(_moved, reached=reached))


def _known(versions: Any) -> Any:
    """Return what a broker knows without the versions that can't be read here."""
    return replace(versions, api_keys=tuple(map(_bounded, versions.api_keys)))


def _bounded(one: Any) -> Any:
    if one.api_key not in _NAMES_BROKERS:
        return one
    return replace(one, max_version=type(one.max_version)(min(one.max_version, wire.newest_version(one.api_key))))


def _moved(one: Any, reached: Reached) -> Any:
    """Return the same, but for each ``host`` and ``port`` in it; the same object where it has none."""
    if isinstance(one, tuple):
        parts = tuple(_moved(part, reached) for part in one)
        return one if all(map(is_, parts, one)) else parts
    if not is_dataclass(one) or isinstance(one, type):
        return one
    before = {field.name: getattr(one, field.name) for field in fields(one)}
    after = {name: _moved(value, reached) for name, value in before.items()}
    if before.get("host") and before.get("port", -1) >= 0:
        host, _, number = reached(f"{before['host']}:{before['port']}").rpartition(":")
        after |= {"host": host, "port": type(before["port"])(int(number))}
    changed = {name: value for name, value in after.items() if value is not before[name]}
    return replace(one, **changed) if changed else one
