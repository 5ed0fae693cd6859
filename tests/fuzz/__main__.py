"""`python -m tests.fuzz --minutes 10` fuzzes; `--from 7` with the rounds that follow from 7, and
`--seed 7` does one round again."""

import argparse
import random
import sys
import time
from collections import Counter

from .rounds import fuzz, requests_each
from .target import operations_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="do this one round")
    parser.add_argument("--from", type=int, dest="first", help="what the rounds' seeds come from")
    parser.add_argument("--go-on", action="store_true", help="do not stop at what is found")
    options = parser.parse_args()
    if options.seed is not None:
        found = fuzz(options.seed).failure
        print(found or "nothing was found")  # noqa: T201 - a program
        return int(found is not None)
    first = random.randrange(2**48) if options.first is None else options.first
    print(f"--from {first}", flush=True)  # noqa: T201
    seeds = random.Random(first)
    until = time.monotonic() + options.minutes * 60
    answers: Counter[str] = Counter()
    operations: Counter[tuple[str, str, bool]] = Counter()
    rounds = failures = 0
    while time.monotonic() < until:
        done = fuzz(seeds.randrange(2**48))
        rounds += 1
        answers += done.answers
        operations += done.operations
        if done.failure is not None:
            failures += 1
            print(done.failure, flush=True)  # noqa: T201
            if not options.go_on:
                break
    _tell(operations)
    told = ", ".join(f"{what}: {count}" for what, count in sorted(answers.items()))
    print(f"{rounds} rounds of {requests_each} requests, {failures} failures; {told}")  # noqa: T201
    return int(failures > 0)


def _tell(operations: Counter[tuple[str, str, bool]]) -> None:
    """How often each operation was carried out and refused, those that never were included."""
    for service, names in operations_of().items():
        for name in sorted(names):
            served, refused = operations[service, name, True], operations[service, name, False]
            print(f"{service:6}{name:32}{served:8} served{refused:8} refused")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
