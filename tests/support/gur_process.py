"""Processes of ``gur`` for tests, without the half second that each would need for its imports.

    python gur_process.py     reads one JSON line a command, answers with its exit code

The command runs in a process of its own, forked from one that has imported everything and has done
nothing yet: its own memory, environment, files and signals, as if it had been typed. A command can
be told to send itself a signal at a step of its negotiation, at the very instruction, so that no
test has to be quick or lucky.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any, Final

from gridtravel.gridio.terminal.text import flush, say

CALL: Final = "call "
"""A step that is a call: ``call module:name``, before anything of it is done."""


def arm(step: str, count: int, number: int) -> None:
    """Have the signal sent when ``step`` is written to the screen for the ``count``-th time, or is
    called (``CALL``).
    """
    if step.startswith(CALL):
        _arm_call(step.removeprefix(CALL), count, number)
        return
    from gridtravel.travel_agent.news import News
    from gridtravel.travel_agent.output import rendering

    told = rendering.news_line
    left = count

    def tell(news: News) -> str:
        nonlocal left
        if news.step.value == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)
        return told(news)

    rendering.news_line = tell


def _arm_call(path: str, count: int, number: int) -> None:
    module, _, name = path.partition(":")
    *owners, last = name.split(".")
    owner: Any = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    called, left = getattr(owner, last), count

    def call(*values: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)
        return called(*values, **named)

    setattr(owner, last, call)


def run(command: dict[str, Any]) -> int:
    """Carry out one command in this process; its exit code."""
    from gridtravel.travel_agent.cli.main import main

    os.environ.clear()
    os.environ.update(command["environment"])
    for number, path in ((1, command["out"]), (2, command["err"])):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if command["signal"]:
        arm(*command["signal"])
    sys.argv = ["gur", *command["words"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    """One command after the other, until the input ends."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = run(json.loads(line))
                flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        say(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    # What a command imports when it needs it. Nothing may be begun here: no thread, no channel.
    # ``output.negotiation`` comes later, as it keeps the function that ``arm`` replaces.
    os.environ["GRPC_VERBOSITY"] = "NONE"
    for name in (
        "cryptography.hazmat.backends.openssl.backend",
        "gridtravel.gridio.trust.credentials",
        "gridtravel.gridio.rpc.client.grpc_site",
        "gridtravel.gridio.terminal.console",
        "gridtravel.travel_agent.cli.main",
        "gridtravel.travel_agent.cli.prompter",
        "gridtravel.travel_agent.composition",
        "gridtravel.travel_agent.output.rendering",
        "pydantic.dataclasses",
        "rich.table",
        "typer._adapters",
    ):
        importlib.import_module(name)
    serve()
