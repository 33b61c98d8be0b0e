"""What lies at the limits of the reference system, and how ``docs/wire.md`` says that it is answered."""

from __future__ import annotations

from collections.abc import Mapping

from drivers.reference.conformance.administration import of_administration
from drivers.reference.conformance.case import Case
from drivers.reference.conformance.deferred import of_deferred
from drivers.reference.conformance.frames import of_frames
from drivers.reference.conformance.groups import of_groups
from drivers.reference.conformance.logs import of_logs
from drivers.reference.conformance.lookups import of_lookups
from drivers.reference.conformance.malformed import of_malformed
from drivers.reference.conformance.metadata import of_metadata
from drivers.reference.conformance.objects import of_objects
from drivers.reference.conformance.requests import of_requests
from drivers.reference.conformance.routes import of_routes
from drivers.reference.conformance.selections import of_selections
from drivers.reference.conformance.waiting import of_waiting


def cases(topic: str, *, frames: bool, metadata: bool) -> Mapping[str, Case]:
    """Return all but messages, by name. ``topic``: one that holds many messages. ``frames``: also those in bytes of our
    own making; ``metadata``: also those for nodes with the option ``metadata``."""
    return {
        **of_requests(topic),
        **of_malformed(topic),
        **of_waiting(topic),
        **of_selections(topic),
        **of_lookups(topic),
        **of_administration(topic),
        **of_deferred(topic),
        **of_logs(topic),
        **of_groups(),
        **of_routes(),
        **of_objects(),
        **(of_metadata() if metadata else {}),
        **(of_frames(topic) if frames else {}),
    }
