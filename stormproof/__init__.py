"""The application: the command line, and what it does with the library under it.

For tests, this package has :func:`scenario`, a decorator, and the type of what the test is given, :class:`ScenarioRun`.
Importing it loads the standard library only.
"""

from stormproof.scenarios import ScenarioRun, scenario

__all__ = ["ScenarioRun", "scenario"]
