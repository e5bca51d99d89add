"""``submit``, ``del-job`` and ``output``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gridtravel.gridio.terminal.text import JobOutput
from gridtravel.local_sched.catalina.options import (
    AccountOption,
    CommonOptions,
    FeaturesOption,
    JobArgument,
    JobsArgument,
    RequestOption,
)
from gridtravel.local_sched.catalina.shell import command, run


@command("submit", context_settings={"allow_interspersed_args": False})
def submit(
    *,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND ...", help="What to run, and its arguments; no shell."),
    ] = None,
    script: Annotated[
        str,
        typer.Option(
            "--script", metavar="FILE", help="Run this script instead, up to 1 MiB; -: from input."
        ),
    ] = "",
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="Nodes.")] = 1,
    limit: Annotated[
        str, typer.Option("--limit", metavar="LENGTH", help="Longest run: 3600, 1h30m, 01:30:00.")
    ] = "",
    account: AccountOption = "",
    reservation: Annotated[
        str, typer.Option("--reservation", metavar="RES", help="Run inside it and not elsewhere.")
    ] = "",
    name: Annotated[str, typer.Option("--name", help="Default: that of the command.")] = "",
    variables: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="For the job; NAME: as it is here."),
    ] = None,
    features: FeaturesOption = "",
    email: Annotated[
        str, typer.Option("--email", metavar="ADDRESS", help="Told of failures.")
    ] = "",
    service: Annotated[str, typer.Option("--qos", metavar="NAME", help="Quality of service.")] = "",
    deadline: Annotated[
        str, typer.Option("--deadline", metavar="TIME", help="To be over by then; +2h: from now.")
    ] = "",
    budget: Annotated[
        str, typer.Option("--budget", metavar="CREDITS", help="Most that it may cost.")
    ] = "",
    estimate: Annotated[
        str,
        typer.Option(
            "--estimate", metavar="LENGTH", help="Processor time a node; default: the limit."
        ),
    ] = "",
    restartable: Annotated[
        bool, typer.Option("--restartable", help="It may be ended, and run again from the start.")
    ] = False,
    memory: Annotated[
        int | None, typer.Option("--memory", metavar="MB", help="It needs on each node it shares.")
    ] = None,
    disk: Annotated[int | None, typer.Option("--disk", metavar="MB", help="The same.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say where it would go, and at what price; no more.")
    ] = False,
    request_id: RequestOption = "",
    common: CommonOptions,
) -> None:
    """Queue a job: options first, then the command. Its output: catalina output JOB."""
    from gridtravel.gridio.system.ids import new_id
    from gridtravel.local_sched.catalina.work.jobs import JobWords, job_spec, submit_job

    words = JobWords(
        command=command or (),
        script=script,
        nodes=nodes,
        limit=limit,
        account=account,
        reservation=reservation,
        name=name,
        variables=variables or (),
        features=features,
        email=email,
        quality_of_service=service,
        budget=budget,
        estimate=estimate,
        is_restartable=restartable,
        memory_mb=memory,
        disk_mb=disk,
        request_id=request_id,
    )
    spec = job_spec(words, os.environ, sys.stdin.buffer, new_id)

    run(common, lambda session: submit_job(session, spec, deadline=deadline, dry_run=dry_run))


@command("del-job")
def del_job(
    jobs: JobsArgument,
    common: CommonOptions,
) -> None:
    """End jobs, waiting or running; goes on past single errors."""
    from gridtravel.local_sched.catalina.work.jobs import delete_jobs

    run(common, lambda session: delete_jobs(session, jobs))


@command("output")
def output(
    job: JobArgument,
    *,
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error instead.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="To a terminal too, with all that it does to one.")
    ] = False,
    common: CommonOptions,
) -> None:
    """Print what a job writes, until it is over."""
    from gridtravel.local_sched.catalina.work.jobs import job_output

    stream, out = "stderr" if stderr else "stdout", JobOutput(is_raw=raw)
    run(
        common,
        lambda session: job_output(session, job, stream, out.write, as_json=common.as_json),
    )
