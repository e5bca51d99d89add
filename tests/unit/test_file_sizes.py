"""How much is taken, as a user writes it."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.travel_agent.cli.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1500", 1500), ("500MB", 5 * 10**8), ("2 tb", 2 * 10**12), ("1GiB", 2**30)],
)
def test_sizes(text: str, size: int) -> None:
    """Bytes, and thousands or 1024s of them."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "lots", "1e3", "1.5GB", "٣", "9" * 400, "MB", "1XB"])
def test_no_sizes(text: str) -> None:
    """Told with what would be one."""
    with pytest.raises(InputError) as fault:
        parse_size(text)
    assert fault.value.hint
