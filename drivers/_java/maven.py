"""What recipes of systems written in Java share: jars that Maven resolves, and a Java runtime beside them."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.recipe import Step

#: Where the jars are in an installation, and Java, if it could be made.
LIB, JAVA = "lib", "jre/bin/java"
#: What must be on the PATH, and how to come by it.
TOOLS = {"mvn": "install Maven (Debian: apt-get install maven)"}
#: Brings the jars of ``pom.xml`` into :data:`LIB`. Maven refuses a jar that doesn't match the registry's checksum.
FETCH = ("mvn", "-B", "-q", "-C", "dependency:copy-dependencies", f"-DoutputDirectory={LIB}")
#: A shell's beginning that sets ``java``: the machine's own Java, or what came with the jars, whose folder is ``$0``.
FIND_JAVA = f"""\
java=java; command -v java >/dev/null || java=$0/{JAVA}
command -v "$java" >/dev/null || {{
  echo "there is no Java here: install one (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 127
}}
"""
#: What servers use of Java.
_JAVA_MODULES = "java.se,jdk.unsupported,jdk.management,jdk.httpserver,jdk.zipfs,jdk.crypto.ec,jdk.naming.dns,jdk.net"
_MAKE_JAVA = f"""\
command -v jlink >/dev/null || exit 0
jlink --add-modules {_JAVA_MODULES} --strip-debug --no-header-files --no-man-pages --output jre || rm -rf jre
"""
#: Makes a Java runtime where this machine has a JDK, for nodes on machines that have none.
MAKE_JAVA = Step(
    command=("/bin/sh", "-c", _MAKE_JAVA),
    does="make a Java runtime for containers",
    mend="is the disk full?",
)
#: Prints the versions that the registry has of ``$1:$2``. Maven lists none, but writes down what there is when it looks
#: for one within a range (``$0`` is such a project).
_LIST = """\
there=$(mktemp -d) && printf '%s' "$0" >"$there/pom.xml" || exit 1
mvn -B -q -f "$there/pom.xml" dependency:copy-dependencies >/dev/null 2>&1
rm -rf "$there"
folder=$HOME/.m2/repository/$(printf '%s' "$1" | tr . /)/$2
sed -n 's:.*<version>\\(.*\\)</version>.*:\\1:p' "$folder"/maven-metadata-*.xml
"""
#: No version is as new.
_BEYOND_ALL = "[99999,)"
_PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stormproof</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
    </dependency>"""


def project(name: str, dependencies: Iterable[tuple[str, str, str]]) -> str:
    """Return a Maven project that needs these: group, artifact and version of each."""
    return _PROJECT.format(name=name, dependencies="\n".join(_DEPENDENCY.format(*one) for one in dependencies))


def versions(group: str, artifact: str) -> tuple[str, ...]:
    """Return the command that prints which versions of an artifact the registry has, a line for each."""
    beyond = project("versions", [(group, artifact, _BEYOND_ALL)])
    return ("/bin/sh", "-c", _LIST, beyond, group, artifact)


def fix(release: str) -> str:
    """Return what a person can do when Maven can't fetch the jars, which this binary release holds too."""
    return (
        "it needs a Maven registry: Maven Central, or a mirror of it in ~/.m2/settings.xml; without one, unpack"
        f" {release} and name its folder with --from"
    )
