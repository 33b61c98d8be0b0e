"""``stormproof scrub``: what a system left on disks, judged by itself."""

from __future__ import annotations

from pathlib import Path

import click

from stormproof.commands import _console


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=5.0, show_default=True, metavar="SECONDS",
              help="Look again so much later at what seems damaged, before it is reported.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def scrub(path: Path, wait_s: float, as_json: bool) -> int:
    """Judge the files of a system below PATH (a tier directory, a broker's store), while it runs or without it.

    Nothing is changed. Exit code 0: all is whole; 1: damaged, each place with one line; 2: nothing was there to judge;
    3: the scrubber itself failed, so that something was not judged.
    """
    from stormproof.commands._scrubbing import scrub as judge
    from stormproof.outcome import ExitCode

    found = judge(path, wait_s)
    if as_json:
        shown = [{"driver": one.driver, "counted": one.counted, "unread": one.unread, "pieces": [
            {"name": name, "damage": [{"file": it.file, "at": it.at, "kind": it.kind, "text": it.text}
                                      for it in look.damage], "counted": look.counted, "notes": look.notes}
            for name, look in one.looks.items()]} for one in found]  # fmt: skip
        _console.print_json({"path": str(path), "systems": shown})
    for one in found:
        if not as_json:
            for name, look in one.looks.items():
                for line in (*map(str, look.damage), *(f"{name}: note: {note}" for note in look.notes)):
                    _console.say(line)
            counted = ", ".join(f"{number} {what}" for what, number in one.counted.items())
            _console.say(f"{one.driver}: {len(one.looks)} pieces read ({counted}), {one.damaged} damaged places")
        for name, reason in one.unread.items():
            _console.err().print(f"error: {name} was not judged: {reason}", markup=False)
    if any(one.damaged for one in found):
        return ExitCode.INVALID
    if any(one.unread for one in found):
        return ExitCode.ERROR
    return ExitCode.VALID if any(one.has_judged for one in found) else ExitCode.UNKNOWN
