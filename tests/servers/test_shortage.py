"""What is said in the log when there is no room for connections."""

import asyncio
import errno
import logging
import os
import resource

import pytest

from etagere.servers import shortage
from etagere.servers.shortage import Shortage


class Connected:
    """A transport with a socket of some number."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def get_extra_info(self, name: str) -> "Connected | None":
        assert name == "socket"
        return None if self._descriptor is None else self

    def fileno(self) -> int:
        return self._descriptor


@pytest.fixture
def limit(monkeypatch):
    """What the system allows, as the test sets it."""

    def set_limit(most: int) -> None:
        monkeypatch.setattr(shortage.resource, "getrlimit", lambda _: (most, most))

    set_limit(1000)
    return set_limit


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "etagere.servers.shortage")
    return lambda: [record.getMessage() for record in caplog.records]


async def test_few_descriptors_are_left(limit, said):
    here = Shortage()
    for descriptor in (None, 10, 500, 948):
        here.opened(Connected(descriptor))
        assert said() == []
    here.opened(Connected(949))
    (line,) = said()
    assert line.startswith("nearly all of 1000 file descriptors are in use")


async def test_a_limit_that_was_raised_is_noticed(limit, said):
    here = Shortage()
    here.opened(Connected(10))
    limit(100_000)
    here.opened(Connected(990))
    assert said() == []
    limit(resource.RLIM_INFINITY)
    here.opened(Connected(99_999))
    assert said() == []


async def test_it_is_said_once_a_minute(limit, said, monkeypatch):
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    here = Shortage()
    for wait, lines in ((0, 1), (1, 1), (58, 1), (1, 2), (59, 2), (1, 3)):
        now += wait
        here.opened(Connected(999))
        here.turned_away(7)
        here.failed(OSError(errno.EMFILE, "x"))
        assert len(said()) == lines


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_connection_that_could_not_be_accepted(limit, said, number):
    here = Shortage()
    here.failed(OSError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED)))
    assert said() == []
    here.failed(OSError(number, os.strerror(number)))
    (line,) = said()
    assert line.startswith("all of 1000 file descriptors are in use")


async def test_too_many_connections(said):
    Shortage().turned_away(5000)
    assert said() == ["5000 connections are open, and more are turned away"]
