"""Trips to sites that are reached by SSH alone, or by SSH when their gRPC door is shut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.trips.itineraries import Itinerary, Transport, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.choices import TransportChoice
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.running.jobs import LegChange
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.grid_world import GridWorld, metajob_text
from tests.support.sshd_world import SshUser, write_key

pytestmark = pytest.mark.integration
CLOCK = SystemClock()
SHUT = "127.0.0.1:9"
"""Nothing listens at the port of the discard service."""
NOWHERE = "no-such-host.invalid:7101"


def machines(
    grid: GridWorld,
    user: SshUser,
    path: Path,
    endpoints: Mapping[str, str],
    credential: Path | None = None,
) -> Path:
    """A list in which every site has a login, and those of ``endpoints`` an endpoint as well."""
    folder = credential or grid.folder.user("ada") / "credential"
    lines = [f'credential = "{folder}"', f'ssh_config = "{user.config}"']
    for site in ("alpha", "beta"):
        socket = grid.folder.site(site) / "state" / "agent.sock"
        lines += [
            f"[machines.{site}-machine]",
            f'site = "{site}"',
            f'ssh = "{user.alias}"',
            f'ssh_socket = "{socket}"',
        ]
        if site in endpoints:
            lines.append(f'endpoint = "{endpoints[site]}"')
    path.write_text("\n".join(lines) + "\n")
    return path


@asynccontextmanager
async def laptop(
    grid: GridWorld,
    config: Path,
    transport: TransportChoice = TransportChoice.AUTO,
    told: list[str] | None = None,
) -> AsyncIterator[TravelAgent]:
    """A travel agent with that list."""
    agent = open_travel_agent(
        load_grid_config(config),
        grid.new_state(),
        transport=transport,
        tell=(told if told is not None else []).append,
    )
    try:
        yield agent
    finally:
        await agent.close()


def a_metajob(
    start: int, end: int, *, command: list[str] | None = None, extra: str = ""
) -> Metajob:
    """One node at each of the two sites."""
    text = metajob_text(
        {"alpha": (1, 1), "beta": (1, 1)},
        2,
        earliest=start,
        latest=end,
        duration_s=20,
        command=command or (),
        extra=extra,
    )
    return parse_metajob(text, now=CLOCK.now(), zone=ZoneInfo("UTC"), form="toml").metajob


def transports(trip: Itinerary) -> dict[str, Transport]:
    """By site."""
    return {leg.site: leg.transport for leg in trip.legs}


def acceptors(grid: GridWorld, trip: Itinerary, site: str) -> list[str]:
    """Who keeps the trip's outcome, by the book of ``site``."""
    (kept,) = grid.live(site, trip.trip_id)
    assert kept.request.trip is not None
    return [each.site for each in kept.request.trip.acceptors]


async def test_site_known_only_by_ssh_works_for_everything(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path
) -> None:
    """Booking, staging in, running together with a site that is reached by gRPC, output, states,
    results. The site that others cannot ask keeps no outcome; the other one does.
    """
    config = machines(grid, ssh_user, tmp_path / "sites.toml", {"alpha": grid.endpoint("alpha")})
    (tmp_path / "in.txt").write_text("hello by ssh\n")
    task = '[[task.stage_in]]\nsource = "in.txt"\ndestination = "in.txt"\n'
    wish = metajob_text(
        {"alpha": (1, 1), "beta": (1, 1)},
        2,
        earliest=CLOCK.now(),
        latest=CLOCK.now() + 600,
        duration_s=20,
        command=["sh", "-c", "cat in.txt; cat in.txt > out.txt"],
    ).replace("[[machines]]", task + "[[machines]]", 1)
    metajob = parse_metajob(wish, now=CLOCK.now(), zone=ZoneInfo("UTC"), form="toml").metajob
    async with laptop(grid, config) as agent:
        trip = await agent.book(metajob, base=tmp_path)
        assert trip.state is TripState.BOOKED
        assert transports(trip) == {"alpha": Transport.GRPC, "beta": Transport.SSH}
        assert acceptors(grid, trip, "beta") == ["alpha"]
        said: dict[str, bytes] = {}
        ended = {}
        async for item in agent.follow(trip.trip_id):
            if isinstance(item, LegChange):
                ended[item.leg] = item.view.exit_code
            else:
                said[item.leg] = said.get(item.leg, b"") + item.content
        assert set(said.values()) == {b"hello by ssh\n"}
        assert set(ended.values()) == {0}
        fetched = await agent.fetch(trip.trip_id, tmp_path / "results")
        texts = {each.read_text() for paths in fetched.values() for each in paths}
        assert texts >= {"hello by ssh\n"}
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.COMPLETED


async def test_trip_by_ssh_alone(grid: GridWorld, ssh_user: SshUser, tmp_path: Path) -> None:
    """Two sites that only this traveller reaches: nobody keeps the outcome but its own log; booked,
    found again by another command, cancelled.
    """
    config = machines(grid, ssh_user, tmp_path / "sites.toml", {})
    async with laptop(grid, config) as agent:
        trip = await agent.book(a_metajob(*grid.window()))
        assert set(transports(trip).values()) == {Transport.SSH}
        assert acceptors(grid, trip, "alpha") == acceptors(grid, trip, "beta") == []
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.BOOKED
        assert (await agent.cancel(trip.trip_id)).state is TripState.CANCELLED
    assert grid.live("alpha", trip.trip_id) == grid.live("beta", trip.trip_id) == []


@pytest.mark.parametrize("endpoint", [SHUT, NOWHERE])
async def test_shut_door(grid: GridWorld, ssh_user: SshUser, tmp_path: Path, endpoint: str) -> None:
    """Where gRPC finds nobody, or no such name, the login is taken and that is said once. Others
    may still reach the endpoint, so the site may keep the outcome.
    """
    config = machines(
        grid,
        ssh_user,
        tmp_path / "sites.toml",
        {"alpha": grid.endpoint("alpha"), "beta": endpoint},
    )
    told: list[str] = []
    async with laptop(grid, config, told=told) as agent:
        trip = await agent.quote(a_metajob(*grid.window()))
        assert transports(trip) == {"alpha": Transport.GRPC, "beta": Transport.SSH}
        await agent.sites()
    assert len(told) == 1
    assert told[0].startswith("beta is reached by ssh")


async def test_expired_certificate(grid: GridWorld, ssh_user: SshUser, tmp_path: Path) -> None:
    """Who has overslept the end of a certificate still has the login."""
    credential = tmp_path / "old"
    grid.authority.issue_user("ada", credential, CLOCK.now() - 7 * 86_400)
    endpoints = {site: grid.endpoint(site) for site in ("alpha", "beta")}
    config = machines(grid, ssh_user, tmp_path / "sites.toml", endpoints, credential)
    told: list[str] = []
    async with laptop(grid, config, told=told) as agent:
        trip = await agent.quote(a_metajob(*grid.window()))
        assert set(transports(trip).values()) == {Transport.SSH}
    assert len(told) == 2
    assert all("expired" in each for each in told)


def test_transport_by_option(grid: GridWorld, ssh_user: SshUser, tmp_path: Path) -> None:
    """``--transport`` decides; what cannot be is said, with its exit code; the itinerary tells."""
    start, end = grid.window()
    wish = tmp_path / "wish.toml"
    wish.write_text(metajob_text({"alpha": (1, 1), "beta": (1, 1)}, 2, earliest=start, latest=end))
    both = {site: grid.endpoint(site) for site in ("alpha", "beta")}
    config = str(machines(grid, ssh_user, tmp_path / "sites.toml", both))
    for choice, expected in (("auto", "grpc"), ("grpc", "grpc"), ("ssh", "ssh")):
        said = grid.gur(
            "quote", str(wish), "--json", "--transport", choice, more={"GUR_CONFIG": config}
        )
        assert said.code == 0, said
        assert {leg["transport"] for leg in json.loads(said.out)["legs"]} == {expected}
    config = str(machines(grid, ssh_user, tmp_path / "sites.toml", {"alpha": SHUT, "beta": SHUT}))
    said = grid.gur("quote", str(wish), "--transport", "grpc", more={"GUR_CONFIG": config})
    assert said.code == 4, said
    said = grid.gur("sites", more={"GUR_CONFIG": config})
    assert said.code == 0, said
    assert said.err.count("is reached by ssh") == 2
    config = str(machines(grid, ssh_user, tmp_path / "sites.toml", {}))
    said = grid.gur("quote", str(wish), "--transport", "grpc", more={"GUR_CONFIG": config})
    assert said.code == 2, said
    assert "no way by grpc" in said.err


def test_login_that_is_refused(grid: GridWorld, ssh_user: SshUser, tmp_path: Path) -> None:
    """An unknown host key ends the command with code 5, the fingerprint and the next step."""
    hosts = tmp_path / "hosts"
    hosts.touch()
    config = tmp_path / "ssh_config"
    config.write_text(ssh_user.config.read_text().replace(str(ssh_user.known_hosts), str(hosts)))
    path = machines(grid, ssh_user, tmp_path / "sites.toml", {})
    path.write_text(path.read_text().replace(str(ssh_user.config), str(config)))
    start, end = grid.window()
    wish = tmp_path / "wish.toml"
    wish.write_text(metajob_text({"alpha": (1, 1), "beta": (1, 1)}, 2, earliest=start, latest=end))
    said = grid.gur("quote", str(wish), more={"GUR_CONFIG": str(path)})
    assert said.code == 5, said
    assert "SHA256:" in said.err
    assert f">> {hosts}" in said.err
    assert len(said.faults) == 1


@pytest.mark.parametrize(
    ("file", "told"), [("known_hosts", "HAS CHANGED"), ("key", "publickey")], ids=str
)
@pytest.mark.parametrize("search", ["sweep", "probe"])
def test_one_login_that_is_refused_leaves_nothing_at_the_other_site(
    grid: GridWorld, ssh_user: SshUser, tmp_path: Path, file: str, told: str, search: str
) -> None:
    """Another host key than the one on file, or a key that the server does not take: exit code 5
    and one line; the site that was reached by gRPC keeps nothing of the trip.
    """
    spoilt = tmp_path / file
    key = write_key(spoilt)
    if file == "known_hosts":
        spoilt.write_text(f"[127.0.0.1]:{ssh_user.sshd.port} {key}\n")
    good = ssh_user.known_hosts if file == "known_hosts" else ssh_user.key
    config = tmp_path / "ssh_config"
    config.write_text(ssh_user.config.read_text().replace(f"{good}\n", f"{spoilt}\n"))
    path = machines(grid, ssh_user, tmp_path / "sites.toml", {"alpha": grid.endpoint("alpha")})
    path.write_text(path.read_text().replace(str(ssh_user.config), str(config)))
    start, end = grid.window()
    wish = tmp_path / "wish.toml"
    wish.write_text(metajob_text({"alpha": (1, 1), "beta": (1, 1)}, 2, earliest=start, latest=end))
    state = grid.new_state()
    said = grid.gur(
        "book", str(wish), "--search", search, state=state, more={"GUR_CONFIG": str(path)}
    )
    assert said.code == 5, said
    assert len(said.faults) == 1, said
    assert told in said.faults[0]
    (trip,) = (state / "trips").iterdir()
    assert grid.live("alpha", trip.name) == []
    assert grid.holds() == []
