"""The seed is all there is: the same one gives the same history, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .run import Size, simulate

small = Size(clients=4, steps=20)
_program = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from simulation.run import Size, simulate;"
    "sys.stdout.write(simulate(int(sys.argv[2]), size=Size(clients=4, steps=20)).history.text())"
)


@pytest.mark.parametrize("seed", [3, 4])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first, second = simulate(seed, size=small), simulate(seed, size=small)
    assert len(first.history.records) > 100
    assert first.history.text() == second.history.text()


def test_another_seed_gives_another_history() -> None:
    assert simulate(5, size=small).history.text() != simulate(6, size=small).history.text()


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_so_does_another_process_that_hashes_differently(hash_seed: str) -> None:
    tests = Path(__file__).parents[1]
    told = subprocess.run(
        [sys.executable, "-c", _program, str(tests), "7"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == simulate(7, size=small).history.text()
