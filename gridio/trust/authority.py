"""A grid's certificate authority as a folder: who can read its key can issue any identity::

    DIR/root.pem          the authority's certificate; public, given to every site and user
    DIR/root-key.pem      its private key (0600), the grid's one secret; keep it off the network
    DIR/issued.jsonl      one line a certificate signed: by which key, serial, subject, from, until

The same command issues and renews. A renewal keeps the private key, so that a running daemon whose
files are half replaced still holds a pair that fits; ``force`` makes a new key, for one that others
may have read. A folder that holds another holder's credential is never written to without
``force``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.private_files import (
    PRIVATE_FILE_MODE,
    PUBLIC_FILE_MODE,
    make_private_folder,
    read_bounded,
    write_whole,
)
from gridtravel.gridio.trust.certificates import (
    SERVICE_LIFETIME_S,
    USER_LIFETIME_MAX_S,
    USER_LIFETIME_S,
    PrivateKey,
    Signer,
    build_certificate,
    build_root,
    certificate_to_pem,
    key_from_pem,
    key_to_pem,
    new_key,
)
from gridtravel.gridio.trust.credentials import CERTIFICATE_FILE, KEY_FILE, ROOT_FILE, Credential
from gridtravel.gridio.trust.identity import (
    CERTIFICATE_SIZE_MAX,
    GridIdentity,
    Role,
    check_name,
    end_of,
    read_certificate,
    subject_of,
)

ROOT_KEY_FILE: Final = "root-key.pem"
ISSUED_FILE: Final = "issued.jsonl"
ISSUED_SIZE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCertificate:
    """One line of the authority's register."""

    serial: int
    subject: str
    not_before: Instant
    not_after: Instant


class Authority:
    """An authority's folder, opened for signing. Every method takes ``now``; serial numbers come
    from ``ids``.
    """

    def __init__(self, folder: Path, signer: Signer, ids: IdSource) -> None:
        self._folder = folder
        self._signer = signer
        self._ids = ids

    @property
    def grid(self) -> str:
        """The name of the grid that this authority speaks for."""
        return self._signer.grid

    @property
    def root(self) -> x509.Certificate:
        """The authority's own certificate."""
        return self._signer.root

    @property
    def root_pem(self) -> bytes:
        """The authority's own certificate, as sites and users install it."""
        return certificate_to_pem(self._signer.root)

    @classmethod
    def create(
        cls, folder: Path, grid: str, ids: IdSource, now: Instant, *, force: bool = False
    ) -> Authority:
        """Make the authority of ``grid`` in ``folder``, or renew its certificate when it is there
        already.

        A renewal keeps key and name: every certificate issued before stays valid under the new
        root. With ``force`` there is a new key (or another grid), and nothing issued before is
        worth anything.
        """
        check_name(grid, what="grid")
        make_private_folder(folder)
        key_path = folder / ROOT_KEY_FILE
        if key_path.exists() and not force:
            key = key_from_pem(_read(key_path, "authority's private key"))
            # A crash between key and certificate leaves the key alone: then this call completes the
            # first one.
            if (folder / ROOT_FILE).exists():
                known_grid = cls.open(folder, ids).grid
                if known_grid != grid:
                    raise InputError(
                        f"{folder} is the authority of the grid {known_grid}, not of {grid}",
                        hint="choose another folder, or --force to replace it for ever",
                    )
        else:
            if (folder / ROOT_FILE).exists() and not force:
                raise InputError(
                    f"{folder / ROOT_FILE} is there, but not the private key that made it",
                    hint=f"restore {ROOT_KEY_FILE}, choose another folder, or use --force",
                )
            key = new_key()
            write_whole(key_path, key_to_pem(key), mode=PRIVATE_FILE_MODE, replace=force)
        root = build_root(grid, key, serial=ids.new_serial(), now=now)
        root_pem = certificate_to_pem(root)
        write_whole(folder / ROOT_FILE, root_pem, mode=PUBLIC_FILE_MODE, replace=True)
        return cls(folder, Signer(grid=grid, root=root, key=key), ids)

    @classmethod
    def open(cls, folder: Path, ids: IdSource) -> Authority:
        """The authority in ``folder``; ``InputError`` when there is none, or when its files do not
        fit together.
        """
        if not (folder / ROOT_KEY_FILE).exists():
            raise InputError(
                f"{folder} holds no certificate authority",
                hint=f"make one with `gurd ca init {folder} --grid NAME`",
            )
        root = read_certificate(_read(folder / ROOT_FILE, "authority's certificate"))
        key = key_from_pem(_read(folder / ROOT_KEY_FILE, "authority's private key"))
        organisations = root.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        if key.public_key() != root.public_key() or len(organisations) != 1:
            raise InputError(
                f"{ROOT_FILE} and {ROOT_KEY_FILE} in {folder} do not belong together",
                hint="restore both from the same backup",
            )
        grid = check_name(str(organisations[0].value), what="grid")
        return cls(folder, Signer(grid=grid, root=root, key=key), ids)

    def issue_site(
        self, name: str, out: Path, now: Instant, *, hosts: Sequence[str], force: bool = False
    ) -> Credential:
        """A site's credential in the folder ``out``; ``hosts`` are the names and addresses where
        its daemon is reached.
        """
        return self._issue(Role.SITE, name, out, now, hosts, SERVICE_LIFETIME_S, force)

    def issue_manager(
        self, name: str, out: Path, now: Instant, *, hosts: Sequence[str], force: bool = False
    ) -> Credential:
        """A calendar manager's credential in the folder ``out``."""
        return self._issue(Role.MANAGER, name, out, now, hosts, SERVICE_LIFETIME_S, force)

    def issue_user(
        self,
        login: str,
        out: Path,
        now: Instant,
        *,
        lifetime_s: int = USER_LIFETIME_S,
        force: bool = False,
    ) -> Credential:
        """A user's short-lived credential in the folder ``out``: at most ``USER_LIFETIME_MAX_S``
        seconds.
        """
        if not 0 < lifetime_s <= USER_LIFETIME_MAX_S:
            raise InputError(
                f"a user's certificate cannot last {lifetime_s / 3600:g} hours",
                hint=f"choose more than 0 and at most {USER_LIFETIME_MAX_S // 3600} hours",
            )
        return self._issue(Role.USER, login, out, now, (), lifetime_s, force)

    def issued(self) -> list[IssuedCertificate]:
        """What this authority's present key has signed, oldest first.

        A line that a crash cut short is passed over: its certificate was never handed out.
        """
        path = self._folder / ISSUED_FILE
        if not path.exists():
            return []
        content = read_bounded(path, size_max=ISSUED_SIZE_MAX, what="register of certificates")
        signed_by = self._key_identifier()
        lines = (_issued_from(line, signed_by) for line in content.splitlines())
        return [line for line in lines if line is not None]

    def _key_identifier(self) -> str:
        """The key's digest: tells what it signed from what a replaced key did, which is void."""
        public_key = self._signer.key.public_key()
        return x509.SubjectKeyIdentifier.from_public_key(public_key).digest.hex()

    def _issue(
        self,
        role: Role,
        name: str,
        out: Path,
        now: Instant,
        hosts: Sequence[str],
        lifetime_s: int,
        force: bool,
    ) -> Credential:
        identity = GridIdentity(grid=self.grid, role=role, name=name)
        self._check_namesake(identity, now)
        key, is_new = _key_for(identity, out, force=force)
        certificate = build_certificate(
            self._signer,
            identity,
            key.public_key(),
            hosts=hosts,
            lifetime_s=lifetime_s,
            serial=self._ids.new_serial(),
            now=now,
        )
        credential = Credential(
            cert_pem=certificate_to_pem(certificate),
            key_pem=key_to_pem(key),
            root_pem=self.root_pem,
        )
        make_private_folder(out)
        if is_new:
            key_path = out / KEY_FILE
            write_whole(key_path, credential.key_pem, mode=PRIVATE_FILE_MODE, replace=force)
        self._register(certificate, identity.subject)
        for file, content in (
            (ROOT_FILE, credential.root_pem),
            (CERTIFICATE_FILE, credential.cert_pem),
        ):
            write_whole(out / file, content, mode=PUBLIC_FILE_MODE, replace=True)
        return credential

    def _check_namesake(self, identity: GridIdentity, now: Instant) -> None:
        """Refuse a manager the name of a site, and the reverse, while a certificate of that one is
        valid. Trips name their parties by the name alone, so one could speak for the other.
        """
        other = {Role.SITE: Role.MANAGER, Role.MANAGER: Role.SITE}.get(identity.role)
        if other is None:
            return
        namesake = replace(identity, role=other)
        if any(each.subject == namesake.subject and each.not_after > now for each in self.issued()):
            raise InputError(
                f"{identity.name} is the name of a {other.word} of {self.grid}",
                hint=f"choose another name for the {identity.role.word}",
            )

    def _register(self, certificate: x509.Certificate, subject: str) -> None:
        """Append one line, before the certificate is handed out: what is not in the register was
        not issued.
        """
        line = json.dumps(
            {
                "authority": self._key_identifier(),
                "serial": f"{certificate.serial_number:x}",
                "subject": subject,
                "not_before": int(certificate.not_valid_before_utc.timestamp()),
                "not_after": end_of(certificate),
            }
        )
        _append_line(self._folder / ISSUED_FILE, line.encode())


def _append_line(path: Path, line: bytes) -> None:
    """Append ``line`` durably, and on a line of its own when a crash cut the last one short."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE_MODE)
        with os.fdopen(descriptor, "r+b", buffering=0) as stream:
            size = os.fstat(descriptor).st_size
            is_cut_short = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            whole_line = (b"\n" if is_cut_short else b"") + line + b"\n"
            if stream.write(whole_line) != len(whole_line):
                raise InputError(f"cannot write all of {path}", hint="the disk may be full")
            os.fsync(descriptor)
    except OSError as fault:
        raise InputError(
            f"cannot write {path}: {fault.strerror}",
            hint="make room there, or name a place where you may write",
        ) from fault


def _key_for(identity: GridIdentity, out: Path, *, force: bool) -> tuple[PrivateKey, bool]:
    """The key to certify, and whether it is new.

    A key in ``out`` is kept, also when a crash left it without a certificate, unless a certificate
    beside it names another holder.
    """
    if force:
        return new_key(), True
    if (out / CERTIFICATE_FILE).exists():
        _check_holder(identity, out)
    if (out / KEY_FILE).exists():
        return key_from_pem(_read(out / KEY_FILE, "private key")), False
    return new_key(), True


def _check_holder(identity: GridIdentity, out: Path) -> None:
    try:
        holder = subject_of(_read(out / CERTIFICATE_FILE, "certificate"))
    except GridError as fault:
        raise InputError(
            f"{out / CERTIFICATE_FILE} is no certificate of this grid",
            hint="choose another --out, or --force to replace it",
        ) from fault
    if holder != identity.subject:
        raise InputError(
            f"{out} holds the credential of {holder}, not of {identity.subject}",
            hint="choose another --out, or --force to replace it",
        )


def _issued_from(line: bytes, signed_by: str) -> IssuedCertificate | None:
    try:
        entry = json.loads(line)
        if entry["authority"] != signed_by:
            return None
        return IssuedCertificate(
            serial=int(entry["serial"], 16),
            subject=str(entry["subject"]),
            not_before=int(entry["not_before"]),
            not_after=int(entry["not_after"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _read(path: Path, what: str) -> bytes:
    return read_bounded(path, size_max=CERTIFICATE_SIZE_MAX, what=what)
