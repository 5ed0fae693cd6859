"""Long keys over short rows, against a plain dict, on rows in memory and on LMDB's own."""

from bisect import bisect_left, insort

import lmdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etagere.kv.engines.long_keys import DanglingPointer, LongKeys, node_space

row_key_bytes = 9


class ListCursor:
    def __init__(self, rows):
        self.rows = rows
        self.at = -1

    def set_range(self, key):
        self.at = bisect_left(self.rows.keys, key)
        return self.at < len(self.rows.keys)

    def last(self):
        self.at = len(self.rows.keys) - 1
        return self.at >= 0

    def prev(self):
        self.at -= 1
        return self.at >= 0

    def key(self):
        return self.rows.keys[self.at]

    def iternext(self):
        for key in self.rows.keys[self.at :]:
            yield key, self.rows.values[key]

    def iterprev(self):
        for key in reversed(self.rows.keys[: self.at + 1]):
            yield key, self.rows.values[key]


class ListRows:
    """Rows in a sorted list, refusing keys that LMDB would."""

    def __init__(self):
        self.keys = []
        self.values = {}

    def get(self, key):
        assert 0 < len(key) <= row_key_bytes
        return self.values.get(key)

    def put(self, key, value):
        assert 0 < len(key) <= row_key_bytes
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def delete(self, key):
        assert 0 < len(key) <= row_key_bytes
        if key not in self.values:
            return False
        del self.values[key]
        self.keys.remove(key)
        return True

    def cursor(self):
        return ListCursor(self)


def check_nodes(rows):
    """Every pointer points to a node with rows of its own, every node is pointed to once."""
    everything = dict(rows)
    pointed = [value for key, value in everything.items() if len(key) == row_key_bytes]
    assert len(set(pointed)) == len(pointed)
    for node in pointed:
        assert any(key.startswith(node) for key in everything)
    for key in everything:
        if key.startswith(node_space):
            assert sum(key.startswith(node) for node in pointed) == 1


heads = st.sampled_from(
    [b"p", b"p" * 8, b"p" * 9, b"p" * 30, b"pq\xff\xff\xff\xff\xff\xff\xff\xff"]
)
tails = st.lists(st.sampled_from([b"", b"\0", b"a", b"\xff", b"ab" * 9]), max_size=3).map(b"".join)
keys = st.builds(bytes.__add__, heads, tails)
operations = st.lists(
    st.tuples(keys, st.none() | st.binary(max_size=3)) | keys.map(lambda k: (k, b"x" * 9)),
    max_size=40,
)


def apply(long_keys, model, changes):
    for key, value in changes:
        if value is None:
            long_keys.delete(key)
            model.pop(key, None)
        else:
            long_keys.put(key, value)
            model[key] = value


def compare_all(long_keys, model, begin, end, limit):
    for key in [*model, begin, end]:
        assert long_keys.get(key) == model.get(key)
    expected = sorted((k, v) for k, v in model.items() if begin <= k < end)
    for count in (limit, 1000):
        assert long_keys.scan(begin, end, count, reverse=False) == expected[:count]
        assert long_keys.scan(begin, end, count, reverse=True) == expected[::-1][:count]


@given(operations, keys, keys, st.integers(0, 5))
@example([(b"p" * 9, b"v"), (b"p" * 8, b"w"), (b"p" * 18, b"x")], b"p", b"q", 2)
@example([(b"p" * 9, b"v"), (b"p" * 10, b"w")], b"p" * 9, b"p" * 10, 2)
@example([(b"p" * 30, b"v"), (b"p" * 30, None)], b"p", b"q", 2)
def test_like_a_dict(changes, begin, end, limit):
    rows = ListRows()
    long_keys = LongKeys(rows, row_key_bytes)
    model = {}
    apply(long_keys, model, changes)
    compare_all(long_keys, model, begin, end, limit)
    compare_all(long_keys, model, b"p", b"q", limit)
    check_nodes(rows.values)
    for key in list(model):
        long_keys.delete(key)
    assert [key for key in rows.keys if not key.startswith(b"\x01")] == []


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with lmdb.open(str(tmp_path_factory.mktemp("lmdb")), map_size=1 << 24, sync=False) as env:
        yield env


@given(changes=operations, begin=keys, end=keys, limit=st.integers(0, 5))
def test_like_a_dict_on_lmdb(environment, changes, begin, end, limit):
    with environment.begin(write=True) as txn:
        long_keys = LongKeys(txn, row_key_bytes)
        model = {}
        apply(long_keys, model, changes)
        compare_all(long_keys, model, begin, end, limit)
        check_nodes(txn.cursor())
        txn.abort()


@given(operations, keys, keys, st.integers(1, 40))
def test_skipped_bytes_are_cut_off_the_front(changes, begin, end, skip):
    rows = ListRows()
    long_keys = LongKeys(rows, row_key_bytes)
    apply(long_keys, {}, changes)
    for reverse in (False, True):
        whole = long_keys.scan(begin, end, 100, reverse=reverse)
        cut = long_keys.scan(begin, end, 100, reverse=reverse, skip=skip)
        assert cut == [(key[skip:], value) for key, value in whole]


def test_greatest_length_of_lmdb(environment):
    with environment.begin(write=True) as txn:
        long_keys = LongKeys(txn, environment.max_key_size())
        names = sorted(b"p" + b"x" * n for n in (1, 509, 510, 511, 3000, 16_384, 20_000))
        for name in names:
            long_keys.put(name, name)
        assert long_keys.scan(b"p", b"q", 100, reverse=False) == [(n, n) for n in names]
        for name in names:
            assert long_keys.get(name) == name
            long_keys.delete(name)
        assert long_keys.scan(b"p", b"q", 100, reverse=False) == []
        txn.abort()


def test_node_numbers_are_not_used_again():
    rows = ListRows()
    long_keys = LongKeys(rows, row_key_bytes)
    seen = set()
    for _ in range(5):
        long_keys.put(b"p" * 12, b"")
        seen.add(rows.get(b"p" * 9))
        long_keys.delete(b"p" * 12)
    assert len(seen) == 5


def test_a_pointer_lost_under_a_row_is_damage(monkeypatch):
    rows = ListRows()
    long_keys = LongKeys(rows, row_key_bytes)
    long_keys.put(b"p" * 12, b"")
    rows_delete = rows.delete

    def delete(key):
        rows_delete(b"p" * 9)
        return rows_delete(key)

    monkeypatch.setattr(rows, "delete", delete)
    with pytest.raises(DanglingPointer):
        long_keys.delete(b"p" * 12)
