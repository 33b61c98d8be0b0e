"""What ``pyproject.toml`` has no words for: packages are found, and three folders are packages below ``stormproof``."""

from setuptools import find_packages, setup

#: Package → its folder. On disk they stand at the top, where people look for them.
ELSEWHERE = {
    "stormproof.examples": "examples",
    "stormproof.images": "images",
    "stormproof.scenario_files": "tests/scenarios",
}
#: Part of the checkout only.
NOT_SHIPPED = ["benchmarks*", "tests*", "examples", "images"]

setup(packages=[*find_packages(exclude=NOT_SHIPPED), *ELSEWHERE], package_dir=ELSEWHERE)
