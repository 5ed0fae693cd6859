"""Work that nobody waits for, in one process of a server: each service sweeps each account."""

import asyncio
import logging
from typing import Final

from etagere.app.compose import StorageService
from etagere.app.foundation import Foundation
from etagere.base.clock import Timestamp, seconds
from etagere.kv.contract import StoreClosed

_log: Final = logging.getLogger(__name__)

look_again_seconds: Final = 30.0
"""Real time.  Marks that another process leaves are seen without a word from it; this is how long
they may lie."""
departed_seconds: Final = 900.0
"""How long an account that was removed is swept: longer than extents are kept for readers."""
scrub_first_seconds: Final = 600.0
scrub_again_seconds: Final = 86_400.0


class Background:
    def __init__(self, foundation: Foundation, services: list[StorageService]) -> None:
        self._foundation = foundation
        self._departed: dict[str, float] = {}
        """Accounts that were removed, and when."""
        self._woken = {service.name: asyncio.Event() for service in services}
        self._tasks = [asyncio.create_task(self._sweep(service)) for service in services]
        self._tasks.append(asyncio.create_task(self._scrub()))
        foundation.clock.on_move(self.wake)

    def wake(self) -> None:
        """Time was moved, or much was deleted: look now."""
        for event in self._woken.values():
            event.set()

    def departed(self, account: str) -> None:
        """Its data waits to be swept away, though nobody serves it any more."""
        self._departed[account] = asyncio.get_running_loop().time()
        self.wake()

    def _accounts(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        for name in [n for n, at in self._departed.items() if now > at + departed_seconds]:
            del self._departed[name]
        here = [account.name for account in self._foundation.accounts]
        return here + [name for name in self._departed if name not in here]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _sweep(self, service: StorageService) -> None:
        foundation, woken = self._foundation, self._woken[service.name]
        while True:
            woken.clear()
            due: Timestamp | None = None
            for account in self._accounts():
                again = await self._sweep_account(service, account)
                if again is not None and (due is None or again < due):
                    due = again
                await asyncio.sleep(0)
            alarm = None if due is None else foundation.timers.at(due, woken.set)
            try:
                # Not `wait_for`, which loses a cancellation that comes together with the event.
                async with asyncio.timeout(look_again_seconds):
                    await woken.wait()
            except TimeoutError:
                pass
            finally:
                if alarm is not None:
                    alarm.cancel()

    async def _sweep_account(self, service: StorageService, account: str) -> Timestamp | None:
        now = self._foundation.clock.now()
        try:
            again = await service.sweep(account, now)
        except StoreClosed:
            return None
        except Exception:  # noqa: BLE001 - a sweep that fails is tried again, and holds up no other
            _log.exception("sweep failed", extra={"service": service.name, "account": account})
            return None
        # What is due all the time would keep the loop from everything else.
        return None if again is None else max(again, Timestamp(now + seconds(0.1)))

    async def _scrub(self) -> None:
        from etagere.extents import references  # noqa: PLC0415 - see Foundation

        await asyncio.sleep(scrub_first_seconds)
        while True:
            at = self._foundation
            try:
                removed = await references.scrub(at.engine, at.extents, at.wall.now())
            except StoreClosed:
                return
            except Exception:  # noqa: BLE001 - the same
                _log.exception("scrub failed")
            else:
                if removed:
                    _log.info("orphans removed", extra={"extents": removed})
            await asyncio.sleep(scrub_again_seconds)
