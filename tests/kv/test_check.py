"""Stores damaged on purpose, each way found."""

import lmdb
import pytest

from etagere.kv.check import Checker, Finding, check_store, nowhere
from etagere.kv.contract import Partition, StoreUnusable
from etagere.kv.engines.directory_lock import DirectoryLock
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import pack

part = Partition(pack("account", "container"))
other = Partition(pack("account", "container", "more"))
long_part = Partition(pack("account", "x" * 700))


@pytest.fixture
async def store(tmp_path, clock):
    """A closed store with rows of every kind: in short keys, in nodes, in nodes of nodes."""
    engine = LmdbEngine.open(tmp_path / "store", clock=clock)

    async def body(tx):
        for p in (part, other, long_part):
            for n in range(40):
                tx.put(p, pack("name", n), b"v" * n)
                tx.put(p, pack("n" * 600, n), b"v")
                tx.put(p, pack("n" * 2000, n), b"v" * 5000)
        return tx.stamp()

    await engine.write((part, other, long_part), body)
    await engine.close()
    return tmp_path / "store"


def damage(store, change):
    with lmdb.open(str(store), map_size=1 << 30) as env, env.begin(write=True) as txn:
        change(txn)


def first(txn, prefix, *, length=None):
    cursor = txn.cursor()
    cursor.set_range(prefix)
    for key, value in cursor.iternext():
        if length is None or len(key) == length:
            return key, value
    raise AssertionError("no such row")


def problems(store, **more):
    return {finding.problem for finding in check_store(store, **more)}


async def test_a_sound_store_has_no_findings(store):
    assert check_store(store) == []


def test_an_unknown_row_of_the_engine(store):
    damage(store, lambda txn: txn.put(b"\x01strange", b""))
    assert problems(store) == {"unknown row of the engine"}


def test_an_unknown_format(store):
    damage(store, lambda txn: txn.put(b"\x01format", b"99"))
    assert problems(store) == {"unknown format"}


@pytest.mark.parametrize("name", [b"\x01stamp", b"\x01node"])
def test_a_number_cut_short(store, name):
    damage(store, lambda txn: txn.put(name, b"1234567"))
    assert "number of another size than 8 bytes" in problems(store)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"\x11account", "key that does not decode: text without an end"),
        (b"\x11\xc3\0\0", "key that does not decode: text that is not UTF-8"),
        (part, "key without a partition"),
        (b"\0" + pack("a"), "key without a partition"),
        (part + b"\0\x7f", "key that does not decode: unknown type of item"),
        (part + b"\0\x11name", "key that does not decode: text without an end"),
    ],
)
def test_a_key_that_is_none(store, key, problem):
    damage(store, lambda txn: txn.put(key, b""))
    assert problems(store) == {problem}


def test_a_key_in_a_node_that_is_none(store):
    def change(txn):
        key, value = first(txn, b"\x02")
        txn.delete(key)
        txn.put(key + b"\xfe", value)

    damage(store, change)
    assert len(problems(store)) == 1
    assert "key that does not decode" in problems(store).pop()


def test_a_pointer_lost(store):
    damage(store, lambda txn: txn.delete(first(txn, part, length=511)[0]))
    assert problems(store) == {"node that nothing points to"}


def test_a_node_lost(store):
    def change(txn):
        _, node = first(txn, part, length=511)
        cursor = txn.cursor()
        while cursor.set_range(node) and cursor.key().startswith(node):
            cursor.delete()

    damage(store, change)
    assert "pointer to a node without rows" in problems(store)


def test_a_pointer_to_nowhere(store):
    damage(store, lambda txn: txn.put(first(txn, part, length=511)[0], b"nowhere"))
    assert "pointer to something that is not a node" in problems(store)


def test_two_pointers_to_a_node(store):
    def change(txn):
        key, node = first(txn, part, length=511)
        txn.put(key[:-1] + b"N", node)

    damage(store, change)
    assert problems(store) == {"node that more than one row points to"}


def test_nodes_in_a_ring(store):
    def change(txn):
        key, node = first(txn, part, length=511)
        txn.delete(key)
        txn.put((node + b"n" * 600)[:511], node)

    damage(store, change)
    assert problems(store) & {
        "node that the root does not lead to",
        "node that nothing points to",
        "node that more than one row points to",
    }


def test_a_ring_beside_the_tree(store):
    def change(txn):
        txn.put(b"\x01node", (100).to_bytes(8, "big"))
        node = b"\x02" + pack(50)
        txn.put(node + pack("a", 1), b"")
        txn.put((node + b"n" * 600)[:511], node)

    damage(store, change)
    assert problems(store) == {"node that the root does not lead to"}


def test_a_node_number_that_will_be_given_again(store):
    damage(store, lambda txn: txn.put(b"\x01node", (1).to_bytes(8, "big")))
    assert problems(store) == {"node with a number that is still to be given"}


def test_a_row_of_no_node(store):
    damage(store, lambda txn: txn.put(b"\x02\x22\0", b""))
    assert problems(store) == {"row of a node without a number"}


@pytest.mark.parametrize("field", ["magic", "number", "type", "bounds", "rows"])
def test_pages_damaged(store, field):
    """Headers and row tables; a value's own bytes are the business of what is kept in it."""
    at = {"magic": 16, "number": 0, "type": 10, "bounds": 12, "rows": 16}[field]
    with (store / "data.mdb").open("r+b") as file:
        data = bytearray(file.read())
        for page in (
            range(0, 2 * 4096, 4096) if field == "magic" else range(2 * 4096, len(data), 4096)
        ):
            data[page + at : page + at + 2] = b"\xee\xee"
        file.seek(0)
        file.write(data)
    findings = check_store(store)
    assert findings
    assert all(finding.checker == "pages" for finding in findings)


def test_a_file_cut_short(store):
    with (store / "data.mdb").open("r+b") as file:
        file.truncate(file.seek(0, 2) // 2)
    assert check_store(store)


def test_something_else_than_a_store(tmp_path):
    with pytest.raises(StoreUnusable, match="no store here"):
        check_store(tmp_path)
    (tmp_path / "data.mdb").write_bytes(b"something else" * 1000)
    assert check_store(tmp_path)


def test_a_store_in_use_is_left_alone(store):
    with DirectoryLock(store), pytest.raises(StoreUnusable, match=rf"{store}: in use by process"):
        check_store(store)


def test_keys_that_are_no_tuples_may_be_meant(store):
    damage(store, lambda txn: txn.put(part + b"\0no tuple", b""))
    assert problems(store)
    assert not problems(store, tuple_keys=nowhere)


def test_checkers_are_asked_with_everything_at_hand(store, clock):
    class Counting:
        name = "counting"

        async def check(self, tx):
            parts = list(tx.partitions())
            rows = [len(await tx.scan(p, b"", b"\xff", limit=1000)) for p in parts]
            value = await tx.get(part, pack("name", 3))
            return [Finding(self.name, "here", repr((parts, rows, value, tx.last_stamp)))]

    checker: Checker = Counting()
    findings = check_store(store, [checker, checker])
    expected = repr(([part, other, long_part], [120, 120, 120], b"vvv", clock.at))
    assert findings == [Finding("counting", "here", expected)] * 2


def test_a_checker_that_trips_over_damage_has_found_it(store):
    class Clumsy:
        name = "clumsy"

        async def check(self, tx):
            raise ZeroDivisionError("of all things")

    (finding,) = check_store(store, [Clumsy()])
    assert finding.checker == "clumsy"
    assert "of all things" in finding.problem
