"""A process to be killed: writers that note on standard output what was acknowledged.

    python crash_writer.py DIRECTORY NAME DURABILITY

Each of its writers goes on where its rows in the store end.  A transaction puts two halves in two
partitions, one of them under a long key, takes an old one away, and counts.
"""

import asyncio
import os
import sys
import time

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import pack, range_of, unpack

left = Partition(pack("left"))
right = Partition(pack("right"))
writers = 8
kept = 30
"""How many transactions of a writer stay in the store."""


def left_key(writer, n):
    return pack(writer, n)


def right_key(writer, n):
    return pack("long" * 300, writer, n)


def value_of(writer, n):
    return f"{writer} {n} ".encode() * (1 + n % 700)


class RealClock:
    def now(self):
        return Timestamp(time.time_ns() // 100)


async def write(engine, writer):
    async def last(tx):
        rows = await tx.scan(left, *range_of(writer), limit=1, reverse=True)
        return unpack(rows[0][0])[1] if rows else 0

    n = await engine.read(last)
    while True:
        n += 1

        async def body(tx, n=n):
            tx.put(left, left_key(writer, n), value_of(writer, n))
            tx.put(right, right_key(writer, n), value_of(writer, n))
            if n > kept:
                tx.delete(left, left_key(writer, n - kept))
                tx.delete(right, right_key(writer, n - kept))
            count = int(await tx.get(left, b"count") or 0)
            tx.put(left, b"count", b"%d" % (count + 1))
            return tx.stamp()

        stamp = await engine.write((left, right), body)
        os.write(1, f"{writer} {n} {stamp}\n".encode())


async def main(directory, name, durability):
    engine = LmdbEngine.open(directory, clock=RealClock(), durability=durability, map_bytes=1 << 20)
    await asyncio.gather(*(write(engine, f"{name}{n}") for n in range(writers)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
