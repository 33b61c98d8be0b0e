"""Reads recorded histories from files: what Knossos, Jepsen and Porcupine write, and JSON lines of our own."""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from chaos.errors import BadInput
from checkers.linearizable.formats import FORMATS, edn
from checkers.linearizable.formats.operation_mapping import show, text
from checkers.linearizable.formats.pairing import NEMESIS, TYPES, Event, Source, history, with_keys
from checkers.linearizable.history import History
from checkers.linearizable.models import MODELS

#: The model of a format whose files leave no choice.
USUAL_MODEL = {"porcupine-etcd": "cas-register", "porcupine-kv": "kv"}
#: So much of a file is looked at to tell its format.
PROBE_BYTES = 64 * 1024
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: ``INFO  jepsen.util - 3 :invoke :read nil``, the log; ``3 :invoke :read nil``, history.txt.
_LOG_LINE = re.compile(r"\s*(?:.*\bjepsen\.util\s+-\s+)?(\S+)\s+:(invoke|ok|fail|info)\s+:(\S+)(?:\s+(.*))?")
_LOGGED = re.compile(r"jepsen\.util\s+-\s+\S+\s+:(?:invoke|ok|fail|info)\b")
_PLAIN = re.compile(r"\s*:?[\w.-]+\s+:(?:invoke|ok|fail|info)\s+:")
_COMMENT = re.compile(r"(?:[\s,]+|;[^\n]*)*")


def read(path: Path | str, format: str = "", model: str = "", init: Any = None) -> Iterator[History]:
    """The histories of a file, one at a time; a file that holds no event at all gives one history without operations.

    ``format`` is one of :data:`FORMATS` ("": told from the content), ``model`` one of :data:`MODELS`, which only JSON
    lines may leave out; ``init`` is the first state of each object as a JSON value, None for the model's own. Files
    compressed with gzip or Zstandard are read as they are. Raises :class:`chaos.errors.BadInput`, which names file
    and line.
    """
    path = Path(path)
    if format and format not in FORMATS:
        raise BadInput(f"expected a format ({', '.join(FORMATS)}), got {format!r}")
    if model and model not in MODELS:
        raise BadInput(f"expected a model ({', '.join(MODELS)}), got {model!r}")
    try:
        with _open(path) as stream:
            head = stream.peek(PROBE_BYTES)[:PROBE_BYTES]
            found = format or guess(head)
            if not found:
                raise BadInput(
                    f"{path}: this looks like none of the known formats; say which it is with --format"
                    f" ({', '.join(FORMATS)})"
                )
            if found == "jsonl":
                yield from _json_lines(path, stream, model, init)
            else:
                yield _one(path, stream, found, model, init)
    except (EOFError, zlib.error) as error:
        raise BadInput(f"{path}: the compressed file is damaged or cut off ({error}); make it anew") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: expected text in UTF-8, got the byte 0x{error.object[error.start]:02x}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or f'the file is damaged ({error})'}") from error


def guess(head: bytes) -> str:
    """The format of a file that begins with these bytes, "" if it could be anything. A log of Jepsen's is taken for
    one of Porcupine's etcd logs, EDN for Knossos's."""
    start = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if not start.strip():
        return "jsonl"
    if re.match(r'\s*\{\s*("|\}\s*$)', start):
        return "jsonl"
    if _LOGGED.search(start):
        return "porcupine-etcd"
    if _PLAIN.match(start):
        return "jepsen"
    position = _COMMENT.match(start)
    rest = start[position.end() if position else 0 :]
    if rest[:1] in ("{", "[", "(", "#", ";") or not rest:
        first = rest.partition("\n")[0]
        is_kv = rest[:1] == "{" and ":key " in first and re.search(r":f\s+:(get|put|append)\b", first)
        return "porcupine-kv" if is_kv else "knossos"
    return ""


def _open(path: Path) -> io.BufferedReader[Any]:
    raw = io.BufferedReader(io.FileIO(path), PROBE_BYTES)
    magic = raw.peek(4)[:4]
    if magic.startswith(_GZIP):
        import gzip

        return io.BufferedReader(gzip.GzipFile(fileobj=raw), PROBE_BYTES)
    if magic == _ZSTD:
        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(raw, "zstd"), PROBE_BYTES)
    return raw


# JSON lines: one history a line.


def _json_lines(path: Path, stream: IO[bytes], model: str, init: Any) -> Iterator[History]:
    decode = json.JSONDecoder(parse_float=_number, parse_constant=_no_number).decode
    empty = True
    for line, content in enumerate(stream, 1):
        words = content.decode("utf-8-sig" if line == 1 else "utf-8").strip()
        if not words:
            continue
        empty = False
        place = f"{path}:{line}"
        try:
            found = decode(words)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{place}: expected one history a line, as JSON, got {words[:60]!r} ({error})") from error
        yield _json_history(place, found, model, init, line)
    if empty:
        yield _nothing(path, model)


def _nothing(path: Path, model: str) -> History:
    return History(id=path.name, model=model or MODELS[0], operations=())


def _number(text: str) -> int | float:
    """In JSON, 1.0 and 1 are one number."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _json_history(place: str, found: Any, model: str, init: Any, line: int) -> History:
    if not isinstance(found, dict) or not isinstance(found.get("ops"), list):
        raise BadInput(
            f'{place}: expected an object with "id", "model" and "ops" (a list of events), got {show(found)}'
        )
    named = found.get("model") or model
    if not named or not isinstance(named, str):
        raise BadInput(f'{place}: expected a model ({", ".join(MODELS)}): as "model" in the object, or with --model')
    if named not in MODELS:
        raise BadInput(f"{place}: expected a model ({', '.join(MODELS)}), got {show(named)}")
    identity = found.get("id", line)
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise BadInput(f'{place}: expected a string as "id", got {show(identity)}')
    source = Source(lambda row: f"{place}, op {row}" if row >= 0 else place)
    first = found.get("init")
    return history(identity, named, _json_events(found["ops"], source), init if first is None else first, source)


def _json_events(ops: Iterable[Any], source: Source) -> Iterator[Event | None]:
    for row, op in enumerate(ops):
        if not isinstance(op, dict):
            raise BadInput(f'{source.at(row)}: expected an object with "process", "type", "f", "value", got {show(op)}')
        process, type_, f, key = op.get("process"), op.get("type"), op.get("f"), op.get("key")
        if process == NEMESIS:
            yield None
            continue
        if type(process) is not int and type(process) is not str:
            raise BadInput(f'{source.at(row)}: expected a number or a name as "process", got {show(process)}')
        if type_ not in TYPES:
            raise BadInput(f'{source.at(row)}: expected "type" to be one of {", ".join(TYPES)}, got {show(type_)}')
        if type(f) is not str:
            raise BadInput(f'{source.at(row)}: expected the name of a function as "f", got {show(f)}')
        yield Event(row, process, type_, f, op.get("value"), None if key is None else text(key))


# One history a file.


def _one(path: Path, stream: IO[bytes], format: str, model: str, init: Any) -> History:
    content = stream.read().decode("utf-8-sig")
    source = Source(
        at=lambda row: f"{path}:{row}" if row > 0 else str(path),
        nil_observed=format.startswith("porcupine"),
        failed_cas_observed=format == "porcupine-etcd",
    )
    plain = _Plain(source)
    events = list(_log_events(content, plain, source) if _is_log(content, format) else _edn_events(content, plain))
    model = model or USUAL_MODEL.get(format, "")
    if not events:
        return _nothing(path, model)
    if not model:
        raise BadInput(f"{path}: say with --model what this is a history of: {', '.join(MODELS)}")
    if format == "porcupine-kv":
        init = "" if init is None else init
    elif model not in ("multi-register", "fenced-lock"):
        events = with_keys(events)
    return history(path.name, model, events, init, source)


def _is_log(content: str, format: str) -> bool:
    if format == "porcupine-etcd":
        return True
    return format == "jepsen" and not content.lstrip().startswith(("{", "[", "(", ";", "#"))


class _Plain:
    """Turns what EDN has into what JSON has. Keywords and symbols become strings; where a string of the same letters
    occurs, too, nobody could tell them apart, and that is an error."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kinds: dict[str, type] = {}

    def value(self, value: Any, row: int) -> Any:
        if value is None or type(value) in (int, float, bool):
            return value
        if isinstance(value, str):
            return self._text(value, row)
        if isinstance(value, edn.Set):
            return edn.Set(self.value(one, row) for one in value)
        if isinstance(value, list | tuple):
            return [self.value(one, row) for one in value]
        if all(isinstance(key, str) for key in value):
            return {self._text(key, row): self.value(one, row) for key, one in value.items()}
        pairs = [[self.value(key, row), self.value(one, row)] for key, one in value.items()]
        return {"#map": sorted(pairs, key=text)}

    def _text(self, value: str, row: int) -> str:
        kind = self._kinds.setdefault(value, type(value))
        if kind is not type(value):
            raise BadInput(
                f"{self._source.at(row)}: {value} stands here as a {type(value).__name__.lower()} and before as a"
                f" {kind.__name__.lower()}, which would look the same; rename one of them"
            )
        return str(value)


def _edn_events(content: str, plain: _Plain) -> Iterator[Event | None]:
    at = plain._source.at
    try:
        for op in edn.elements(content):
            if not isinstance(op, edn.Map):
                raise BadInput(f"{at(0)}: expected maps such as {{:process 0, :type :invoke, ...}}, got {_shown(op)}")
            yield _edn_event(op, plain, at)
    except edn.EdnError as error:
        raise BadInput(f"{at(error.line)}: {error}") from error


def _edn_event(op: edn.Map, plain: _Plain, at: Callable[[int], str]) -> Event | None:
    named: Mapping[str, Any] = op
    row = op.line
    process, type_, f = named.get("process"), named.get("type"), named.get("f")
    if isinstance(process, edn.Keyword) or process == NEMESIS:
        return None
    if type(process) is not int and type(process) is not str:
        raise BadInput(f"{at(row)}: expected :process with a number, got {_shown(process)}")
    if not isinstance(type_, str) or type_ not in TYPES:
        raise BadInput(f"{at(row)}: expected :type with one of :{', :'.join(TYPES)}, got {_shown(type_)}")
    if not isinstance(f, str):
        raise BadInput(f"{at(row)}: expected :f with the name of a function, got {_shown(f)}")
    key = named.get("key")
    value = plain.value(named.get("value"), row) if type_ in ("invoke", "ok") else None
    return Event(row, process, type_, str(f), value, None if key is None else text(plain.value(key, row)))


def _shown(value: Any) -> str:
    words = f":{value}" if isinstance(value, edn.Keyword) else str(value)
    return words if len(words) <= 60 else words[:57] + "..."


def _log_events(content: str, plain: _Plain, source: Source) -> Iterator[Event | None]:
    """Lines of a log that are about calls; others are passed over, but for those that only almost are."""
    for row, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        found = _LOG_LINE.fullmatch(line)
        if found is None:
            if _LOGGED.search(line) or _PLAIN.match(line):
                raise BadInput(f"{source.at(row)}: expected process, type, function and value, got {line[:80]!r}")
            continue
        process, type_, f, rest = found.groups()
        if not re.fullmatch(r"-?[0-9]+", process):
            yield None  # the nemesis
            continue
        try:
            values = [value for _, value in edn.read(rest or "nil")]
        except edn.EdnError as error:
            if type_ in ("invoke", "ok"):
                raise BadInput(f"{source.at(row)}: expected a value, got {rest!r} ({error})") from error
            values = [None]  # an error message
        value = values[0] if values else None
        if isinstance(value, edn.Keyword | edn.Symbol) and type_ in ("fail", "info"):
            value = None  # why it failed
        yield Event(row, int(process), type_, f, plain.value(value, row))


def of_events(ops: Iterable[Mapping[str, Any]], model: str, init: Any = None) -> History:
    """A history from events as JSON lines have them: mappings with ``process``, ``type``, ``f``, ``value``, ``key``."""
    source = Source(lambda row: f"op {row}" if row >= 0 else "the history")
    return history("history", model, _json_events(ops, source), init, source)


def value(words: str) -> Any:
    """One value as a person types it: JSON, else EDN; a bare word is a string. Raises :class:`BadInput`."""
    try:
        return json.JSONDecoder(parse_float=_number, parse_constant=_no_number).decode(words)
    except ValueError:
        pass
    plain = _Plain(Source(lambda row: words))
    try:
        found = [plain.value(one, 0) for _, one in edn.read(words)]
    except edn.EdnError as error:
        raise BadInput(f"expected a value as JSON, got {words!r} ({error})") from error
    if len(found) != 1:
        raise BadInput(f"expected one value as JSON, got {words!r}")
    return found[0]
