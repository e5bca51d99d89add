"""An administrator's orders about reservations of the site: of named nodes, standing ones at run
time; holds on jobs; and what of it a restart keeps.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.maintenance_rules import MaintenanceRules
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.local_sched.reservations.standing import StandingReservation, StartRule
from tests.support.maintenance_world import KENNETH, ROOT, MaintenanceWorld, a_wish

EVE = Caller(subject="login:eve", login="eve", accounts=("eve",))
CONFIGURED = StandingReservation(
    name="night",
    start_rule=StartRule(text="0 2 * * *", zone="UTC"),
    duration_s=60,
    nodes=1,
    depth=1,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MaintenanceWorld]:
    """Four idle nodes at 1,000 seconds."""
    made = MaintenanceWorld(tmp_path, MaintenanceRules(standing=(CONFIGURED,)))
    await made.start()
    yield made
    await made.stop()


async def order(world: MaintenanceWorld, what: str, /, **arguments: object) -> Any:
    """root's order; the answer."""
    return await world.desk(ROOT).order(what, {key: str(each) for key, each in arguments.items()})


async def fix(world: MaintenanceWorld, nodes: str, start: int, end: int, **more: object) -> Any:
    """root reserves nodes by name."""
    asked = {
        "nodes": nodes,
        "start": start,
        "end": end,
        "request_id": f"{nodes.replace(',', '+')}:{start}",
    }
    return await order(world, "reserve-nodes", **(asked | more))


def nodes_of(world: MaintenanceWorld, job_id: str) -> tuple[str, ...]:
    """Where a job runs."""
    return world.view(job_id).node_names


# -- named nodes -----------------------------------------------------------------------------------


async def test_jobs_are_kept_off_named_nodes(world: MaintenanceWorld) -> None:
    """A job that would still run then gets other nodes, one that ends in time may have these; a
    crash forgets neither the nodes nor who is kept off them.
    """
    answer = await fix(world, "n-1,n-0", 2_000, 3_000)
    assert answer["granted"]
    assert answer["node_names"] == ["n-0", "n-1"]
    long, short = await world.submit(1, 1_500), await world.submit(2, 500)
    assert nodes_of(world, long) == ("n-2",)
    assert nodes_of(world, short) == ("n-0", "n-1")
    late = await world.submit(2, 1_500)
    assert world.view(late).planned_start == 2_500, "one other node is free now, two are then"
    assert await world.agent.compact()
    await world.restart()
    later = await world.submit(1, 1_400)
    assert nodes_of(world, later) == ("n-3",)
    world.agent.scheduler.validate()
    await world.pass_time(1_100)
    assert not set(nodes_of(world, late)) & {"n-0", "n-1"}
    assert world.agent.scheduler.pools["n"].nodes.idle & 0b11 == 0b11  # type: ignore[union-attr]


async def test_what_is_in_the_way_is_named(world: MaintenanceWorld) -> None:
    """Nodes and jobs; the other reservation of a node; nodes there are not; a start that is past;
    more than the horizon. Nothing is booked by any of it.
    """
    job = await world.submit(2, 1_500)
    refused = await fix(world, "n-1,n-3", 2_000, 3_000)
    assert not refused["granted"]
    assert refused["rule"] == "no-room"
    assert refused["message"] == f"lab: jobs may still run then on n-1: {job}"
    assert refused["earliest"] == 2_500
    first = await fix(world, "n-3", 2_000, 3_000)
    again = await fix(world, "n-2,n-3", 2_500, 2_600)
    assert again["message"] == f"lab: n-3 reserved already, by {first['reservation']}"
    assert (await fix(world, "n-2", 500, 2_000))["rule"] == "window-past"
    assert (await fix(world, "n-2", 2_000, 90 * 86_400 + 2_000))["rule"] == "beyond-horizon"
    with pytest.raises(NotFoundError, match="no node is called 'n-7'"):
        await fix(world, "n-2,n-7", 2_000, 3_000)
    with pytest.raises(InputError, match="ends before it starts"):
        await fix(world, "n-2", 3_000, 3_000)
    with pytest.raises(NotAuthorisedError):
        await world.desk().order("reserve-nodes", {})
    assert len(world.agent.calendar.live()) == 2, "the standing one and the first"


async def test_a_users_reservation_keeps_its_nodes(world: MaintenanceWorld) -> None:
    """Named nodes are refused where a reservation that goes on through their start would lack
    nodes that stay free; the refusal names it. Elsewhere both stand.
    """
    wish = a_wish("through", 3, 1_900, 500)
    kept = await world.desk().set_reservation(wish, is_dry_run=False)
    assert isinstance(kept, Reservation)
    refused = await fix(world, "n-0,n-1", 2_000, 3_000)
    assert refused["rule"] == "no-room"
    assert (await fix(world, "n-0", 2_000, 3_000))["granted"]
    spec = JobSpec(
        request_id="j", name="x", account="kenneth", nodes=3, limit_s=500, argv=("true",),
        reservation_id=kept.reservation_id,
    )  # fmt: skip
    job = await world.desk().submit(spec)
    assert isinstance(job, JobView)
    await world.pass_time(901)
    assert world.view(job.job_id).started_at == 1_900
    assert nodes_of(world, job.job_id) == ("n-1", "n-2", "n-3")


async def test_waiting_jobs_make_way_and_are_told(world: MaintenanceWorld) -> None:
    """A dry run tells the same and moves nobody; saying it twice books once."""
    await world.submit(4, 1_000)
    waiting = await world.submit(4, 500)
    assert world.view(waiting).planned_start == 2_000
    assert (await fix(world, "n-2", 2_100, 2_200, dry_run="yes"))["granted"]
    assert world.view(waiting).planned_start == 2_000
    answer = await fix(world, "n-2", 2_100, 2_200)
    assert answer["displaced"] == [waiting]
    again = await fix(world, "n-2", 2_100, 2_200)
    assert again["reservation"] == answer["reservation"]
    await world.tick()
    assert world.view(waiting).planned_start == 2_200
    assert await world.mailed() == [f"[lab] job {waiting} makes way for a reservation of the site"]
    await world.agent.calendar_port(ROOT).release(answer["reservation"])
    await world.tick()
    assert world.view(waiting).planned_start == 2_000


async def test_a_reservation_of_named_nodes_is_not_amended(world: MaintenanceWorld) -> None:
    """Its nodes would not follow."""
    answer = await fix(world, "n-2", 2_100, 2_200)
    wish = a_wish("other", 2, 2_100, 100, account="system")
    refused = await world.agent.calendar_port(ROOT).amend(answer["reservation"], wish)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.STATE


async def test_named_nodes_are_for_whom_the_rule_admits(world: MaintenanceWorld) -> None:
    """Jobs of the accounts named run on them, also when they are submitted into them; others are
    refused.
    """
    answer = await fix(world, "n-3", 1_000, 5_000, accounts="kenneth", limit_max_s=1_000)
    inside = {"reservation_id": answer["reservation"]}
    job = await world.submit(1, 1_000, **inside)
    assert nodes_of(world, job) == ("n-3",)
    await world.restart()
    second = await world.submit(1, 900, **inside)
    assert world.view(second).reason == "other jobs fill its reservation"
    spec = JobSpec(
        request_id="e", name="x", account="eve", nodes=1, limit_s=9, argv=("true",), **inside
    )
    with pytest.raises(NotAuthorisedError):
        await world.desk(EVE).submit(spec)


async def test_a_failed_named_node_is_missing_once(world: MaintenanceWorld) -> None:
    """A node that is reserved for its repair is down as well: the three others are all there."""
    await order(world, "node-down", node="n-0")
    await fix(world, "n-0", 2_000, 3_000)
    job = await world.submit(3, 5_000)
    assert nodes_of(world, job) == ("n-1", "n-2", "n-3")
    await world.restart()
    await order(world, "node-up", node="n-0")
    short = await world.submit(1, 1_000)
    assert nodes_of(world, short) == ("n-0",)
    world.agent.scheduler.validate()


# -- standing reservations at run time -------------------------------------------------------------


def daily(**more: object) -> Mapping[str, object]:
    """Two nodes at half past midnight, for kenneth."""
    rule: dict[str, object] = {
        "name": "lesson", "start": "30 0 * * *", "time_zone": "UTC", "duration_s": 600,
        "nodes": 2, "depth": 2, "users": "kenneth",
    }  # fmt: skip
    return rule | more


async def test_standing_reservations_come_and_go_by_order(world: MaintenanceWorld) -> None:
    """Made at once, kept over a crash and a compaction, taken back with what lies ahead; saying it
    twice changes nothing, and a new rule of the old name makes instances of its own.
    """
    made = await order(world, "create-standing", **daily())
    starts = [each["start"] for each in made["instances"]]
    assert starts == [1_800, 1_800 + 86_400]
    again = await order(world, "create-standing", **daily())
    assert again["was_there"]
    assert again["instances"] == made["instances"]
    assert await world.agent.compact()
    await world.restart()
    await world.tick(900)
    gone = await order(world, "cancel-standing", name="lesson")
    assert len(gone["taken_back"]) == 2
    assert [each["start"] for each in gone["instances"]] == [1_800], "the one that runs goes on"
    await world.restart()
    with pytest.raises(NotFoundError, match="no standing reservation"):
        await order(world, "cancel-standing", name="lesson")
    back = await order(world, "create-standing", **daily(nodes=2))
    assert 1_800 + 86_400 in [each["start"] for each in back["instances"]]


async def test_a_changed_rule_replaces_its_instances(world: MaintenanceWorld) -> None:
    """Those ahead are of the new shape, and no others."""
    await order(world, "create-standing", **daily())
    changed = await order(world, "create-standing", **daily(nodes=3))
    assert [each["nodes"] for each in changed["instances"]] == [3, 3]


async def test_bad_rules_are_refused_in_one_line(world: MaintenanceWorld) -> None:
    """Too many nodes, a start that never comes, a name of the configuration, a wrong field."""
    for wrong in (
        {"nodes": 9}, {"start": "0 8 30 2 *"}, {"start": "every day"}, {"time_zone": "Mars"},
        {"features": "gpu"}, {"name": "a/b"}, {"duration_s": 0}, {"duration_s": 1 << 33},
    ):  # fmt: skip
        with pytest.raises(InputError):
            await order(world, "create-standing", **daily(**wrong))
    with pytest.raises(ConflictError, match="configuration"):
        await order(world, "create-standing", **daily(name="night"))
    with pytest.raises(ConflictError, match="configuration"):
        await order(world, "cancel-standing", name="night")
    assert not world.agent.state.standing


async def test_admitted_users_submit_into_an_instance(world: MaintenanceWorld) -> None:
    """By its id, before it begins; the job waits for it and runs in it, in a folder of its own.
    Whoever is not admitted is refused.
    """
    made = await order(world, "create-standing", **daily())
    instance = made["instances"][0]["reservation"]
    job = await world.submit(2, 600, reservation_id=instance)
    assert world.view(job).reason == "its reservation has not begun"
    spec = JobSpec(
        request_id="e", name="x", account="eve", nodes=1, limit_s=9, argv=("true",),
        reservation_id=instance,
    )  # fmt: skip
    with pytest.raises(NotAuthorisedError):
        await world.desk(EVE).submit(spec)
    await world.pass_time(801)
    assert world.view(job).started_at == 1_800
    assert world.agent.parts.work_dirs.path_of(job).is_dir()


# -- holds -----------------------------------------------------------------------------------------


async def test_a_held_job_blocks_nobody_and_waits_over_a_restart(world: MaintenanceWorld) -> None:
    """It says why it waits, keeps its rank, and starts when it is let go."""
    await world.submit(4, 100)
    job, other = await world.submit(4, 500), await world.submit(4, 500)
    for _ in range(2):
        answer = await world.desk().order("hold-job", {"job": job})
    assert answer == {"job": job, "is_held": True, "was_held": True}
    await world.tick()
    assert world.view(job).reason == "it was put on hold by its owner or an administrator"
    assert world.view(other).planned_start == 1_100
    assert await world.agent.compact()
    await world.restart()
    await world.tick()
    assert world.view(job).planned_start is None
    await world.desk().order("release-job", {"job": job})
    await world.tick()
    assert world.view(job).planned_start is not None
    world.agent.scheduler.validate()


async def test_whose_hold_it_is_counts(world: MaintenanceWorld) -> None:
    """Others' jobs are not held; an administrator's hold is his to undo; what runs is past it."""
    running = await world.submit(4, 100)
    job = await world.submit(1, 100)
    with pytest.raises(NotAuthorisedError):
        await world.desk(EVE).order("hold-job", {"job": job})
    await order(world, "hold-job", job=job)
    with pytest.raises(NotAuthorisedError, match="administrator"):
        await world.desk(KENNETH).order("release-job", {"job": job})
    await order(world, "release-job", job=job)
    with pytest.raises(ConflictError, match="does not wait"):
        await world.desk().order("hold-job", {"job": running})
    with pytest.raises(NotFoundError):
        await world.desk().order("hold-job", {"job": "99.lab"})
    await world.tick()
    assert world.view(job).state is JobState.QUEUED


async def test_an_administrators_points_outlive_a_crash(world: MaintenanceWorld) -> None:
    """They replace those it had; only waiting jobs have any; users give none."""
    running, job = await world.submit(4, 100), await world.submit(1, 100)
    assert await order(world, "boost-job", job=job, points=500) == {
        "job": job, "points": 500, "before": 0
    }  # fmt: skip
    assert await world.agent.compact()
    await world.restart()
    assert world.agent.scheduler.waiting[job].priority_boost == 500
    assert (await order(world, "boost-job", job=job, points=-7))["before"] == 500
    with pytest.raises(InputError, match="no points"):
        await order(world, "boost-job", job=job, points="1e9")
    with pytest.raises(ConflictError):
        await order(world, "boost-job", job=running, points=1)
    with pytest.raises(NotAuthorisedError):
        await world.desk().order("boost-job", {"job": job, "points": "1"})


# -- questions -------------------------------------------------------------------------------------


async def test_the_past_is_remembered_with_filters(world: MaintenanceWorld) -> None:
    """What ended and what was cancelled, the latest first; whose others' are is not told."""
    first = await world.desk().set_reservation(a_wish("a", 1, 2_000, 60), is_dry_run=False)
    assert isinstance(first, Reservation)
    fixed = await fix(world, "n-3", 2_000, 2_100)
    await world.agent.calendar_port(KENNETH).release(first.reservation_id)
    await world.pass_time(1_200)

    async def past(caller: Caller = KENNETH, /, **arguments: str) -> list[Any]:
        answer: Any = await world.desk(caller).query("past", arguments)
        assert answer["total"] == len(answer["reservations"])
        return list(answer["reservations"])

    found = await past()
    assert [(each["reservation"], each["state"], each["ended_at"]) for each in found] == [
        (fixed["reservation"], "COMPLETED", 2_100),
        (first.reservation_id, "RELEASED", 1_000),
    ]
    assert found[0]["node_names"] == ["n-3"]
    assert [each["owner"] for each in await past(EVE)] == ["system", "somebody"]
    assert [each["account"] for each in await past(EVE)] == ["hidden", "hidden"]
    assert await past(EVE, user="kenneth") == []
    assert len(await past(user="kenneth")) == len(await past(ROOT, user="kenneth")) == 1
    assert len(await past(state="completed")) == len(await past(since="2000")) == 1
    assert len(await past(until="2000", **{"class": "n"})) == 1
    for wrong in ({"state": "running"}, {"state": "held"}, {"class": "x"}, {"colour": "red"}):
        with pytest.raises(InputError):
            await past(**wrong)


async def test_rules_are_shown_without_names_to_users(world: MaintenanceWorld) -> None:
    """Whether one may use it is told; who else may is for administrators."""
    await order(world, "create-standing", **daily(limit_max_s=60))
    answers: list[Any] = [
        await world.desk(caller).query("standing", {}) for caller in (KENNETH, EVE, ROOT)
    ]
    shown = [{each["name"]: each for each in answer["standing"]} for answer in answers]
    assert [each["lesson"]["admits_you"] for each in shown] == [True, False, False]
    assert [each["night"]["made_by"] for each in shown] == ["configuration"] * 3
    assert "users" not in shown[0]["lesson"]
    assert shown[2]["lesson"]["users"] == ["kenneth"]
    assert len(shown[0]["lesson"]["instances"]) == 2


async def test_a_job_of_anothers_works_in_a_folder_of_its_own(
    world: MaintenanceWorld, tmp_path: Path
) -> None:
    """A reservation's folder is its owner's: a job that an administrator has let in stays outside,
    as do jobs in a reservation of the site.
    """
    kept = await world.desk().set_reservation(a_wish("r", 2, 1_000, 600), is_dry_run=False)
    assert isinstance(kept, Reservation), kept
    spec = JobSpec(
        request_id="fix",
        name="fix",
        account="root",
        nodes=1,
        limit_s=60,
        argv=("true",),
        reservation_id=kept.reservation_id,
    )
    roots = await world.desk(ROOT).submit(spec)
    assert isinstance(roots, JobView), roots
    await world.desk(ROOT).bind(kept.reservation_id, [roots.job_id])
    await world.tick(1)
    assert world.view(roots.job_id).state is JobState.RUNNING
    assert set(os.listdir(tmp_path)) == {roots.job_id}
    own = await world.submit(1, 60, reservation_id=kept.reservation_id)
    await world.desk().bind(kept.reservation_id, [own])
    await world.tick(1)
    assert world.view(own).state is JobState.RUNNING
    assert set(os.listdir(tmp_path)) == {roots.job_id, kept.reservation_id}
