"""A process killed in the middle of everything: what it acknowledged is there, the rest goes."""

import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from etagere.base.clock import Timestamp
from etagere.extents import references
from etagere.extents.contract import Extent, ExtentId
from etagere.extents.local import LocalExtents
from etagere.kv.engines.memory import MemoryEngine

from .conftest import HandClock, everything, get
from .holders import findings, parts, save
from .uploading import body

rounds = 8
long_after = Timestamp(2**60)
child = Path(__file__).parent / "uploading.py"


def upload_and_kill(directory: Path, seed: int, durability: str, seconds: float) -> list[str]:
    """The complete lines that the process wrote before it was killed."""
    with subprocess.Popen(
        [sys.executable, child, str(directory), str(seed), durability], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        killer = threading.Timer(seconds, process.kill)
        killer.start()
        lines = process.stdout.read().decode().split("\n")
        killer.join()
    assert process.returncode == -9
    return lines[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "relaxed"])
async def test_killed_while_uploading(tmp_path, durability):
    chance = Random(20)
    directory = tmp_path / "extents"
    acknowledged: dict[Extent, int] = {}
    leftovers = 0
    engine = MemoryEngine(HandClock(), strict=False)
    for number in range(rounds):
        lines = upload_and_kill(directory, number, durability, chance.uniform(0.02, 0.4))
        new = {}
        for line in lines:
            name, size, seed = line.split(" ")
            new[Extent(ExtentId(bytes.fromhex(name)), int(size))] = int(seed)
        store = LocalExtents(directory)
        for extent, seed in new.items():
            await store.verify(extent)
            assert await get(store, extent) == body(seed)
            await save(engine, parts[0], extent.id.hex(), (extent,))
        acknowledged |= new
        known = {extent.id for extent in acknowledged}
        there = set(await everything(store))
        assert known <= there
        # Nothing but orphans is wrong, and they go.
        assert all(f.is_harmless for f in await findings(engine, store, thorough=False))
        orphans = len(there - known)
        leftovers += orphans
        assert await references.scrub(engine, store, long_after) == orphans
        assert set(await everything(store)) == known
        await store.close()
    assert len(acknowledged) > rounds
    assert leftovers  # or nothing was killed in its middle
    store = LocalExtents(directory)
    assert await findings(engine, store) == []
    await store.close()
