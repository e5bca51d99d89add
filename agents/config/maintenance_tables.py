"""The tables of a node's configuration about looking after itself: ``[[standing]]``,
``[[shortpools]]``, ``[notify]`` and ``[hooks]``. Lengths of time are whole seconds and say so in
their names; any other key is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator

from gridtravel.agents.maintenance_rules import HOOK_LIMIT_S, MaintenanceRules, NodeFailureRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.config_file import ConfigTable, KeyFault, at_key
from gridtravel.gridio.system.notify import (
    CommandNotifier,
    LogNotifier,
    MailRelay,
    MailSecurity,
    Notifier,
    SmtpNotifier,
)
from gridtravel.gridio.system.private_files import read_secret
from gridtravel.local_sched.reservations.broken import NOTICE_INTERVAL_S, NOTICES_MAX
from gridtravel.local_sched.reservations.standing import StandingReservation, StartRule
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.local_sched.scheduling.shortpools import Shortpool

SMTP_PORT: Final = 25
_Seconds = Annotated[int, Field(ge=1)]
_Count = Annotated[int, Field(ge=1)]


class AccessTable(ConfigTable):
    """``[standing.access]``: jobs of the open queue that may use the instances."""

    users: list[str] = Field(default_factory=list)
    accounts: list[str] = Field(default_factory=list)
    qualities_of_service: list[str] = Field(default_factory=list)
    limit_max_s: _Seconds | None = None

    def rule(self) -> AccessRule:
        """As the scheduler wants it."""
        return AccessRule(
            owners=tuple(self.users),
            accounts=tuple(self.accounts),
            qualities_of_service=tuple(self.qualities_of_service),
            limit_max_s=self.limit_max_s,
        )


class StandingTable(ConfigTable):
    """``[[standing]]``: a recurring reservation of the site (Catalina's create_standing_res)."""

    name: str
    start: str
    """``minute hour day month weekday``, as cron writes it, in local time."""
    time_zone: str = ""
    """IANA name; empty: the site's."""
    duration_s: _Seconds
    nodes: _Count
    depth: _Count = 7
    account: str = "system"
    features: list[str] = Field(default_factory=list)
    access: AccessTable = Field(default_factory=AccessTable)

    def rule(self, site_zone: str) -> StandingReservation:
        """As the scheduler wants it; ``InputError`` for a start rule or a zone that is none."""
        return StandingReservation(
            name=self.name,
            start_rule=StartRule(text=self.start, zone=self.time_zone or site_zone),
            duration_s=self.duration_s,
            nodes=self.nodes,
            depth=self.depth,
            account=self.account,
            features=tuple(sorted(set(self.features))),
            access=self.access.rule(),
        )


class ShortpoolTable(ConfigTable):
    """``[[shortpools]]``: nodes of one class that can always be had within ``latency_s``."""

    class_name: Annotated[str, Field(alias="class")]
    nodes: _Count
    latency_s: _Seconds
    duration_s: _Seconds
    accounts: list[str] = Field(default_factory=list)

    def rule(self) -> Shortpool:
        """As the scheduler wants it."""
        return Shortpool(
            nodes=self.nodes,
            latency_s=self.latency_s,
            duration_s=self.duration_s,
            accounts=tuple(self.accounts),
        )


class NotifyTable(ConfigTable):
    """``[notify]``: how people are told, and how often. With neither way nobody is mailed."""

    smtp_host: str = ""
    smtp_port: Annotated[int, Field(ge=1, le=65_535)] = SMTP_PORT
    smtp_security: Annotated[MailSecurity, Field(strict=False)] = MailSecurity.NONE
    smtp_login: str = ""
    smtp_password_file: str = ""
    """Absolute path of a file with the password alone; needed with ``smtp_login``."""
    sender: str = ""
    """Address the mails come from; needed with ``smtp_host``."""
    command: list[str] = Field(default_factory=list)
    """Run for each notice instead: absolute path and words, never given to a shell."""
    notices_max: Annotated[int, Field(ge=0, le=1000)] = NOTICES_MAX
    interval_s: _Seconds = NOTICE_INTERVAL_S

    @field_validator("command")
    @classmethod
    def _absolute(cls, words: list[str]) -> list[str]:
        return _command(words)

    def notifier(self) -> Notifier:
        """The way notices go."""
        if self.smtp_host and self.command:
            raise KeyFault(("notify",), "give smtp_host or command, not both")
        if self.command:
            return CommandNotifier(self.command)
        if not self.smtp_host:
            return LogNotifier()
        if "@" not in self.sender:
            raise KeyFault(("notify", "sender"), "a mail address is needed beside smtp_host")
        with at_key("notify", "smtp_password_file"):
            password = read_secret(Path(self.smtp_password_file)) if self.smtp_login else ""
        return SmtpNotifier(
            MailRelay(
                host=self.smtp_host,
                port=self.smtp_port,
                sender=self.sender,
                security=self.smtp_security,
                login=self.smtp_login,
                password=password,
            )
        )


class HooksTable(ConfigTable):
    """``[hooks]``: commands of the site around every reservation, run as the daemon's user."""

    prologue: list[str] = Field(default_factory=list)
    epilogue: list[str] = Field(default_factory=list)
    limit_s: Annotated[int, Field(ge=1, le=HOOK_LIMIT_S)] = HOOK_LIMIT_S

    @field_validator("prologue", "epilogue")
    @classmethod
    def _absolute(cls, words: list[str]) -> list[str]:
        return _command(words)


def maintenance_rules(
    standing: Sequence[StandingTable],
    notify: NotifyTable,
    hooks: HooksTable,
    on_node_failure: str,
    site_zone: str,
) -> MaintenanceRules:
    """All of it as the agent wants it; a fault names its table."""
    rules: list[StandingReservation] = []
    for number, each in enumerate(standing):
        with at_key("standing", number):
            if any(known.name == each.name for known in rules):
                raise InputError(f"there is a rule {each.name!r} already", hint="name it otherwise")
            rules.append(each.rule(site_zone))
    return MaintenanceRules(
        standing=tuple(rules),
        on_node_failure=NodeFailureRule(on_node_failure),
        notices_max=notify.notices_max,
        notice_interval_s=notify.interval_s,
        prologue=tuple(hooks.prologue),
        epilogue=tuple(hooks.epilogue),
        hook_limit_s=hooks.limit_s,
    )


def shortpool_rules(
    tables: Sequence[ShortpoolTable], class_nodes: Mapping[str, int], promising: Collection[str]
) -> dict[str, Shortpool]:
    """By class; ``KeyFault`` names the table and what is wrong with it. ``class_nodes``: classes of
    whole nodes; ``promising``: those where every planned start is a promise.
    """
    found: dict[str, Shortpool] = {}
    for number, each in enumerate(tables):
        where = ("shortpools", number)
        if each.class_name not in class_nodes:
            known = ", ".join(class_nodes)
            told = f"no class {each.class_name!r}"
            raise KeyFault((*where, "class"), told, hint=f"one of {known}")
        if each.class_name in found:
            raise KeyFault((*where, "class"), f"{each.class_name} has a shortpool already")
        if each.nodes > class_nodes[each.class_name]:
            most = class_nodes[each.class_name]
            raise KeyFault((*where, "nodes"), f"class {each.class_name} has {most} nodes")
        if each.class_name in promising:
            raise KeyFault(
                where,
                "a shortpool moves with time, so not every job's planned start can be a promise",
                hint="set [queue] depth to a number, such as 1",
            )
        found[each.class_name] = each.rule()
    return found


def _command(words: list[str]) -> list[str]:
    if words and not words[0].startswith("/"):
        raise ValueError("a command is a list of words, the first an absolute path")
    return words
