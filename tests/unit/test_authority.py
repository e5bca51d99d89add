from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.authority import ISSUED_FILE, ROOT_KEY_FILE, Authority
from gridtravel.gridio.trust.certificates import BACKDATING_S, ROOT_LIFETIME_S, USER_LIFETIME_S
from gridtravel.gridio.trust.credentials import Usage, check_credential, load_credential
from gridtravel.gridio.trust.identity import end_of, read_certificate
from tests.support.certificate_scenes import HOUR_S, NOW, a_site, a_user, an_authority


def _usages(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_root_signs_certificates_and_nothing_below_it_does(tmp_path: Path) -> None:
    """The root is an authority with path length 0; what it issues is none."""
    authority = an_authority(tmp_path)
    constraints = authority.root.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value.ca
    assert constraints.value.path_length == 0
    assert authority.root.subject.rfc4514_string() == "CN=grid CA,O=grid"
    leaf = read_certificate(a_site(authority, tmp_path).cert_pem)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_site_is_server_and_client_under_its_names(tmp_path: Path) -> None:
    """A site's certificate has both usages, its hosts, its own server name and its URI."""
    certificate = read_certificate(a_site(an_authority(tmp_path), tmp_path).cert_pem)
    assert _usages(certificate) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]
    names = _alternative_names(certificate)
    assert names.get_values_for_type(x509.DNSName) == ["sdsc.sites.grid.internal", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["grid://grid/site/sdsc"]


def test_user_is_a_client_for_twelve_hours_with_backdating(tmp_path: Path) -> None:
    """A user's certificate is for clients only, lasts 12 h by default and begins 5 minutes ago."""
    credential = a_user(an_authority(tmp_path), tmp_path)
    certificate = read_certificate(credential.cert_pem)
    assert _usages(certificate) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert credential.not_after == NOW + USER_LIFETIME_S == NOW + 12 * HOUR_S
    assert certificate.not_valid_before_utc.timestamp() == NOW - BACKDATING_S == NOW - 300
    names = _alternative_names(certificate)
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["grid://grid/user/kenneth"]


def test_files_have_the_modes_that_keep_keys_private(tmp_path: Path) -> None:
    """Keys are 0600 and folders 0700, also parents made on the way; nothing temporary stays."""
    authority = an_authority(tmp_path)
    authority.issue_user("kenneth", tmp_path / "deep" / "er", NOW)
    assert (
        _mode(tmp_path / "ca") == _mode(tmp_path / "deep") == _mode(tmp_path / "deep/er") == 0o700
    )
    assert _mode(tmp_path / "ca" / ROOT_KEY_FILE) == 0o600
    assert _mode(tmp_path / "deep/er/key.pem") == 0o600
    assert _mode(tmp_path / "ca" / ISSUED_FILE) == 0o600
    files = sorted(path.name for path in (tmp_path / "deep/er").iterdir())
    assert files == ["cert.pem", "key.pem", "root.pem"]


def test_same_command_renews_with_the_same_key(tmp_path: Path) -> None:
    """Issuing again makes a new certificate, with a new serial, for the key that is there."""
    authority = an_authority(tmp_path)
    first = a_user(authority, tmp_path)
    second = a_user(authority, tmp_path, now=NOW + HOUR_S)
    assert second.key_pem == first.key_pem
    assert second.not_after == first.not_after + HOUR_S
    serials = [read_certificate(one.cert_pem).serial_number for one in (first, second)]
    assert serials[0] != serials[1]
    assert load_credential(tmp_path / "kenneth") == second


def test_force_makes_a_new_key(tmp_path: Path) -> None:
    """Only --force replaces a private key, and what it leaves is a pair that fits."""
    authority = an_authority(tmp_path)
    first = a_user(authority, tmp_path)
    second = authority.issue_user("kenneth", tmp_path / "kenneth", NOW, force=True)
    assert second.key_pem != first.key_pem
    assert check_credential(load_credential(tmp_path / "kenneth"), NOW) == []


def test_a_key_that_a_crash_left_alone_is_certified(tmp_path: Path) -> None:
    """Death between writing the key and the certificate is healed by the same command."""
    authority = an_authority(tmp_path)
    first = a_user(authority, tmp_path)
    (tmp_path / "kenneth" / "cert.pem").unlink()
    assert a_user(authority, tmp_path).key_pem == first.key_pem
    assert check_credential(load_credential(tmp_path / "kenneth"), NOW) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """Issuing into another's folder is refused and changes no byte, neither there nor in the
    register.
    """
    authority = an_authority(tmp_path)
    a_user(authority, tmp_path)
    folder = tmp_path / "kenneth"
    before = {
        path: path.read_bytes() for path in (*folder.iterdir(), tmp_path / "ca" / ISSUED_FILE)
    }
    with pytest.raises(InputError, match="holds the credential of /O=grid/OU=users/CN=kenneth"):
        authority.issue_user("martha", folder, NOW)
    assert {path: path.read_bytes() for path in before} == before


def test_renewing_the_root_keeps_what_it_signed(tmp_path: Path) -> None:
    """`ca init` again extends the root under the same key; an older certificate passes under the
    new root.
    """
    user = a_user(an_authority(tmp_path), tmp_path)
    renewed = Authority.create(tmp_path / "ca", "grid", SeededIds(2), NOW + HOUR_S)
    assert end_of(renewed.root) == NOW + HOUR_S + ROOT_LIFETIME_S
    under_new_root = type(user)(
        cert_pem=user.cert_pem, key_pem=user.key_pem, root_pem=renewed.root_pem
    )
    assert check_credential(under_new_root, NOW + HOUR_S) == []


def test_an_authority_of_another_grid_is_not_replaced_without_force(tmp_path: Path) -> None:
    """The one secret of a grid is never overwritten by a slip; with --force the old register is
    void.
    """
    authority = an_authority(tmp_path)
    a_user(authority, tmp_path)
    key = (tmp_path / "ca" / ROOT_KEY_FILE).read_bytes()
    with pytest.raises(InputError, match="authority of the grid grid, not of other"):
        an_authority(tmp_path, grid="other")
    assert (tmp_path / "ca" / ROOT_KEY_FILE).read_bytes() == key
    forced = Authority.create(tmp_path / "ca", "other", SeededIds(2), NOW, force=True)
    assert forced.issued() == []
    assert (tmp_path / "ca" / ROOT_KEY_FILE).read_bytes() != key


def test_a_root_without_its_key_is_not_replaced(tmp_path: Path) -> None:
    """`ca init` in a credential's folder, or after the key was lost, touches nothing."""
    a_user(an_authority(tmp_path), tmp_path)
    with pytest.raises(InputError, match=r"not the private key that made it"):
        Authority.create(tmp_path / "kenneth", "grid", SeededIds(2), NOW)
    assert not (tmp_path / "kenneth" / ROOT_KEY_FILE).exists()


def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    """A certificate ends with its authority at the latest; an expired authority signs nothing."""
    authority = an_authority(tmp_path)
    end = NOW + ROOT_LIFETIME_S
    assert a_user(authority, tmp_path, now=end - HOUR_S).not_after == end
    with pytest.raises(InputError, match="itself expired at"):
        a_user(authority, tmp_path, login="martha", now=end)


def test_register_tells_what_was_issued_and_survives_a_cut_line(tmp_path: Path) -> None:
    """Each certificate is one line; a line that a crash cut short costs no other line."""
    authority = an_authority(tmp_path)
    a_user(authority, tmp_path)
    register = tmp_path / "ca" / ISSUED_FILE
    register.write_bytes(register.read_bytes() + b'{"serial": "12')
    a_site(authority, tmp_path)
    subjects = [one.subject for one in authority.issued()]
    assert subjects == ["/O=grid/OU=users/CN=kenneth", "/O=grid/OU=sites/CN=sdsc"]
    assert all(json.loads(line)["not_after"] for line in register.read_bytes().splitlines()[::2])


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "a b", "x" * 64, "Upper", "../up", "a\nb", "ü", "-x", "a,b", "a=b/OU=managers"],
)
def test_names_that_could_be_read_as_another_are_refused(tmp_path: Path, name: str) -> None:
    """A site's name cannot smuggle a second component into the subject, a URI, a host name or a
    path.
    """
    authority = an_authority(tmp_path)
    with pytest.raises(InputError, match="cannot be the name of a site"):
        authority.issue_site(name, tmp_path / "out", NOW, hosts=["localhost"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("first", ["site", "manager"])
def test_no_manager_has_the_name_of_a_site(tmp_path: Path, first: str) -> None:
    """A trip names its parties by the name alone, so a namesake could vote for one. The same again
    is a renewal; the name is free when the last certificate is over; users are no parties.
    """
    authority = an_authority(tmp_path)
    issue = {"site": authority.issue_site, "manager": authority.issue_manager}
    second = "manager" if first == "site" else "site"
    for _ in range(2):
        last = issue[first]("north", tmp_path / first, NOW, hosts=["localhost"])
    with pytest.raises(InputError, match=f"north is the name of a {first}"):
        issue[second]("north", tmp_path / second, NOW, hosts=["localhost"])
    assert not (tmp_path / second).exists()
    authority.issue_user("north", tmp_path / "user", NOW)
    issue[second]("south", tmp_path / second, NOW, hosts=["localhost"])
    after = last.not_after
    issue[second]("north", tmp_path / "later", after, hosts=["localhost"])


@pytest.mark.parametrize("host", ["", "*.example.org", "a b", "http://x", "x:1", "256.1.1.1", "."])
def test_hosts_that_are_none_are_refused(tmp_path: Path, host: str) -> None:
    """A host is a plain name or an address: no wildcard, port, URL or mistyped address."""
    authority = an_authority(tmp_path)
    with pytest.raises(InputError, match="neither a host name nor an address"):
        authority.issue_site("sdsc", tmp_path / "out", NOW, hosts=[host])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lifetime_s", [0, -1, 7 * 86_400 + 1])
def test_user_lifetimes_are_bounded(tmp_path: Path, lifetime_s: int) -> None:
    """A user's certificate lasts between a second and seven days."""
    with pytest.raises(InputError, match="cannot last"):
        an_authority(tmp_path).issue_user("kenneth", tmp_path / "out", NOW, lifetime_s=lifetime_s)


def test_broken_authority_folders_are_told_apart(tmp_path: Path) -> None:
    """No authority, and files that do not fit together, each get their own next step."""
    with pytest.raises(InputError, match="gurd ca init"):
        Authority.open(tmp_path / "nothing", SeededIds(1))
    an_authority(tmp_path)
    other = an_authority(tmp_path / "second")
    (tmp_path / "ca" / "root.pem").write_bytes(other.root_pem)
    with pytest.raises(InputError, match="do not belong together"):
        Authority.open(tmp_path / "ca", SeededIds(1))


def test_every_problem_of_a_credential_gets_a_line_of_its_own(tmp_path: Path) -> None:
    """Expired, foreign, mismatched key and wrong usage are all told, each in one line with a next
    step.
    """
    user = a_user(an_authority(tmp_path), tmp_path)
    stranger = a_user(an_authority(tmp_path / "foreign", grid="foreign"), tmp_path / "foreign")
    mixed = type(user)(cert_pem=user.cert_pem, key_pem=stranger.key_pem, root_pem=stranger.root_pem)
    problems = check_credential(mixed, user.not_after, Usage.SERVER)
    subject = "/O=grid/OU=users/CN=kenneth"
    assert [problem.message for problem in problems] == [
        f"the private key does not belong to the certificate of {subject}",
        f"the certificate of {subject} expired at 2023-11-15T10:13:20Z",
        f"the certificate of {subject} was signed by a foreign authority (CN=grid CA,O=grid)",
        f"the certificate of {subject} was not issued for use as a server",
    ]
    assert [problem.exit_code for problem in problems] == [5, 5, 5, 5]
    assert "run `gur login`" in str(problems[1])
    assert all("\n" not in str(problem) and problem.hint for problem in problems)


def test_dates_are_half_open(tmp_path: Path) -> None:
    """Valid from the back-dated second on, no longer in the second of the end; before it, the clock
    is blamed.
    """
    user = a_user(an_authority(tmp_path), tmp_path)
    assert check_credential(user, NOW - BACKDATING_S) == []
    assert check_credential(user, user.not_after - 1) == []
    assert len(check_credential(user, user.not_after)) == 1
    (early,) = check_credential(user, NOW - BACKDATING_S - 1)
    assert "set this machine's clock" in str(early)


def test_loading_names_what_is_missing_or_exposed(tmp_path: Path) -> None:
    """A missing folder or file, a huge file and an open key are each one clear line."""
    a_user(an_authority(tmp_path), tmp_path)
    folder = tmp_path / "kenneth"
    with pytest.raises(NotAuthorisedError, match="run `gur login`"):
        load_credential(tmp_path / "nowhere")
    (folder / "key.pem").chmod(0o644)
    with pytest.raises(NotAuthorisedError, match=r"open to others \(mode 0644\)"):
        load_credential(folder)
    (folder / "key.pem").chmod(0o640)
    load_credential(folder)
    (folder / "cert.pem").write_bytes(b"x" * 100_000)
    with pytest.raises(NotAuthorisedError, match="larger than"):
        load_credential(folder)
    (folder / "cert.pem").unlink()
    with pytest.raises(NotAuthorisedError, match="there is no certificate at"):
        load_credential(folder)


def test_a_credential_never_shows_its_key(tmp_path: Path) -> None:
    """A credential in a log line or a traceback gives no key away."""
    assert "PRIVATE" not in repr(a_user(an_authority(tmp_path), tmp_path))


@pytest.mark.parametrize("part", ["cert_pem", "key_pem", "root_pem"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_garbage_in_any_file_is_a_problem_not_a_crash(
    tmp_path: Path, part: str, content: bytes
) -> None:
    """Whatever stands in the three files, checking answers with faults of the grid."""
    user = a_user(an_authority(tmp_path), tmp_path)
    files = {"cert_pem": user.cert_pem, "key_pem": user.key_pem, "root_pem": user.root_pem}
    problems = check_credential(type(user)(**(files | {part: content})), NOW)
    assert problems
    assert all(isinstance(problem, NotAuthorisedError) for problem in problems)


def test_an_expired_authority_is_told_apart_from_an_expired_holder(tmp_path: Path) -> None:
    """When the root itself has ended, the message asks for a new root and not for a new login."""
    authority = an_authority(tmp_path)
    user = a_user(authority, tmp_path, now=NOW + ROOT_LIFETIME_S - HOUR_S)
    problems = check_credential(user, NOW + ROOT_LIFETIME_S)
    assert ["authority" in problem.message for problem in problems] == [False, True]
    assert "new root.pem" in str(problems[1])


def test_a_site_cannot_act_as_an_authority(tmp_path: Path) -> None:
    """A site's certificate in root.pem makes nobody believed: only an authority's counts."""
    authority = an_authority(tmp_path)
    site, user = a_site(authority, tmp_path), a_user(authority, tmp_path)
    misled = type(user)(cert_pem=user.cert_pem, key_pem=user.key_pem, root_pem=site.cert_pem)
    assert "foreign authority" in str(check_credential(misled, NOW)[0])


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    """A key that is not on P-256 is named as such, not as one that does not fit."""
    user = a_user(an_authority(tmp_path), tmp_path)
    other_key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    other = type(user)(cert_pem=user.cert_pem, key_pem=other_key, root_pem=user.root_pem)
    assert "not on the curve P-256" in str(check_credential(other, NOW)[0])


def test_a_certificate_names_a_bounded_number_of_hosts(tmp_path: Path) -> None:
    """Sixty-four hosts are enough for one site; more is a mistake in a script."""
    hosts = [f"h{number}.example.org" for number in range(65)]
    with pytest.raises(InputError, match="at most 64 hosts"):
        an_authority(tmp_path).issue_site("sdsc", tmp_path / "out", NOW, hosts=hosts)
