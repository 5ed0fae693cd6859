"""The virtual clock: shared by workers, moved by one of them; chance from the system."""

import os
import time
import uuid

from etagere.base.clock import Timestamp, seconds
from etagere.servers.real import RealClock, SystemEntropy, VirtualClock


def test_the_real_clock_counts_ticks_since_1970():
    before = time.time_ns() // 100
    now = RealClock().now()
    assert before <= now <= time.time_ns() // 100


def test_a_virtual_clock_begins_at_the_real_time_and_goes_on():
    clock = VirtualClock()
    assert abs(clock.now() - RealClock().now()) < seconds(5)
    first = clock.now()
    while clock.now() == first:
        pass
    assert clock.now() > first


def test_advancing_moves_all_who_share_the_file():
    clock = VirtualClock()
    worker = VirtualClock(os.dup(clock.fd))
    before = worker.now()
    clock.advance(seconds(3600))
    assert worker.now() >= before + seconds(3600)
    assert worker.now() < before + seconds(3700)


def test_setting_goes_to_a_moment_and_on_from_there():
    clock = VirtualClock()
    clock.set(Timestamp(seconds(1_000_000)))
    assert seconds(1_000_000) <= clock.now() < seconds(1_000_060)


def test_frozen_time_stands_still_until_it_is_moved_or_resumed():
    clock = VirtualClock()
    worker = VirtualClock(os.dup(clock.fd))
    clock.freeze()
    first = clock.now()
    assert worker.is_frozen
    assert worker.now() == first == clock.now()
    clock.advance(seconds(10))
    assert clock.now() == worker.now() == first + seconds(10)
    assert worker.seconds_until(Timestamp(first + seconds(11))) == float("inf")
    assert worker.seconds_until(Timestamp(first + seconds(9))) <= 0
    clock.resume()
    assert not worker.is_frozen
    assert first + seconds(10) <= worker.now() < first + seconds(70)


def test_each_move_calls_back():
    clock = VirtualClock()
    calls = []
    clock.on_move(lambda: calls.append(clock.now()))
    clock.freeze()
    clock.advance(seconds(1))
    clock.set(Timestamp(5))
    clock.resume()
    assert len(calls) == 4
    assert calls[2] == 5


def test_tokens_are_as_long_as_asked_and_differ():
    entropy = SystemEntropy()
    tokens = {entropy.token(16) for _ in range(2000)}
    assert len(tokens) == 2000
    assert {len(token) for token in tokens} == {16}
    assert len(entropy.token(100_000)) == 100_000
    assert entropy.token(0) == b""


def test_uuids_are_random_ones_in_lower_case():
    texts = {SystemEntropy().uuid() for _ in range(100)}
    assert len(texts) == 100
    for text in texts:
        assert str(uuid.UUID(text)) == text
        assert uuid.UUID(text).version == 4
        assert uuid.UUID(text).variant == uuid.RFC_4122
