"""``stormproof doctor``: what this machine can and can't do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
from rich.markup import escape

from stormproof.commands import _console
from stormproof.commands._hosts import SSH, hosts_of
from stormproof.commands._options import json_option, out_option


@click.command()
@click.option("--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Check these hosts too.")
@json_option
@out_option
def doctor(inventory: Path | None, as_json: bool, out: Path) -> None:
    """Say what this machine can and can't do, and how to fix it; exit code 3 if something is missing."""
    from stormproof.doctor import examine

    findings = list(examine(out, hosts_of(inventory, SSH)))
    if as_json:
        _console.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        console = _console.out()
        for finding in findings:
            lacking = "[yellow]absent[/] " if finding.optional else "[red]missing[/]"
            mark = "[green]ok[/]     " if finding.ok else lacking
            console.print(f"{mark} {escape(finding.what)}: {escape(finding.found)}")
            if not finding.ok:
                console.print(f"        {escape(finding.mend)}")
    click.get_current_context().exit(0 if all(finding.ok or finding.optional for finding in findings) else 3)
