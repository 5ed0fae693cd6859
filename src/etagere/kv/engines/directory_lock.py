"""One server to a directory."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from etagere.kv.contract import StoreUnusable

lock_file_name: Final = "etagere.pid"


class DirectoryLock:
    """Held from entry to exit, or to the end of the process, however it comes.

    It belongs to the open file `fd`: worker processes that inherit this (`pass_fds`) keep it held
    should the server die before them.  StoreUnusable names the directory and who holds it.
    """

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self.fd = -1

    def __enter__(self) -> Self:
        path = self._directory / lock_file_name
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise StoreUnusable(f"{self._directory}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 20).decode(errors="replace").strip()
            os.close(fd)
            raise StoreUnusable(f"{self._directory}: in use by process {holder}") from None
        with suppress(OSError):  # on a full disk nobody is told who it is
            os.pwrite(fd, b"%-20d\n" % os.getpid(), 0)
        self.fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)
        self.fd = -1
