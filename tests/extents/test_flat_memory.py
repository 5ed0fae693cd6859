"""A gibibyte through the writer and the reader, in a process of its own that measures itself."""

import subprocess
import sys

import pytest

grown_bytes_max = 48 << 20

program = """
import asyncio, random, resource, sys
from pathlib import Path
from etagere.extents.contract import ExtentId
from etagere.extents.local import LocalExtents

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main():
    store = LocalExtents(Path(sys.argv[1]))
    block = random.Random(1).randbytes(1 << 16)
    async def through(name, count):
        writer = store.writer(ExtentId(name * 16))
        for number in range(count):
            await writer.write(bytes(block))
            if number % 4096 == 0:
                await asyncio.sleep(0)
        extent = await writer.seal()
        size = 0
        async for piece in store.read(extent):
            size += len(piece)
        assert size == extent.size == count << 16
        await store.verify(extent)
        await store.remove(extent.id)
    await through(b"a", 64)
    before = peak()
    await through(b"b", 16384)
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
