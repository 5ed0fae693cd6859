"""Every test that wrote ends with the checker."""

import pytest

from .harness import problems, stores


@pytest.fixture(autouse=True)
def a_sound_store():
    stores.clear()
    yield
    for store in stores:
        assert problems(store) == []
