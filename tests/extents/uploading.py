"""A process that uploads until it is killed: `python uploading.py DIRECTORY SEED sync|relaxed`.

It writes a line to standard output for each extent after it has been sealed: its id, its size and
the seed of its bytes.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from etagere.extents.contract import ExtentId
from etagere.extents.local import LocalExtents

uploads_at_once = 6


def body(seed: int) -> bytes:
    chance = random.Random(seed)
    return chance.randbytes(chance.choice((0, 100, 70_000, 1_500_000, 4_000_000)))


async def upload_for_ever(store: LocalExtents, chance: random.Random) -> None:
    while True:
        seed = chance.getrandbits(32)
        data = body(seed)
        writer = store.writer(ExtentId(chance.randbytes(16)))
        for at in range(0, len(data), 1 << 16):
            await writer.write(data[at : at + (1 << 16)])
        if seed % 7 == 0:
            await writer.abort()
            continue
        extent = await writer.seal()
        os.write(1, f"{extent.id.hex()} {extent.size} {seed}\n".encode())


async def main(directory: str, seed: str, durability: str) -> None:
    store = LocalExtents(Path(directory), relaxed=durability == "relaxed")
    chance = random.Random(int(seed))
    os.write(1, b"ready\n")
    await asyncio.gather(
        *(
            upload_for_ever(store, random.Random(chance.getrandbits(64)))
            for _ in range(uploads_at_once)
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
