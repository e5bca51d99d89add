"""Telling people something by mail: the port ``Notifier`` and its adapters.

``SmtpNotifier`` speaks to a mail server, ``CommandNotifier`` gives the notice to a command of the
site, ``LogNotifier`` writes it to the log alone (the default), ``NoNotifier`` refuses it, and
``RecordingNotifier`` keeps it in memory (the twin for tests).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Final, Protocol

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridio.system.commands import run_site_command
from gridtravel.gridio.terminal.text import as_text

log = logging.getLogger(__name__)

SEND_LIMIT_S: Final = 30.0
"""Longest one notice may take, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes with a notice by mail."""

    name: str
    media_type: str
    """Such as ``text/calendar``."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message to one person."""

    to: str
    """Mail address, as its owner wrote it."""
    subject: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    """By mail only; a command gets the text alone."""

    @property
    def plain_subject(self) -> str:
        """The subject as one line of text: jobs and trips are called by their users' own words."""
        return as_text(" ".join(self.subject.split()))

    @property
    def plain_text(self) -> str:
        """The text, in which nothing but its line ends does anything to who reads it."""
        return "\n".join(as_text(line) for line in self.text.split("\n"))


class MailSecurity(enum.StrEnum):
    """How the connection to a mail server is protected. The server's certificate is checked."""

    NONE = "none"
    """In the clear: for this machine or the site's own relay."""
    STARTTLS = "starttls"
    TLS = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailRelay:
    """A mail server that takes our notices."""

    host: str
    port: int
    sender: str
    """Address they come from."""
    security: MailSecurity = MailSecurity.NONE
    login: str = ""
    """Empty: the server wants none."""
    password: str = ""

    def __post_init__(self) -> None:
        if "@" not in self.sender:
            raise InputError("a mail address is needed as the sender beside the mail server")
        if self.login and self.security is MailSecurity.NONE:
            raise InputError(
                "a login would cross the network in the clear",
                hint='choose security "starttls" or "tls"',
            )


class Notifier(Protocol):
    """Delivers notices."""

    async def send(self, notice: Notice) -> None:
        """Deliver it; ``UnavailableError`` or ``InputError`` when that is impossible."""
        ...


class LogNotifier:
    """For sites that send no mail."""

    async def send(self, notice: Notice) -> None:
        """One line in the log."""
        log.info("nobody is mailed here: %r about %r", notice.to, notice.subject)


class NoNotifier:
    """For travellers who have not said which server takes their mail."""

    def __init__(self, config: Path) -> None:
        self._config = config

    async def send(self, notice: Notice) -> None:
        """Always ``UnavailableError``."""
        raise UnavailableError(f"no mail server is named; add [mail] to {self._config}")


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
    """Hands notices to a mail server."""

    def __init__(self, relay: MailRelay, *, tls: ssl.SSLContext | None = None) -> None:
        """``tls``: which certificates are trusted; default: as the system says."""
        self._relay = relay
        self._tls = tls

    async def send(self, notice: Notice) -> None:
        """One connection a notice, in a thread of its own."""
        message = mail_of(notice, self._relay.sender)
        try:
            await asyncio.to_thread(self._deliver, message)
        except (OSError, smtplib.SMTPException) as fault:
            relay = self._relay
            raise UnavailableError(
                f"{relay.host}:{relay.port} takes no mail to {notice.to!r}: {fault}"
            ) from None

    def _deliver(self, message: EmailMessage) -> None:
        relay = self._relay
        with self._connect() as server:
            if relay.security is MailSecurity.STARTTLS:
                server.starttls(context=self._context())
            if relay.login:
                server.login(relay.login, relay.password)
            server.send_message(message)

    def _connect(self) -> smtplib.SMTP:
        relay = self._relay
        if relay.security is MailSecurity.TLS:
            return smtplib.SMTP_SSL(
                relay.host, relay.port, timeout=SEND_LIMIT_S, context=self._context()
            )
        return smtplib.SMTP(relay.host, relay.port, timeout=SEND_LIMIT_S)

    def _context(self) -> ssl.SSLContext:
        return self._tls or ssl.create_default_context()


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
        await run_site_command(self._argv, facts, limit_s=SEND_LIMIT_S, content=notice.plain_text)


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
        message["Subject"] = notice.plain_subject
    except (ValueError, IndexError) as fault:
        raise InputError(f"no mail can be sent to {address[:80]!r}: {fault}") from None
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(notice.plain_text)
    for each in notice.attachments:
        _, _, subtype = each.media_type.partition("/")
        message.add_attachment(each.text, subtype=subtype, filename=each.name)
    return message
