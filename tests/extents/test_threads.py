"""Calls in threads: all of them run, in order of arrival, and their outcomes find their waiters."""

import asyncio
import threading
from functools import partial

import pytest

from etagere.extents.threads import DiskThreads
from etagere.kv.contract import StoreClosed


@pytest.fixture
def threads():
    threads = DiskThreads("test", 3)
    yield threads
    threads.close()


async def test_outcomes(threads):
    assert await threads.run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(threading.current_thread) is not threading.current_thread()


async def test_one_thread_keeps_the_order():
    threads = DiskThreads("test", 1)
    seen = []
    await asyncio.gather(*(threads.run(partial(seen.append, n)) for n in range(100)))
    assert seen == list(range(100))
    threads.close()


async def test_no_more_threads_than_allowed(threads):
    used = set()
    meet = threading.Barrier(3)

    def call():
        used.add(threading.current_thread().name)
        meet.wait(30)

    await asyncio.gather(*(threads.run(call) for _ in range(9)))
    assert used == {"test-0", "test-1", "test-2"}


async def test_a_call_runs_though_its_waiter_was_cancelled():
    threads = DiskThreads("test", 1)
    gate, ran = threading.Event(), threading.Event()
    first = threads.run(partial(gate.wait, 30))
    second = threads.run(ran.set)
    first.cancel()
    second.cancel()
    gate.set()
    assert await asyncio.to_thread(ran.wait, 30)
    assert first.cancelled()
    assert second.cancelled()
    threads.close()


async def test_closing_finishes_what_was_handed_in():
    threads = DiskThreads("test", 2)
    done = []
    for number in range(20):
        threads.start(partial(done.append, number))
    threads.close()
    threads.close()
    assert sorted(done) == list(range(20))
    threads.start(partial(done.append, 20))  # in place
    assert done[-1] == 20
    with pytest.raises(StoreClosed):
        threads.run(lambda: 1)


def test_a_loop_that_ends_before_its_call():
    threads = DiskThreads("test", 1)
    gate, ran = threading.Event(), threading.Event()

    def call():
        gate.wait(30)
        ran.set()

    async def leave():
        threads.run(call)

    asyncio.run(leave())
    gate.set()
    assert ran.wait(30)
    threads.close()
