"""The shell around every command: the Typer application, common options, one way to run and to end.

Imports of whatever takes time are inside the functions, so that ``catalina --help`` answers at
once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeVar

import typer

from gridcore.errors import GridError, UnavailableError
from local_sched.catalina.answers import (
    EXIT_INTERRUPTED,
    error_object,
    print_json,
    show,
    show_fault,
)
from local_sched.catalina.session import (
    DEFAULT_SOCKET,
    SOCKET_VARIABLE,
    ZONE_VARIABLE,
    open_session,
)

if TYPE_CHECKING:
    from local_sched.catalina.answers import Answer
    from local_sched.catalina.session import Session

T = TypeVar("T")

CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"

app = typer.Typer(
    name="catalina",
    help=(
        "The client of this site's scheduler: reservations, jobs, and questions about the queue."
        " The commands of the original Catalina work under their old names too."
    ),
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
SocketOption = Annotated[
    str,
    typer.Option(
        "--socket",
        metavar="PATH",
        help=f"The agent's socket; default: ${SOCKET_VARIABLE}, else {DEFAULT_SOCKET}.",
    ),
]
ZoneOption = Annotated[
    str,
    typer.Option(
        "--zone",
        metavar="NAME",
        help=f"Zone of times without one; default: ${ZONE_VARIABLE}, else the site's own.",
    ),
]
AccountOption = Annotated[str, typer.Option("--account", help="Account to charge.")]
FeaturesOption = Annotated[
    str, typer.Option("--features", metavar="A,B", help="Every node must have all of these.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be granted; change nothing.")
]
RequestOption = Annotated[
    str,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="Saying the same request with the same id again books nothing more.",
    ),
]
EarliestOption = Annotated[
    str,
    typer.Option(
        "--earliest-start",
        metavar="TIME",
        help="07:00_11/09/2004, 2004-11-09T07:00, 'tomorrow 07:00', +2h; default: now.",
    ),
]
LatestOption = Annotated[
    str,
    typer.Option(
        "--latest-end", metavar="TIME", help="When it must be over; default: the site's horizon."
    ),
]


def run(
    work: Callable[[Session], Awaitable[Answer]], as_json: bool, socket: str, zone: str
) -> NoReturn:
    """Do one command's work at the site and end with its exit code."""
    import asyncio

    async def go() -> Answer:
        async with open_session(socket, zone, os.environ) as session:
            return await work(session)

    answer = guarded(lambda: asyncio.run(go()), as_json=as_json)
    show(answer, as_json=as_json)
    raise typer.Exit(answer.exit_code)


def watch(
    work: Callable[[Session], Awaitable[Answer]],
    socket: str,
    zone: str,
    *,
    interval_s: float,
    times: int | None,
) -> NoReturn:
    """The answer again and again, on a cleared screen where there is one, until Ctrl-C. While the
    agent is away it says so and goes on.
    """
    import asyncio

    async def go() -> None:
        from gridio.clock import SystemClock

        clock, shown = SystemClock(), 0
        async with open_session(socket, zone, os.environ) as session:
            while True:
                try:
                    answer = await work(session)
                    if sys.stdout.isatty():
                        sys.stdout.write(CLEAR_SCREEN)
                    show(answer, as_json=False)
                except UnavailableError as fault:
                    show_fault(fault)
                sys.stdout.flush()
                shown += 1
                if shown == times:
                    return
                await clock.sleep_until(clock.now_precise() + interval_s)

    with contextlib.suppress(KeyboardInterrupt):
        guarded(lambda: asyncio.run(go()), as_json=False, is_interruptible=False)
    raise typer.Exit(0)


def guarded(work: Callable[[], T], *, as_json: bool, is_interruptible: bool = True) -> T:
    """Carry out ``work``; a fault becomes one line (and one JSON object) and its exit code.
    ``is_interruptible`` false: Ctrl-C is for the caller.
    """
    try:
        return work()
    except GridError as fault:
        if as_json:
            print_json(error_object(fault))
        show_fault(fault)
        raise typer.Exit(fault.exit_code) from None
    except KeyboardInterrupt:
        if not is_interruptible:
            raise
        tell_interrupted()
        raise typer.Exit(EXIT_INTERRUPTED) from None


def tell_interrupted() -> None:
    """What was asked of the site may have been done: it does not take back what it has granted."""
    typer.echo(
        "catalina: interrupted\n  see what became of it: catalina show-q, show-res", err=True
    )
