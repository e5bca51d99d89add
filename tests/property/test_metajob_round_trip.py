"""A metajob survives every way of writing it down: TOML, JSON, and from one into the other."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given

from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.travel_agent.metajob_file.reader import form_of, parse_metajob
from gridtravel.travel_agent.metajob_file.writer import metajob_to_document, metajob_to_json
from tests.support.metajob_builders import PACIFIC, metajobs


def _toml(value: Any) -> str:
    """``value`` as an inline TOML value; what is ``None`` is left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in _said(value)) + "}"
    return repr(value)


def _said(table: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in table.items() if value is not None]


@given(asked=metajobs())
def test_toml_to_metajob_to_json_to_metajob(asked: Metajob) -> None:
    """The value read from TOML equals the one written, and the JSON of it reads back equal in any
    zone."""
    text = "".join(f"{key} = {_toml(v)}\n" for key, v in _said(metajob_to_document(asked)))
    from_toml = parse_metajob(text, now=0, zone=PACIFIC, form="toml").metajob
    assert from_toml == asked
    written = metajob_to_json(from_toml)
    assert form_of(written) == "json"
    assert parse_metajob(written, now=0, zone=ZoneInfo("Asia/Tokyo")).metajob == asked
    assert metajob_to_json(parse_metajob(written, now=0, zone=PACIFIC).metajob) == written
