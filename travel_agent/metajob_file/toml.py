"""Metajob files in TOML."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

from gridtravel.gridio.file_faults import located
from gridtravel.gridio.toml_text import NotToml, key_lines, parse_toml
from gridtravel.travel_agent.metajob_file.places import KeyPlaces, RawMetajob


def read_toml(text: str, source: str) -> RawMetajob:
    """The document of a TOML file; ``InputError`` with the line when it is not TOML."""
    try:
        document = parse_toml(text, Decimal)
    except NotToml as fault:
        hint = "see `gur init` for examples"
        raise located(source, fault.line, fault.message, hint=hint) from None
    places = KeyPlaces(source=source, find_lines=lambda: key_lines(text))
    return RawMetajob(
        document={key: _plain(value) for key, value in document.items()}, places=places
    )


def _plain(value: object) -> object:
    """The value with TOML's own dates and times written out, as the other formats have them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value
