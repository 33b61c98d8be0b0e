"""The packages of the checker in Java use one another in one direction only."""

import re

from checkers.linearizable import jar

#: From what knows nothing of the others to what may use them all; "" is the package ``stormproof`` itself.
ORDER = ["util", "model", "partition", "polynomial", "search", "explain", "io", "", "spark"]
USED = re.compile(r"^import (?:static )?stormproof\.(?:([a-z]\w*)\.)?[A-Z]", re.MULTILINE)


def test_packages_import_only_those_below_them() -> None:
    sources = [*jar.sources(), *jar.sources(on_spark=True)]
    seen = set()
    for source in sources:
        package = ".".join(source.relative_to(jar.JVM / "stormproof").parent.parts)
        text = source.read_text("utf-8")
        assert re.search(rf"^package {'.'.join(filter(None, ['stormproof', package]))};$", text, re.MULTILINE), source
        above = [used for used in USED.findall(text) if ORDER.index(used) >= ORDER.index(package)]
        assert not above, f"{source} imports {above}"
        seen.add(package)
    assert seen == set(ORDER)
    qualified = [source for source in sources if re.search(r"[^.\w ]\s*stormproof\.\w+\.\w", source.read_text("utf-8"))]
    assert not qualified, "every use of another package is an import"
