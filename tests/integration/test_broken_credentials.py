"""A credential that proves nothing is exit code 5, in one line and one that says what to do,
whatever is wrong with it; not one is tried on a site.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.certificates import new_key
from tests.support.certificate_scenes import a_user, an_authority
from tests.support.gur_runner import GurProcess
from tests.support.rpc_scenes import DAY_S

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class Scene:
    """A good credential, and what it takes to spoil it."""

    authority: Authority
    folder: Path
    """The credential's."""
    beside: Path
    now: int

    @property
    def cert(self) -> Path:
        """The certificate."""
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        """The private key."""
        return self.folder / "key.pem"

    @property
    def root(self) -> Path:
        """The authority's certificate."""
        return self.folder / "root.pem"

    def issued(self, *, at: int) -> None:
        """One of another day."""
        self.authority.issue_user("ada", self.folder, at, force=True)

    def of_another_authority(self) -> None:
        """A certificate and its key, beside our root."""
        stranger = an_authority(self.beside, now=self.now)
        a_user(stranger, self.beside, login="ada", now=self.now)
        for path in (self.cert, self.key):
            path.write_bytes((self.beside / "ada" / path.name).read_bytes())

    def of_another_key(self) -> None:
        """The key of an earlier login."""
        a_user(self.authority, self.beside, login="grace", now=self.now)
        self.key.write_bytes((self.beside / "grace" / "key.pem").read_bytes())

    def encrypted(self) -> None:
        """A key that wants a passphrase."""
        self.key.write_bytes(
            new_key().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"secret"),
            )
        )

    def of_an_odd_name(self) -> None:
        """A certificate whose holder is called as no identity can be."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a/OU=sites")])
        moment = datetime.datetime.fromtimestamp(self.now, datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(moment - datetime.timedelta(hours=1))
            .not_valid_after(moment + datetime.timedelta(hours=1))
            .sign(key, hashes.SHA256())
        )
        self.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def folder_is_a_file(self) -> None:
        """A file where the folder belongs."""
        shutil.rmtree(self.folder)
        self.folder.write_text("x")

    def replaced(self, path: Path, make: Callable[[Path], object]) -> None:
        """Something else in the place of a file."""
        path.unlink()
        make(path)


SPOILT: dict[str, tuple[Callable[[Scene], object], str]] = {
    "no folder": (lambda it: shutil.rmtree(it.folder), "no credential at"),
    "no certificate": (lambda it: it.cert.unlink(), "no certificate at"),
    "no key": (lambda it: it.key.unlink(), "no private key at"),
    "no root": (lambda it: it.root.unlink(), "no root certificate at"),
    "a file for the folder": (lambda it: it.folder_is_a_file(), "no credential at"),
    "a folder for the certificate": (
        lambda it: it.replaced(it.cert, Path.mkdir),
        "no regular file",
    ),
    "a pipe for the key": (lambda it: it.replaced(it.key, os.mkfifo), "no regular file"),
    "unreadable": (
        lambda it: it.replaced(it.key, lambda path: path.symlink_to(path)),
        "cannot read the private key",
    ),
    "empty certificate": (lambda it: it.cert.write_text(""), "certificate"),
    "empty key": (lambda it: it.key.write_text(""), "private key"),
    "empty root": (lambda it: it.root.write_text(""), "root.pem"),
    "garbage certificate": (lambda it: it.cert.write_bytes(os.urandom(900)), "certificate"),
    "garbage key": (lambda it: it.key.write_bytes(b"\xff" * 900), "private key"),
    "garbage root": (lambda it: it.root.write_bytes(b"\x00" * 900), "root.pem"),
    "huge": (lambda it: it.cert.write_bytes(b"x" * 100_000), "larger than"),
    "expired": (lambda it: it.issued(at=it.now - 9 * DAY_S), "expired"),
    "not yet valid": (lambda it: it.issued(at=it.now + 9 * DAY_S), "not valid before"),
    "of another authority": (Scene.of_another_authority, "foreign authority"),
    "a key that does not fit": (Scene.of_another_key, "does not belong"),
    "a key too open": (lambda it: it.key.chmod(0o644), "open to others"),
    "an encrypted key": (Scene.encrypted, "unencrypted private key"),
    "an odd name": (Scene.of_an_odd_name, "subject"),
}


@pytest.fixture(scope="module")
def gur(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GurProcess]:
    """The command, ready to be typed."""
    process = GurProcess(tmp_path_factory.mktemp("gur"))
    yield process
    process.end()


@pytest.mark.parametrize("what", SPOILT)
def test_a_broken_credential_is_not_authorised(gur: GurProcess, tmp_path: Path, what: str) -> None:
    """For a command about all machines as for one about a trip."""
    spoil, names = SPOILT[what]
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now - 20 * DAY_S)
    a_user(authority, tmp_path, login="ada", now=now)
    (tmp_path / "beside").mkdir()
    spoil(Scene(authority, tmp_path / "ada", tmp_path / "beside", now))
    config, trip = tmp_path / "sites.toml", tmp_path / "trip.toml"
    config.write_text(
        f'credential = "{tmp_path / "ada"}"\n'
        '[machines.lab]\nsite = "lab"\nendpoint = "127.0.0.1:9"\n'
    )
    trip.write_text(
        'name = "t"\nusage_pattern = "single"\nnodes_total = 1\nduration = "1h"\n'
        'earliest_start = "now"\nlatest_end = "+1d"\n[[machines]]\nname = "lab"\nnodes_max = 1\n'
    )
    environment = {"GUR_CONFIG": str(config), "GUR_STATE": str(tmp_path / "memory")}
    for words in (["quote", str(trip)], ["sites"]):
        said = gur.run(words, {**os.environ, **environment}, None)
        assert said.code == 5, said
        first, second = said.err.splitlines()
        assert names in first, said
        assert first.startswith(("gur: ", "lab: ")), said
        assert second.startswith("  "), said
    assert not (tmp_path / "memory").exists()
