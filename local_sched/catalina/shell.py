"""The shell around every command: the application, common options, one way to run. How a command
ends is ``gridio.cli_frame``'s.

Imports of whatever takes time are inside the functions, so that ``catalina --help`` answers at
once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.cli_frame import CommandFrame, command_line, with_groups
from gridtravel.gridio.terminal.text import is_terminal, say_document
from gridtravel.local_sched.catalina.answers import plain_words, show, show_fault
from gridtravel.local_sched.catalina.options import CommonOptions
from gridtravel.local_sched.catalina.session import open_session

if TYPE_CHECKING:
    from gridtravel.local_sched.catalina.answers import Answer
    from gridtravel.local_sched.catalina.session import Session

CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"


class CatalinaFrame(CommandFrame):
    """What was asked of the site may have been done: it does not take back what it granted."""

    interrupted = ("interrupted", "see what became of it: catalina show-q, show-res")

    @classmethod
    def words_of(cls, fault: GridError) -> str:
        """Without the path of the socket."""
        return plain_words(fault)


app = command_line(
    "catalina",
    "The client of this site's scheduler: reservations, jobs, and questions about the queue."
    " The commands of the original Catalina work under their old names too.",
    CatalinaFrame,
)


def command(name: str, **settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declares a command; a parameter that is a dataclass stands for the options in it."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, **settings)(with_groups(function))
        return function

    return declare


def run(common: CommonOptions, work: Callable[[Session], Awaitable[Answer]]) -> NoReturn:
    """Do one command's work at the site and end with its exit code."""
    import asyncio

    async def go() -> Answer:
        async with open_session(common.socket, common.zone, os.environ) as session:
            return await work(session)

    answer = asyncio.run(go())
    show(answer, as_json=common.as_json)
    raise typer.Exit(answer.exit_code)


def watch(
    common: CommonOptions,
    work: Callable[[Session], Awaitable[Answer]],
    *,
    interval_s: float,
    times: int | None,
) -> NoReturn:
    """The answer again and again, on a cleared screen where there is one, until Ctrl-C. While the
    agent is away it says so and goes on.
    """
    import asyncio

    async def go() -> None:
        from gridtravel.gridio.system.clock import SystemClock

        clock, shown = SystemClock(), 0
        async with open_session(common.socket, common.zone, os.environ) as session:
            while True:
                try:
                    answer = await work(session)
                    if is_terminal():
                        say_document(CLEAR_SCREEN)
                    show(answer, as_json=False)
                except UnavailableError as fault:
                    show_fault(fault)
                shown += 1
                if shown == times:
                    return
                await clock.sleep_until(clock.now_precise() + interval_s)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(go())
    raise typer.Exit(0)
