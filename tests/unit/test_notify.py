"""Notices by mail server and by command, and the site's commands: bounded, and nothing executed
that users wrote.
"""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.notices import PENDING_MAX, NoticeSender
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridio.system.commands import run_site_command
from gridtravel.gridio.system.notify import (
    Attachment,
    CommandNotifier,
    LogNotifier,
    MailRelay,
    MailSecurity,
    Notice,
    RecordingNotifier,
    SmtpNotifier,
    mail_of,
)
from gridtravel.gridio.system.private_files import read_secret

NOTICE = Notice(to="ada@lab.example", subject="[lab] it\nbroke", text="All of it.\nSorry.\n")


def ends(pid: int) -> bool:
    """True as soon as that process is over."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], 20)[0])
    finally:
        os.close(watch)


def relay(port: int, **changes: Any) -> MailRelay:
    """The mail server of a test."""
    return MailRelay(host="127.0.0.1", port=port, sender="grid@lab.example", **changes)


async def a_mail_server(received: list[str]) -> asyncio.Server:
    """Takes one mail a connection, by the few words that that needs."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        is_text = False
        while line := (await reader.readline()).decode():
            received.append(line.rstrip("\r\n"))
            word = line.split()[0].upper() if line.split() else ""
            if is_text:
                is_text = line != ".\r\n"
                answer = b"" if is_text else b"250 taken\r\n"
            elif word == "DATA":
                is_text, answer = True, b"354 go on\r\n"
            else:
                answer = b"221 bye\r\n" if word == "QUIT" else b"250 yes\r\n"
            writer.write(answer)
            await writer.drain()
            if answer.startswith(b"221"):
                break
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def test_a_notice_goes_out_by_mail_server() -> None:
    """From the site's address to the one named, subject on one line, text as it is."""
    received: list[str] = []
    async with await a_mail_server(received) as server:
        port = server.sockets[0].getsockname()[1]
        await SmtpNotifier(relay(port)).send(NOTICE)
    assert "RCPT TO:<ada@lab.example>" in [line.replace("rcpt", "RCPT") for line in received]
    assert "Subject: [lab] it broke" in received
    assert "Sorry." in received
    with pytest.raises(UnavailableError, match="takes no mail"):
        await SmtpNotifier(relay(port)).send(NOTICE)


@pytest.mark.parametrize(
    "address",
    ["", "ada", "a@b@c", "a@b\nBcc: x@y", "a@b, x@y", "-oQ/tmp@x", "a b@c", "<a@b>", "a@b\0"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """One recipient, no header smuggled in, no option of a mail program."""
    with pytest.raises(InputError):
        mail_of(Notice(to=address, subject="s", text="t"), "grid@lab.example")


async def test_a_notice_goes_out_by_command(tmp_path: Path) -> None:
    """Address and subject in the environment, the text on standard input; no shell sees them."""
    out = tmp_path / "out"
    script = f'{{ echo "$GRID_NOTICE_TO|$GRID_NOTICE_SUBJECT"; cat; }} > {out}'
    notice = Notice(to="$(id)@x", subject="`id`\nx", text="$(id)\n")
    await CommandNotifier(["/bin/sh", "-c", script]).send(notice)
    assert out.read_text() == "$(id)@x|`id`?x\n$(id)\n"


async def test_commands_end_in_time_and_tell_why_they_failed(tmp_path: Path) -> None:
    """One that hangs is killed with its children; a missing one and a failing one are one line."""
    pid = tmp_path / "pid"
    hang = ["/bin/sh", "-c", f"sleep 600 & echo $! > {pid}; wait"]
    with pytest.raises(UnavailableError, match=r"longer than 0\.3 s"):
        await run_site_command(hang, {}, limit_s=0.3)
    assert await asyncio.to_thread(ends, int(pid.read_text()))
    with pytest.raises(UnavailableError, match="cannot be run"):
        await run_site_command(["/no/such"], {}, limit_s=5)
    with pytest.raises(UnavailableError, match="ended with 7: oh no"):
        await run_site_command(["/bin/sh", "-c", "echo oh; echo no; exit 7"], {}, limit_s=5)


async def test_the_post_never_holds_anybody_up() -> None:
    """A way that fails is logged; too many at a time are dropped; nobody's address is nobody."""
    kept = RecordingNotifier()
    sender = NoticeSender(kept)
    sender.send_soon(Notice(to="", subject="s", text="t"))
    for _ in range(PENDING_MAX + 5):
        sender.send_soon(NOTICE)
    await sender.drained()
    assert len(kept.notices) == PENDING_MAX
    kept.fault = UnavailableError("the server is out")
    sender.send_soon(NOTICE)
    await sender.drained()
    sender.send_soon(NOTICE)
    await sender.close()
    await LogNotifier().send(NOTICE)


def test_a_calendar_file_goes_with_a_mail() -> None:
    """An attachment keeps its name, its type and its text."""
    event = Attachment(name="trip.ics", media_type="text/calendar", text="BEGIN:VCALENDAR\r\n")
    notice = Notice(to="ada@lab.example", subject="s", text="t", attachments=(event,))
    (part,) = mail_of(notice, "grid@lab.example").iter_attachments()
    assert part.get_filename() == "trip.ics"
    assert part.get_content_type() == "text/calendar"
    assert part.get_content().replace("\r\n", "\n") == "BEGIN:VCALENDAR\n"


def test_a_login_is_not_sent_in_the_clear() -> None:
    """A mail server that wants a password is spoken to under protection, or not at all."""
    with pytest.raises(InputError, match="in the clear"):
        relay(25, login="ada", password="secret")
    assert relay(465, login="ada", password="x", security=MailSecurity.TLS).login == "ada"


async def test_a_server_without_protection_gets_no_mail_that_needs_it() -> None:
    """STARTTLS that the server does not know ends the sending: no mail, no password, no silence."""
    received: list[str] = []
    async with await a_mail_server(received) as server:
        port = server.sockets[0].getsockname()[1]
        safe = relay(port, security=MailSecurity.STARTTLS, login="ada", password="secret")
        with pytest.raises(UnavailableError, match="takes no mail"):
            await SmtpNotifier(safe).send(NOTICE)
    assert not any("DATA" in each or "secret" in each for each in received)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """One line, for its owner alone."""
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    secret.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        read_secret(secret)
    secret.chmod(0o600)
    assert read_secret(secret) == "open sesame"
    secret.write_text("two\nlines\n")
    with pytest.raises(InputError, match="one line"):
        read_secret(secret)
