"""How tinyq comes onto this machine: ``stormproof install tinyq@1`` follows this once, into the user's cache."""

from __future__ import annotations

from pathlib import Path

from chaos.recipe import Recipe, Step

#: One for each version, the preferred one first. A real system is fetched and built by the steps.
RECIPES = (
    Recipe(
        system="tinyq",
        version="1",
        tools={"python3": "install Python 3.11 or newer, and call this command again"},
        files={"server.py": Path(__file__).with_name("server.py").read_text("utf-8")},
        steps=(
            Step(
                command=("python3", "-m", "py_compile", "server.py"),
                does="compile its server",
                mend="the line above says what is wrong in server.py",
            ),
        ),
        makes=("server.py",),
    ),
)
