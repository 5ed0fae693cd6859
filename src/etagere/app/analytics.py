"""Storage Analytics logging: what the services' properties ask to be logged gets into `$logs`.

A line is made when a request has been answered, and kept in memory for a short while; then all
lines of one hour and service are stored as one blob.  As Azure's, these logs are made with best
effort: what a process has not stored when it dies is lost, and so is what there is no room for.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from etagere.base.clock import Clock, Timestamp, seconds
from etagere.base.errors import Refused
from etagere.frontends.common import log_entry
from etagere.frontends.common.call import Call
from etagere.frontends.common.message import Response
from etagere.kv.contract import StoreError
from etagere.services.blob import logs
from etagere.services.blob.logs import Log
from etagere.services.blob.service import BlobService
from etagere.services.common.accounts import AccountDirectory

_log: Final = logging.getLogger(__name__)

stored_after_seconds: Final = 1.0
"""Real time.  Azure promises its logs within an hour."""
held_bytes_max: Final = 16 * 1024 * 1024
"""In memory; what comes when there is so much already is not logged."""
_ticks_per_hour: Final = seconds(3600)


class _Key(NamedTuple):
    account: str
    service: str
    version: str
    hour: int


class _Lines:
    def __init__(self, began: Timestamp) -> None:
        self.kinds: set[str] = set()
        self.first = began
        self.last = began
        self.lines: list[bytes] = []


class AnalyticsLogs:
    def __init__(self, blobs: BlobService, accounts: AccountDirectory, clock: Clock) -> None:
        self._blobs: Final = blobs
        self._accounts: Final = accounts
        self._clock: Final = clock
        self._held: dict[_Key, _Lines] = {}
        self._held_bytes = 0
        self._storing: asyncio.Task[None] | None = None

    def note(self, service: str, call: Call, response: Response, took_seconds: float) -> None:
        """Log a request that has been answered, if it is of a kind that is asked for."""
        wanted, kind = call.properties.logging, log_entry.kind_of(call)
        if not getattr(wanted, kind) or not log_entry.is_logged(call, response):
            return
        began = Timestamp(self._clock.now() - seconds(took_seconds))
        version = wanted.version
        lines = [
            f"{line}\n".encode("utf-8", "replace")
            for line in log_entry.entries(service, call, response, began, took_seconds, version)
        ]
        size = sum(map(len, lines))
        if self._held_bytes + size > held_bytes_max:
            return
        self._held_bytes += size
        key = _Key(call.account.name, service, version, began // _ticks_per_hour)
        held = self._held.setdefault(key, _Lines(began))
        held.kinds.add(kind)
        held.first, held.last = min(held.first, began), max(held.last, began)
        held.lines += lines
        if self._storing is None:
            self._storing = asyncio.get_running_loop().create_task(self._store_soon())

    async def _store_soon(self) -> None:
        await asyncio.sleep(stored_after_seconds)
        self._storing = None
        await self.store()

    async def store(self) -> None:
        """Store everything that is held."""
        held, self._held, self._held_bytes = self._held, {}, 0
        for key, lines in sorted(held.items()):
            if self._accounts.find(key.account) is None:
                continue
            log = Log(
                account=key.account,
                service=key.service,
                version=key.version,
                kinds=frozenset(lines.kinds),
                first=lines.first,
                last=lines.last,
                data=b"".join(lines.lines),
            )
            try:
                await logs.store(self._blobs, log)
            except (Refused, StoreError, OSError):
                _log.warning("log not stored", exc_info=True, extra={"account": key.account})

    async def close(self) -> None:
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
            self._storing = None
        await self.store()
