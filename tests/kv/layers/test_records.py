import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.kv.contract import StoreError
from etagere.kv.layers.records import Codec, DamagedRecord


class ThingV1(msgspec.Struct, array_like=True, frozen=True):
    name: str


class ThingV2(msgspec.Struct, array_like=True, frozen=True):
    name: str
    size: int


class Thing(msgspec.Struct, array_like=True, frozen=True):
    name: bytes
    size: int
    tags: dict[str, str] = {}


old = {
    1: (ThingV1, lambda thing: Thing(thing.name.encode(), 0)),
    2: (ThingV2, lambda thing: Thing(thing.name.encode(), thing.size)),
}
codec = Codec(3, Thing, old)


@given(
    st.builds(
        Thing, st.binary(), st.integers(-(2**63), 2**63), st.dictionaries(st.text(), st.text())
    )
)
def test_what_was_encoded_comes_back(thing):
    value = codec.encode(thing)
    assert value[0] == 3
    assert codec.decode(value) == thing


def test_every_older_version_is_read():
    assert codec.decode(Codec(1, ThingV1).encode(ThingV1("a"))) == Thing(b"a", 0)
    assert codec.decode(Codec(2, ThingV2).encode(ThingV2("a", 7))) == Thing(b"a", 7)


def test_a_field_added_at_the_end_has_its_default():
    assert codec.decode(b"\3" + msgspec.msgpack.encode([b"a", 1])) == Thing(b"a", 1)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda raw: b"\3" + raw))
def test_damage_is_named(value):
    with contextlib.suppress(DamagedRecord):
        assert isinstance(codec.decode(value), Thing)


@pytest.mark.parametrize(
    "value", [b"", b"\3", b"\4\x92\xc4\1a\1", b"\0", b"\3\xa1\xff", b"\2\xa1\xff"]
)
def test_damage(value):
    with pytest.raises(DamagedRecord) as damage:
        codec.decode(value)
    assert isinstance(damage.value, StoreError)
    assert damage.value.args[0] == "Thing"


def test_every_truncation_is_damage():
    value = codec.encode(Thing(b"name", 300, {"a": "b"}))
    for size in range(len(value)):
        with pytest.raises(DamagedRecord):
            codec.decode(value[:size])
