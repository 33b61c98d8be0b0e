"""Which format a file has, by its content, and what follows from that.

A format whose conventions differ from Knossos's is recognized only if *every* call of the file is written as those who
define the format write it; what any other program may have written as well is read by Knossos's conventions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from checkers.linearizable.history import Reading
from checkers.linearizable.models import JUDGED_AS

#: Loggers of Jepsen's, before the process: ``jepsen.util - 3``, 2014; ``jepsen.util 3``, 2018; ``jepsen.util: 3``, now.
LOGGER = r"\bjepsen\.util(?:\s+-|:)?\s+"
TYPE = r":(?:invoke|ok|fail|info)\b"
LOGGED = re.compile(rf"{LOGGER}\S+\s+{TYPE}")
PLAIN = re.compile(rf"\s*:?[\w.-]+\s+{TYPE}\s+:")
_NUMBER = r"-?\d+"
_PAIR = rf"\[{_NUMBER}\s+{_NUMBER}\]"
_ETCD = re.compile(
    rf"INFO\s+jepsen\.util\s+-\s+(?:{_NUMBER}\s+(?:"
    rf":invoke\s+:read\s+nil|:ok\s+:read\s+(?:nil|{_NUMBER})|:(?:invoke|ok)\s+:write\s+{_NUMBER}"
    rf"|:(?:invoke|ok|fail)\s+:cas\s+{_PAIR}|:(?:fail|info)\s+:(?:read|write|cas)\s+:timed-out"
    rf")|:nemesis\s.*)\s*"
)
_STRING = r'"(?:[^"\\]|\\.)*"'
_KV = re.compile(
    r"\s*\{:process\s+\d+,?\s+(?:"
    rf":type\s+:invoke,?\s+:f\s+:get,?\s+:key\s+{_STRING}(?:,?\s+:value\s+nil)?"
    rf"|:type\s+:ok,?\s+:f\s+:get,?\s+:key\s+{_STRING},?\s+:value\s+{_STRING}"
    rf"|:type\s+:(?:invoke|ok),?\s+:f\s+:(?:put|append),?\s+:key\s+{_STRING},?\s+:value\s+{_STRING}"
    r")\s*\}\s*"
)
_COMMENT = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_PORCUPINE_FIELDS = {"input", "output", "call", "return"}

_MAPS, _CAS = ("kv",), ("register", "cas-register", "replica-info")
#: By format, where calls mean something else than by Knossos's conventions: for which models, and what.
CONVENTIONS: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "porcupine-etcd": (
        (_CAS, "a failed compare-and-set that names no other reason has seen another value"),
        (JUDGED_AS, "an ok read of nil has seen nil"),
    ),
    "porcupine-kv": (
        (JUDGED_AS, "a key that is absent reads as the empty string, and an ok get of nil has seen that"),
    ),
    "porcupine-json": (
        (_MAPS, "a key that is absent reads as the empty string"),
        (_CAS, "a failed compare-and-set has seen another value"),
        (JUDGED_AS, "an ok read of nil has seen nil"),
        (JUDGED_AS, "of equal times a call comes before a return"),
    ),
}
#: By format that is recognized by content, the one that reads the same text by Knossos's conventions.
INSTEAD = {"porcupine-etcd": "jepsen", "porcupine-kv": "knossos"}
KEYS_IN_VALUES = "each value is [key, value], and each key an object of its own"
#: By format, what an event looks like.
EXPECTED = {
    "knossos": "maps such as {:process 0, :type :invoke, :f :write, :value 1}",
    "jepsen": "lines such as `jepsen.util: 0 :invoke :write 1`, `0 :invoke :write 1`, or maps such as"
    " {:process 0, :type :invoke, :f :write, :value 1}",
    "porcupine-etcd": "lines such as `INFO  jepsen.util - 0 :invoke :write 1`",
    "porcupine-kv": 'maps such as {:process 0, :type :invoke, :f :get, :key "0", :value nil}',
    "porcupine-json": 'operations such as {"ClientId": 0, "Input": {"op": "write", "value": 1}, "Call": 0,'
    ' "Output": {}, "Return": 5}',
    "json": 'operations such as {"process": 0, "type": "invoke", "f": "write", "value": 1}',
    "jsonl": 'histories such as {"id": 1, "model": "register", "ops": [...]}, one a line',
}


def reading(format: str, guessed: bool, model: str = "") -> Reading:
    """Return how a file of this format is read."""
    conventions = tuple(what for models, what in CONVENTIONS.get(format, ()) if model in models)
    return Reading(format=format, guessed=guessed, conventions=conventions, expected=EXPECTED[format])


def guess(head: bytes, model: str = "") -> str:
    """Return the format of a file that holds these bytes, or begins with them; "" if it could be anything. ``model`` is
    what the caller says that it is a history of: no map, no log of a map."""
    start = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if not start.strip():
        return "jsonl"
    if re.match(r'\{\s*("|\}\s*$)', start.lstrip().removeprefix("[").lstrip()):
        return _json(start)
    if LOGGED.search(start):
        return "porcupine-etcd" if model in ("", "register", "cas-register") and _all_etcd(start) else "jepsen"
    if PLAIN.match(start):
        return "jepsen"
    position = _COMMENT.match(start)
    rest = start[position.end() if position else 0 :]
    if rest[:1] in ("{", "[", "(", "#", ";") or not rest:
        is_kv = model in ("", "kv") and rest[:1] == "{" and all(map(_KV.fullmatch, _whole_lines(rest)))
        return "porcupine-kv" if is_kv else "knossos"
    return ""


def _all_etcd(text: str) -> bool:
    return all(_ETCD.fullmatch(line) for line in _whole_lines(text) if LOGGED.search(line))


def _whole_lines(text: str) -> list[str]:
    """Return the lines that are there to their ends; of a single one, what is there."""
    lines = text.splitlines()
    whole = lines if text.endswith("\n") or len(lines) == 1 or len(text) < 32_768 else lines[:-1]
    return [line for line in whole if line.strip()]


def _json(start: str) -> str:
    """By the fields of the first object."""
    text = start.lstrip().removeprefix("[").lstrip()
    listed = start.lstrip().startswith("[")
    fields: set[str] = set()
    try:
        found: Any = json.JSONDecoder().raw_decode(text)[0]
        fields = {str(name).lower() for name in found}
    except (ValueError, RecursionError):
        fields = set(map(str.lower, re.findall(r'"(\w+)"\s*:', text[:4096])))
        fields -= set() if listed or "ops" not in fields else {"process", "type"}
    if "ops" in fields and not listed:
        return "jsonl"
    if len(fields & _PORCUPINE_FIELDS) >= 2 and not fields & {"process", "type"}:
        return "porcupine-json"
    return "json" if listed or fields & {"process", "type", "f"} else "jsonl"
