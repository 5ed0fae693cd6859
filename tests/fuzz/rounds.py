"""Rounds of fuzzing: each is a fresh store and some hundred requests, all of it from one seed."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from .requests import Generator, Wanted
from .target import Found, Target, complaints, signature

requests_each = 200


@dataclass(slots=True)
class Round:
    seed: int
    answers: Counter[str] = field(default_factory=Counter)
    """How often each operation came to each status."""
    failure: str | None = None

    async def run(self) -> None:
        chance = Random(self.seed)
        target = Target(chance)
        generator = Generator(
            Random(chance.random()),
            {name: frontend.operations.rows for name, frontend in target.frontends.items()},
            signature,
        )
        wanted: Wanted | None = None
        number = -1
        with complaints() as complained:
            try:
                await target.furnish()
                for number in range(requests_each):  # noqa: B007 - told when something is found
                    wanted = generator.next()
                    answer = await target.ask(wanted)
                    if complained.heard:
                        raise Found("it complained")
                    if answer is not None:
                        generator.learned.take(answer[1], answer[2])
                        self.answers[f"{wanted.service} {answer[0]}"] += 1
                    target.pass_time()
                await target.finish()
            except Exception as error:  # noqa: BLE001 - whatever it is, it was found
                said = "\n".join(complained.heard)
                request = "" if wanted is None else wanted.text()
                self.failure = (
                    f"{type(error).__name__}: {error}\n{said}\n"
                    f"the last request was number {number}\n{request}\n"
                    f"again: python -m tests.fuzz --seed {self.seed}"
                )


def fuzz(seed: int) -> Round:
    done = Round(seed)
    asyncio.run(done.run())
    return done
