"""What the linearizability checker is to all others, on one page. ``docs/linearizability.md`` explains each name."""

# ruff: noqa: F401

from __future__ import annotations

from checkers.linearizable.checker import check, check_keys, examine
from checkers.linearizable.formats import FORMATS
from checkers.linearizable.formats.files import read as read_histories
from checkers.linearizable.formats.files import value as read_value
from checkers.linearizable.formats.guessing import INSTEAD as KNOSSOS_FORMATS
from checkers.linearizable.history import (
    NIL,
    Argument,
    Function,
    History,
    Operation,
    Reading,
    Result,
    Tally,
    Undecided,
    Witness,
)
from checkers.linearizable.jar import find_javac, jar_version
from checkers.linearizable.jar import problem as jar_problem
from checkers.linearizable.limits import ENGINES, LEAST_MEMORY_MIB, MEMORY_MIB, TIME_LIMIT_S
from checkers.linearizable.models import JUDGED_AS as MODELS
from checkers.linearizable.witness.explanation import blocked as blocked_call
from checkers.linearizable.witness.explanation import lines as explanation_lines
from checkers.linearizable.witness.explanation import reason as violation_reason
from checkers.linearizable.witness.explanation import undecided_object
from checkers.linearizable.witness.partial_linearization import (
    PartialLinearization,
    dead_ends,
    linearization,
    minimal_dead_ends,
)
from checkers.linearizable.witness.words import call as call_words
from checkers.linearizable.witness.words import value as value_words
