"""`$filter`: a tree to a predicate over one entity.

A comparison is not satisfied where the property is missing (`ne` neither) or of another family
than the literal; `not` turns whatever came out around.  Numbers compare with each other whatever
their widths.  Text compares by code point.
"""

import base64
import operator
from collections.abc import Callable
from typing import Final

from etagere.kernel.dates import parse_iso
from etagere.services.table import edm
from etagere.services.table.entity import Properties
from etagere.services.table.filter_parse import (
    And,
    Compare,
    Condition,
    Family,
    Literal,
    Not,
    Operand,
    Operator,
    Or,
    Property,
    Truth,
)

Predicate = Callable[[str, str, int, Properties], bool]
"""Takes partition key, row key, stamp and properties."""

Comparable = str | int | float | bool | bytes
_Typed = tuple[Family, Comparable]
_Reader = Callable[[str, str, int, Properties], _Typed | None]

_relations: Final[dict[Operator, Callable[[Comparable, Comparable], bool]]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
}

_mirrored: Final = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
}

system_names: Final = frozenset({"PartitionKey", "RowKey", "Timestamp"})


def literal_last(comparison: Compare) -> Compare:
    """`5 lt Age` as `Age gt 5`."""
    if isinstance(comparison.left, Literal) and isinstance(comparison.right, Property):
        return Compare(_mirrored[comparison.operator], comparison.right, comparison.left)
    return comparison


def predicate_of(condition: Condition) -> Predicate:
    match condition:
        case Compare():
            return _comparison(literal_last(condition))
        case Truth(operand):
            return _truth(operand)
        case Not(inner):
            negated = predicate_of(inner)
            return lambda pk, rk, stamp, own: not negated(pk, rk, stamp, own)
        case And(conditions):
            return _all(tuple(map(predicate_of, conditions)))
        case Or(conditions):
            return _any(tuple(map(predicate_of, conditions)))


def _all(predicates: tuple[Predicate, ...]) -> Predicate:
    def every(pk: str, rk: str, stamp: int, own: Properties) -> bool:
        for holds in predicates:  # noqa: SIM110 - a generator costs as much as the comparisons
            if not holds(pk, rk, stamp, own):
                return False
        return True

    return every


def _any(predicates: tuple[Predicate, ...]) -> Predicate:
    def some(pk: str, rk: str, stamp: int, own: Properties) -> bool:
        for holds in predicates:  # noqa: SIM110 - as above
            if holds(pk, rk, stamp, own):
                return True
        return False

    return some


def reads_properties(condition: Condition) -> bool:
    """Whether the condition looks at anything but the keys and the Timestamp."""
    match condition:
        case Compare(_, left, right):
            return any(_is_own(operand) for operand in (left, right))
        case Truth(operand):
            return _is_own(operand)
        case Not(inner):
            return reads_properties(inner)
        case And(conditions) | Or(conditions):
            return any(map(reads_properties, conditions))


def comparisons_in(condition: Condition) -> int:
    """How many there are to make for one entity, at most."""
    match condition:
        case Not(inner):
            return comparisons_in(inner)
        case And(conditions) | Or(conditions):
            return sum(map(comparisons_in, conditions))
        case _:
            return 1


def _is_own(operand: Operand) -> bool:
    return isinstance(operand, Property) and operand.name not in system_names


def _comparison(comparison: Compare) -> Predicate:
    left, right = comparison.left, comparison.right
    relation = _relations[comparison.operator]
    if isinstance(left, Property) and isinstance(right, Literal):
        if left.name in system_names:
            return _system_comparison(left.name, relation, right)
        if right.family is Family.STRING:
            return _string_comparison(left.name, relation, right.value)
        if right.family is Family.NUMBER:
            return _number_comparison(left.name, relation, right.value)
    return _general_comparison(_reader(left), relation, _reader(right))


def _system_comparison(
    name: str, relation: Callable[[Comparable, Comparable], bool], literal: Literal
) -> Predicate:
    value = literal.value
    family = Family.DATETIME if name == "Timestamp" else Family.STRING
    if literal.family is not family:
        return _never
    if name == "PartitionKey":
        return lambda pk, _rk, _stamp, _own: relation(pk, value)
    if name == "RowKey":
        return lambda _pk, rk, _stamp, _own: relation(rk, value)
    return lambda _pk, _rk, stamp, _own: relation(stamp, value)


def _never(_pk: str, _rk: str, _stamp: int, _own: Properties) -> bool:
    return False


def _string_comparison(
    name: str, relation: Callable[[Comparable, Comparable], bool], text: Comparable
) -> Predicate:
    annotation = name + edm.annotation_suffix

    def holds(_pk: str, _rk: str, _stamp: int, own: Properties) -> bool:
        value = own.get(name)
        return type(value) is str and annotation not in own and relation(value, text)

    return holds


def _number_comparison(
    name: str, relation: Callable[[Comparable, Comparable], bool], number: Comparable
) -> Predicate:
    annotation = name + edm.annotation_suffix

    def holds(_pk: str, _rk: str, _stamp: int, own: Properties) -> bool:
        value = own.get(name)
        kind = type(value)
        if kind is str:
            type_name = own.get(annotation)
            if type_name == edm.int64:
                return relation(int(value), number)  # type: ignore[arg-type]  # a str by `kind`
            if type_name == edm.double:
                return relation(float(value), number)  # type: ignore[arg-type]  # same
            return False
        return (kind is int or kind is float) and relation(value, number)  # type: ignore[arg-type]

    return holds


def _general_comparison(
    left: _Reader, relation: Callable[[Comparable, Comparable], bool], right: _Reader
) -> Predicate:
    def holds(pk: str, rk: str, stamp: int, own: Properties) -> bool:
        a = left(pk, rk, stamp, own)
        b = right(pk, rk, stamp, own)
        return a is not None and b is not None and a[0] is b[0] and relation(a[1], b[1])

    return holds


def _truth(operand: Operand) -> Predicate:
    read = _reader(operand)
    holds = (Family.BOOLEAN, True)
    return lambda pk, rk, stamp, own: read(pk, rk, stamp, own) == holds


def _reader(operand: Operand) -> _Reader:
    if isinstance(operand, Literal):
        constant = (operand.family, operand.value)
        return lambda _pk, _rk, _stamp, _own: constant
    match operand.name:
        case "PartitionKey":
            return lambda pk, _rk, _stamp, _own: (Family.STRING, pk)
        case "RowKey":
            return lambda _pk, rk, _stamp, _own: (Family.STRING, rk)
        case "Timestamp":
            return lambda _pk, _rk, stamp, _own: (Family.DATETIME, stamp)
        case name:
            return lambda _pk, _rk, _stamp, own: typed(own, name)


def typed(own: Properties, name: str) -> _Typed | None:
    """A property as something to compare, or nothing where the entity has none of that name."""
    value = own.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        return (Family.BOOLEAN if isinstance(value, bool) else Family.NUMBER), value
    match own.get(name + edm.annotation_suffix):
        case edm.int64:
            return Family.NUMBER, int(value)
        case edm.double:
            return Family.NUMBER, float(value)
        case edm.datetime:
            moment = parse_iso(value)
            assert moment is not None
            return Family.DATETIME, moment
        case edm.guid:
            return Family.GUID, value
        case edm.binary:
            return Family.BINARY, base64.b64decode(value)
        case _:
            return Family.STRING, value
