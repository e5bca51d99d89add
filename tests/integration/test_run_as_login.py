"""Jobs run as their owners' accounts, which is what a site does unless told otherwise: with real
accounts, and root's daemon under the umask that a service has.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.gridcore.errors import GridError, InputError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.ports import OutputChunk, SitePort
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from tests.support.gur_runner import PATIENCE_S
from tests.support.host_tasks import until
from tests.support.login_world import SITE, LoginSite, login_site

pytestmark = pytest.mark.integration

TRIP = """\
name = "errand"
usage_pattern = "single"
nodes_total = 1
duration = "30s"
earliest_start = "now"
latest_end = "+10m"

[task]
command = ["/bin/sh", "-c", 'id -u; cat "$PWD/in/letter" > answer; echo "$HOME" >> answer']
stage_in = [{ source = "letter", destination = "in/letter" }]

[[machines]]
name = "lab"
nodes_max = 1
"""


@pytest.fixture(scope="module")
def site() -> Iterator[LoginSite]:
    """The site, serving."""
    with login_site() as world:
        world.start()
        yield world


async def _run(port: SitePort, name: str, script: str) -> JobView:
    """A job of the queue, to its end."""
    spec = JobSpec(
        request_id=name,
        name=name,
        account="default",
        nodes=1,
        limit_s=60,
        script=f"#!/bin/sh\n{script}",
    )
    accepted = await port.submit(spec)
    assert isinstance(accepted, JobView), accepted
    return await _end_of(port, accepted.job_id)


async def _end_of(port: SitePort, job_id: str) -> JobView:
    async with asyncio.timeout(PATIENCE_S):
        return [view async for view in port.watch_job(job_id)][-1]


async def _output(port: SitePort, job_id: str, stream: str = "stdout") -> str:
    chunks = [each.content async for each in port.follow_output(job_id, stream, 0)]
    return b"".join(chunks).decode()


async def _get(port: SitePort, area: str, path: str) -> str:
    return b"".join([each.content async for each in port.get_file(area, path, 0)]).decode()


async def _one(content: bytes) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=0, content=content)


def test_a_trip_runs_as_its_owner_from_the_booking_to_the_fetched_files(
    site: LoginSite, tmp_path: Path
) -> None:
    """Booked, staged in, run under the owner's number, followed and brought home, with nothing in
    the site's configuration but what it must hold.
    """
    account = site.accounts["ada"]
    (tmp_path / "letter").write_text("dear machine\n")
    (tmp_path / "errand.toml").write_text(TRIP)
    booked = site.gur("ada", "book", str(tmp_path / "errand.toml"), "--watch")
    assert booked.code == 0, booked
    assert str(account.pw_uid) in booked.out
    fetched = site.gur("ada", "fetch", "errand", "--to", str(tmp_path / "home"), "--json")
    assert fetched.code == 0, fetched
    paths = [Path(each) for each in json.loads(fetched.out)[SITE]]
    (answer,) = [each for each in paths if each.name == "answer"]
    assert answer.read_text() == f"dear machine\n{account.pw_dir}\n"
    (area,) = [each for each in (site.state / "areas").iterdir() if (each / "answer").exists()]
    assert {each.stat().st_uid for each in (area, *area.rglob("*"))} == {account.pw_uid}
    assert area.stat().st_mode & 0o777 == 0o700


async def test_a_job_outlives_its_daemon_under_its_own_account(site: LoginSite) -> None:
    """The daemon is killed under a running job, and the next one tells how it ended."""
    connection = site.connect("grace")
    spec = JobSpec(
        request_id="long",
        name="long",
        account="default",
        nodes=1,
        limit_s=60,
        script="#!/bin/sh\nwhile ! test -e go; do sleep 0.05; done\n"
        "id -u; id -G; umask; echo fault >&2\n",
    )
    view = await connection.site.submit(spec)
    assert isinstance(view, JobView), view
    async with asyncio.timeout(PATIENCE_S):
        async for running in connection.site.watch_job(view.job_id):
            if running.started_precise is not None:
                break
    await connection.close()
    site.end(signal.SIGKILL)
    site.start()
    connection = site.connect("grace")
    area = view.job_id
    await connection.site.put_file(area, "go", _one(b""), mode=0o600, sha256="")
    assert (await _end_of(connection.site, area)).state is JobState.COMPLETED
    account = site.accounts["grace"]
    said = await _output(connection.site, view.job_id)
    user, *groups, umask = said.split()
    assert (user, groups[0], umask) == (str(account.pw_uid), str(account.pw_gid), "0022")
    of_the_account = os.getgrouplist(account.pw_name, account.pw_gid)
    assert sorted(map(int, groups)) == sorted(of_the_account)
    assert await _output(connection.site, view.job_id, "stderr") == "fault\n"
    assert await _get(connection.site, area, f"{area}.stdout") == said
    await connection.close()


async def test_nobody_reads_what_is_anothers(site: LoginSite) -> None:
    """Neither on the site's machine nor through the daemon, whatever a task puts into its folder;
    and not what is the daemon's own.
    """
    ada, grace = site.connect("ada"), site.connect("grace")
    mine = await _run(ada.site, "mine", "mkdir deep; echo secret | tee key deep/key; chmod 644 *\n")
    assert mine.state is JobState.COMPLETED, mine
    area = site.state / "areas" / mine.job_id
    task = site.state / "tasks" / "work" / mine.job_id
    assert task.is_dir()
    journal = site.state / JOURNAL_FILE
    assert site.as_account("ada", 'cat "$1"', area / "key").out == "secret\n"
    attempts: list[tuple[str, Path | str]] = [
        ('cat "$1"', area / "key"),
        ('cat "$1"', area / f"{mine.job_id}.stdout"),
        ('ls "$1"', area),
        ('ls "$1"', task),
        ('ls "$1"', area.parent),
        ('ls "$1"', site.state),
        ('ls "$1"', site.state / "tasks"),
        ('ls "$1"', site.state / "tasks" / "control"),
        ('ls "$1"', site.root / "site" / "credential"),
        ('cat "$1"', journal),
        ('cat "$1"', f"{journal}-wal"),
        ('cat "$1"', f"{journal}.lock"),
        ('mv "$1" "$1.away"', area),
        ('mkdir "$1/new"', area.parent),
        ('touch "$1/new"', site.state),
        ('rm -r "$1"', area),
    ]
    for script, path in attempts:
        said = site.as_account("grace", script, path)
        assert (said.code != 0, said.out) == (True, ""), (script, path, said)
        assert "denied" in said.err, (script, path, said)
    with pytest.raises((NotAuthorisedError, NotFoundError)):
        await _get(grace.site, mine.job_id, "key")

    links = f"ln -s {area}/key soft; ln -s {area} folder; ln -s {journal} book; echo own > own\n"
    hers = await _run(grace.site, "hers", links)
    assert hers.state is JobState.COMPLETED, hers
    # A kernel that guards hard links refuses this one to grace; others do not.
    os.link(area / "key", site.state / "areas" / hers.job_id / "hard")
    os.link(area / "key", site.state / "areas" / hers.job_id / "new.part")
    listed = await grace.site.list_files(hers.job_id, "", with_checksums=True)
    names = {each.path for each in listed}
    assert names == {"own", f"{hers.job_id}.stdout", f"{hers.job_id}.stderr"}
    for path in ("soft", "folder/key", "book", "hard"):
        with pytest.raises((InputError, NotFoundError)):
            await _get(grace.site, hers.job_id, path)
    for path in ("soft", "hard", "new", "own"):
        await grace.site.put_file(hers.job_id, path, _one(b"mine now"), mode=0o600, sha256="")
        assert await _get(grace.site, hers.job_id, path) == "mine now"
    with pytest.raises(GridError):
        await grace.site.put_file(hers.job_id, "folder/key", _one(b"x"), mode=0o600, sha256="")
    assert (area / "key").read_text() == "secret\n"
    assert (area / "key").stat().st_uid == site.accounts["ada"].pw_uid
    await ada.close()
    await grace.close()


def test_what_would_fail_is_said_before_anything_listens(site: LoginSite) -> None:
    """A folder that logins may not pass ends ``gurd agent`` and ``gurd check-config`` with its name
    and what to do; an account that the machine does not have is a note.
    """
    good = site.check_config()
    assert good.code == 0, good
    with (site.root / "site" / "grid-mapfile").open("a") as stream:
        stream.write('"/O=grid/OU=users/CN=nobody-yet" no-such-login\n')
    noted = site.check_config()
    assert noted.code == 0, noted
    assert "jobs of no-such-login fail" in noted.err
    may_read_python = site.as_account("ada", 'test -r "$1"', os.__file__).code == 0
    assert ("trips with a barrier fail" in noted.err) == (not may_read_python)
    above = site.root / "site"
    above.chmod(0o700)
    try:
        refused = site.check_config()
        assert refused.code == 2, refused
        assert f"may not pass {above}" in refused.err
        assert f"chmod o+x {above}" in refused.err
        site.end()
        with pytest.raises(AssertionError, match="may not pass"):
            site.start()
        assert site.daemon is not None
        assert site.daemon.wait(PATIENCE_S) == 2
    finally:
        above.chmod(0o711)
        site.end()
        site.start()


def test_a_group_that_may_pass_is_let_in(site: LoginSite) -> None:
    """What counts is whether the account gets there, not whether everybody does."""
    above = site.root / "site"
    os.chown(above, 0, site.accounts["ada"].pw_gid)
    above.chmod(0o710)
    try:
        refused = site.check_config()
        assert refused.code == 2, refused
        assert f"jobs of {site.accounts['grace'].pw_name} cannot reach" in refused.err
    finally:
        above.chmod(0o711)
        os.chown(above, 0, 0)


async def test_a_login_that_sighup_adds_must_be_able_to_work_here(site: LoginSite) -> None:
    """One that may not pass the state folder is not taken, the map before stays in force, and the
    log says who and what to do; once the folder is open the map is taken.
    """
    above, mapfile = site.root / "site", site.root / "site" / "grid-mapfile"
    entries = {
        user: grid_map_entry(site.credentials[user].subject, [site.accounts[user].pw_name])
        for user in site.accounts
    }
    os.chown(above, 0, site.accounts["ada"].pw_gid)
    above.chmod(0o710)
    try:
        write_grid_map(mapfile, GridMap([entries["ada"]]))
        await _heard(site, "was read again")
        assert await _is_served(site, "ada")
        assert not await _is_served(site, "grace")
        write_grid_map(mapfile, GridMap(list(entries.values())))
        said = await _heard(site, "is not taken")
        assert f"{site.accounts['grace'].pw_name} may not pass {above}" in said
        assert await _is_served(site, "ada")
        assert not await _is_served(site, "grace")
        above.chmod(0o711)
        await _heard(site, "was read again")
        assert await _is_served(site, "grace")
    finally:
        above.chmod(0o711)
        os.chown(above, 0, 0)


async def _heard(site: LoginSite, word: str) -> str:
    """Have the grid-mapfile read again; what the daemon then says of it."""
    before = len(site.log)
    assert site.daemon is not None
    site.daemon.send_signal(signal.SIGHUP)
    await until(lambda: word in site.log[before:])
    return site.log[before:]


async def _is_served(site: LoginSite, user: str) -> bool:
    """Whether a user may have jobs there."""
    connection = site.connect(user)
    try:
        spec = JobSpec(
            request_id=f"{user}-{len(site.log)}",
            name="try",
            account="default",
            nodes=1,
            limit_s=60,
            argv=("true",),
        )
        await connection.site.submit(spec)
    except NotAuthorisedError:
        return False
    finally:
        await connection.close()
    return True
