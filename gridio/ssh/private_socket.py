"""A Unix socket of this process' own, in a folder that nobody else may enter."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

FOLDER_PREFIX: Final = "gur-ssh-"
SOCKET_NAME: Final = "s"
FOLDER_BYTES_MAX: Final = 60
"""Of the folder above ours: with our own names a socket's path stays far below its 107 bytes."""
SHORT_FOLDER: Final = "/tmp"
JOIN_S: Final = 2.0


class PrivateSocket:
    """Listens from its making on; ``welcome`` is given each connection, in the listener's thread.

    What an earlier process left, because it was killed, is cleared on the way.
    """

    def __init__(self, welcome: Callable[[socket.socket], None]) -> None:
        self._welcome = welcome
        self._is_closed = False
        base = _base_folder()
        _clear_stale(base)
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=base))
        except OSError as fault:
            raise UnavailableError(f"cannot make a folder in {base}: {fault.strerror}") from fault
        self._listener = socket.socket(socket.AF_UNIX)
        # It gets its name when it listens already, so that nobody takes it for a dead one.
        unready = self._folder / f"{SOCKET_NAME}~"
        try:
            self._listener.bind(str(unready))
            self._listener.listen()
            unready.rename(self.path)
        except OSError as fault:
            self._listener.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise UnavailableError(f"cannot listen at {self.path}: {fault.strerror}") from fault
        self._thread = threading.Thread(target=self._listen, name="ssh listener", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        """Where it listens."""
        return self._folder / SOCKET_NAME

    def close(self) -> None:
        """Stop listening and remove socket and folder. Twice is the same as once."""
        if self._is_closed:
            return
        self._is_closed = True
        # The only way to wake a thread that accepts, on every system.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.connect(str(self.path))
        self._thread.join(JOIN_S)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._is_closed:
                connection.close()
                return
            self._welcome(connection)


def _base_folder() -> str:
    """The user's folder for sockets, if there is one, else where temporary files are."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()):
        if folder and len(os.fsencode(folder)) <= FOLDER_BYTES_MAX and os.access(folder, os.W_OK):
            return folder
    return SHORT_FOLDER


def _clear_stale(base: str) -> None:
    """Remove folders of ours in which nobody listens any more."""
    for folder in sorted(Path(base).glob(f"{FOLDER_PREFIX}*")):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with socket.socket(socket.AF_UNIX) as probe:
                probe.setblocking(False)
                probe.connect(str(folder / SOCKET_NAME))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
