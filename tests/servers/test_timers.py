"""Waiting on an injected clock: order, cancelling, and waking when time is moved."""

import asyncio

import pytest

from etagere.base.clock import Timestamp, seconds
from etagere.servers.real import RealClock, VirtualClock
from etagere.servers.timers import Timers


@pytest.fixture
def clock():
    clock = VirtualClock()
    clock.freeze()
    return clock


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_moving_the_clock_wakes_whoever_is_due_in_order(clock):
    timers = Timers(clock)
    start = clock.now()
    rung = []
    for delay in (30, 10, 20, 40):
        timers.at(Timestamp(start + seconds(delay)), lambda delay=delay: rung.append(delay))
    await settle()
    assert rung == []
    clock.advance(seconds(30))
    await settle()
    assert rung == [10, 20, 30]
    clock.advance(seconds(10))
    await settle()
    assert rung == [10, 20, 30, 40]


async def test_sleeping_ends_when_the_moment_comes_and_not_before(clock):
    timers = Timers(clock)
    sleeper = asyncio.create_task(timers.sleep(seconds(60)))
    clock_start = clock.now()
    await settle()
    clock.advance(seconds(60) - 1)
    await settle()
    assert not sleeper.done()
    clock.advance(1)
    await settle()
    assert sleeper.done()
    assert clock.now() == clock_start + seconds(60)


async def test_a_moment_in_the_past_is_not_waited_for(clock):
    await Timers(clock).sleep_until(Timestamp(clock.now() - 1))


async def test_cancelled_alarms_do_not_ring(clock):
    timers = Timers(clock)
    rung = []
    alarms = [
        timers.at(Timestamp(clock.now() + n), lambda n=n: rung.append(n)) for n in range(1, 301)
    ]
    for alarm in alarms[:299]:
        alarm.cancel()
    clock.advance(1000)
    await settle()
    assert rung == [300]


async def test_one_alarm_may_cancel_another_that_is_due_with_it(clock):
    timers = Timers(clock)
    rung = []
    later = []

    def cancel_the_other():
        later[0].cancel()

    timers.at(Timestamp(clock.now() + 1), cancel_the_other)
    later.append(timers.at(Timestamp(clock.now() + 2), lambda: rung.append("later")))
    clock.advance(5)
    await settle()
    assert rung == []


async def test_an_alarm_that_fails_does_not_keep_others_from_ringing(clock):
    timers = Timers(clock)
    rung = []
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    def fail():
        raise ValueError

    timers.at(Timestamp(clock.now() + 1), fail)
    timers.at(Timestamp(clock.now() + 2), lambda: rung.append(2))
    clock.advance(5)
    await settle()
    assert rung == [2]
    assert len(failures) == 1


async def test_a_cancelled_sleeper_leaves_nothing_behind(clock):
    timers = Timers(clock)
    sleepers = [asyncio.create_task(timers.sleep(seconds(60))) for _ in range(200)]
    await settle()
    for sleeper in sleepers:
        sleeper.cancel()
    await asyncio.gather(*sleepers, return_exceptions=True)
    assert len(timers._heap) < 200
    clock.advance(seconds(61))
    await settle()
    assert timers._heap == []


async def test_resuming_lets_time_reach_the_moment(clock):
    timers = Timers(clock)
    sleeper = asyncio.create_task(timers.sleep(seconds(0.02)))
    await settle()
    clock.resume()
    await asyncio.wait_for(sleeper, 10)


async def test_the_real_clock_is_waited_for_and_an_earlier_alarm_comes_first():
    clock = RealClock()
    timers = Timers(clock)
    rung = []
    done = asyncio.Event()
    start = clock.now()
    timers.at(Timestamp(start + seconds(0.05)), lambda: (rung.append("late"), done.set()))
    timers.at(Timestamp(start + seconds(0.01)), lambda: rung.append("early"))
    await asyncio.wait_for(done.wait(), 10)
    assert rung == ["early", "late"]
    assert clock.now() >= start + seconds(0.05)


async def test_closed_timers_ring_no_more(clock):
    timers = Timers(clock)
    rung = []
    timers.at(Timestamp(clock.now() + 1), lambda: rung.append(1))
    timers.close()
    clock.advance(5)
    await settle()
    assert rung == []
