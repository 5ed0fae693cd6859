"""Seeds in the ordinary run; `ETAGERE_SEED=7` runs that one again, `ETAGERE_SIMULATIONS=500` more.

What fails prints its seed, and the seed is all that it takes to see it again.
"""

import os
import random
from collections import Counter

import pytest

from .run import Size, simulate, tally

ordinary_seeds = 20
ordinary_chance_seeds = 3
"""Besides the fixed ones: every run looks somewhere new."""


def seeds() -> list[int]:
    if "ETAGERE_SEED" in os.environ:
        return [int(os.environ["ETAGERE_SEED"])]
    fixed = range(int(os.environ.get("ETAGERE_SIMULATIONS", ordinary_seeds)))
    return [*fixed, *(random.randrange(10**6, 10**9) for _ in range(ordinary_chance_seeds))]


@pytest.mark.timeout(24 * 3600 if "ETAGERE_SIMULATIONS" in os.environ else 300)
def test_no_promise_is_broken() -> None:
    counted: Counter[str] = Counter()
    for seed in seeds():
        outcome = simulate(seed)
        again = f"ETAGERE_SEED={seed} pytest tests/simulation"
        assert outcome.problems == [], "\n".join([*outcome.problems, again])
        counted += tally(outcome.history.records)
    if "ETAGERE_SEED" not in os.environ:
        missing = [what for what in happens if not counted[what]]
        assert missing == [], "the simulations prove nothing about these"


def test_one_that_is_crowded() -> None:
    """Many clients and few names: more at once than the ordinary ones have."""
    outcome = simulate(1, size=Size(clients=16, steps=25))
    assert outcome.problems == []


happens = [
    "maybe",
    "blob put 201",
    "blob put 400 InvalidBlockList",
    "blob put 409 BlobAlreadyExists",
    "blob put 412 ConditionNotMet",
    "blob put 412 LeaseIdMissing",
    "blob put 500 InternalError",
    "blob put 507 InsufficientStorage",
    "blob put 0",
    "blob stage 201",
    "blob annotate 200",
    "blob delete 202",
    "blob get 200",
    "blob get 304 ConditionNotMet",
    "blob get 404 BlobNotFound",
    "blob lease 200",
    "blob lease 201",
    "blob lease 202",
    "blob lease 409 LeaseAlreadyPresent",
    "blob lease 409 LeaseIdMismatchWithLeaseOperation",
    "log append 201",
    "log append 412 AppendPositionConditionNotMet",
    "log append 500 InternalError",
    "queue put 201",
    "queue get 200",
    "queue peek 200",
    "queue update 204",
    "queue update 404 MessageNotFound",
    "queue delete 204",
    "queue delete 404 MessageNotFound",
    "table change 201",
    "table change 202",
    "table change 204",
    "table change 404 ResourceNotFound",
    "table change 409 EntityAlreadyExists",
    "table change 412 UpdateConditionNotSatisfied",
    "table query 200",
]
"""What the ordinary seeds must have seen at least once."""
