"""Whom a caller believes about names: the root certificates of its grid's authority.

It is the public half of a credential, and all that is needed to see that a site is the one it was
taken for. A user who comes by a login instead of a certificate may have nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.x509.oid import NameOID

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.system.private_files import read_bounded
from gridtravel.gridio.trust.credentials import ROOT_FILE, read_roots
from gridtravel.gridio.trust.identity import CERTIFICATE_SIZE_MAX, GridIdentity, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustAnchor:
    """The authority of one grid."""

    grid: str
    root_pem: bytes
    """One certificate, or two while the authority changes its key."""

    def server_name(self, role: Role, name: str) -> str:
        """What the certificate of this site or manager says."""
        return GridIdentity(grid=self.grid, role=role, name=name).server_name


def anchor_of(root_pem: bytes) -> TrustAnchor:
    """The anchor that these root certificates are; ``InputError`` when they are of several grids or
    of none.
    """
    names = {
        str(each.value)
        for root in read_roots(root_pem)
        for each in root.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    }
    if len(names) != 1:
        raise InputError(
            f"{ROOT_FILE} does not say of which one grid it is",
            hint="copy it from the authority again",
        )
    return TrustAnchor(grid=names.pop(), root_pem=root_pem)


def load_anchor(folder: Path) -> TrustAnchor | None:
    """What lies in a credential's folder; ``None``: nothing, whatever else is missing there."""
    path = folder / ROOT_FILE
    if not path.exists():
        return None
    return anchor_of(read_bounded(path, size_max=CERTIFICATE_SIZE_MAX, what="root certificate"))
