"""Starts a node by hand: its role and name stand on the command line, all else in environment variables.

    export NODE_ADDRESSES='nameserver-0=10.0.0.1:9876 broker-0=10.0.0.2:10911' NODE_DISK=disk NODE_EXPIRE_MS=5000
    python -m reference nameserver nameserver-0

Lists are words with spaces between them, and a pair is ``NAME=VALUE``, so that people can write all of it in a shell or
in a docker-compose file; a word that holds a space is quoted as in a shell. Imports only the standard library.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from chaos.node import NodeSpec
from chaos.shell.launch import Launch

PREFIX = "NODE_"
#: Instead of a folder: the node has no disk.
NO_DISK = "none"
#: The variables that every node knows, whatever its role.
ADDRESSES, EXPOSED, FOREIGN, DISK, TRACE, SEED, MUTANT, TOKEN = (
    f"{PREFIX}{name}" for name in ("ADDRESSES", "EXPOSED", "FOREIGN", "DISK", "TRACE", "SEED", "MUTANT", "TOKEN")
)
COMMON: Mapping[str, str] = {
    ADDRESSES: "NAME=HOST:PORT of every node of the cluster, this one included",
    EXPOSED: "NAME=HOST:PORT, where clients reach the nodes; without it, as above",
    FOREIGN: "HOST:PORT of each program of others that the node sends something unasked, as brokers of RocketMQ",
    DISK: "the folder that holds the node's files; `none` for a node that keeps nothing on a disk",
    TRACE: "the file that gets the node's trace; without it, none",
    SEED: "seeds the node's random numbers; 0 unless given",
    TOKEN: "a secret of the cluster: who can't show it is served as a client only; without it, nobody needs to",
    MUTANT: "the name of a planted bug; without it, none",
}

#: The type of an option's value (``str``, ``int``, ``bool``, ``list`` of words, ``dict`` of words to numbers), and what
#: the option means.
Option = tuple[type, str]
#: By role, by name, the options of its nodes.
Options = Mapping[str, Mapping[str, Option]]
NO_OPTIONS: Options = {}
HELP = ("-h", "--help")
_SHAPES = {str: "TEXT", int: "NUMBER", bool: "true or false", list: "NAME NAME …", dict: "NAME=NUMBER …"}


def launch_by_hand(package: str, options: Options, words: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """Return the launch of the node whose role and name are ``words``. Exits with help, or with a sentence about an
    error."""
    if len(words) == 1 and words[0] in HELP:
        print(usage(package, options))
        sys.exit()
    try:
        return launch_in(package, options, words, environ)
    except ValueError as error:
        sys.exit(f"{package}: {error}")


def launch_in(package: str, options: Options, words: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """Return the same as :func:`launch_by_hand`, but raise ``ValueError`` with the sentence."""
    if len(words) != 2:
        raise ValueError(f"expected a role and a name; `python -m {package} --help` says more")
    role, name = words
    if role not in options:
        raise ValueError(f"there is no role {role!r}; the roles are {', '.join(options) or 'not known'}")
    addresses = addresses_in(environ)
    if name not in addresses:
        raise ValueError(f"{ADDRESSES} has no address of {name}, only of {', '.join(addresses)}")
    if not environ.get(DISK):
        raise ValueError(f"{DISK} is missing: {COMMON[DISK]}")
    found, mutant, disk = _options(role, options[role], environ), environ.get(MUTANT, ""), environ[DISK] != NO_DISK
    return Launch(
        spec=NodeSpec(name=name, role=role, package=package, options=found, mutant=mutant, disk=disk),
        nodes=tuple(addresses),
        incarnation=0,
        seed=_number(SEED, environ.get(SEED, "0")),
        disk=environ[DISK],
        trace=environ.get(TRACE) or os.devnull,
        addresses=addresses,
        exposed=_pairs(EXPOSED, environ.get(EXPOSED, "")),
        token=environ.get(TOKEN, ""),
        foreign=_foreign(environ.get(FOREIGN, "")),
    )


def addresses_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return where the nodes are, by their names. Raises ``ValueError``."""
    if not environ.get(ADDRESSES):
        raise ValueError(f"{ADDRESSES} is missing: {COMMON[ADDRESSES]}")
    found = _pairs(ADDRESSES, environ[ADDRESSES])
    for name, where in found.items():
        host, _, port = where.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{ADDRESSES}: {where!r}, the address of {name}, is no HOST:PORT")
    return found


def _foreign(text: str) -> tuple[str, ...]:
    found = _words(FOREIGN, text)
    for where in found:
        host, _, port = where.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{FOREIGN}: {where!r} is no HOST:PORT")
    return tuple(found)


def variable(option: str) -> str:
    """Return the variable that holds this option."""
    return PREFIX + option.upper()


def text_of(value: object) -> str:
    """Return an option's value as its variable holds it. Raises ``ValueError`` for what no variable can hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    if isinstance(value, Mapping) and all(isinstance(amount, int) for amount in value.values()):
        return shlex.join(f"{name}={amount}" for name, amount in value.items())
    raise ValueError(f"{value!r} is not a text, number, list of texts or mapping to numbers")


def usage(package: str, options: Options) -> str:
    """Return what ``python -m PACKAGE --help`` prints."""
    lines = [f"python -m {package} ROLE NAME", "", "Starts one node by hand. The environment says how:", ""]
    lines += [f"  {name:<20} {meaning}" for name, meaning in COMMON.items()]
    for role, known in options.items():
        lines += ["", f"ROLE {role}:"]
        lines += [f"  {variable(name):<24} {_SHAPES[kind]}: {meaning}" for name, (kind, meaning) in known.items()]
        lines += [] if known else ["  has no options"]
    return "\n".join(lines)


def _options(role: str, known: Mapping[str, Option], environ: Mapping[str, str]) -> dict[str, object]:
    """Return the options of this role that are set; a variable that is none of them would be a typing error."""
    wanted = {variable(option): (option, kind) for option, (kind, _) in known.items()}
    found: dict[str, object] = {}
    for name, text in environ.items():
        if name in wanted:
            option, kind = wanted[name]
            found[option] = _read(name, text, kind)
        elif name.startswith(PREFIX) and name not in COMMON:
            like = get_close_matches(name, wanted, 1)
            raise ValueError(f"{name} is no option of the role {role}" + (f"; did you mean {like[0]}?" if like else ""))
    return found


def _read(name: str, text: str, kind: type) -> Any:
    """Return the value in a variable; ``name`` is the variable's. Raises ``ValueError``."""
    if kind is str:
        return text
    if kind is list:
        return _words(name, text)
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{name}: {text!r} is neither true nor false")
        return text == "true"
    if kind is dict:
        return {word: _number(name, amount) for word, amount in _pairs(name, text).items()}
    return _number(name, text)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a whole number") from None


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{name}: {text!r} can't be split into words ({error})") from None


def _pairs(name: str, text: str) -> dict[str, str]:
    pairs = {}
    for word in _words(name, text):
        key, equals, value = word.rpartition("=")
        if not equals:
            raise ValueError(f"{name}: {word!r} is no NAME=VALUE")
        pairs[key] = value
    return pairs
