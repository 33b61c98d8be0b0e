"""How Apache Kafka's programs come onto this machine: its broker, and a program with its own client."""

from __future__ import annotations

import re
from pathlib import Path

from chaos.recipe import Recipe, Step
from drivers._java import client_library, maven

SYSTEM = "kafka"
#: The preferred one first. Others are made on demand.
VERSIONS = ("3.9.1", "4.1.0")
#: The first version for which this driver is written; and the first that logs with Log4j 2, in which members of groups
#: need not use the classic protocol, and that gives transactional producers a new epoch with each transaction.
FIRST = (3, 9)
FIRST_WITH_LOG4J2 = FIRST_WITH_CONSUMER_PROTOCOL = FIRST_THAT_BUMPS = (4, 0)
_RELOAD4J = (("org.slf4j", "slf4j-reload4j", "1.7.36"),)
_LOG4J2 = (
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)
#: Where the jar is that has Kafka's own tier of files, a test jar; the folder is empty where there is none.
TIER = "tier"
_FETCH_TIER = f'mvn -B -q -C dependency:copy -Dartifact="$0" -DoutputDirectory={TIER} || mkdir -p {TIER}'


def recipe(version: str) -> Recipe:
    """Return the recipe of any version from 3.9.0 on. Raises ``ValueError`` for what is not such a version; whether
    the registry has it is for Maven to say."""
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}\.\d{1,3}", version) or not is_at_least(version, FIRST):
        raise ValueError(f"version: expected three numbers from 3.9.0 on, such as {VERSIONS[0]}, got {version!r}")
    logging = _LOG4J2 if is_at_least(version, FIRST_WITH_LOG4J2) else _RELOAD4J
    return Recipe(
        system=SYSTEM,
        version=version,
        tools=maven.TOOLS,
        files={
            "pom.xml": maven.project("kafka-programs", (("org.apache.kafka", "kafka_2.13", version), *logging)),
            **client_library.sources(client_library.SOURCES, client_library.SHARED),
            **client_library.sources(Path(__file__).parent / "jvm"),
        },
        steps=(
            Step(
                command=maven.FETCH,
                does="fetch its jars with Maven (46 MiB)",
                mend=maven.fix(f"Kafka's binary release kafka_2.13-{version}") + "; is there such a version at all?",
                lists=maven.versions("org.apache.kafka", "kafka_2.13"),
            ),
            Step(
                command=("/bin/sh", "-c", _FETCH_TIER, f"org.apache.kafka:kafka-storage:{version}:jar:test"),
                does="fetch Kafka's local tier, where the registry has it",
                mend="is the disk full?",
            ),
            maven.MAKE_JAVA,
            client_library.compiles(f"{maven.LIB}/*"),
        ),
        makes=(f"{maven.LIB}/kafka_2.13-{version}.jar",),
    )


def is_at_least(version: str, first: tuple[int, int]) -> bool:
    """Return whether a version is as new as this one, or newer."""
    return _minor(version) >= first


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


RECIPES = tuple(map(recipe, VERSIONS))
