"""Generated filters and entities, and the plainest evaluation of the one over the other.

The evaluation shares nothing with the code under test: it works on generated values, never on
parsed text.
"""

import base64
import operator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isnan

from hypothesis import strategies as st

Typed = tuple[str, object]
"""A family and a value that Python compares as the service does."""


@dataclass(frozen=True)
class Entity:
    partition_key: str
    row_key: str
    stamp: int
    values: dict[str, Typed]
    members: dict[str, object]
    """The same values as JSON members with annotations."""


_relations = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}

_epoch = datetime(1970, 1, 1, tzinfo=UTC)
keys = st.sampled_from(["", "a", "aa", "ab", "b", "b'c", "ba", "c", "é", "\U0001f600", "A", " "])
names = st.sampled_from(["Age", "Name", "Flag", "When", "_x", "été"])
# Some texts are what values of other types are stored as.
texts = st.sampled_from(
    ["", "a", "ab", "it's", "''", "é", "z", "1", "-1", "true", "NaN", "AAE=",
     "1970-01-01T00:00:00Z", "00000001-aaaa-bbbb-cccc-000000000001"]
)  # fmt: skip
integers = st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31), 7])
longs = st.integers(-1, 1) | st.sampled_from([2**63 - 1, -(2**63), 2**53, 2**53 + 1])
doubles = st.sampled_from(
    [0.0, 1.0, -1.0, 2.5, 1e100, -2.5e-7, float("nan"), float("inf"), float("-inf"), 2.0**53]
)
ticks = st.sampled_from([0, 1, 10, 10_000_000, 15_000_000, -1, -116_444_736_000_000_000])
guids = st.sampled_from([f"0000000{n}-aaaa-bbbb-cccc-00000000000{n}" for n in range(4)])
blobs = st.sampled_from([b"", b"\0", b"\xff", b"\x00\x01", b"abc"])


def iso(moment: int) -> str:
    whole, fraction = divmod(moment, 10_000_000)
    text = (_epoch + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{fraction:07d}Z" if fraction else f"{text}Z"


def _named(number: float) -> object:
    if isnan(number):
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


_values = st.one_of(
    st.tuples(st.just("string"), texts),
    st.tuples(st.just("int32"), integers),
    st.tuples(st.just("int64"), longs),
    st.tuples(st.just("double"), doubles),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("datetime"), ticks),
    st.tuples(st.just("guid"), guids),
    st.tuples(st.just("binary"), blobs),
)


def _members(name: str, kind: str, value: object) -> dict[str, object]:
    annotation = f"{name}@odata.type"
    match kind:
        case "int64":
            return {annotation: "Edm.Int64", name: str(value)}
        case "double":
            assert isinstance(value, float)
            return {annotation: "Edm.Double", name: _named(value)}
        case "datetime":
            assert isinstance(value, int)
            return {annotation: "Edm.DateTime", name: iso(value)}
        case "guid":
            return {annotation: "Edm.Guid", name: value}
        case "binary":
            assert isinstance(value, bytes)
            return {annotation: "Edm.Binary", name: base64.b64encode(value).decode()}
        case _:
            return {name: value}


_family = {"int32": "number", "int64": "number", "double": "number"}


@st.composite
def entities(draw: st.DrawFn) -> Entity:
    chosen = draw(st.dictionaries(names, _values, max_size=6))
    members: dict[str, object] = {}
    for name, (kind, value) in chosen.items():
        members |= _members(name, kind, value)
    return Entity(
        draw(keys),
        draw(keys),
        draw(st.sampled_from([1, 2, 3, 10_000_000])),
        {name: (_family.get(kind, kind), value) for name, (kind, value) in chosen.items()},
        members,
    )


@dataclass(frozen=True)
class Expression:
    text: str
    tight: bool
    """Whether it stands as an operand of `and`, `or` and `not` without parentheses."""
    holds: "object"

    def matches(self, entity: Entity) -> bool:
        return self.holds(entity)  # type: ignore[operator]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def _literals(draw: st.DrawFn) -> tuple[str, Typed]:
    kind, value = draw(_values)
    match kind:
        case "string":
            return _quoted(value), ("string", value)
        case "int32":
            return str(value), ("number", value)
        case "int64":
            return f"{value}{draw(st.sampled_from(['L', 'l']))}", ("number", value)
        case "double":
            return str(_named(value)), ("number", value)
        case "boolean":
            return str(value).lower(), ("boolean", value)
        case "datetime":
            return f"datetime'{iso(value)}'", ("datetime", value)
        case "guid":
            spelt = value.upper() if draw(st.booleans()) else value
            return f"guid'{spelt}'", ("guid", value)
        case _:
            prefix = draw(st.sampled_from(["X", "binary"]))
            return f"{prefix}'{value.hex()}'", ("binary", value)


@st.composite
def _key_literals(draw: st.DrawFn) -> tuple[str, Typed]:
    value = draw(keys)
    return _quoted(value), ("string", value)


def _value_of(entity: Entity, name: str) -> Typed | None:
    match name:
        case "PartitionKey":
            return "string", entity.partition_key
        case "RowKey":
            return "string", entity.row_key
        case "Timestamp":
            return "datetime", entity.stamp
        case _:
            return entity.values.get(name)


def _compare(relation: str, a: Typed | None, b: Typed | None) -> bool:
    if a is None or b is None or a[0] != b[0]:
        return False
    return bool(_relations[relation](a[1], b[1]))


@st.composite
def _comparisons(draw: st.DrawFn) -> Expression:
    if draw(st.booleans()):
        name = draw(st.sampled_from(["PartitionKey", "RowKey"]))
        text, literal = draw(st.one_of(_key_literals(), _key_literals(), _literals()))
    else:
        name = draw(st.one_of(names, st.just("Timestamp")))
        text, literal = draw(_literals())
    relation = draw(st.sampled_from(sorted(_relations)))
    if draw(st.integers(0, 4)) == 0:
        return Expression(
            f"{text} {relation} {name}",
            True,
            lambda e: _compare(relation, literal, _value_of(e, name)),
        )
    return Expression(
        f"{name} {relation} {text}",
        True,
        lambda e: _compare(relation, _value_of(e, name), literal),
    )


@st.composite
def _property_pairs(draw: st.DrawFn) -> Expression:
    every = st.one_of(names, st.sampled_from(["PartitionKey", "RowKey", "Timestamp"]))
    a, b = draw(every), draw(every)
    relation = draw(st.sampled_from(sorted(_relations)))
    return Expression(
        f"{a} {relation} {b}",
        True,
        lambda e: _compare(relation, _value_of(e, a), _value_of(e, b)),
    )


@st.composite
def _truths(draw: st.DrawFn) -> Expression:
    word = draw(st.one_of(names, st.sampled_from(["true", "false", "PartitionKey"])))
    if word in ("true", "false"):
        return Expression(word, True, lambda _e: word == "true")
    return Expression(word, True, lambda e: _value_of(e, word) == ("boolean", True))


def _wrapped(expression: Expression, always: bool) -> str:
    return expression.text if expression.tight and not always else f"({expression.text})"


@st.composite
def _joined(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
    parts = draw(st.lists(inner, min_size=2, max_size=4))
    word = draw(st.sampled_from(["and", "or"]))
    text = f" {word} ".join(_wrapped(part, draw(st.booleans())) for part in parts)
    quantifier = all if word == "and" else any
    return Expression(text, False, lambda e: quantifier(part.matches(e) for part in parts))


@st.composite
def _negated(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
    part = draw(inner)
    return Expression(
        f"not {_wrapped(part, draw(st.booleans()))}", True, lambda e: not part.matches(e)
    )


expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(_comparisons(), _comparisons(), _property_pairs(), _truths()),
    lambda inner: st.one_of(_joined(inner), _negated(inner)),
    max_leaves=8,
)
