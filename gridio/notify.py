"""Telling people something by mail: the port ``Notifier`` and its adapters.

``SmtpNotifier`` speaks to a mail server, ``CommandNotifier`` gives the notice to a command of the
site, ``LogNotifier`` writes it to the log alone (the default), and ``RecordingNotifier`` keeps
notices for whoever asks (the twin for tests and simulations).
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Final, Protocol

from gridcore.errors import InputError, UnavailableError
from gridio.commands import run_site_command

log = logging.getLogger(__name__)

SEND_LIMIT_S: Final = 30.0
"""Longest one notice may take, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message to one person."""

    to: str
    """Mail address, as its owner wrote it."""
    subject: str
    text: str


class Notifier(Protocol):
    """Whatever carries notices."""

    async def send(self, notice: Notice) -> None:
        """Hand it over; ``UnavailableError`` or ``InputError`` when that is impossible."""
        ...


class LogNotifier:
    """For sites that send no mail."""

    async def send(self, notice: Notice) -> None:
        """One line in the log."""
        log.info("nobody is mailed here: %r about %r", notice.to, notice.subject)


class RecordingNotifier:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.fault: UnavailableError | None = None
        """What sending fails with; ``None``: it succeeds."""

    async def send(self, notice: Notice) -> None:
        """Remember it."""
        if self.fault is not None:
            raise self.fault
        self.notices.append(notice)


class SmtpNotifier:
    """Hands notices to a mail server without encryption or login: the machine's own, or the
    site's relay.
    """

    def __init__(self, host: str, port: int, sender: str) -> None:
        self._host = host
        self._port = port
        self._sender = sender

    async def send(self, notice: Notice) -> None:
        """One connection a notice, in a thread of its own."""
        message = mail_of(notice, self._sender)
        try:
            await asyncio.to_thread(self._deliver, message)
        except (OSError, smtplib.SMTPException) as fault:
            raise UnavailableError(
                f"{self._host}:{self._port} takes no mail to {notice.to!r}: {fault}"
            ) from None

    def _deliver(self, message: EmailMessage) -> None:
        with smtplib.SMTP(self._host, self._port, timeout=SEND_LIMIT_S) as server:
            server.send_message(message)


class CommandNotifier:
    """Runs a command of the site for each notice, with the text on its standard input and address
    and subject in ``GRID_NOTICE_TO`` and ``GRID_NOTICE_SUBJECT``.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        if not argv:
            raise InputError("a command that sends notices has at least one word")
        self._argv = tuple(argv)

    async def send(self, notice: Notice) -> None:
        """Run it to its end."""
        facts = {"GRID_NOTICE_TO": notice.to, "GRID_NOTICE_SUBJECT": notice.subject}
        await run_site_command(self._argv, facts, limit_s=SEND_LIMIT_S, content=notice.text)


def mail_of(notice: Notice, sender: str) -> EmailMessage:
    """The notice as a mail; ``InputError`` for an address that is none, whatever it tries to
    smuggle in.
    """
    address = notice.to
    is_plain = address.isprintable() and not any(each in address for each in " ,;<>\"'()")
    if address.count("@") != 1 or not is_plain or address.startswith("-"):
        raise InputError(f"no mail can be sent to {address[:80]!r}")
    message = EmailMessage()
    try:
        message["From"] = sender
        message["To"] = address
        message["Subject"] = " ".join(notice.subject.split())
    except (ValueError, IndexError) as fault:
        raise InputError(f"no mail can be sent to {address[:80]!r}: {fault}") from None
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(notice.text)
    return message
