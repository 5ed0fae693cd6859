"""Some seconds of fuzzing in the ordinary run; `python -m tests.fuzz --minutes 10` goes on."""

import os
import random
from collections import Counter

import pytest

from .requests import Generator
from .rounds import fuzz
from .target import Target, operations_of, signature

ordinary_rounds = 20


def test_whatever_is_asked_is_answered() -> None:
    """`ETAGERE_FUZZ_SEED` does one round again."""
    answers: Counter[str] = Counter()
    operations: Counter[tuple[str, str, bool]] = Counter()
    if "ETAGERE_FUZZ_SEED" in os.environ:
        seeds = [int(os.environ["ETAGERE_FUZZ_SEED"])]
    else:
        seeds = [random.randrange(2**48) for _ in range(ordinary_rounds)]
    for seed in seeds:
        done = fuzz(seed)
        assert done.failure is None, done.failure
        answers += done.answers
        operations += done.operations
    if len(seeds) > 1:
        _proves_something(answers, operations)


def _proves_something(answers: Counter[str], operations: Counter[tuple[str, str, bool]]) -> None:
    """Requests get as far as every operation, and most of these do what they are asked for."""
    reached = {(service, name) for service, name, _ in operations}
    served = {(service, name) for service, name, good in operations if good}
    for service, names in operations_of().items():
        assert {name for name in names if (service, name) not in reached} == set()
        assert len({name for name in names if (service, name) in served}) > 0.8 * len(names)
    for service in ("blob", "queue", "table"):
        for status in (200, 201, 400, 404):
            assert answers[f"{service} {status}"], "it proves nothing about these"


def test_a_seed_gives_the_same_requests() -> None:
    def requests(seed: int) -> list[str]:
        chance = random.Random(seed)
        target = Target(chance)
        rows = {name: frontend.operations.rows for name, frontend in target.frontends.items()}
        generator = Generator(chance, rows, signature, target.clock)
        return [generator.next().text() for _ in range(50)]

    assert requests(1) == requests(1)
    assert requests(1) != requests(2)


def test_a_failure_is_found_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    from etagere.frontends.queue_rest import decode

    def broken(*_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(decode, "message_count", broken)
    first, second = fuzz(5).failure, fuzz(5).failure
    assert first is not None
    assert "ZeroDivisionError" in first
    assert "--seed 5" in first
    assert first == second


def test_every_operation_is_asked_for() -> None:
    chance = random.Random(1)
    target = Target(chance)
    rows = {name: frontend.operations.rows for name, frontend in target.frontends.items()}
    generator = Generator(chance, rows, signature, target.clock)
    asked = {generator.next().operation for _ in range(4000)}
    assert asked == {operation.name for each in rows.values() for operation in each}
