"""A strict store in memory, and a table in it."""

from dataclasses import dataclass, field
from functools import partial

import pytest

from etagere.base.clock import Timestamp
from etagere.kv.contract import Engine
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.table import entities, query, tables
from etagere.services.table.check import TableChecker
from etagere.services.table.entities import Change, Stored, Write, write_of
from etagere.services.table.entity import decode, encode, read_members
from etagere.services.table.filter_parse import parse
from etagere.services.table.filter_plan import before, plan
from etagere.services.table.query import Page, Query
from etagere.services.table.tables import Place

account = "acct"
epoch = Timestamp(16_239_511_667_775_430)


@dataclass
class SetClock:
    moment: Timestamp = epoch

    def now(self) -> Timestamp:
        return self.moment


@dataclass
class Tables:
    """Operations as a caller sees them: each in a transaction of its own."""

    engine: Engine
    clock: SetClock = field(default_factory=SetClock)
    is_broken: bool = False

    def place(self, name: str) -> Place:
        return tables.place(account, name)

    async def create(self, name: str):
        where = self.place(name)
        return await self.engine.write(
            (where.part, where.account_part), partial(tables.create, where=where)
        )

    async def drop(self, name: str) -> None:
        where = self.place(name)
        await self.engine.write(
            (where.part, where.account_part), partial(tables.delete, where=where)
        )

    async def write(self, name: str, wanted: Write) -> int:
        part = self.place(name).part
        return await self.engine.write((part,), partial(entities.write, part=part, wanted=wanted))

    async def change(
        self, name: str, change: Change, pk: str, rk: str, if_match: str | None = None, **values
    ) -> int:
        own = read_members(list(values.items())).properties
        return await self.write(
            name, write_of(change, pk, rk, if_match=if_match, fragment=encode(own))
        )

    async def transact(self, name: str, batch: list[Write]) -> list[int]:
        part = self.place(name).part
        return await self.engine.write((part,), partial(entities.transact, part=part, batch=batch))

    async def get(self, name: str, pk: str, rk: str) -> Stored:
        part = self.place(name).part
        return await self.engine.read(
            partial(entities.get, part=part, partition_key=pk, row_key=rk)
        )

    async def values(self, name: str, pk: str, rk: str) -> dict[str, object]:
        return dict(decode((await self.get(name, pk, rk)).fragment))

    async def page(self, name: str, text: str = "", **options) -> Page:
        wanted = Query(plan(parse(text) if text else None), **options)
        part = self.place(name).part
        return await self.engine.read(partial(query.query, part=part, wanted=wanted))

    async def pages(self, name: str, text: str = "", **options) -> list[list[Stored]]:
        found = []
        while True:
            page = await self.page(name, text, **options)
            found.append(page.entities)
            if page.next_keys is None:
                return found
            options["begin"] = before(*page.next_keys)


async def problems(store: Tables) -> list[str]:
    """What `etagere check` would say of the store."""
    assert isinstance(store.engine, MemoryEngine)
    found = await TableChecker().check(store.engine.at_rest())
    return [finding.problem for finding in found]


@pytest.fixture
async def store():
    clock = SetClock()
    engine = MemoryEngine(clock)
    made = Tables(engine, clock)
    await made.create("People")
    yield made
    if not made.is_broken:
        assert await problems(made) == []
    await engine.close()
