"""Reading metajob files in tests: one call for what is read, one for the line of a refusal."""

from __future__ import annotations

from typing import Final

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.metajob_builders import NOON_BEFORE, PACIFIC, PAPER_FILE

PAPER: Final = PAPER_FILE.read_text(encoding="utf-8")
"""The file printed in the GUR paper, section 4."""


def read(text: str | bytes, source: str = "trip.gur") -> Metajob:
    """The metajob in ``text``, read in San Diego on the day before."""
    form = {"trip.toml": "toml", "trip.json": "json"}.get(source)
    return parse_metajob(text, now=NOON_BEFORE, zone=PACIFIC, source=source, form=form).metajob


def refusal(text: str | bytes, source: str = "trip.gur") -> str:
    """The one line that reading ``text`` ends in."""
    with pytest.raises(InputError) as caught:
        read(text, source)
    assert str(caught.value).startswith(source)
    assert str(caught.value).isprintable()
    return str(caught.value)


def changed(text: str, old: str, new: str) -> str:
    """``text`` with the first ``old`` replaced, which must be there."""
    assert old in text
    return text.replace(old, new, 1)
