"""The command line: ``stormproof``."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from keyword import iskeyword
from pkgutil import iter_modules

import click

from chaos import plugins
from chaos.errors import BadInput, ChaosError, meant
from chaos.packages import hidden
from chaos.version import VERSION
from stormproof import commands, stores
from stormproof.commands import _console
from stormproof.commands._groups import GROUPS, HIDDEN, REST
from stormproof.outcome import lacking

#: Bad input and trouble of the machine or the harness.
ERROR = 3
#: Packages of ours with names that a user's own folder may well have.
OURS = ("chaos", "checkers", "drivers", "nemesis", "reference", "reports", "workloads")
#: The last of the file descriptors that every program expects to be open.
STDERR = 2


class Commands(click.Group):
    """The commands: one for each module in ``stormproof/commands``, imported when it is asked for, since what one of
    them needs takes half a second to load."""

    def list_commands(self, context: click.Context) -> list[str]:
        names = (module.name for module in iter_modules(commands.__path__) if not module.name.startswith("_"))
        return sorted(name.removesuffix("_") for name in names)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        module = import_module(f"{commands.__name__}.{name}{'_' if iskeyword(name) else ''}")
        return next(value for value in vars(module).values() if isinstance(value, click.Command))

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [name for name in self.list_commands(context) if name not in HIDDEN]
        if words[0] not in (*known, *HIDDEN):
            hint = meant(words[0], known)
            raise click.UsageError(f"there is no command {words[0]!r}{hint and '; '}{hint}", context)
        return super().resolve_command(context, words)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups."""
        for title, lines in self.groups(context):
            with formatter.section(title):
                formatter.write_dl(lines)

    def groups(self, context: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield the title of each group with its commands, each with a line about it: that stands in a table, so that
        none is imported for it."""
        known = self.list_commands(context)
        grouped = {name for group in GROUPS.values() for name in group}
        for title, group in GROUPS.items():
            lines = [(name, words) for name, words in group.items() if name in known]
            if title == REST:
                lines += [(name, self._short_help(context, name)) for name in known if name not in {*grouped, *HIDDEN}]
            yield title, lines

    def _short_help(self, context: click.Context, name: str) -> str:
        """Return how the help of a command begins, up to its first colon or full stop."""
        command = self.get_command(context, name)
        text = " ".join((command.help or "").split()) if command is not None else ""
        return re.split(r"[.:](?: |$)", text)[0]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, message="stormproof %(version)s")
def stormproof() -> None:
    """Put a message broker through faults, and prove which promises it kept."""
    for problem in plugins.unknown_groups():
        _console.err().print(f"warning: {problem}", markup=False)
    stores.recall()


def main() -> None:
    """Run the command; an error that a person can act on is one clear message and exit code 3."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # what a terminal's encoding lacks must not end a command
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _interrupt)
    code = _run(sys.argv[1:])
    if (runs := sys.modules.get("chaos.machines.real_time")) is not None and runs.LEFT:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # Python would wait for threads on which a client library goes on after Ctrl-C
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        for package in OURS:
            if wrong := hidden(package):
                raise BadInput(wrong)
        code = stormproof.main(arguments, prog_name="stormproof", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ChaosError as error:
        return _say(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)  # the command's help
        return ERROR
    except click.UsageError as error:
        text, usage = error.format_message().rstrip("."), f"see `{error.ctx.command_path} --help`" if error.ctx else ""
        return _say(text if not usage else f"{text} S{usage[1:]}" if text.endswith("?") else f"{text}; {usage}")
    except click.ClickException as error:
        return _say(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted")
    except (BrokenPipeError, SystemExit) as error:  # nobody reads on; click and rich make that exit code 1: INVALID
        if isinstance(error, SystemExit) and error.code == 0:  # a shell has asked for completions, and has them
            return 0
        _discard_output()
        return ERROR
    except OSError as error:
        _discard_output()
        return _say(lacking(error) or f"{error.filename or 'while writing'}: {error.strerror or error}")
    except Exception as error:  # a bug of ours; 1 would say that a promise was broken
        if lacks := lacking(error):
            return _say(lacks)
        for line in traceback.format_exc().splitlines():
            _console.say(f"bug: {line}", err=True)
        return _say("this is a bug of stormproof; the lines above say where")


def _say(text: str) -> int:
    _console.complain(text)
    return ERROR


def _discard_output() -> None:
    """Keep the interpreter from writing at its end what is still in the buffer of stdout: it can't be written."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # a stdout of a test, say, that is not a file
        pass


def _fill_closed_streams() -> None:
    """Fill closed streams: with stdout closed, the next file to be opened, a history perhaps, would take its place and
    its output."""
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(nowhere)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run


def _interrupt(number: int, frame: object) -> None:
    """End as after Ctrl-C: what was begun is undone."""
    raise KeyboardInterrupt
