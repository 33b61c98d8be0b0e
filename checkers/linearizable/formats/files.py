"""Reads recorded histories from files: what Knossos, Jepsen and Porcupine write, and JSON."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.errors import BadInput
from checkers.linearizable.formats import FORMATS, edn, guessing, json_files
from checkers.linearizable.formats.guessing import LOGGED, PLAIN, guess
from checkers.linearizable.formats.operation_mapping import text
from checkers.linearizable.formats.pairing import NEMESIS, TYPES, Event, Source, history, with_keys
from checkers.linearizable.history import History
from checkers.linearizable.models import JUDGED_AS

#: The model of a format whose files leave no choice.
USUAL_MODEL = {"porcupine-etcd": "cas-register", "porcupine-kv": "kv"}
#: So much of a file is looked at to recognize its format.
PROBE_BYTES = 64 * 1024
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: ``INFO  jepsen.util - 3 :invoke :read nil``, the log; ``3 :invoke :read nil``, history.txt.
_LOG_LINE = re.compile(rf"(?:.*{guessing.LOGGER})?(\S+)\s+:(invoke|ok|fail|info)\s+:(\S+)(?:\s+(.*))?")


def read(
    path: Path | str,
    format: str = "",
    model: str = "",
    init: Any = None,
    on_problem: json_files.OnProblem | None = None,
) -> Iterator[History]:
    """Yield the histories of a file, one at a time; a file that holds no event at all gives one history without
    operations.

    ``format`` is one of :data:`FORMATS` ("": recognized by the content), ``model`` one of :data:`JUDGED_AS`, which only
    JSON lines and Porcupine's own logs may leave out; ``init`` is the first state of each object as a JSON value, None
    for the model's own. Files compressed with gzip or Zstandard are read as they are. Raises
    :class:`chaos.errors.BadInput`, which names file and line; of a file with several histories, ``on_problem`` gets
    the error of one that makes no sense, and the others are read.
    """
    path = Path(path)
    if format and format not in FORMATS:
        raise BadInput(f"expected a format ({', '.join(FORMATS)}), got {format!r}")
    if model and model not in JUDGED_AS:
        raise BadInput(f"expected a model ({', '.join(JUDGED_AS)}), got {model!r}")
    try:
        with _open(path) as stream:
            found = format or guess(stream.peek(PROBE_BYTES)[:PROBE_BYTES], model)
            if found == "jsonl":
                yield from json_files.histories(path, stream, not format, model, init, on_problem)
            elif found in ("json", "porcupine-json"):
                yield json_files.one(path, stream, found, not format, model, init)
            else:
                content = json_files.whole(path, stream)
                found = format or guess(content, model)  # by all of it: a log may begin with much else
                if not found:
                    raise BadInput(
                        f"{path}: this looks like none of the known formats; say which it is with --format"
                        f" ({', '.join(FORMATS)})"
                    )
                yield _one(path, content.decode("utf-8-sig"), found, not format, model, init)
    except (EOFError, zlib.error) as error:
        raise BadInput(f"{path}: the compressed file is damaged or cut off ({error}); make it again") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: expected text in UTF-8, got the byte 0x{error.object[error.start]:02x}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or f'the file is damaged ({error})'}") from error
    except RecursionError:
        raise BadInput(f"{path}: a value is nested too deeply") from None


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


# One history a file, of lines or EDN.


def _one(path: Path, content: str, format: str, guessed: bool, model: str, init: Any) -> History:
    model = model or USUAL_MODEL.get(format, "")
    reading = guessing.reading(format, guessed, model)
    source = Source(
        at=lambda row: f"{path}:{row}" if row > 0 else str(path),
        nil_observed=format.startswith("porcupine"),
        failed_cas_observed=format == "porcupine-etcd",
        reading=reading,
    )
    plain = _Plain(source)
    events = list(_log_events(content, plain, source) if _is_log(content, format) else _edn_events(content, plain))
    if not events:
        return json_files.nothing(path, format, guessed, model)
    if not model:
        raise BadInput(f"{path}: say with --model what this is a history of: {', '.join(JUDGED_AS)}")
    if format == "porcupine-kv":
        init = "" if init is None else init
    elif model not in ("multi-register", "fenced-lock"):
        events, keyed = with_keys(events, source)
        if keyed:
            conventions = (*reading.conventions, guessing.KEYS_IN_VALUES)
            source = source._replace(reading=replace(reading, conventions=conventions))
    return history(path.name, model, events, init, source)


def _is_log(content: str, format: str) -> bool:
    if format == "porcupine-etcd":
        return True
    return format == "jepsen" and not content.lstrip().startswith(("{", "[", "(", ";", "#"))


class _Plain:
    """Turns what EDN has into what JSON has. Keywords and symbols become strings; where a string of the same letters
    occurs, too, the two would be mixed up, and that is an error."""

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
    if process == NEMESIS:
        return None
    if type(process) is not int and not isinstance(process, str):
        raise BadInput(f"{at(row)}: expected :process with a number, got {_shown(process)}")
    if not isinstance(type_, str) or type_ not in TYPES:
        raise BadInput(f"{at(row)}: expected :type with one of :{', :'.join(TYPES)}, got {_shown(type_)}")
    if not isinstance(f, str):
        raise BadInput(f"{at(row)}: expected :f with the name of a function, got {_shown(f)}")
    key = named.get("key")
    raw = named.get("value")
    value = plain.value(raw, row) if type_ in ("invoke", "ok") else None
    why = named.get("error", raw if isinstance(raw, str) else None) if type_ == "fail" else None
    key = None if key is None else text(plain.value(key, row))
    name = str(process) if isinstance(process, str) else process
    return Event(row, name, type_, str(f), value, key, "" if why is None else str(why))


def _shown(value: Any) -> str:
    words = f":{value}" if isinstance(value, edn.Keyword) else str(value)
    return words if len(words) <= 60 else words[:57] + "..."


def _log_events(content: str, plain: _Plain, source: Source) -> Iterator[Event | None]:
    """Lines of a log that are about calls; others are passed over, but for those that only almost are."""
    for row, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        found = _LOG_LINE.fullmatch(line.strip())
        if found is None:
            if LOGGED.search(line) or PLAIN.match(line):
                raise BadInput(f"{source.at(row)}: expected process, type, function and value, got {line[:80]!r}")
            continue
        process, type_, f, rest = found.groups()
        if process.lstrip(":") == NEMESIS:
            yield None
            continue
        if not re.fullmatch(r"-?[0-9]+|:.+", process):
            continue
        try:
            values = [value for _, value in edn.read(rest or "nil")]
        except edn.EdnError as error:
            if type_ in ("invoke", "ok"):
                raise BadInput(f"{source.at(row)}: expected a value, got {rest[:80]!r} ({error})") from error
            values = [None]  # an error message
        value = values[0] if values else None
        why = values[1:] if len(values) > 1 else values if isinstance(value, str) else []
        if type_ in ("fail", "info"):
            value = None if why or not isinstance(value, list) else value
        client = int(process) if re.fullmatch(r"-?[0-9]+", process) else process.lstrip(":")
        reason = str(why[0]) if why and type_ == "fail" and why[0] is not None else ""
        yield Event(row, client, type_, f, plain.value(value, row), why=reason)


def of_events(ops: Iterable[Mapping[str, Any]], model: str, init: Any = None) -> History:
    """Return a history from events as JSON lines have them: mappings with ``process``, ``type``, ``f``, ``value``,
    ``key``."""
    source = Source(lambda row: f"op {row}" if row >= 0 else "the history")
    return history("history", model, json_files.events(enumerate(ops), source), init, source)


def value(words: str) -> Any:
    """One value as a person types it: JSON, else EDN; a bare word is a string. Raises :class:`BadInput`."""
    try:
        return json_files.DECODER.decode(words)
    except ValueError:
        pass
    plain = _Plain(Source(lambda row: words))
    try:
        found = [plain.value(one, 0) for _, one in edn.read(words)]
    except edn.EdnError as error:
        raise BadInput(f"expected a value as JSON, got {words[:80]!r} ({error})") from error
    if len(found) != 1:
        raise BadInput(f"expected one value as JSON, got {words[:80]!r}")
    return found[0]
