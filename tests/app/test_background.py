"""Sweeps: when they run, for whom, and that one which fails holds up no other."""

import asyncio

import pytest

from etagere.app.background import Background
from etagere.app.compose import StorageService
from etagere.app.configuration import configure
from etagere.app.foundation import lay
from etagere.base.clock import Timestamp, seconds
from etagere.servers.real import VirtualClock


@pytest.fixture
async def foundation():
    clock = VirtualClock()
    clock.freeze()
    keys = {"account": ["first1:a2V5", "second2:a2V5"]}
    foundation = lay(configure({"in_memory": True, "clock": "virtual", **keys}, {}), clock)
    yield foundation
    await foundation.close()


class Sweeps:
    def __init__(self, again=None, fails=()):
        self.calls = []
        self._again = again
        self._fails = fails

    async def __call__(self, account, now):
        self.calls.append(account)
        if account in self._fails:
            raise ValueError(account)
        return None if self._again is None else Timestamp(now + self._again)


def service(name, sweep):
    async def forget(engine, account):
        pass

    return StorageService(name, None, sweep, forget, ())


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_each_service_sweeps_each_account_at_once_and_when_it_is_due(foundation):
    sweeps = Sweeps(again=seconds(60))
    background = Background(foundation, [service("blob", sweeps)])
    await settle()
    assert sweeps.calls == ["first1", "second2"]
    foundation.clock.advance(seconds(61))
    await settle()
    assert sweeps.calls == ["first1", "second2"] * 2
    background.wake()
    await settle()
    assert sweeps.calls == ["first1", "second2"] * 3
    await background.stop()


async def test_a_sweep_that_fails_holds_up_no_other(foundation, caplog):
    bad, good = Sweeps(fails=("first1",)), Sweeps()
    background = Background(foundation, [service("blob", bad), service("queue", good)])
    await settle()
    background.wake()
    await settle()
    assert bad.calls == good.calls == ["first1", "second2"] * 2
    assert "sweep failed" in caplog.text
    await background.stop()


async def test_a_removed_account_is_swept_until_it_is_empty(foundation):
    sweeps = Sweeps()
    background = Background(foundation, [service("blob", sweeps)])
    await settle()
    foundation.accounts.remove("first1")
    background.departed("first1")
    await settle()
    assert sweeps.calls == ["first1", "second2", "second2", "first1"]
    await background.stop()


async def test_what_is_due_at_once_again_and_again_leaves_room_for_others(foundation):
    sweeps = Sweeps(again=-seconds(5))
    background = Background(foundation, [service("blob", sweeps)])
    await settle()
    assert sweeps.calls == ["first1", "second2"]
    await background.stop()


async def test_stopping_is_not_lost_on_a_sweep_that_is_woken_at_that_moment(foundation):
    background = Background(foundation, [service("blob", Sweeps())])
    await settle()
    background.wake()
    async with asyncio.timeout(5):
        await background.stop()
