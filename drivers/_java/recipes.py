"""How Apache RocketMQ's programs come onto this machine: Maven resolves them, from the registry that it is set up for.

There is one folder with the jars of name server, controller, broker, tier, proxy and admin tool, and all that they
need; each program is started with the whole folder as its class path. RocketMQ's gRPC client has a folder of its own,
since its one jar holds other builds of classes that the programs have, too. Maven refuses a jar that doesn't match the
registry's checksum. Where this machine has a JDK, a Java runtime is made beside it, for nodes on machines that have
none, and the program that drives RocketMQ's own clients (``jvm/``) is compiled against the jars.
"""

from __future__ import annotations

import re

from chaos.recipe import Recipe, Step
from drivers._java import client_library, maven
from drivers._java.maven import LIB

SYSTEM = "rocketmq"
#: Those that were tried, the preferred one first. 5.1.2 doesn't start with controllers.
VERSIONS = ("5.5.0", "5.4.0", "5.3.3", "5.3.2", "5.3.1", "5.3.0", "5.2.0", "5.1.4", "5.1.3")
#: Their proxy was never published on Maven Central.
WITHOUT_PROXY = ("5.3.2", "5.3.1", "5.3.0", "5.1.4")
#: Where the gRPC client is, which has versions of its own and speaks with proxies of all of these.
GRPC, GRPC_VERSION = "grpc/lib", "5.2.0"
PROXY = "proxy"
_MODULES = ("namesrv", "controller", "broker", "tiered-store", "tools", "client", PROXY)


def _project(**modules: str) -> str:
    """Return a Maven project of modules of RocketMQ's, each with its version."""
    dependencies = (("org.apache.rocketmq", f"rocketmq-{one.replace('_', '-')}", modules[one]) for one in modules)
    return maven.project("rocketmq-programs", dependencies)


def _recipe(version: str) -> Recipe:
    modules = [module for module in _MODULES if module != PROXY or version not in WITHOUT_PROXY]
    mend = maven.fix(f"RocketMQ's binary release {version}")
    return Recipe(
        system=SYSTEM,
        version=version,
        tools=maven.TOOLS,
        files={
            "pom.xml": _project(**dict.fromkeys(modules, version)),
            "grpc/pom.xml": _project(client_java=GRPC_VERSION),
            **client_library.sources(client_library.SOURCES),
        },
        steps=(
            Step(
                command=maven.FETCH,
                does="fetch its jars with Maven (102 MiB)",
                mend=mend,
                lists=maven.versions("org.apache.rocketmq", "rocketmq-namesrv"),  # 5.5.1 has a broker, and not this
            ),
            Step(
                command=(*maven.FETCH, "--file", "grpc/pom.xml"),
                does=f"fetch the gRPC client {GRPC_VERSION} with Maven (27 MiB)",
                mend=mend,
            ),
            maven.MAKE_JAVA,
            client_library.compiles(f"{GRPC}/*:{LIB}/*"),
        ),
        makes=tuple(f"{LIB}/rocketmq-{module}-{version}.jar" for module in _MODULES if module != PROXY),
    )


RECIPES = tuple(map(_recipe, VERSIONS))


def recipe(version: str) -> Recipe:
    """Return the recipe of any version from the oldest that was tried on. Raises ``ValueError`` for what is not such a
    version; whether the registry has it is for Maven to say."""
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}\.\d{1,3}", version) or not at_least(version, VERSIONS[-1]):
        raise ValueError(
            f"version: expected three numbers from {VERSIONS[-1]} on, such as {VERSIONS[0]}, got {version!r}"
        )
    return _recipe(version)


def proxy_jar(version: str) -> str:
    """Return where the proxy is in an installation: not everywhere, since one that was copied (``--from``) may lack
    it."""
    return f"{LIB}/rocketmq-proxy-{version}.jar"


def at_least(version: str, other: str) -> bool:
    """Return whether a version is as new as another one, or newer."""
    one, two = ([int(part) for part in text.split(".")] for text in (version, other))
    return one >= two
