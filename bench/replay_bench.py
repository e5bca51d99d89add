"""How fast the whole production scheduler replays a log, and what a cycle costs with a long queue.

The targets are multiples of the speed of the fastest public Python simulator, which is not at hand
here. What it did on the KTH-SP2 log is known (11,200 jobs a CPU second under EASY, 5,100
conservative), and so is the speed of a special-purpose EASY loop in plain Python on that machine:
about 190,000. The same loop is in this file; its speed here, measured in the same run and
interleaved, says how much faster this machine is, to about a fifth. The figures are the replay's
time in times of the simulator's.

The log is KTH-SP2 where the shared folder has it, else the synthetic workload of the loop.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figures import Figure
from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.priority import PriorityRule, by_priority
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.swf import TraceJob, read_trace

LOG = "KTH-SP2-1996-2.1-cln.swf.gz"
LOG_PROCS = 100
LOOP_JOBS_PER_S = 190_000
"""Speed of the plain loop where the simulators were measured."""
SIMULATOR_EASY_JOBS_PER_S = 11_200
SIMULATOR_CONSERVATIVE_JOBS_PER_S = 5_100
ROUNDS = 3
QUEUE_NODES = 10_000
SEED = 20


def workload() -> tuple[list[TraceJob], int]:
    """The KTH log, or 10,000 synthetic jobs on 128 processors at a load of 0.85."""
    return log() or synthetic()


def log() -> tuple[list[TraceJob], int] | None:
    """The KTH log, where the shared folder has it."""
    shared = Path(os.environ.get("GRID_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    path = shared / "traces" / LOG
    return (read_trace(path, LOG_PROCS).jobs, LOG_PROCS) if path.exists() else None


def synthetic() -> tuple[list[TraceJob], int]:
    """10,000 jobs on 128 processors at a load of 0.95, estimates 1 to 10 times the run time."""
    source = random.Random(SEED)
    jobs, at = [], 0.0
    for number in range(10_000):
        procs = int(2 ** source.uniform(0, 7))
        run_s = int(min(max(source.lognormvariate(math.log(1_800), 1.5), 1), 86_400))
        estimate_s = int(run_s * source.uniform(1, 10))
        jobs.append(TraceJob(number, int(at), run_s, procs, estimate_s, number % 50, number % 9))
        at += source.expovariate(1) * 1_090
    return jobs, 128


def plain_easy(jobs: Sequence[TraceJob], procs: int) -> list[int]:
    """EASY and nothing else: all ends and arrivals of an instant, then one pass."""
    starts = [-1] * len(jobs)
    ends: list[tuple[int, int]] = []
    running: dict[int, tuple[int, int]] = {}
    queue: list[int] = []
    free, arrived, total = procs, 0, len(jobs)
    while arrived < total or ends:
        now = jobs[arrived].submit if arrived < total else ends[0][0]
        if ends and ends[0][0] < now:
            now = ends[0][0]
        while ends and ends[0][0] == now:
            free += running.pop(heapq.heappop(ends)[1])[1]
        while arrived < total and jobs[arrived].submit == now:
            queue.append(arrived)
            arrived += 1
        while queue and jobs[queue[0]].procs <= free:
            index = queue.pop(0)
            job = jobs[index]
            starts[index] = now
            free -= job.procs
            running[index] = (now + job.estimate_s, job.procs)
            heapq.heappush(ends, (now + job.run_s, index))
        if len(queue) > 1 and free:
            head = jobs[queue[0]].procs
            availability, shadow = free, now
            for expected, nodes in sorted(running.values()):
                if availability >= head and expected > shadow:
                    break
                availability += nodes
                shadow = expected
            beside = availability - head
            started = []
            for index in queue[1:]:
                job = jobs[index]
                if job.procs > free:
                    continue
                if now + job.estimate_s > shadow:
                    if job.procs > beside:
                        continue
                    beside -= job.procs
                starts[index] = now
                free -= job.procs
                running[index] = (now + job.estimate_s, job.procs)
                heapq.heappush(ends, (now + job.run_s, index))
                started.append(index)
                if not free:
                    break
            for index in started:
                queue.remove(index)
    return starts


def cpu_s(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def replay_figures() -> list[Figure]:
    """Rows 7 and 8: a replay by the whole scheduler against the simulator."""
    jobs, procs = workload()
    yardstick, yardstick_procs = synthetic()
    easy, conservative = policy("easy"), policy("conservative")
    assert plain_easy(jobs, procs) == replay(jobs, procs, easy), "the yardstick is the same EASY"
    loop = whole = kept = math.inf
    for _ in range(ROUNDS):
        loop = min(loop, cpu_s(lambda: plain_easy(yardstick, yardstick_procs)))
        whole = min(whole, cpu_s(lambda: replay(jobs, procs, easy)))
        kept = min(kept, cpu_s(lambda: replay(jobs, procs, conservative)))
    machine = len(yardstick) / loop / LOOP_JOBS_PER_S
    figures = [Figure(name="replay: this machine's speed", value=machine, unit="x")]
    for name, taken_s, simulator, must, aim in (
        ("EASY", whole, SIMULATOR_EASY_JOBS_PER_S, 1 / 5, 1 / 20),
        ("conservative", kept, SIMULATOR_CONSERVATIVE_JOBS_PER_S, 1 / 3, 1 / 15),
    ):
        speed = len(jobs) / taken_s
        figures += [
            Figure(name=f"replay: {name}", value=speed, unit="jobs/s"),
            Figure(
                name=f"replay: {name}, times the simulator",
                value=simulator * machine / speed,
                unit="x",
                must=round(must, 3),
                aim=round(aim, 3),
            ),
        ]
    return figures


def queued_site(waiting: int) -> LocalScheduler:
    """A live site, conservative by priority, with a full machine and so many jobs behind it."""
    source = random.Random(SEED)
    calendar = Calendar("bench", [ResourceClass(name="node", nodes=QUEUE_NODES)])
    rule = PriorityRule(nodes_full=QUEUE_NODES)
    scheduler = site_scheduler(calendar, SchedulerConfig(order=by_priority(rule)))
    number = 0
    while len(scheduler.waiting) < waiting:
        for _ in range(waiting // 4):
            number += 1
            scheduler.submit(wish(source, number, 0), 0)
        scheduler.cycle(0)
    return scheduler


def wish(source: random.Random, number: int, now: int) -> Job:
    """A job of a size and length as in production logs."""
    nodes = int(2 ** source.uniform(0, math.log2(QUEUE_NODES / 4)))
    limit_s = int(min(max(source.lognormvariate(math.log(3_600), 1.5), 60), 48 * 3_600))
    return Job(f"{number}", nodes, limit_s, now, f"u{number % 97}", f"a{number % 13}", "node")


def loaded_cycle_s(waiting: int, cycles: int = 12) -> float:
    """Median time of a cycle after one job has ended early and another has come."""
    scheduler = queued_site(waiting)
    source = random.Random(SEED + 1)
    taken = []
    for turn in range(1, cycles + 1):
        now = 30 * turn
        scheduler.job_ended(next(iter(scheduler.running)), now)
        scheduler.submit(wish(source, 10**6 + turn, now), now)
        begun_s = time.process_time()
        scheduler.cycle(now)
        taken.append(time.process_time() - begun_s)
    return sorted(taken)[len(taken) // 2]


def cycle_figures() -> list[Figure]:
    """Row 9: a cycle with 10,000 jobs queued on 10,000 nodes, and with a tenth of the jobs."""
    small_s, large_s = loaded_cycle_s(1_000), loaded_cycle_s(10_000)
    return [
        Figure(name="cycle: 1,000 jobs queued", value=small_s, unit="s"),
        Figure(name="cycle: 10,000 jobs queued", value=large_s, unit="s", aim=0.5),
        Figure(name="cycle: growth, tenfold", value=large_s / small_s, unit="x", must=12, aim=10),
    ]


def measure() -> list[Figure]:
    """Everything in this file."""
    return [*replay_figures(), *cycle_figures()]
