"""Every test that wrote ends with the checker; those of logs run with small packs as well."""

import pytest

from etagere.services.bus import packs

from .harness import problems, stores

with_small_packs = {
    "test_administration",
    "test_deferral_and_peek",
    "test_failing_store",
    "test_forwarding",
    "test_locks",
    "test_model",
    "test_receiving",
    "test_sending",
    "test_settlement",
    "test_simulation",
    "test_time",
    "test_transactions",
}


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition(".")[2] in with_small_packs:
        metafunc.parametrize("block_messages", [32, 2], indirect=True)


@pytest.fixture(autouse=True)
def block_messages(request, monkeypatch):
    """How many messages a pack has; with 2, two that are sent at once are one."""
    count = getattr(request, "param", packs.block_messages)
    monkeypatch.setattr(packs, "block_messages", count)
    monkeypatch.setattr(packs, "pack_messages_min", min(count // 2, packs.pack_messages_min))
    monkeypatch.setattr(packs, "_in_block", count - 1)
    monkeypatch.setattr(packs, "_all", (1 << count) - 1)
    return count


@pytest.fixture(autouse=True)
def a_sound_store(block_messages):
    del block_messages  # as it was during the test
    stores.clear()
    yield
    for store in stores:
        assert problems(store) == []
