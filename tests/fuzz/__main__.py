"""`python -m tests.fuzz --minutes 10` fuzzes; `--seed 7` does one round again."""

import argparse
import random
import sys
import time
from collections import Counter

from .rounds import fuzz, requests_each


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="do this one round")
    parser.add_argument("--go-on", action="store_true", help="do not stop at what is found")
    options = parser.parse_args()
    if options.seed is not None:
        found = fuzz(options.seed).failure
        print(found or "nothing was found")  # noqa: T201 - a program
        return int(found is not None)
    until = time.monotonic() + options.minutes * 60
    answers: Counter[str] = Counter()
    rounds = failures = 0
    while time.monotonic() < until:
        done = fuzz(random.randrange(2**48))
        rounds += 1
        answers += done.answers
        if done.failure is not None:
            failures += 1
            print(done.failure, flush=True)  # noqa: T201
            if not options.go_on:
                break
    told = ", ".join(f"{what}: {count}" for what, count in sorted(answers.items()))
    print(f"{rounds} rounds of {requests_each} requests, {failures} failures; {told}")  # noqa: T201
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
