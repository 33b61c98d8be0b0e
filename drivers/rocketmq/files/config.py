"""A broker's ``config/*.json``: its topics, how far each group has read, and what it knows of its tier.

A broker writes such a file as a whole and keeps the one before as ``NAME.bak``, which it reads when the first one is
damaged; so do we, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.scrub import Damage, Kind
from drivers._remoting.json_text import loads

TOPICS, OFFSETS, TIER = "topics.json", "consumerOffset.json", "tieredStoreMetadata.json"
#: How far the delivery of delayed messages has come, by level; level N is kept in queue N - 1 of their topic.
DELAYS = "delayOffset.json"
DELAYED = "SCHEDULE_TOPIC_XXXX"
#: A larger file isn't read.
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The next message that a group reads of a queue; group "": the broker's own delivery of delayed messages."""

    group: str
    topic: str
    queue_id: int
    offset: int


def read(folder: Path, file: str, name: str = "config") -> tuple[Mapping[str, Any], list[Damage]]:
    """Return one file's content; {} where there is neither it nor a backup. Raises ``OSError``."""
    wrong: list[Damage] = []
    for candidate in (file, f"{file}.bak"):
        path = folder / candidate
        if not path.is_file():
            continue
        try:
            return _object(path), wrong
        except ValueError as error:
            wrong.append(
                Damage(file=f"{name}/{candidate}", kind=Kind.UNREADABLE, text=f"it is no JSON object: {error}")
            )
    return {}, wrong


def topics(content: Mapping[str, Any]) -> Mapping[str, int]:
    """Return how many queues each topic has for readers, from :data:`TOPICS`. Topics that make no sense are left out;
    see :func:`check_topics`."""
    table = _mapping(content.get("topicConfigTable"))
    return {name: one["readQueueNums"] for name, one in table.items() if not _wrong_topic(name, one)}


def batch_topics(content: Mapping[str, Any]) -> frozenset[str]:
    """Return topics whose queues hold batches (``queue.type``), from :data:`TOPICS`."""
    table = _mapping(content.get("topicConfigTable"))
    attributes = ((name, _mapping(one.get("attributes"))) for name, one in table.items() if isinstance(one, dict))
    return frozenset(name for name, own in attributes if own.get("queue.type") == "BatchCQ")


def check_topics(content: Mapping[str, Any], name: str = f"config/{TOPICS}") -> list[Damage]:
    if not content:
        return []
    table = content.get("topicConfigTable")
    if not isinstance(table, dict):
        return [Damage(file=name, kind=Kind.UNREADABLE, text="it has no topicConfigTable")]
    wrong = ((topic, _wrong_topic(topic, one)) for topic, one in table.items())
    return [
        Damage(file=name, kind=Kind.CONTRADICTION, text=f"topic {topic!r}: {text}") for topic, text in wrong if text
    ]


def offsets(content: Mapping[str, Any], name: str = f"config/{OFFSETS}") -> tuple[list[GroupOffset], list[Damage]]:
    """Return what groups have stored, from :data:`OFFSETS`, in the order of the file."""
    found, wrong = [], []
    for key, queues in _mapping(content.get("offsetTable")).items():
        topic, mark, group = key.partition("@")
        for queue, offset in _mapping(queues).items():
            if not mark or not _is_count(queue) or type(offset) is not int or offset < 0:
                text = f"{key!r}, queue {queue!r}: offset {str(offset)[:40]} makes no sense"
                wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=text))
            else:
                found.append(GroupOffset(group=group, topic=topic, queue_id=int(queue), offset=offset))
        if not isinstance(queues, dict):
            text = f"{key!r}: its offsets are no JSON object"
            wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=text))
    return found, wrong


def delays(content: Mapping[str, Any], name: str = f"config/{DELAYS}") -> tuple[list[GroupOffset], list[Damage]]:
    """Return how far delivery has come, from :data:`DELAYS`, in the order of the file."""
    found, wrong = [], []
    for level, offset in _mapping(content.get("offsetTable")).items():
        if not _is_count(level) or int(level) < 1 or type(offset) is not int or offset < 0:
            text = f"level {level!r}: offset {str(offset)[:40]} makes no sense"
            wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text=text))
        else:
            found.append(GroupOffset(group="", topic=DELAYED, queue_id=int(level) - 1, offset=offset))
    return found, wrong


def _object(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    content = loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}")
    return content


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _wrong_topic(name: str, one: object) -> str:
    if not isinstance(one, dict):
        return "it is no JSON object"
    if one.get("topicName") != name:
        return f"it calls itself {one.get('topicName')!r}"
    for field in ("readQueueNums", "writeQueueNums"):
        if type(one.get(field)) is not int or not 0 <= one[field] <= 1 << 20:
            return f"{field} is {str(one.get(field))[:40]}"
    return ""
