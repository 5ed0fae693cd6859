"""Rounds of fuzzing: each is a fresh store and some hundred requests, all of it from one seed."""

import asyncio
from collections import Counter
from random import Random

from .furniture import furnish
from .requests import Generator
from .target import Target, complaints, signature
from .wanted import Wanted
from .wire import Wire

requests_each = 200
wire_requests_each = 30
furnished_every = 25


class Round:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.answers: Counter[str] = Counter()
        """How often each service came to each status."""
        self.operations: Counter[tuple[str, str, bool]] = Counter()
        """How often each operation of each service did, or did not do, what it was asked for."""
        self.failure: str | None = None
        chance = Random(seed)
        self._target = Target(chance)
        rows = {name: front.operations.rows for name, front in self._target.frontends.items()}
        self._generator = Generator(Random(chance.random()), rows, signature, self._target.clock)
        self._wire_chance = Random(chance.random())
        self._wanted: Wanted | None = None
        self._number = -1

    async def run(self) -> None:
        with complaints() as complained:
            try:
                await furnish(self._target, first=True)
                for _ in range(requests_each):
                    await self._ask()
                    complained.raise_heard()
                async with Wire(self._target, self._wire_chance) as wire:
                    for _ in range(wire_requests_each):
                        status = await wire.send(self._next())
                        complained.raise_heard()
                        self.answers[f"wire {status}"] += 1
                await self._target.finish()
            except Exception as error:  # noqa: BLE001 - whatever it is, it was found
                request = "" if self._wanted is None else self._wanted.text()
                self.failure = "\n".join(
                    (
                        f"{type(error).__name__}: {error}",
                        *complained.heard,
                        f"the last request was number {self._number}",
                        request,
                        f"again: python -m tests.fuzz --seed {self.seed}",
                    )
                )

    def _next(self) -> Wanted:
        self._wanted = self._generator.next()
        self._number += 1
        return self._wanted

    async def _ask(self) -> None:
        wanted = self._next()
        if self._number % furnished_every == 0:
            for asked, answer in await furnish(self._target):
                self._generator.learned_from[asked.service].take(asked, answer.headers, answer.body)
        answer = await self._target.ask(wanted)
        if answer is not None:
            self._generator.learned_from[wanted.service].take(wanted, answer.headers, answer.body)
            self.answers[f"{wanted.service} {answer.status}"] += 1
            self.operations[wanted.service, answer.operation, answer.status < 300] += 1
        await self._target.pass_time()


def fuzz(seed: int) -> Round:
    done = Round(seed)
    asyncio.run(done.run())
    return done
