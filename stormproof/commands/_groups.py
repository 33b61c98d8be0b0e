"""How ``stormproof --help`` shows the commands: by what a person wants to do, each in a line."""

from __future__ import annotations

from collections.abc import Mapping

#: What stands in no group: a command that is newer than this table.
REST = "More"
#: Words for each command that fit a line of 80 columns.
GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "demo": "See a correct system survive faults, and a planted bug caught",
        "init": "Copy the examples into a folder",
        "new": "Write a package for a driver of your own system",
        "list": "Show what an experiment can name: faults, loads, systems, bugs",
        "doctor": "Say what this machine can do, and how to fix the rest",
        "install": "Build a system that others wrote, to test it",
    },
    "Test": {
        "run": "Run an experiment and judge it; with --seeds many times",
        "sweep": "Run experiments with many seeds in the simulator",
        "matrix": "Run experiments on several systems and versions, as a table",
        "up": "Start a system and leave it running",
        "down": "End what `up` started",
    },
    "Look": {
        "explain": "Show what caused a violation, event by event or row by row",
        "report": "Write a run's report; also as an issue, Markdown or a trace",
        "runs": "List the runs, and what was found in each",
        "diff": "Compare two runs",
        "serve": "Show runs and reports in a browser",
    },
    "Narrow down": {
        "check": "Judge a recorded run again, or follow one that goes on",
        "replay": "Do a recorded run again",
        "shrink": "Make a failing run small",
    },
    "Clean up": {
        "heal": "Undo and end what a killed run left behind",
        "clean": "Remove recorded runs and sweeps",
    },
    REST: {
        "import": "Make runs of histories that another tool recorded",
        "linearize": "Judge whether recorded histories are linearizable",
        "scrub": "Find what is damaged in a tier or a store on disk",
    },
}
#: Commands that still work, and are not shown: older names, each with its new one, and what is seldom needed.
HIDDEN: Mapping[str, str] = {
    "rows": "explain RUN --rows",
    "finding": "report --as finding",
    "summary": "report --as markdown",
    "export": "report --as FORMAT",
    "compose": "",
    "image": "",
    "schema": "",
}
