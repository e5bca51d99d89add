"""What is refused before anything is booked, because a leg could not do its work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from gridcore.errors import InputError
from gridcore.tasks import StagedFile, TaskSpec
from gridio.connections import SiteConnection
from tests.metajob_builders import metajob
from travel_agent.legs import LegWork
from travel_agent.searching import Destination


def places(*, is_manager: bool) -> dict[str, Destination]:
    """The machines of the metajob."""
    return {
        each.machine: Destination(
            request=each,
            connection=cast(SiteConnection, None),
            site=each.machine,
            is_manager=is_manager,
        )
        for each in metajob().machines
    }


def test_a_manager_gets_no_program(tmp_path: Path) -> None:
    """Time can be reserved through it; a program it could not run is refused with what to do."""
    wish = replace(metajob(), task=TaskSpec(command=("./model",)))
    LegWork(wish, places(is_manager=False)).check_files(tmp_path)
    LegWork(metajob(), places(is_manager=True)).check_files(tmp_path)
    with pytest.raises(InputError, match="runs no programs"):
        LegWork(wish, places(is_manager=True)).check_files(tmp_path)


def test_a_file_that_is_not_there_is_found_out_first(tmp_path: Path) -> None:
    """Before any site is asked."""
    staged = StagedFile(source="here", destination="there")
    wish = replace(metajob(), task=TaskSpec(command=("./model",), stage_in=(staged,)))
    with pytest.raises(InputError, match="no file"):
        LegWork(wish, places(is_manager=False)).check_files(tmp_path)
    (tmp_path / "here").touch()
    LegWork(wish, places(is_manager=False)).check_files(tmp_path)
