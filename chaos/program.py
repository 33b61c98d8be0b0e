"""A node that is a program of somebody else's: its command, its files, its ports, and how one sees that it is ready.

A driver gives such a node as ``NodeSpec(name=…, role=…, program=Program(…))``. All texts in it (the words of the
command, the files, the environment) are templates:

``{ip}``, ``{ip:NODE}``
    the address at which other nodes reach this node, or that one
``{port}``, ``{port:NAME}``, ``{port:NODE.NAME}``
    the number of its first port, of its port of that name, or of another node's
``{address:NODE}``
    ``HOST:PORT`` at which that node is dialled, which may also be no program
``{disk}``, ``{home}``, ``{name}``
    the folder that is the node's disk, the folder in which it is started and its files are, and its name
``{installed}``
    the folder that holds, on the machine of the node, what its recipe has made

``{{ip}}`` stands for the text ``{ip}``; braces around anything but such words are left alone, so that JSON needs no
care. Imports only the standard library.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

T = TypeVar("T")

#: Bounds where a driver gives none: for a program to be ready, and to end when it is asked to.
BEGIN_S = 60.0
ORDERLY_S = 5.0
#: ``{word}`` or ``{word:argument}``; ``${word}`` is left to shells, and ``{{word}}`` is the text itself.
_TEMPLATE = re.compile(r"(?P<escape>\{\{[a-z]+(?::[\w.-]+)?\}\})|(?<!\$)\{(?P<word>[a-z]+)(?::(?P<of>[\w.-]+))?\}")
_WORDS = ("ip", "port", "address", "disk", "home", "name", "installed")

#: Where the harness reaches each port of a node, by the port's name: host and number.
Reached = Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAccepts:
    """The program is ready once this port accepts a connection; "" for its first port."""

    port: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays:
    """The program is ready once a line that it has written in this life, to standard output or error, holds a match of
    this regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The program is ready once ``ask`` says so: a coroutine of the driver's that asks the program itself, over the
    addresses that it is given. It may raise ``OSError`` or ``TimeoutError``; that is a no. ``what`` says in a few words
    what is waited for."""

    ask: Callable[[Reached], Awaitable[bool]]
    what: str = "an answer to the driver's probe"


Ready = PortAccepts | LogSays | Answers


class Installation(Protocol):
    """What was installed on this machine, as by a :class:`chaos.recipe.Recipe`."""

    @property
    def title(self) -> str:
        """The system and its version."""

    @property
    def folder(self) -> Path: ...

    @property
    def problem(self) -> str:
        """Why its programs can't be run; "" when it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How one node is started, and what is known of it.

    ``argv``: the command, to be found on the machine of the node (or in its image); it must stay in the foreground.
    ``files``: relative paths below ``{home}``, written again before each life, and their texts; bytes are no template.
    ``env``: what is added to the environment. ``ports``: name to number, 0 for one that the deployment chooses; the
    first is the one at which clients are expected. They stay the same over all lives.

    ``ready``: None waits for the first port to accept, and for nothing where there is no port. The first life of a node
    must be ready within ``begin_s``, else the run ends with an error; a later one is the system's own affair.
    ``orderly_s``: a program that was sent SIGTERM and has not ended by then is killed.

    ``keep``: globs (``**`` for any folders) of files below ``{home}`` and ``{disk}`` that are kept with the run.
    ``memory_mb`` limits the memory of its container, and ``image`` is what that is made of ("": the nodes' own image);
    elsewhere both mean nothing. ``recipe``: what it needs to have been installed here; a deployment that starts the
    node brings that to where it runs.
    """

    argv: Sequence[str]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    ready: Ready | None = None
    begin_s: float = BEGIN_S
    orderly_s: float = ORDERLY_S
    keep: Sequence[str] = ()
    memory_mb: int = 0
    image: str = ""
    recipe: Installation | None = None

    @property
    def main_port(self) -> str:
        """The name of the port at which clients are expected; "" where there is none."""
        return next(iter(self.ports), "")


def chosen(program: Program, free: Iterable[int]) -> dict[str, int]:
    """Return the number of each port, those that the deployment chooses from these. Raises ``ValueError`` when there
    are too few."""
    taken = set(program.ports.values())
    left = (number for number in free if number not in taken)
    try:
        return {name: number or next(left) for name, number in program.ports.items()}
    except StopIteration:
        raise ValueError("there are not enough ports for it") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A program whose texts are final. ``files``: the content of each in base 64."""

    argv: tuple[str, ...]
    files: Mapping[str, str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the templates of the node ``name`` stand for: the address of each node and the numbers of its ports, by
    node; where its own disk, its home and what its recipe has made are; and ``HOST:PORT`` of each node, "" for one that
    programs can't dial."""

    name: str
    ips: Mapping[str, str]
    ports: Mapping[str, Mapping[str, int]]
    disk: str
    home: str
    installed: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)


def problems(programs: Mapping[str, Program], nodes: Sequence[str]) -> list[str]:
    """Return what is wrong with the programs of a cluster, by node, whose nodes have these names: one sentence each.
    Empty when each of them can be started as far as that is known before."""
    ips = dict.fromkeys(nodes, "127.0.0.1")
    ports = {name: dict.fromkeys(program.ports, 1) for name, program in programs.items()}
    found = []
    for name, program in programs.items():
        installed = "/" if program.recipe is not None else ""
        there = Surroundings(
            name=name,
            ips=ips,
            ports=ports,
            disk="/",
            home="/",
            installed=installed,
            addresses=dict.fromkeys(nodes, "/"),
        )
        found += [f"node {name}: {problem}" for problem in _problems(program, there)]
    return found


def _problems(program: Program, there: Surroundings) -> Iterator[str]:
    if not program.argv or not program.argv[0]:
        yield "its program has no command: give the words of it as argv"
    for path in program.files:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.name:
            yield f"files: {path!r} is no relative path below the node's home"
    for port, number in program.ports.items():
        if not re.fullmatch(r"[\w-]+", port):
            yield f"ports: {port!r} is not a name of a port: use letters, digits, '-' and '_'"
        if not 0 <= number < 65_536:
            yield f"ports: {port} is {number}; expected 0 (the deployment chooses) to 65535"
    if isinstance(program.ready, PortAccepts) and program.ready.port not in ("", *program.ports):
        yield f"ready: there is no port {program.ready.port!r}; it has {', '.join(program.ports) or 'none'}"
    if isinstance(program.ready, LogSays):
        try:
            re.compile(program.ready.pattern)
        except re.error as error:
            yield f"ready: {program.ready.pattern!r} is no regular expression: {error}"
    for place, text in _texts(program):
        for match in _TEMPLATE.finditer(text):
            try:
                _value(match, there)
            except ValueError as error:
                yield f"{place}: {error}"


def _texts(program: Program) -> Iterator[tuple[str, str]]:
    """All templates, each with where it stands."""
    yield from (("argv", word) for word in program.argv)
    yield from ((f"files, {path}", text) for path, text in program.files.items() if isinstance(text, str))
    yield from ((f"env, {name}", text) for name, text in program.env.items())


def render(program: Program, there: Surroundings) -> Rendered:
    """Return the program with all templates filled in. Raises ``ValueError`` for one that stands for nothing, which
    :func:`problems` reports before."""

    def filled(text: str) -> str:
        return _TEMPLATE.sub(lambda match: _value(match, there), text)

    def content(text: str | bytes) -> str:
        return b64encode(filled(text).encode() if isinstance(text, str) else text).decode()

    return Rendered(
        argv=tuple(map(filled, program.argv)),
        files={path: content(text) for path, text in program.files.items()},
        env={name: filled(text) for name, text in program.env.items()},
    )


def _value(match: re.Match[str], there: Surroundings) -> str:
    if match["escape"]:
        return match["escape"][1:-1]
    word, of = match["word"], match["of"] or ""
    match word:
        case "ip":
            return _known(there.ips, of or there.name, match[0], "node")
        case "port":
            node, _, port = of.rpartition(".")
            node = node or there.name
            ports = there.ports.get(node)
            if ports is None:
                _known(there.ips, node, match[0], "node")
                raise ValueError(f"{match[0]}: node {node} is no program, and has no ports with names")
            return str(_known(ports, port or next(iter(ports), ""), match[0], f"port of {node}"))
        case "address" if of:
            if not _known(there.addresses, of, match[0], "node"):
                raise ValueError(
                    f"{match[0]}: {of} is no program, and such nodes have no addresses on this deployment; use"
                    " `--on netns`, docker or ssh"
                )
            return there.addresses[of]
        case "installed" if not of and not there.installed:
            raise ValueError(f"{match[0]}: it has no recipe, so nothing is installed for it")
        case "disk" | "home" | "name" | "installed" if not of:
            return str(getattr(there, word))
    raise ValueError(f"{match[0]} means nothing{_nearest(word, _WORDS)}; write {{{match[0]}}} for the text itself")


def _known(table: Mapping[str, T], key: str, template: str, what: str) -> T:
    if key not in table:
        known = ", ".join(table) or "there is none"
        raise ValueError(f"{template}: there is no {what} {key!r}{_nearest(key, table)}; known: {known}")
    return table[key]


def _nearest(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
