"""Where the checker in Java is: its sources, by packages, and the jar that is built of them."""

from __future__ import annotations

from pathlib import Path

JVM = Path(__file__).resolve().parent / "jvm"
JAR = JVM / "stormproof.jar"
