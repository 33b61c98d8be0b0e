"""The JSON Schema of experiment files, for editors: made of the grammar, with the options of every plug-in."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from chaos.experiment.model import File


def schema() -> dict[str, Any]:
    """Describe the whole file; a plug-in that can't be imported is left out."""
    made = TypeAdapter(File).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "Stormproof experiment"}
