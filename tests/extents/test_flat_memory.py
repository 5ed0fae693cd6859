"""A gibibyte in through the spool and out again, in a process of its own that measures itself."""

import subprocess
import sys

import pytest

grown_bytes_max = 48 << 20

program = """
import asyncio, os, random, resource, sys
from pathlib import Path
from etagere.extents.local import LocalExtents
from etagere.extents.spool import spool

class Entropy:
    def token(self, size):
        return os.urandom(size)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main():
    store = LocalExtents(Path(sys.argv[1]))
    block = random.Random(1).randbytes(1 << 16)
    async def network(count):
        for _ in range(count):
            yield block[:-1] + b"x"  # new bytes each time
    async def through(count):
        received = await spool(
            store, Entropy(), network(count), length=None, bytes_max=1 << 40, md5=True
        )
        extent = received.extent
        size = 0
        async for piece in store.read(extent):
            size += len(piece)
        assert size == extent.size == count << 16
        await store.verify(extent)
        await store.remove(extent.id)
    await through(64)
    before = peak()
    await through(16384)
    print(peak() - before)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_gibibyte_leaves_memory_flat(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "extents")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < grown_bytes_max
