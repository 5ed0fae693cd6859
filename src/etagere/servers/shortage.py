"""Says in the log that there is no room for more connections, and what to do about it.

Out of file descriptors, the event loop closes what connects before any code of ours is asked, so it
is said when few are left.  Clients that are turned away come back at once: one line a minute.
"""

import asyncio
import errno
import logging
import resource
import sys
from typing import Final

_log: Final = logging.getLogger(__name__)
_silent_seconds: Final = 60.0
_spare_share: Final = 20
"""One in so many descriptors is left when it is said that few are."""


class Shortage:
    def __init__(self) -> None:
        self._few_left_from = 0
        """The descriptor; looked up again whenever it is reached, because the limit may be raised
        while the server starts."""
        self._silent_until = 0.0

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """A connection was made.  The system gives out the lowest descriptor that is free, so its
        number tells how many are in use."""
        connected = transport.get_extra_info("socket")
        descriptor = -1 if connected is None else connected.fileno()
        if descriptor < self._few_left_from:
            return
        limit = _descriptors_max()
        self._few_left_from = limit - limit // _spare_share - 1
        if descriptor >= self._few_left_from:
            self._warn_of_descriptors("nearly all", limit)

    def failed(self, error: OSError) -> None:
        """A connection could not be accepted."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            self._warn_of_descriptors("all", _descriptors_max())

    def turned_away(self, connections_max: int) -> None:
        self._warn("%d connections are open, and more are turned away", connections_max)

    def _warn_of_descriptors(self, how_many: str, limit: int) -> None:
        self._warn(
            "%s of %d file descriptors are in use, and connections beyond them are dropped: raise "
            "their limit (LimitNOFILE= of systemd, --ulimit nofile= of docker, ulimit -n)",
            how_many,
            limit,
        )

    def _warn(self, text: str, *values: object) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            self._silent_until = now + _silent_seconds
            _log.warning(text, *values)


def _descriptors_max() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
