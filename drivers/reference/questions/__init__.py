"""What lies at the limits of the reference system, and how ``docs/wire.md`` says that it is answered."""

from __future__ import annotations

from collections.abc import Mapping

from drivers.reference.questions.frames import of_frames
from drivers.reference.questions.groups import of_groups
from drivers.reference.questions.logs import of_logs
from drivers.reference.questions.malformed import of_malformed
from drivers.reference.questions.metadata import of_metadata
from drivers.reference.questions.objects import of_objects
from drivers.reference.questions.question import Question
from drivers.reference.questions.requests import of_requests
from drivers.reference.questions.routes import of_routes
from drivers.reference.questions.waiting import of_waiting


def questions(topic: str, *, frames: bool, metadata: bool) -> Mapping[str, Question]:
    """Return all but messages, by name. ``topic``: one that holds many messages. ``frames``: also those in bytes of our
    own making; ``metadata``: also those for nodes with the option ``metadata``."""
    return {
        **of_requests(topic),
        **of_malformed(topic),
        **of_waiting(topic),
        **of_logs(topic),
        **of_groups(),
        **of_routes(),
        **of_objects(),
        **(of_metadata() if metadata else {}),
        **(of_frames(topic) if frames else {}),
    }
