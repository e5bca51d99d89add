"""What people write on the command line, turned into values; each refusal is one line with a hint.

Nothing here reaches a shell, a path or a pattern: a name with odd characters is refused because no
account of a site has one, not because it could do harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    BUDGET_LIMIT_MILLICREDITS,
    ID_LENGTH_MAX,
    check_id,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.tasks import refuse_site_variable
from gridtravel.gridcore.number_text import is_decimal
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import parse_duration, read_instant
from gridtravel.local_sched.catalina.session import Session

NO_MAIL: Final = "NONOTIFY"
"""The original's word for: send me no mail."""
EMAIL_LENGTH_MAX: Final = 254
IDS_MAX: Final = 1_000
FEATURES_MAX: Final = 64

_LOGIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\$?")
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/+-]{0,127}")
_FEATURE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,127}")
_EMAIL: Final = re.compile(r"[^@\s,;<>|`$()\"'\\]+@[A-Za-z0-9.-]+")


def read_time(session: Session, text: str, notes: list[str]) -> Instant:
    """An instant; what its writer should know about the reading goes to ``notes``."""
    reading = read_instant(text, now=session.now, zone=session.zone)
    if reading.note:
        notes.append(reading.note)
    return reading.instant


def read_length(text: str, what: str) -> int:
    """A length of time above zero, in seconds."""
    seconds = parse_duration(text)
    if seconds < 1:
        raise InputError(f"the {what} must be at least one second", hint="1h, 90m or 3600")
    return seconds


def read_credits(
    text: str, what: str = "number of credits", *, may_be_negative: bool = False
) -> int:
    """Credits with up to three decimals, in millicredits; exact."""
    amount = Decimal(text) * 1000 if is_decimal(text) else None
    if (
        amount is None
        or abs(amount) > BUDGET_LIMIT_MILLICREDITS
        or (amount < 0 and not may_be_negative)
        or amount != int(amount)
    ):
        raise InputError(
            f"{text[:40]!r} is no {what}",
            hint=f"at most {BUDGET_LIMIT_MILLICREDITS // 1000} credits, up to three decimals: 12.5",
        )
    return int(amount)


def read_ids(words: Sequence[str], what: str) -> list[str]:
    """Ids given as words, with commas between them, or both; in order, without doubles."""
    found = [each.strip() for word in words for each in word.split(",")]
    ids = list(dict.fromkeys(each for each in found if each))
    if not ids:
        raise InputError(f"no {what} is named", hint=f"write one, or several: {what}1,{what}2")
    if len(ids) > IDS_MAX:
        raise InputError(f"more than {IDS_MAX} ids at a time")
    for each in ids:
        check_id(f"{what} id", each)
    return ids


def read_email(text: str) -> str:
    """An address, or empty for none (also the original's ``NONOTIFY``)."""
    if text in ("", NO_MAIL):
        return ""
    if len(text) > EMAIL_LENGTH_MAX or not text.isprintable() or not _EMAIL.fullmatch(text):
        raise InputError(
            f"{text[:60]!r} is no e-mail address", hint=f"name@host, or {NO_MAIL} for no mail"
        )
    return text


def read_features(text: str) -> tuple[str, ...]:
    """Features with commas between them, sorted, without doubles."""
    found = sorted({each.strip() for each in text.split(",")} - {""})
    if len(found) > FEATURES_MAX:
        raise InputError(f"more than {FEATURES_MAX} features")
    for each in found:
        if not _FEATURE.fullmatch(each):
            raise InputError(
                f"{each[:60]!r} is no feature of nodes", hint="see: catalina show-nodes"
            )
    return tuple(found)


def read_user(text: str) -> str:
    """A login, or empty."""
    if text and not _LOGIN.fullmatch(text):
        raise InputError(
            f"{text[:60]!r} is no user name", hint="letters, digits, dot, dash and underscore"
        )
    return text


def read_account(text: str) -> str:
    """An account, or empty."""
    if text and not _ACCOUNT.fullmatch(text):
        raise InputError(
            f"{text[:60]!r} is no account", hint="letters, digits and . _ - @ / +; see your site"
        )
    return text


def read_variables(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE``, or ``NAME`` for the value it has here; the last of a name counts."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name.isidentifier() or not name.isascii():
            raise InputError(f"{word[:40]!r} is no variable", hint="write --env NAME=VALUE")
        refuse_site_variable(name)
        if not equals:
            if name not in environment:
                raise InputError(
                    f"the variable {name} is not set here", hint=f"write --env {name}=VALUE"
                )
            value = environment[name]
        found[name] = value
    return tuple(sorted(found.items()))


def read_name(text: str) -> str:
    """A job's name: printable and short."""
    if not text or len(text) > ID_LENGTH_MAX or not text.isprintable():
        raise InputError(
            "the job's name is missing, too long or not printable",
            hint=f"at most {ID_LENGTH_MAX} characters",
        )
    return text
