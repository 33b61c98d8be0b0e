"""The package from outside of the tree, whose system is a program of others, for tests that put it on the path."""

from __future__ import annotations

import tomllib
from pathlib import Path

OUTSIDE = Path(__file__).parent / "outside"
#: The driver that it begins with, which `stormproof new driver` writes.
TOY = "stormproof.driver_package.stormproof_tinyq.driver"
EXPERIMENT = """\
name: tinyq
system: tinyq
duration: 8s
workloads:
  - trickle
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
  - program
faults:
"""
#: What any deployment can do to it, and what needs links of its own.
ANYWHERE = """\
  - kill: {target: queue-0}
    at: 1s
    for: 500ms
  - pause: {target: queue-1}
    at: 3s
    for: 500ms
  - hiccup: {target: queue-0}
    at: 4500ms
    for: 300ms
"""
PARTITION = """\
  - partition: {shape: isolate, target: queue-1}
    at: 5500ms
    for: 2s
"""


def installed(site: Path, package: Path = OUTSIDE) -> Path:
    """A folder on which Python finds the package as if it were installed; returns it."""
    told = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    info = site / f"{told['name']}-{told['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in entries.items())
        for group, entries in told["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    for module in {name.partition(".")[0] for entries in told["entry-points"].values() for name in entries.values()}:
        (site / module).symlink_to(package / module)
    return site
