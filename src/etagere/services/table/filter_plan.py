"""`$filter`: a tree to ranges of keys and what is left to test on the rows inside them.

Every condition on PartitionKey and RowKey is an area of the plane that the two span: rows of it are
intervals of partition keys, each with the intervals of row keys that it lets through.  Areas are
united and cut; what cannot be drawn (other properties, Timestamp) is the whole plane, whether
negated or not, so an area never leaves out an entity that matches.  An area is then read off as
ranges in the order of the store: a single partition with its intervals of row keys, or a run of
partitions whole.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from etagere.services.table.filter_match import (
    Predicate,
    comparisons_in,
    literal_last,
    predicate_of,
    reads_properties,
)
from etagere.services.table.filter_parse import (
    And,
    Compare,
    Condition,
    Family,
    Literal,
    Not,
    Operator,
    Or,
    Property,
    Truth,
)

pieces_max: Final = 1024
"""An area with more intervals of row keys than this is made coarser, and so are its ranges."""

Edge = tuple[int, str, int]
"""A place between texts: (0, text, 0) is right before the text, (0, text, 1) right after it."""
edge_first: Final[Edge] = (0, "", 0)
edge_last: Final[Edge] = (1, "", 0)

Interval = tuple[Edge, Edge]
"""From an edge to a later edge."""
_everything: Final[tuple[Interval, ...]] = ((edge_first, edge_last),)

Strip = tuple[Edge, Edge, tuple[Interval, ...]]
"""An interval of partition keys, and the intervals of row keys that are let through in it."""


@dataclass(frozen=True, slots=True)
class Area:
    """Strips in order, not overlapping.

    `exact` if every entity inside satisfies the condition; `coarse` if pieces were run together
    because there were too many, so that the area is not inside that of each conjunct either.
    """

    strips: tuple[Strip, ...]
    exact: bool = True
    coarse: bool = False


_nowhere: Final = Area(())
_anywhere: Final = Area(((edge_first, edge_last, _everything),))
_undrawn: Final = Area(((edge_first, edge_last, _everything),), exact=False)

Position = tuple[Edge, Edge]
"""A place between rows: the edges of a partition key and, inside its rows, of a row key."""
position_first: Final[Position] = (edge_first, edge_first)
position_last: Final[Position] = (edge_last, edge_first)


@dataclass(frozen=True, slots=True)
class KeyRange:
    begin: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranges in order, not overlapping, and the predicate that rows in them still have to meet."""

    ranges: tuple[KeyRange, ...]
    residual: Predicate | None
    residual_reads_properties: bool
    residual_comparisons: int = 0


whole_table: Final = Plan(
    (KeyRange(position_first, position_last),), None, residual_reads_properties=False
)


def before(partition_key: str, row_key: str) -> Position:
    return (0, partition_key, 0), (0, row_key, 0)


def after(partition_key: str, row_key: str) -> Position:
    return (0, partition_key, 0), (0, row_key, 1)


def after_partition(partition_key: str) -> Position:
    return (0, partition_key, 1), edge_first


def clip(ranges: tuple[KeyRange, ...], begin: Position, end: Position) -> tuple[KeyRange, ...]:
    """The parts of the ranges between two positions."""
    return tuple(
        KeyRange(max(r.begin, begin), min(r.end, end))
        for r in ranges
        if max(r.begin, begin) < min(r.end, end)
    )


def plan(condition: Condition | None) -> Plan:
    if condition is None:
        return whole_table
    area = _area(condition, negated=False)
    ranges, faithful = _ranges(area.strips)
    faithful = faithful and not area.coarse
    if area.exact and faithful:
        return Plan(ranges, None, residual_reads_properties=False)
    rest = _without_settled(condition) if faithful else condition
    return Plan(ranges, predicate_of(rest), reads_properties(rest), comparisons_in(rest))


def _without_settled(condition: Condition) -> Condition:
    """The condition without the conjuncts that the ranges alone make true.

    A conjunct drawn exactly holds on the whole area, since the area is cut with it.
    """
    if not isinstance(condition, And):
        return condition
    rest = tuple(c for c in condition.conditions if not _area(c, negated=False).exact)
    return rest[0] if len(rest) == 1 else And(rest)


def _area(condition: Condition, *, negated: bool) -> Area:
    match condition:
        case Compare():
            return _area_of_comparison(literal_last(condition), negated=negated)
        case Truth(Literal(Family.BOOLEAN, value)):
            return _anywhere if value != negated else _nowhere
        case Truth(Property("PartitionKey" | "RowKey")):  # text is not a condition that holds
            return _anywhere if negated else _nowhere
        case Truth():
            return _undrawn
        case Not(inner):
            return _area(inner, negated=not negated)
        case And(conditions) | Or(conditions):
            areas = [_area(each, negated=negated) for each in conditions]
            united = isinstance(condition, Or) != negated
            while len(areas) > 1:  # in pairs, so that the work grows as n log n
                paired = [
                    _combine(a, b, united=united)
                    for a, b in zip(areas[::2], areas[1::2], strict=False)
                ]
                areas = paired + areas[len(paired) * 2 :]
            return areas[0]


def _area_of_comparison(comparison: Compare, *, negated: bool) -> Area:
    match comparison:
        case Compare(relation, Property("PartitionKey" | "RowKey" as name), Literal() as literal):
            if literal.family is not Family.STRING:  # never satisfied
                return _anywhere if negated else _nowhere
            assert isinstance(literal.value, str)
            intervals = _intervals(_negations[relation] if negated else relation, literal.value)
            if name == "PartitionKey":
                return Area(tuple((begin, end, _everything) for begin, end in intervals))
            return Area(((edge_first, edge_last, intervals),) if intervals else ())
        case _:
            return _undrawn


_negations: Final = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
    Operator.GE: Operator.LT,
    Operator.LT: Operator.GE,
}
"""Keys are always there and always text, so a negated comparison is the opposite comparison."""


def _intervals(relation: Operator, text: str) -> tuple[Interval, ...]:
    left: Edge = (0, text, 0)
    right: Edge = (0, text, 1)
    drawn: tuple[Interval, ...]
    match relation:
        case Operator.EQ:
            drawn = ((left, right),)
        case Operator.NE:
            drawn = ((edge_first, left), (right, edge_last))
        case Operator.GT:
            drawn = ((right, edge_last),)
        case Operator.GE:
            drawn = ((left, edge_last),)
        case Operator.LT:
            drawn = ((edge_first, left),)
        case _:
            drawn = ((edge_first, right),)
    return tuple((begin, end) for begin, end in drawn if begin < end)


def _combine(a: Area, b: Area, *, united: bool) -> Area:
    """Sweep over the edges of both areas and combine the row intervals between each two."""
    edges = sorted({edge for strip in (*a.strips, *b.strips) for edge in strip[:2]})
    rows_of_a, rows_of_b = _Sweep(a.strips), _Sweep(b.strips)
    combine = _unite_intervals if united else _cut_intervals
    out: list[Strip] = []
    pieces = 0
    for begin, end in pairwise(edges):
        rows = combine(rows_of_a.at(begin), rows_of_b.at(begin))
        if not rows:
            continue
        if out and out[-1][1] == begin and out[-1][2] == rows and rows == _everything:
            out[-1] = (out[-1][0], end, rows)
            continue
        out.append((begin, end, rows))
        pieces += len(rows)
    exact, coarse = a.exact and b.exact, a.coarse or b.coarse
    if pieces > pieces_max:
        out = [(begin, end, ((rows[0][0], rows[-1][1]),)) for begin, end, rows in out]
        exact, coarse = False, True
    return Area(tuple(out), exact, coarse)


class _Sweep:
    """The row intervals of an area at one edge after another."""

    def __init__(self, strips: tuple[Strip, ...]) -> None:
        self._strips = strips
        self._at = 0

    def at(self, edge: Edge) -> tuple[Interval, ...]:
        strips = self._strips
        while self._at < len(strips) and strips[self._at][1] <= edge:
            self._at += 1
        if self._at < len(strips) and strips[self._at][0] <= edge:
            return strips[self._at][2]
        return ()


def _is_point(begin: Edge, end: Edge) -> bool:
    """Whether just one text lies between the edges."""
    return begin[1] == end[1] and begin[0] == end[0] and begin[2] < end[2]


def _unite_intervals(a: tuple[Interval, ...], b: tuple[Interval, ...]) -> tuple[Interval, ...]:
    if not a or not b or a == b:
        return a or b
    out: list[Interval] = []
    for begin, end in sorted((*a, *b)):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return tuple(out)


def _cut_intervals(a: tuple[Interval, ...], b: tuple[Interval, ...]) -> tuple[Interval, ...]:
    if a == _everything:
        return b
    if b == _everything:
        return a
    out: list[Interval] = []
    at_a = at_b = 0
    while at_a < len(a) and at_b < len(b):
        begin = max(a[at_a][0], b[at_b][0])
        end = min(a[at_a][1], b[at_b][1])
        if begin < end:
            out.append((begin, end))
        if a[at_a][1] <= b[at_b][1]:
            at_a += 1
        else:
            at_b += 1
    return tuple(out)


def _ranges(strips: tuple[Strip, ...]) -> tuple[tuple[KeyRange, ...], bool]:
    """The strips read off in the order of the store, and whether nothing else was taken in."""
    out: list[KeyRange] = []
    faithful = True
    for begin, end, rows in strips:
        if _is_point(begin, end):
            text = begin[1]
            for low, high in rows:
                last = after_partition(text) if high == edge_last else ((0, text, 0), high)
                out.append(KeyRange(((0, text, 0), low), last))
        else:
            faithful = faithful and rows == _everything
            out.append(KeyRange((begin, edge_first), (end, edge_first)))
    return _joined(out), faithful


def _joined(ranges: list[KeyRange]) -> tuple[KeyRange, ...]:
    """Neighbours that touch, as one."""
    out: list[KeyRange] = []
    for found in ranges:
        if out and out[-1].end == found.begin:
            out[-1] = KeyRange(out[-1].begin, found.end)
        else:
            out.append(found)
    return tuple(out)
