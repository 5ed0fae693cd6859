"""Sources that are not on this server: some answer, some break off, some take their time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from random import Random

from etagere.services.blob.fetching import CannotFetch, Fetched


class Elsewhere:
    """A `Fetcher` without a network."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Fetched:
        chance = self._chance
        del url
        # Turns of the loop, not time: a copy is pending while others ask, and a seed repeats it.
        for _ in range(chance.choice((0, 0, 2, 60))):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            raise CannotFetch
        size = chance.choice((0, 1, 512, 1024, 70_000))
        ranged = "Range" in headers and chance.random() < 0.8
        status = chance.choice((200, 200, 200, 304, 401, 404, 500, 301))
        found = {"etag": '"elsewhere"', "content-type": chance.choice(("text/plain", "", "\xe9"))}
        return Fetched(
            206 if ranged and status == 200 else status,
            found,
            chance.choice((size, size, None, size + 1)),
            self._chunks(size),
            lambda: None,
        )

    async def _chunks(self, size: int) -> AsyncIterator[bytes]:
        breaks = self._chance.random() < 0.15
        for at in range(0, size, 30_000):
            yield bytes(min(30_000, size - at))
            if breaks:
                raise CannotFetch
