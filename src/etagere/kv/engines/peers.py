"""Notifications between the processes that have one directory open.

A process that watches binds a datagram socket in `DIRECTORY/peers`; whoever commits sends the
topics to every socket there.  A datagram that finds no room is made up for by one that says that
anything may have happened.  A process that dies between its commit and the sending tells nobody:
a notification is a hint, and whoever waits for one also waits for a time.
"""

import asyncio
import hashlib
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

socket_path_bytes_max: Final = 100
"""What `sockaddr_un` takes, less a little."""

datagram_bytes_max: Final = 32 * 1024
receives_per_turn_max: Final = 64
retry_seconds: Final = 0.05

racy_seconds: Final = 0.1
"""A directory that changed so shortly before it was listed may have changed again within the same
tick of the file system's clock; the next look lists it again."""

_anything: Final = b""


class Peers:
    """On the event loop's thread."""

    def __init__(self, directory: Path, publish: Callable[[Iterable[bytes] | None], None]) -> None:
        """`publish` takes the topics of another process; None stands for any topic."""
        self._directory = _short(directory / "peers")
        self._publish = publish
        self._socket: socket.socket | None = None
        self._path: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others: list[str] = []
        self._listed_mtime = -1
        self._behind: set[str] = set()
        self._sender: socket.socket | None = None

    def listen(self) -> None:
        """From now on what others announce is published here."""
        if self._socket is not None:
            return
        path = self._directory / f"{os.getpid()}-{os.urandom(4).hex()}"
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if not _is_ours(self._directory.lstat()):
                raise PermissionError
            receiver.bind(str(path))
        except OSError:
            # On a full disk, say, or where somebody else was first; the next to watch tries again.
            receiver.close()
            return
        self._socket, self._path = receiver, path
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(receiver, self._receive)

    def announce(self, topics: Collection[bytes]) -> None:
        others = self._list()
        if not others:
            return
        message = _message(topics)
        for other in others:
            self._send(other, message)

    def announce_anything(self) -> None:
        for other in self._list():
            self._send(other, _anything)

    def close(self) -> None:
        if self._socket is not None and self._loop is not None and self._path is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        self._behind.clear()

    def _list(self) -> list[str]:
        try:
            status = self._directory.lstat()
        except FileNotFoundError:
            return []
        if not _is_ours(status):
            return []
        mtime = status.st_mtime_ns
        if mtime != self._listed_mtime:
            own = self._path
            self._others = [str(path) for path in self._directory.iterdir() if path != own]
            is_racy = time.time_ns() - mtime < racy_seconds * 1e9
            self._listed_mtime = -1 if is_racy else mtime
        return self._others

    def _send(self, other: str, message: bytes) -> None:
        if other in self._behind:
            return  # it is about to be told that anything may have happened
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)
        try:
            self._sender.sendto(message, other)
        except BlockingIOError:
            self._behind.add(other)
            asyncio.get_running_loop().call_later(retry_seconds, self._catch_up, other)
        except ConnectionRefusedError:
            if Path(other).is_socket():
                Path(other).unlink(missing_ok=True)  # of a process that was killed
        except OSError:
            pass  # gone

    def _catch_up(self, other: str) -> None:
        if other in self._behind:
            self._behind.discard(other)
            self._send(other, _anything)

    def _receive(self) -> None:
        receiver = self._socket
        if receiver is None:
            return
        with suppress(BlockingIOError):
            for _ in range(receives_per_turn_max):
                message = receiver.recv(datagram_bytes_max)
                self._publish(None if message == _anything else _topics(message))


def _is_ours(status: os.stat_result) -> bool:
    """A directory, not a link to one, that nobody else can have made: the one below the system's
    directory for temporary files has a name that everybody can work out."""
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _message(topics: Collection[bytes]) -> bytes:
    if sum(map(len, topics)) + 2 * len(topics) > datagram_bytes_max:
        return _anything
    return b"".join(len(topic).to_bytes(2, "big") + topic for topic in topics)


def _topics(message: bytes) -> list[bytes]:
    topics = []
    at = 0
    while at < len(message):
        size = int.from_bytes(message[at : at + 2], "big")
        topics.append(message[at + 2 : at + 2 + size])
        at += 2 + size
    return topics


def _short(directory: Path) -> Path:
    """The directory itself, or one that every process of this user finds in its stead."""
    directory = directory.absolute()
    if len(os.fsencode(directory)) + 24 <= socket_path_bytes_max:
        return directory
    name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"etagere-{os.getuid()}-{name}"
