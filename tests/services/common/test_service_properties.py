"""Properties that are known are not read again, and a change counts for whoever asks after it."""

from functools import partial

import pytest

from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.real import RealClock
from etagere.services.common import service_properties
from etagere.services.common.service_properties import (
    KnownProperties,
    ServicePropertiesChange,
    default_properties,
)


@pytest.fixture(params=["alone", "shared", "memory"])
async def engine(request, tmp_path):
    clock = RealClock()
    if request.param == "memory":
        engine = MemoryEngine(clock)
    else:
        engine = LmdbEngine.open(tmp_path / "store", clock=clock, alone=request.param == "alone")
    yield engine
    await engine.close()


async def change(engine, version: str, account: str = "one") -> None:
    part = service_properties.partition("blob", account)
    wanted = ServicePropertiesChange(default_version=version)
    await engine.write((part,), partial(service_properties.change, part=part, wanted=wanted))


async def test_a_change_counts_at_once(engine):
    known = KnownProperties(engine, "blob")
    assert await known.of("one") == default_properties
    for version in ("2019-02-02", "2021-12-02"):
        await change(engine, version)
        for _ in range(2):
            assert (await known.of("one")).default_version == version
        assert await known.of("two") == default_properties
    part = service_properties.partition("blob", "one")

    async def clear(tx):
        service_properties.clear(tx, part)

    await engine.write((part,), clear)
    assert await known.of("one") == default_properties


async def test_a_store_that_is_emptied_forgets_them(engine):
    known = KnownProperties(engine, "blob")
    await change(engine, "2019-02-02")
    assert (await known.of("one")).default_version == "2019-02-02"
    await engine.reset()
    assert await known.of("one") == default_properties


async def test_what_is_known_is_not_read(tmp_path, monkeypatch):
    engine = LmdbEngine.open(tmp_path / "store", clock=RealClock(), alone=True)
    known = KnownProperties(engine, "blob")
    await change(engine, "2019-02-02")
    found = await known.of("one")
    with monkeypatch.context() as patch:
        patch.delattr(LmdbEngine, "read")
        assert await known.of("one") is found
    await change(engine, "2021-12-02", account="two")
    assert await known.of("one") is found
    await engine.close()
