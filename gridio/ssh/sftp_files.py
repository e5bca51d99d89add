"""The files of a login, by SFTP."""

from __future__ import annotations

import stat
from typing import Final

import paramiko

from gridtravel.gridio.batch.running import FarFile, FarStatus

PACKET_BYTES: Final = 32_768
"""What every server takes in one message."""


class SftpFiles:
    """``FarFiles`` over one SFTP session. Relative paths begin where the login comes out."""

    def __init__(self, client: paramiko.SFTPClient) -> None:
        self._client = client

    def look(self, path: str) -> FarStatus:
        """See ``FarFiles``."""
        return _status(path.rpartition("/")[2], self._client.lstat(path))

    def folder(self, path: str) -> list[FarStatus]:
        """See ``FarFiles``."""
        return [_status(each.filename, each) for each in self._client.listdir_attr(path)]

    def make_folder(self, path: str) -> None:
        """See ``FarFiles``."""
        self._client.mkdir(path, 0o700)

    def open(self, path: str, *, to_write: bool) -> FarFile:
        """See ``FarFiles``."""
        if not to_write:
            return _SftpFile(self._client.open(path, "rb"))
        # "r+" does not make a file, and "a" writes at the end only.
        self._client.open(path, "ab").close()
        file = self._client.open(path, "r+b")
        file.set_pipelined(True)
        return _SftpFile(file)


class _SftpFile:
    """``FarFile`` over SFTP: many messages are on their way at once."""

    def __init__(self, file: paramiko.SFTPFile) -> None:
        self._file = file

    def read_at(self, offset: int, size: int) -> bytes:
        """See ``FarFile``. A message that comes back short is the end, or the next call's matter:
        what lies behind a gap is never joined to what lies before it.
        """
        wanted = [
            (offset + at, min(PACKET_BYTES, size - at)) for at in range(0, size, PACKET_BYTES)
        ]
        status = self._file.stat()
        wanted = [each for each in wanted if each[0] < (status.st_size or 0)]
        pieces = []
        for (_, length), piece in zip(wanted, self._file.readv(wanted), strict=False):
            pieces.append(piece)
            if len(piece) < length:
                break
        return b"".join(pieces)

    def write_at(self, offset: int, content: bytes) -> None:
        """See ``FarFile``."""
        self._file.seek(offset)
        self._file.write(content)

    def truncate(self, size: int) -> None:
        """See ``FarFile``."""
        self._file.truncate(size)

    def close(self) -> None:
        """See ``FarFile``."""
        self._file.close()


def _status(name: str, found: paramiko.SFTPAttributes) -> FarStatus:
    return FarStatus(
        name=name, size_bytes=found.st_size or 0, mode=found.st_mode or stat.S_IFREG | 0o600
    )
