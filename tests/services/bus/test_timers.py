"""The broker runs by itself on timers: a clock that is moved wakes it at once."""

import asyncio

from etagere.kv.engines.memory import MemoryEngine
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import QueueDescription

from .harness import (
    HandClock,
    Receiving,
    SeededEntropy,
    body_of,
    codec,
    message,
    peek_lock,
    receive_and_delete,
    seconds,
)


class Alarms:
    """Timers on a clock that is moved by hand."""

    def __init__(self, clock):
        self.clock = clock
        self.set = []

    def at(self, when, callback):
        alarm = Alarm(self, when, callback)
        self.set.append(alarm)
        return alarm

    async def move(self, count):
        self.clock.time += seconds(count)
        for _ in range(200):
            due = [alarm for alarm in self.set if alarm.when <= self.clock.time]
            for alarm in due:
                self.set.remove(alarm)
                alarm.callback()
            await asyncio.sleep(0)


class Alarm:
    def __init__(self, alarms, when, callback):
        self.alarms = alarms
        self.when = when
        self.callback = callback

    def cancel(self):
        if self in self.alarms.set:
            self.alarms.set.remove(self)


async def test_moving_the_clock_wakes_everything_that_is_due():
    clock = HandClock()
    alarms = Alarms(clock)
    engine = MemoryEngine(clock)
    broker = await Broker.open(engine, clock, SeededEntropy(), codec, alarms)
    await broker.administration.create(
        QueueDescription(name="q", dead_letter_on_expiration=True, auto_delete_on_idle=seconds(600))
    )
    await broker.send("q", [message("locked"), message("ttl", ttl=30), message("later", at=40)])
    sink = Receiving()
    sink.link = broker.open_receiver("q", peek_lock, sink, connection="c")
    sink.link.set_credit(1)
    await alarms.move(0)
    await alarms.move(31)
    assert sink.bodies == ["locked"]
    assert broker.administration.get("q").counts.dead_letter == 1
    await alarms.move(10)
    assert broker.administration.get("q").counts.scheduled == 0
    sink.link.set_credit(1)
    await alarms.move(0)
    await alarms.move(20)
    assert sink.bodies == ["locked", "later"]
    sink.link.set_credit(1)
    await alarms.move(0)
    assert sink.bodies == ["locked", "later", "locked"]
    assert len(alarms.set) == 1
    sink.link.close(broken=False)
    waiting = asyncio.create_task(broker.receive("q", receive_and_delete, wait_ticks=seconds(300)))
    await alarms.move(299)
    assert body_of(await waiting) == "locked"
    await alarms.move(601)
    assert not broker._core.catalogue.entities
    await broker.close()
    assert not alarms.set


async def test_an_early_alarm_takes_the_place_of_a_later_one():
    clock = HandClock()
    alarms = Alarms(clock)
    broker = await Broker.open(MemoryEngine(clock), clock, SeededEntropy(), codec, alarms)
    await broker.administration.create(QueueDescription(name="q"))
    assert not alarms.set
    await broker.send("q", [message(at=1000)])
    await broker.send("q", [message(at=10)])
    await broker.idle()
    assert [alarm.when for alarm in alarms.set] == [clock.time + seconds(10)]
