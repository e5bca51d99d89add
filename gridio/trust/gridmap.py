"""The grid-mapfile: which proven subject is which local login, and which accounts it may charge.

The form is Globus', so that a site can keep the file it has::

    # comment
    "/O=grid/OU=users/CN=kenneth"   kenneth,sys200,TG-STA040001N
    "/O=grid/OU=managers/CN=north"  @manager

The first name is the local login; it is also the first account. The others are accounts that the
subject may charge too. A first name with ``@`` gives a role instead of a login: the subject is a
service and runs no jobs. A subject that is not in the file has no login at this site. Each site has
its own file: that a subject is proven says nothing about what it may do.

Only parsing, lookup and writing are here. When to read the file again is the daemon's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.system.private_files import PUBLIC_FILE_MODE, read_bounded, write_whole
from gridtravel.gridio.trust.identity import Role, role_of

FILE_SIZE_MAX = 16 * 1024 * 1024
"""Bytes; about 200 000 entries, more users than any one site has."""

ACCOUNTS_MAX = 256

_LINE = re.compile(
    r"""\s* (?: "(?P<quoted> (?: [^"\\] | \\["\\] )* )" | (?P<plain> [^\s"\#]\S* ) )
        \s+ (?P<names> [^\s\#,]+ (?: \s*,\s* [^\s\#,]+ )* ) \s* (?: \#.* )?""",
    re.VERBOSE,
)
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_ROLES = {"@manager": Role.MANAGER, "@site": Role.SITE}
_WORD_OF_ROLE = {role: word for word, role in _ROLES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMapEntry:
    """One line: a subject, its login or role, and the accounts it may charge (the login first)."""

    subject: str
    login: str | None = None
    role: Role | None = None
    accounts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.subject.startswith("/") or not self.subject.isprintable():
            raise InputError(
                f"{self.subject[:200]!r} is not a subject",
                hint='write it as "/O=grid/OU=users/CN=name", in quotes',
            )
        if (self.login is None) == (self.role is None):
            raise InputError(f"{self.subject} needs either a login or a role")
        if self.role not in (None, *_WORD_OF_ROLE):
            raise InputError(f"{self.role} is not a role that a grid-mapfile gives")
        stated = role_of(self.subject)
        if self.role is not None and stated is not None and stated is not self.role:
            raise InputError(
                f"{self.subject} was issued to a {stated.word} and cannot act as a {self.role.word}"
            )
        if self.login is not None and self.accounts[:1] != (self.login,):
            raise InputError(f"the first account of {self.subject} must be its login {self.login}")
        if len(self.accounts) > ACCOUNTS_MAX:
            raise InputError(f"{self.subject} has more than {ACCOUNTS_MAX} accounts")
        for account in self.accounts:
            if not _ACCOUNT.fullmatch(account):
                raise InputError(
                    f"{account[:80]!r} is no name of a login or account",
                    hint="use letters, digits, '_', '-', '+' and '.'",
                )
        if len(dict.fromkeys(self.accounts)) != len(self.accounts):
            raise InputError(f"an account of {self.subject} is given twice")

    @property
    def names(self) -> str:
        """The right side of the line, such as ``kenneth,sys200`` or ``@manager``."""
        words = [_WORD_OF_ROLE[self.role], *self.accounts] if self.role else list(self.accounts)
        return ",".join(words)


class GridMap:
    """Who is who at one site: an immutable snapshot of one grid-mapfile."""

    def __init__(self, entries: Iterable[GridMapEntry] = ()) -> None:
        self._entries: dict[str, GridMapEntry] = {}
        for entry in entries:
            if entry.subject in self._entries:
                raise InputError(f"{entry.subject} is given twice")
            self._entries[entry.subject] = entry

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridMap) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(tuple(self._entries))

    @property
    def entries(self) -> tuple[GridMapEntry, ...]:
        """All entries in the order of the file."""
        return tuple(self._entries.values())

    def logins(self) -> list[str]:
        """All local logins, each once, sorted."""
        return sorted({entry.login for entry in self._entries.values() if entry.login is not None})

    def login_of(self, subject: str) -> str | None:
        """The local login of ``subject``; None for a stranger and for a role without a login."""
        entry = self._entries.get(subject)
        return entry.login if entry else None

    def accounts_of(self, subject: str) -> tuple[str, ...]:
        """The accounts that ``subject`` may charge, the default one first; empty for a stranger."""
        entry = self._entries.get(subject)
        return entry.accounts if entry else ()

    def role_of(self, subject: str) -> Role | None:
        """What ``subject`` may act as here: ``USER`` if it has a login; None for a stranger."""
        entry = self._entries.get(subject)
        if entry is None:
            return None
        return entry.role if entry.role is not None else Role.USER

    def subjects_of(self, login: str) -> tuple[str, ...]:
        """The subjects that act as ``login``, in the order of the file."""
        return tuple(entry.subject for entry in self._entries.values() if entry.login == login)


def grid_map_entry(subject: str, names: Iterable[str]) -> GridMapEntry:
    """The entry with the names of a line's right side: a login or ``@role``, then accounts."""
    first, *others = list(names) or [""]
    if not first.startswith("@"):
        return GridMapEntry(subject=subject, login=first, accounts=(first, *others))
    if first not in _ROLES:
        raise InputError(f"{first[:80]!r} is no role", hint=f"use {' or '.join(_ROLES)}")
    return GridMapEntry(subject=subject, role=_ROLES[first], accounts=tuple(others))


def parse_grid_map(text: str, source: str = "grid-mapfile") -> GridMap:
    """Read a grid-mapfile's text; the first wrong line is an ``InputError`` that begins ``<source>,
    line <n>:``.

    A subject that stands twice is refused, where Globus took the first: of two lines that disagree
    at least one is a mistake.
    """
    entries: dict[str, GridMapEntry] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        try:
            entry = _entry_from(bare)
            if entry.subject in entries:
                raise InputError(
                    f"{entry.subject} was given in line {lines[entry.subject]} already"
                )
        except InputError as fault:
            raise InputError(
                f"{source}, line {number}: {fault.message}", hint=fault.hint
            ) from fault
        entries[entry.subject] = entry
        lines[entry.subject] = number
    return GridMap(entries.values())


def load_grid_map(path: Path) -> GridMap:
    """Read the grid-mapfile at ``path``."""
    return parse_grid_map(_read_text(path), str(path))


def render_grid_map(grid_map: GridMap) -> str:
    """The text of ``grid_map``, its right sides in one column; parsing it gives an equal map."""
    width = max((len(_quoted(entry.subject)) for entry in grid_map.entries), default=0)
    lines = [f"{_quoted(entry.subject):<{width}}  {entry.names}\n" for entry in grid_map.entries]
    return "".join(lines)


def write_grid_map(path: Path, grid_map: GridMap) -> None:
    """Replace the grid-mapfile at ``path`` at once; a daemon that reads it meanwhile sees the old
    one or the new one.
    """
    write_whole(path, render_grid_map(grid_map).encode(), mode=PUBLIC_FILE_MODE, replace=True)


def add_to_grid_map(path: Path, entry: GridMapEntry) -> bool:
    """Add one line to the grid-mapfile at ``path`` (made when missing), keeping every other line
    and comment as it is.

    True when the line is new, False when the same entry was there. The subject with other names is
    an ``InputError``: what a subject may do is changed by a person, in an editor.
    """
    text = _read_text(path) if path.exists() else ""
    known = {one.subject: one for one in parse_grid_map(text, str(path)).entries}
    if entry.subject in known:
        if known[entry.subject] == entry:
            return False
        raise InputError(
            f"{path} maps {entry.subject} to {known[entry.subject].names}, not to {entry.names}",
            hint="edit the file if that has changed",
        )
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    added = f"{ended}{_quoted(entry.subject)}  {entry.names}\n"
    write_whole(path, added.encode(), mode=PUBLIC_FILE_MODE, replace=True)
    return True


def _entry_from(line: str) -> GridMapEntry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InputError(
            "this is not an entry",
            hint='write "/O=grid/OU=users/CN=kenneth" kenneth, the subject in double quotes',
        )
    quoted = match["quoted"]
    subject = match["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return grid_map_entry(subject, [name.strip() for name in match["names"].split(",")])


def _quoted(subject: str) -> str:
    escaped = subject.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_text(path: Path) -> str:
    try:
        return read_bounded(path, size_max=FILE_SIZE_MAX, what="grid-mapfile").decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = fault.object.count(b"\n", 0, fault.start) + 1
        raise InputError(f"{path}, line {line}: this is not UTF-8 text") from fault
