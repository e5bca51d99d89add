"""What integration tests share: one grid for all of them, mended before and after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grid_world import GridWorld, grid_world


@pytest.fixture(scope="session")
def shared_grid() -> Iterator[GridWorld]:
    """Three sites that live as long as the tests; starting them takes some seconds."""
    with grid_world() as world:
        yield world


@pytest.fixture
def grid(shared_grid: GridWorld) -> Iterator[GridWorld]:
    """The grid with every site running. Tests do not share laptops or hours of the calendar."""
    shared_grid.mend()
    try:
        yield shared_grid
    finally:
        shared_grid.mend()
