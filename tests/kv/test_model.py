"""Every engine against a plain dict: random transactions, alone and many at once."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etagere.base.errors import Refused
from etagere.kv.check import check_store, nowhere
from etagere.kv.contract import Partition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import pack

from .conftest import HandClock

partitions = [Partition(pack("one")), Partition(pack("one", "two"))]
stems = st.sampled_from([b"", b"a", b"ab", b"b" * 505, b"b" * 506, b"b" * 507, b"b" * 1200])
keys = st.builds(bytes.__add__, stems, st.binary(max_size=2))
ends = keys | st.just(b"\xff" * 600)

put = st.tuples(st.just("put"), st.sampled_from(partitions), keys, st.binary(max_size=4))
delete = st.tuples(st.just("delete"), st.sampled_from(partitions), keys)
get = st.tuples(st.just("get"), st.sampled_from(partitions), keys)
scan = st.tuples(
    st.just("scan"),
    st.sampled_from(partitions),
    keys,
    ends,
    st.integers(0, 6),
    st.booleans(),
)
fail = st.just(("fail",))
transactions = st.lists(put | put | delete | get | scan, max_size=8)
writes = st.tuples(transactions, st.booleans())


class Model:
    """What the store should hold, and what a transaction should see of it."""

    def __init__(self):
        self.parts = {part: {} for part in partitions}

    def copy(self):
        other = Model()
        other.parts = {part: dict(rows) for part, rows in self.parts.items()}
        return other

    def do(self, step):
        kind, part, *rest = step
        rows = self.parts[part]
        match kind:
            case "put":
                rows[rest[0]] = rest[1]
            case "delete":
                rows.pop(rest[0], None)
            case "get":
                return rows.get(rest[0])
            case "scan":
                begin, end, limit, reverse = rest
                found = sorted((k, v) for k, v in rows.items() if begin <= k < end)
                return (found[::-1] if reverse else found)[:limit]
        return None


async def do(tx, step):
    kind, part, *rest = step
    match kind:
        case "put":
            tx.put(part, *rest)
        case "delete":
            tx.delete(part, *rest)
        case "get":
            return await tx.get(part, *rest)
        case "scan":
            begin, end, limit, reverse = rest
            return await tx.scan(part, begin, end, limit=limit, reverse=reverse)
    return None


def body_of(steps, fails):
    async def body(tx):
        seen = [await do(tx, step) for step in steps]
        if fails:
            raise Refused("Model", {"stamp": str(tx.stamp())})
        return tx.stamp(), seen

    return body


class StoreMachine(RuleBasedStateMachine):
    """Subclasses say how to open the engine."""

    durable = False

    def open(self):
        raise NotImplementedError

    def __init__(self):
        super().__init__()
        self.clock = HandClock()
        self.directory = Path(tempfile.mkdtemp(prefix="etagere-model-"))
        self.runner = asyncio.Runner()
        self.engine = self.runner.run(self.opened())
        self.model = Model()
        self.highest_stamp = 0

    async def opened(self):
        return self.open()

    @rule(step=writes)
    def one_write(self, step):
        self.runner.run(self.write_all([step]))

    @rule(steps=st.lists(writes, min_size=2, max_size=6))
    def many_writes(self, steps):
        self.runner.run(self.write_all(steps))

    async def write_all(self, steps):
        results = await asyncio.gather(
            *(self.engine.write(tuple(partitions), body_of(*step)) for step in steps),
            return_exceptions=True,
        )
        # Stamps rise in the order in which the bodies were committed.
        done = []
        for (transaction, fails), result in zip(steps, results, strict=True):
            if fails:
                assert isinstance(result, Refused), result
            else:
                assert isinstance(result, tuple), result
                done.append((result[0], transaction, result[1]))
        done.sort(key=lambda entry: entry[0])
        for stamp, transaction, seen in done:
            assert stamp > self.highest_stamp
            assert stamp >= self.clock.at
            self.highest_stamp = stamp
            assert seen == [self.model.do(step) for step in transaction]

    @rule(steps=st.lists(get | scan, max_size=5))
    def read(self, steps):
        async def body(tx):
            return [await do(tx, step) for step in steps]

        assert self.runner.run(self.engine.read(body)) == [self.model.do(step) for step in steps]

    @rule(by=st.integers(-10_000, 10_000))
    def move_clock(self, by):
        self.clock.at += by

    @precondition(lambda self: self.durable)
    @rule()
    def reopen(self):
        self.runner.run(self.engine.close())
        self.engine = self.runner.run(self.opened())

    @rule()
    def reset(self):
        self.runner.run(self.engine.reset())
        self.model = Model()

    @invariant()
    def same_rows(self):
        async def body(tx):
            return [await tx.scan(part, b"", b"\xff" * 600, limit=10_000) for part in partitions]

        rows = self.runner.run(self.engine.read(body))
        assert rows == [sorted(self.model.parts[part].items()) for part in partitions]

    def teardown(self):
        self.runner.run(self.engine.close())
        self.runner.close()
        if self.durable:
            assert check_store(self.directory / "store", tuple_keys=nowhere) == []
        shutil.rmtree(self.directory)


class MemoryMachine(StoreMachine):
    def open(self):
        return MemoryEngine(self.clock)


class LmdbMachine(StoreMachine):
    durable = True

    def open(self):
        return LmdbEngine.open(self.directory / "store", clock=self.clock, durability="relaxed")


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestLmdb = pytest.mark.slow(LmdbMachine.TestCase)
TestLmdb.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
