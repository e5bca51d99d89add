"""Writes the published JSON Schema: ``python -m travel_agent.metajob_schema
docs/metajob.schema.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from travel_agent.metajob_model import metajob_schema


def metajob_schema_text() -> str:
    """The schema exactly as docs/metajob.schema.json holds it."""
    return json.dumps(metajob_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(metajob_schema_text(), encoding="utf-8")
