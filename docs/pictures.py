"""Take the pictures of reports that pages show, light and dark: ``make pictures``. Needs Chromium.

Which run a picture is of stands in docs/runs.md: the command above it. ``NAME.dark.png`` stands beside ``NAME.png``,
and the site shows the one that goes with its colours.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME.parent))

from tests.browser import Browser, browser  # noqa: E402 - found by the line above

#: A command, and the picture that follows before any other command.
SHOWN = re.compile(r"^    stormproof (run .*)$(?:(?!^    stormproof )[\s\S])*?\((gallery/[\w-]+\.png)\)", re.MULTILINE)
#: The picture of the first page is of the run that the gallery begins with.
FIRST = "report.png"
SIZES = {FIRST: (1200, 1150)}
SIZE = (1000, 800)


def pictures(page: str) -> dict[str, str]:
    """Return the command of each picture, by its path below this folder."""
    found = {name: command for command, name in SHOWN.findall(page)}
    return {FIRST: next(iter(found.values())), **found}


def take(window: Browser, report: Path, name: str) -> None:
    """Write both forms of a picture, with as few colours as reports have."""
    width, height = SIZES.get(name, SIZE)
    for dark in (False, True):
        target = (HOME / name).with_suffix(".dark.png" if dark else ".png")
        window.open(report, width=width, height=height, dark=dark)
        window.picture(target)
        Image.open(BytesIO(target.read_bytes())).convert("RGB").quantize(256).save(target, optimize=True)
        print(target.relative_to(HOME.parent))


def main() -> None:
    """Run each experiment once, and take what is shown of it."""
    found = pictures((HOME / "runs.md").read_text("utf-8"))
    with browser() as window, tempfile.TemporaryDirectory() as folder:
        for number, command in enumerate(dict.fromkeys(found.values())):
            out = Path(folder, str(number))
            line = [sys.executable, "-m", "stormproof", *command.split(), "--engine", "local", "--out", str(out)]
            subprocess.run(line, cwd=HOME.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            (report,) = out.glob("*/report.html")
            for name in [name for name, of in found.items() if of == command]:
                take(window, report, name)


if __name__ == "__main__":
    main()
