"""Clocks and engines for the store's tests."""

import pytest

from etagere.base.clock import Timestamp


class HandClock:
    """Time that moves when a test says so, backwards too."""

    def __init__(self, at: int = 17_000_000_000_000_000) -> None:
        self.at = at

    def now(self) -> Timestamp:
        return Timestamp(self.at)


@pytest.fixture
def clock():
    return HandClock()
