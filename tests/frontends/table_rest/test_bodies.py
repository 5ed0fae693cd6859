"""Bodies of entities: refused or read, the same whether they are usual or not."""

import json
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.table_rest import bodies, decode
from etagere.frontends.table_rest.bodies import EntityReader, sightings_wanted
from etagere.services.table import entity
from etagere.services.table.entity import read_members
from etagere.services.table.shape import Sent


def _refusal(call) -> str:
    with pytest.raises(Refused) as refusal:
        call()
    return refusal.value.code


def _read(body: bytes) -> Sent:
    return EntityReader().read(body)


def _taught(body: bytes) -> EntityReader:
    """A reader that has seen a body often enough to have its shape."""
    reader = EntityReader()
    for _ in range(sightings_wanted):
        reader.read(body)
    return reader


def test_an_entity():
    sent = _read(
        b'\xef\xbb\xbf {"PartitionKey":"p","RowKey":"r",'
        b'"n@odata.type":"Edm.Int64","n":"5","x":1.0}\n'
    )
    assert sent == Sent("p", "r", b'"n@odata.type":"Edm.Int64","n":"5","x":1.0')
    assert _read(b"{}") == Sent(None, None, b"")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "InvalidInput"),
        (b"{", "InvalidInput"),
        (b"[]", "InvalidInput"),
        (b"[[]]", "InvalidInput"),
        (b"5", "InvalidInput"),
        (b"null", "InvalidInput"),
        (b'"x"', "InvalidInput"),
        (b"{} {}", "InvalidInput"),
        (b"{'a':1}", "InvalidInput"),
        (b'{"a":NaN}', "InvalidInput"),
        (b'{"a":Infinity}', "InvalidInput"),
        (b'{"a":1e999}', "InvalidInput"),
        (b'{"a":01}', "InvalidInput"),
        (b'{"a":"\xff"}', "InvalidInput"),
        (b'{"a":"\n"}', "InvalidInput"),
        (b'{"a":' + b"9" * 10_000 + b"}", "InvalidInput"),
        (b'{"a":' + b"[" * 100_000 + b"}", "InvalidInput"),
        (b"{" * 100_000, "InvalidInput"),
        (b'{"a":{}}', "InvalidInput"),
        (b'{"a":{"b":1}}', "InvalidInput"),
        (b'{"a":[1]}', "InvalidInput"),
        (b'{"a":"\\ud800"}', "InvalidInput"),
        (b'{"a":1,"a":1}', "DuplicatePropertiesSpecified"),
        (b'{"a":1,"\\u0061":1}', "DuplicatePropertiesSpecified"),
        (b'{"a" :1,"a":1}', "DuplicatePropertiesSpecified"),
        (b'{"a":{"b":1,"b":1}}', "InvalidInput"),
    ],
)
def test_bodies_that_are_refused(body: bytes, code: str):
    reader = EntityReader()
    for _ in range(sightings_wanted + 1):
        assert _refusal(lambda: reader.read(body)) == code


@given(st.binary() | st.text().map(str.encode))
@settings(max_examples=300)
def test_any_body_is_read_or_refused(body: bytes):
    try:
        _read(body)
    except Refused:
        return


# The short ways against the long one -------------------------------------------------------------

_names = st.sampled_from(
    ["PartitionKey", "RowKey", "Timestamp", "a", "b", "c", "été", "a-b", "odata.etag", "",
     "x" * 256]
)  # fmt: skip
_annotations = st.sampled_from(
    ["a@odata.type", "b@odata.type", "PartitionKey@odata.type", "Timestamp@odata.type", "a@x",
     "@odata.type", "z@odata.type"]
)  # fmt: skip
_values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**33), 2**33), st.floats(allow_nan=False), st.text(),
    st.sampled_from(["5", "-0", "2021-06-17T17:32:46.5000000Z", "NaN", ":x", " x", '"', "\\",
                     "c9da6455-213d-42c9-9a79-3e9149a57833", "AAA=", -0.0, 0.0, [], {}, {"a": 1},
                     "\ud800", 1e300]),
)  # fmt: skip
_types = st.sampled_from(
    ["Edm.String", "Edm.Int64", "Edm.Double", "Edm.DateTime", "Edm.Guid", "Edm.Binary", "Edm.Int32",
     "Edm.Boolean", "Edm.Other", 5, None]
)  # fmt: skip
_pairs = st.lists(st.tuples(_names, _values) | st.tuples(_annotations, _types), max_size=8)
_spacings = st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",\n", ":\t")])


def _written(
    pairs: list[tuple[str, object]], comma: str, colon: str, *, ascii_only: bool = False
) -> bytes:
    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=(comma, colon))

    inner = comma.join(f"{text(name)}{colon}{text(value)}" for name, value in pairs)
    return ("{" + inner + "}").encode("utf-8", "surrogatepass")


def _outcome(read):
    """What is comparable: neither the order of properties nor which refusal comes first is said."""
    try:
        found = read()
    except Refused:
        return "refused"
    own = entity.decode(found.fragment)
    names = list(own)
    for name in names:
        if "@" in name:
            assert names[names.index(name) + 1] == name.partition("@")[0]
    keys = found.partition_key, found.row_key
    return keys, own, {name: repr(value) for name, value in own.items()}


def _long_way(body: bytes):
    found = read_members(decode.members(body))
    return Sent(found.partition_key, found.row_key, entity.encode(found.properties))


@given(_pairs, _spacings, st.booleans())
@settings(max_examples=800)
def test_a_body_that_was_not_seen_before(
    pairs: list[tuple[str, object]], spacing: tuple[str, str], ascii_only: bool
):
    body = _written(pairs, *spacing, ascii_only=ascii_only)
    assert _outcome(lambda: _read(body)) == _outcome(lambda: _long_way(body))


_typed: dict[str, st.SearchStrategy[object]] = {
    "": st.text(max_size=9) | st.integers(-(2**33), 2**33) | st.floats() | st.booleans()
    | st.none() | st.sampled_from([":x", " x", '"', "\\", "\\u0061", -0.0, "0Z", "\n", []]),
    "Edm.String": st.text(max_size=9) | st.integers(),
    "Edm.Int32": st.integers(-(2**31) - 2, 2**31) | st.just("5"),
    "Edm.Int64": st.integers(-(2**63) - 1, 2**63).map(str) | st.sampled_from(["-0", "05", "5\n"]),
    "Edm.Double": st.floats() | st.integers() | st.sampled_from(["NaN", "Infinity", "x"]),
    "Edm.Boolean": st.booleans() | st.just("true"),
    "Edm.DateTime": st.datetimes().map(lambda d: d.isoformat() + "Z")
    | st.sampled_from(["2021-02-29T00:00:00Z", "2020-02-29T00:00:00.100Z", "2021-06-17T17:32:40Z",
                       "1600-12-31T23:59:59Z", "1601-01-01T00:00:00.0000000Z", "2021-04-31T00:00Z",
                       "2021-01-01T00:00:00.000Z", "2021-01-01T01:00:00.5+01:00", "x\n"]),
    "Edm.Guid": st.uuids().map(str) | st.uuids().map(lambda u: str(u).upper()),
    "Edm.Binary": st.binary(max_size=5).map(lambda b: __import__("base64").b64encode(b).decode())
    | st.sampled_from(["AAB=", "AA==", "AB==", "A", "AA=", "A A="]),
}  # fmt: skip


@st.composite
def _shaped(draw: st.DrawFn) -> tuple[list[tuple[str, str]], bool]:
    """Names with their types, and whether annotations come before values."""
    types = draw(st.lists(st.sampled_from(sorted(_typed)), min_size=0, max_size=5))
    return [(f"n{n}", kind) for n, kind in enumerate(types)], draw(st.booleans())


_samples = {
    "": 5, "Edm.String": "x", "Edm.Int32": 5, "Edm.Int64": "5", "Edm.Double": 1.5,
    "Edm.Boolean": True, "Edm.DateTime": "2021-06-17T17:32:46Z",
    "Edm.Guid": "c9da6455-213d-42c9-9a79-3e9149a57833", "Edm.Binary": "AAA=",
}  # fmt: skip


def _members(
    shape: list[tuple[str, str]], annotation_first: bool, values: list[object]
) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [("PartitionKey", "p"), ("RowKey", "r")]
    for (name, kind), value in zip(shape, values, strict=True):
        own: list[tuple[str, object]] = [(name, value)]
        if kind:
            own.insert(0 if annotation_first else 1, (f"{name}@odata.type", kind))
        pairs += own
    return pairs


@given(st.data(), _shaped(), _spacings, st.booleans())
@settings(max_examples=800, deadline=None)
def test_a_body_like_those_before(
    data: st.DataObject, shaped, spacing: tuple[str, str], ascii_only: bool
):
    shape, first = shaped
    reader = _taught(_written(_members(shape, first, [_samples[k] for _, k in shape]), ",", ":"))
    assert reader._shapes
    for _ in range(3):
        values = [
            data.draw(st.just(_samples[kind]) | _typed[kind], label=name) for name, kind in shape
        ]
        pairs = _members(shape, first, values)
        match data.draw(st.integers(0, 5)):
            case 0:
                pairs.append(data.draw(st.sampled_from(pairs)))
            case 1:
                pairs.remove(data.draw(st.sampled_from(pairs)))
            case 2:
                pairs = data.draw(st.permutations(pairs))
            case 3:
                pairs.append((data.draw(_names), data.draw(_values)))
        body = _written(pairs, *spacing, ascii_only=ascii_only)
        if data.draw(st.booleans()):
            body = body.replace(b'"n0":', b'"n0" :', 1)
        assert _outcome(lambda body=body: reader.read(body)) == _outcome(
            lambda body=body: _long_way(body)
        ), body


_fitting: dict[str, st.SearchStrategy[object]] = {
    "": st.sampled_from([5, "x", 1.5, True, ":-0.0", "\n", "é", 0.0]),
    "Edm.String": st.text(max_size=9),
    "Edm.Int32": st.integers(-(2**31), 2**31 - 1),
    "Edm.Int64": st.integers(0, 10**9).map(str),
    "Edm.Double": st.floats(-9, 9) | st.just(-0.0),
    "Edm.Boolean": st.booleans(),
    "Edm.DateTime": st.sampled_from(["2021-06-17T17:32:40Z", "2021-06-17T17:32:46.500Z"]),
    "Edm.Guid": st.uuids().map(str),
    "Edm.Binary": st.sampled_from(["", "AAA=", "AAAA"]),
}


@given(st.data(), _shaped(), _spacings, st.booleans(), st.booleans())
@settings(max_examples=800)
def test_bodies_that_are_read_all_at_once(
    data: st.DataObject, shaped, spacing: tuple[str, str], ascii_only: bool, fit: bool
):
    shape, first = shaped
    reader = _taught(_written(_members(shape, first, [_samples[k] for _, k in shape]), ",", ":"))
    sent = []
    for number in range(data.draw(st.integers(1, 3))):
        values = [data.draw(_fitting[kind]) for _, kind in shape]
        if values and not (fit or data.draw(st.booleans())):
            at = data.draw(st.integers(0, len(values) - 1))
            values[at] = data.draw(_typed[shape[at][1]] | st.just("x" * 33_000))
        pairs = _members(shape, first, values)
        pairs[1] = ("RowKey", data.draw(st.sampled_from([str(number), "0", 'é"😀', "\\"])))
        if not fit and data.draw(st.booleans()):
            pairs[0] = ("PartitionKey", data.draw(st.sampled_from(["p", "q", 5])))
            pairs.append(data.draw(st.sampled_from([*pairs, ("a", 1)])))
        sent.append(_written(pairs, *spacing, ascii_only=ascii_only))
    found = reader.read_alike(sent)
    if found is None:
        return
    assert [
        (found.partition_key, *each) for each in zip(found.row_keys, found.fragments, strict=True)
    ] == [
        (one.partition_key, one.row_key, one.fragment) for one in map(_taught(sent[0]).read, sent)
    ]


_plain_body = b'{"PartitionKey":"p","RowKey":"1","n":"5","n@odata.type":"Edm.Int64"}'


@pytest.mark.parametrize(
    "sent",
    [
        [b"", _plain_body + b"\n" + _plain_body],
        [_plain_body[:-1] + b"," + _plain_body[1:], b""],
        [_plain_body + b"\r", _plain_body],
        [_plain_body.replace(b"5", b"5\\n6"), _plain_body.replace(b"5", b"7\\n8")],
        [_plain_body[:-1] + b"," + _plain_body[1:], _plain_body],
        [_plain_body, _plain_body.replace(b'"p"', b'"q"')],
        [_plain_body, _plain_body.replace(b"5", b"-0")],
        [_plain_body, _plain_body.replace(b"5", b"\xff")],
        [_plain_body + b",", _plain_body],
        [_plain_body + _plain_body, b""],
        [_plain_body[:34], _plain_body[34:] + _plain_body],
    ],
)
def test_bodies_that_are_to_be_read_one_by_one(sent: list[bytes]):
    reader = _taught(_plain_body)
    (shape,) = reader._shapes
    assert shape.read_alike([_plain_body, _plain_body.replace(b'"1"', b'"2"')]) is not None
    assert shape.read_alike(sent) is None


def test_texts_that_may_be_too_long_are_looked_at_one_by_one():
    body = b'{"PartitionKey":"p","RowKey":"r","a":"%b"}'
    reader = _taught(body % b"x")
    assert reader.read_alike([body % b"x", body % (b"x" * 15_000)]) is not None
    assert reader.read_alike([body % b"x", body % (b"x" * 33_000)]) is None
    assert reader.read_alike([body % b"x", body % ("\u00e9".encode() * 16_000)]) is not None


_sdk_bodies = {
    "compact": (
        '{"PartitionKey":"p","RowKey":"%s","name":"x","age":5,"ratio":1.5,"yes":true,'
        '"when@odata.type":"Edm.DateTime","when":"2021-06-17T17:32:46.777543Z",'
        '"big@odata.type":"Edm.Int64","big":"5","raw@odata.type":"Edm.Binary","raw":"AAA="}'
    ),
    "python": (
        '{"PartitionKey": "p", "PartitionKey@odata.type": "Edm.String", "RowKey": "%s", '
        '"RowKey@odata.type": "Edm.String", "name": "x\\u00e9", "name@odata.type": "Edm.String", '
        '"age": 5, "big": "5", "big@odata.type": "Edm.Int64", "when": "2026-11-19T06:19:42.1025Z", '
        '"when@odata.type": "Edm.DateTime", "id": "ae5984de-ad2a-42f3-981d-825d53441fbf", '
        '"id@odata.type": "Edm.Guid", "f": 1.5, "f@odata.type": "Edm.Double", "b": true}'
    ),
    "javascript": (
        '\r\n{"PartitionKey":"p","RowKey":"%s","name":"x\u00e9","age":5,"big":"5",'
        '"big@odata.type":"Edm.Int64","d":"2026-11-19T06:19:47.500Z",'
        '"d@odata.type":"Edm.DateTime","f":1.5,"b":true}\r\n'
    ),
}


@pytest.mark.parametrize("text", _sdk_bodies.values(), ids=_sdk_bodies)
def test_what_sdks_send_is_read_in_one_step(text: str, monkeypatch: pytest.MonkeyPatch):
    reader = _taught((text % "r").encode())
    monkeypatch.setattr(bodies, "read_members", None)
    for row_key in ("r", "1", "00é-😀"):
        body = (text % row_key).encode()
        found = reader.read(body)
        assert found.row_key == row_key
        assert _outcome(lambda found=found: found) == _outcome(lambda body=body: _long_way(body))
        if not body.startswith(b"\r\n"):  # which is taken off with the operation's head
            together = reader.read_alike([body, body])
            assert together is not None
            assert together.row_keys == [row_key, row_key]
            assert together.fragments == [found.fragment, found.fragment]


def _of(name: str) -> bytes:
    return b'{"PartitionKey":"p","RowKey":"r","%b":1}' % name.encode()


def test_a_shape_gives_way_to_others_that_come_later():
    reader = EntityReader()
    for number in range(bodies.shapes_tried + 1):
        for _ in range(bodies.sightings_wanted):
            assert reader.read(_of(f"a{number}")) == Sent("p", "r", b'"a%d":1' % number)
    assert len(reader._shapes) == bodies.shapes_tried
    assert all(shape.read(_of("a0")) is None for shape in reader._shapes)
    assert reader._shapes[0].read(_of(f"a{bodies.shapes_tried}")) is not None
    assert reader.read(_of("a0")) == Sent("p", "r", b'"a0":1')


def test_bodies_of_several_shapes_in_turn_are_read_in_one_step(monkeypatch: pytest.MonkeyPatch):
    names = [f"a{number}" for number in range(bodies.shapes_tried)]
    reader = EntityReader()
    for _ in range(sightings_wanted):
        for name in names:
            reader.read(_of(name))
    monkeypatch.setattr(bodies, "read_members", None)
    for name in names:
        sent = Sent("p", "r", b'"%b":1' % name.encode())
        assert reader.read(_of(name)) == sent
        together = reader.read_alike([_of(name), _of(name)])
        assert together is not None
        assert together.fragments == [sent.fragment, sent.fragment]
    together = reader.read_alike([_of(name) for name in names])
    assert together is not None
    assert together.fragments == [b'"%b":1' % name.encode() for name in names]


@pytest.mark.parametrize("body", [b'{"PartitionKey":"p"}', b'{"RowKey":"r"}', b"{}", b"[]"])
def test_bodies_without_keys_are_none_of_one_partition(body: bytes):
    assert EntityReader().read_alike([_of("a"), body]) is None
    assert EntityReader().read_alike([body, _of("a")]) is None


def test_a_shape_is_known_once_however_many_bodies_do_not_fit_it():
    reader = _taught(_of("a"))
    (shape,) = reader._shapes
    for _ in range(3 * sightings_wanted):
        reader.read(b'{"PartitionKey":"p","RowKey":"r","a":null}')
    assert reader._shapes == [shape]


def test_a_table_of_ever_new_shapes_does_not_fill_the_memory():
    reader = EntityReader()
    for number in range(100):
        reader.read(_of(f"a{number}"))
        assert len(reader._sightings) <= bodies.signatures_noticed
    assert not reader._shapes


def test_every_day_of_some_years_takes_the_short_way():
    text = b'{"PartitionKey":"p","RowKey":"r","d@odata.type":"Edm.DateTime","d":"%bT00:00:00Z"}'
    reader = _taught(text % b"2021-06-17")
    (shape,) = reader._shapes
    for year in (1601, 1900, 2000, 2023, 2024, 9999):
        day = date(year, 1, 1)
        while day.year == year:
            body = text % day.isoformat().encode()
            found = shape.read(body)
            assert (found is None) == ((day.month, day.day) == (2, 29))
            assert reader.read(body) == _long_way(body)
            if day == date.max:
                break
            day += timedelta(days=1)
