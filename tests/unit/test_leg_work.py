"""What is refused before anything is booked, because a leg could not do its work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.tasks import StagedFile, TaskSpec
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.travel_agent.running.jobs import check_files
from gridtravel.travel_agent.sites.destinations import Destination
from tests.support.metajob_builders import metajob


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
    check_files(wish, places(is_manager=False), tmp_path)
    check_files(metajob(), places(is_manager=True), tmp_path)
    with pytest.raises(InputError, match="runs no programs"):
        check_files(wish, places(is_manager=True), tmp_path)


def test_a_file_that_is_not_there_is_found_out_first(tmp_path: Path) -> None:
    """Before any site is asked."""
    staged = StagedFile(source="here", destination="there")
    wish = replace(metajob(), task=TaskSpec(command=("./model",), stage_in=(staged,)))
    with pytest.raises(InputError, match="no file"):
        check_files(wish, places(is_manager=False), tmp_path)
    (tmp_path / "here").touch()
    check_files(wish, places(is_manager=False), tmp_path)
