"""``stormproof serve``: the runs of a folder in a browser on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from stormproof.commands import _console


@click.command()
@click.argument("folder", default=Path("runs"), type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True, metavar="PORT",
              help="0 for any free one.")  # fmt: skip
def serve(folder: Path, port: int) -> None:
    """Show the runs in DIR (default: runs) and their reports to browsers on this machine, until Ctrl-C.

    It only reads, and cannot be reached from other machines.
    """
    from stormproof.serve import server

    with server(folder, port) as serving:
        _console.say(f"http://localhost:{serving.server_address[1]}/")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            _console.say("ended", err=True)
