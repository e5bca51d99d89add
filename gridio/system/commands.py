"""Running a command of the site's own configuration: never through a shell, never for long.

Only its configuration names the command and its words. What users wrote reaches it as values of
environment variables and on standard input, where nothing gives characters a meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

VALUE_LENGTH_MAX: Final = 4_096
TOLD_BYTES_MAX: Final = 4_096
"""Of what a failing command writes; the rest is read and dropped."""
KILLED_LIMIT_S: Final = 5.0
"""What was killed is waited for so long."""
_READ_BYTES: Final = 65_536


async def run_site_command(
    argv: Sequence[str],
    facts: Mapping[str, str],
    *,
    limit_s: float,
    content: str = "",
    base: Mapping[str, str] | None = None,
) -> None:
    """Run it as the caller's own user with ``facts`` in its environment and ``content`` on its
    standard input. ``base``: the rest of the environment, default PATH and LANG alone.

    ``UnavailableError``, in one line, when it cannot be started, ends with an error or takes longer
    than ``limit_s`` seconds; then everything in its process group is killed.
    """
    alone = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    environment = dict(alone if base is None else base)
    environment |= {name: _plain(value) for name, value in facts.items()}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError) as fault:
        raise UnavailableError(f"{argv[0]} cannot be run: {fault}") from None
    told = b""
    try:
        async with asyncio.timeout(limit_s):
            told = await _converse(process, content.encode("utf-8", "replace"))
            code = await process.wait()
    except TimeoutError:
        raise UnavailableError(f"{argv[0]} took longer than {limit_s:g} s and was ended") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # A child that left the group may keep the pipes open; it is not waited for.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILLED_LIMIT_S):
                    await process.wait()
    if code != 0:
        said = _plain(" ".join(told.decode("utf-8", "replace").split()))[:200]
        raise UnavailableError(f"{argv[0]} ended with {code}: {said or 'it said nothing'}")


async def _converse(process: asyncio.subprocess.Process, content: bytes) -> bytes:
    """Give it ``content`` and read what it says; the first bytes of that."""
    assert process.stdin is not None
    assert process.stdout is not None
    # A command that does not read its input is none the worse for it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(content)
        await process.stdin.drain()
    process.stdin.close()
    told = b""
    while chunk := await process.stdout.read(_READ_BYTES):
        told += chunk[: TOLD_BYTES_MAX - len(told)]
    return told


def _plain(text: str) -> str:
    """Text that any process can be given: one line, no NUL, of bounded length."""
    shown = "".join(each if each.isprintable() else "?" for each in text[:VALUE_LENGTH_MAX])
    return shown.encode("utf-8", "replace").decode()
