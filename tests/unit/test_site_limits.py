"""The ``[reservations]`` table of a site's configuration, as the scheduler gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.reservations.user_reservations import (
    AccountLimits,
    UserReservationLimits,
)


def limits_of(folder: Path, text: str) -> UserReservationLimits:
    """Of a site with this table."""
    path = folder / "site.toml"
    path.write_text(f'[site]\nname = "lab"\n{text}')
    return load_site_config(path).file.reservations.limits()


def test_without_a_table_only_the_number_is_limited(tmp_path: Path) -> None:
    """A hundred live reservations of one account, so that memory has a bound."""
    assert limits_of(tmp_path, "") == UserReservationLimits(
        default=AccountLimits(reservations_max=100)
    )


def test_negative_means_no_limit_and_zero_means_none(tmp_path: Path) -> None:
    """As in the original's USER_SET_LIMITS."""
    limits = limits_of(
        tmp_path,
        "[reservations]\nper_account = 0\nnodes = 4\nseconds = 3600\n"
        "window_node_seconds = 115200\n",
    )
    assert limits.of("anybody") == AccountLimits(
        reservations_max=0, nodes_max=4, duration_max_s=3600
    )
    assert limits.window_node_seconds_max == 115_200


def test_an_account_has_the_common_limits_where_it_has_none_of_its_own(tmp_path: Path) -> None:
    """Key by key; negative lifts a limit for it alone."""
    limits = limits_of(
        tmp_path,
        "[reservations]\nper_account = 2\nnodes = 4\n[reservations.accounts.rich]\nnodes = -1\n",
    )
    assert limits.of("rich") == AccountLimits(reservations_max=2)
    assert limits.of("poor") == AccountLimits(reservations_max=2, nodes_max=4)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[reservations]\nnode = 4\n", "reservations.node"),
        ("[reservations.accounts.rich]\nhours = 4\n", "reservations.accounts.rich.hours"),
        ('[reservations]\nseconds = "1h"\n', "reservations.seconds"),
        ("[reservations]\nwindow_s = 0\n", "reservations.window_s"),
    ],
)
def test_a_wrong_key_or_unit_is_named(tmp_path: Path, text: str, key: str) -> None:
    """One error with file and key."""
    with pytest.raises(InputError, match=key):
        limits_of(tmp_path, text)


def test_the_socket_lies_in_the_state_folder_or_where_it_is_put(tmp_path: Path) -> None:
    """Relative to the file, like every path."""
    path = tmp_path / "site.toml"
    path.write_text('[site]\nname = "lab"\n')
    assert load_site_config(path).socket == tmp_path / "state" / "agent.sock"
    path.write_text('[site]\nname = "lab"\nsocket = "/run/gridtravel/agent.sock"\n')
    assert load_site_config(path).socket == Path("/run/gridtravel/agent.sock")
