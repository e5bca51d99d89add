from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.credentials import Usage, check_credential, load_credential
from gridtravel.gridio.trust.gridmap import load_grid_map
from gridtravel.travel_agent.demo import sites
from gridtravel.travel_agent.demo.sites import (
    DEMO_SITES,
    NEIGHBOUR,
    USER,
    GridFolder,
    free_ports,
    lay_out,
    write_user_config,
)
from gridtravel.travel_agent.demo.trip import BACKGROUND, Outcome, lay_out_trip, three_machines_text
from gridtravel.travel_agent.metajob_file.reader import parse_metajob, read_metajob_file
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.shared_data import CHECKOUT

NOW = 1_100_000_000
ZONE = find_zone("America/Los_Angeles")


def test_the_trip_is_the_request_of_the_paper(tmp_path: Path) -> None:
    """12 nodes over the two preferred machines, 1 to 158 and 1 to 2, at the same moment, by the
    same accounts; every file that it stages in lies beside it.
    """
    path = lay_out_trip(tmp_path / "trip", python='/opt/a "strange" path/python3')
    metajob = read_metajob_file(path, now=NOW, zone=ZONE).metajob
    assert (metajob.nodes_total, metajob.usage_pattern) == (12, UsagePattern.MULTIPLE)
    bounds = {each.machine: (each.nodes_min, each.nodes_max) for each in metajob.machines}
    assert bounds == {"datastar655": (1, 158), "purduesp": (1, 2)}
    assert [each.account for each in metajob.machines] == ["sys200", "TG-STA040001N"]
    for machine in metajob.machines:
        assert machine.task is not None
        assert machine.task.command[0] == '/opt/a "strange" path/python3'
        assert all(Path(staged.source).is_file() for staged in machine.task.stage_in)


def test_the_quote_asks_all_three_machines() -> None:
    """As in the paper's last demonstration; it runs nothing."""
    metajob = parse_metajob(three_machines_text(), now=NOW, zone=ZONE, form="toml").metajob
    assert [each.machine for each in metajob.machines] == [site.machine for site in DEMO_SITES]
    assert all(metajob.task_for(each.machine) is None for each in metajob.machines)


def test_every_queue_begins_with_a_job_that_fits() -> None:
    """The first background job of each machine can start at once, and ends before its limit."""
    for site in DEMO_SITES:
        jobs = [job for job in BACKGROUND if job.machine == site.machine]
        assert jobs[0].nodes <= site.nodes
        assert all(job.nodes <= site.nodes and job.runs_s < job.limit_s for job in jobs)


def test_the_layout_is_what_daemons_and_users_read(tmp_path: Path) -> None:
    """Each site has a configuration of its own, a credential of the same grid and a map that knows
    both users; no two sites share a contact port.
    """
    folder, now = GridFolder(root=tmp_path), SystemClock().now()
    lay_out(folder, SeededIds(1), now)
    ports: set[int] = set()
    for site in DEMO_SITES:
        config = load_site_config(folder.site_config(site.name))
        assert (config.name, config.classes[0].nodes) == (site.name, site.nodes)
        assert ports.isdisjoint(config.contact_ports)
        ports.update(config.contact_ports)
        assert check_credential(load_credential(config.credential), now, Usage.SERVER) == []
        logins = [entry.login for entry in load_grid_map(config.grid_mapfile).entries]
        assert logins == [USER, NEIGHBOUR]
    write_user_config(folder, USER, {site.name: "127.0.0.1:7" for site in DEMO_SITES})
    user = load_grid_config(folder.user_config(USER))
    assert check_credential(load_credential(user.credential_folder), now, Usage.CLIENT) == []
    assert user.machine("purduesp").site == "purdue"


def test_contact_ports_leave_out_what_is_taken() -> None:
    """A port that somebody listens on is in no site's range."""
    with socket.socket() as taken:
        first = free_ports(sites.CONTACT_PORT_FIRST)
        taken.bind(("127.0.0.1", first + 3))
        taken.listen()
        assert free_ports(first) > first + 3


def test_a_machine_without_free_ports_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search ends, with a message, when nothing is free."""
    monkeypatch.setattr(sites, "_is_free", lambda port: port % 10 != 0)
    with pytest.raises(UnavailableError, match="in a row are free"):
        free_ports(sites.CONTACT_PORT_LAST - 5)


def test_no_result_is_no_success() -> None:
    """A demonstration that was declined, or whose legs left nothing, has not shown anything."""
    assert Outcome().faults == ("the trip did not come to a result",)
    assert Outcome().spread_ms is None
    assert json.dumps(Outcome().starts) == "{}"


def test_the_files_of_the_first_trip_are_metajobs() -> None:
    """Whoever copies a file from docs/first-trip.md can book it."""
    text = (CHECKOUT / "docs" / "first-trip.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    machines = {site.machine for site in DEMO_SITES}
    for block in blocks:
        metajob = parse_metajob(block, now=NOW, zone=ZONE, form="toml").metajob
        assert {each.machine for each in metajob.machines} <= machines
    assert len(blocks) == 3
