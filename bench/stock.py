"""A store with a great many blobs, written straight into its files before a server has them: a
million in half a minute, where a million requests would take many."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from bench.peers import account
from etagere.kv.contract import Tx
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.servers.real import RealClock
from etagere.services.blob import containers, keys, tag_index
from etagere.services.blob.containers import CreateContainer, place
from etagere.services.blob.content import Home
from etagere.services.blob.records import BlobRecord, BlobType, Piece, blobs

_blobs_a_commit: Final = 5000
_no_tags: Final[Mapping[str, str]] = {}


def stock(
    folder: Path,
    container: str,
    count: int,
    *,
    content: bytes = b"",
    tags: Callable[[int], Mapping[str, str]] = lambda _: _no_tags,
) -> None:
    """`count` block blobs of the same content, named by eight digits."""
    asyncio.run(_stock(folder, container, count, content, tags))


async def _stock(
    folder: Path,
    container: str,
    count: int,
    content: bytes,
    tags: Callable[[int], Mapping[str, str]],
) -> None:
    engine = LmdbEngine.open(folder, clock=RealClock(), durability="relaxed")
    where = place(account, container)
    create = partial(containers.create, where=where, wanted=CreateContainer({}))
    record = await engine.write((where.part, where.account_part), create)
    home = Home(where.part, record.generation)

    async def some(tx: Tx, first: int, end: int) -> None:
        for number in range(first, end):
            name, given, stamp = f"{number:08d}", dict(tags(number)), tx.stamp()
            pieces: tuple[Piece, ...] = ()
            if content:
                pieces = (Piece(len(content), inline=stamp),)
                tx.put(home.part, keys.data(home.generation, stamp), content)
            blob = BlobRecord(
                BlobType.BLOCK, stamp, tx.now, tx.now, len(content), pieces=pieces, tags=given
            )
            tx.put(home.part, keys.blob(home.generation, name), blobs.encode(blob))
            tag_index.remember(tx, home, name, keys.current_moment, given)

    for first in range(0, count, _blobs_a_commit):
        end = min(first + _blobs_a_commit, count)
        await engine.write((home.part,), partial(some, first=first, end=end))
    await engine.close()
