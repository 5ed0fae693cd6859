"""Which bytes of a page blob or file were written, and where each is kept.

A map is a row of pieces, in order, none empty, none overlapping.  A piece carries a value that
holds for each of its bytes alike, so that cutting a piece copies the value and neighbours with
equal values are one piece.  Content kept elsewhere is `Placed`, whose shift does not change when a
piece is cut; a map that only notes what was written has None everywhere.

`overwrite` and `clear` work out what becomes of the pieces around a change, for maps whose pieces
are rows of the store; `RangeMap` applies them to pieces in memory.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class Piece(NamedTuple, Generic[V]):
    """The bytes [start, end)."""

    start: int
    end: int
    value: V


class Placed(NamedTuple, Generic[V]):
    """The byte at `position` is the one at `position + shift` of what `source` names."""

    source: V
    shift: int


class Splice(NamedTuple, Generic[V]):
    """What a change removes from a map, and what it puts there instead."""

    removed: list[Piece[V]]
    added: list[Piece[V]]


class Run(NamedTuple):
    """The bytes [start, end), whatever they carry."""

    start: int
    end: int


class Change(NamedTuple):
    """The bytes [start, end) were written or, where there is nothing any more, cleared."""

    start: int
    end: int
    cleared: bool


def overwrite(near: Sequence[Piece[V]], start: int, end: int, value: V) -> Splice[V]:
    """Write [start, end); `near` are the pieces that overlap it or border on it, in order."""
    assert start < end
    removed: list[Piece[V]] = []
    before: list[Piece[V]] = []
    after: list[Piece[V]] = []
    for piece in near:
        if piece.value == value:
            if piece.start <= start and end <= piece.end:
                return Splice([], [])  # it says so already
            start, end = min(start, piece.start), max(end, piece.end)
        elif piece.end <= start or end <= piece.start:
            continue
        else:
            if piece.start < start:
                before.append(Piece(piece.start, start, piece.value))
            if end < piece.end:
                after.append(Piece(end, piece.end, piece.value))
        removed.append(piece)
    return Splice(removed, [*before, Piece(start, end, value), *after])


def clear(near: Sequence[Piece[V]], start: int, end: int) -> Splice[V]:
    """Clear [start, end); `near` are the pieces that overlap it, in order."""
    assert start < end
    removed: list[Piece[V]] = []
    added: list[Piece[V]] = []
    for piece in near:
        if piece.end <= start or end <= piece.start:
            continue
        removed.append(piece)
        if piece.start < start:
            added.append(Piece(piece.start, start, piece.value))
        if end < piece.end:
            added.append(Piece(end, piece.end, piece.value))
    return Splice(removed, added)


def clip(pieces: Iterable[Piece[V]], start: int, end: int) -> Iterator[Piece[V]]:
    """The parts of pieces that lie in [start, end)."""
    for piece in pieces:
        first, last = max(piece.start, start), min(piece.end, end)
        if first < last:
            yield Piece(first, last, piece.value)


def runs(pieces: Iterable[Piece[V]]) -> Iterator[Run]:
    """The ranges that pieces cover, neighbours joined, as Get Page Ranges shows them."""
    start = end = -1
    for piece in pieces:
        if piece.start == end:
            end = piece.end
            continue
        if end > start:
            yield Run(start, end)
        start, end = piece.start, piece.end
    if end > start:
        yield Run(start, end)


def diff(old: Iterable[Piece[V]], new: Iterable[Piece[V]]) -> Iterator[Change]:
    """Where `new` differs from `old`, neighbours joined.

    Bytes differ when their values do: one written again counts as changed, whatever was written.
    """
    pending: Change | None = None
    for start, end, cleared in _differences(iter(old), iter(new)):
        if pending is not None and pending.end == start and pending.cleared == cleared:
            pending = Change(pending.start, end, cleared)
            continue
        if pending is not None:
            yield pending
        pending = Change(start, end, cleared)
    if pending is not None:
        yield pending


def _differences(old: Iterator[Piece[V]], new: Iterator[Piece[V]]) -> Iterator[Change]:
    before, after = next(old, None), next(new, None)
    while before is not None or after is not None:
        if after is None or (before is not None and before.end <= after.start):
            assert before is not None
            yield Change(before.start, before.end, cleared=True)
            before = next(old, None)
        elif before is None or after.end <= before.start:
            yield Change(after.start, after.end, cleared=False)
            after = next(new, None)
        else:
            # They overlap: what sticks out in front, the common part, and on with what remains.
            common, end = max(before.start, after.start), min(before.end, after.end)
            if before.start < common:
                yield Change(before.start, common, cleared=True)
            elif after.start < common:
                yield Change(after.start, common, cleared=False)
            if before.value != after.value:
                yield Change(common, end, cleared=False)
            before = Piece(end, before.end, before.value) if end < before.end else next(old, None)
            after = Piece(end, after.end, after.value) if end < after.end else next(new, None)


def with_clears(changes: list[Change], clears: Iterable[Run], start: int, end: int) -> list[Change]:
    """Changes of [start, end), and what else was cleared there: what changed later has the say."""
    changed: RangeMap[bool] = RangeMap()
    for run in clears:
        if run.start < end and start < run.end:
            changed.write(max(run.start, start), min(run.end, end), True)
    if not changed:
        return changes
    for change in changes:
        changed.write(change.start, change.end, change.cleared)
    return [Change(piece.start, piece.end, piece.value) for piece in changed]


class RangeMap(Generic[V]):
    """A map in memory: found by bisection, changed in place."""

    def __init__(self, pieces: Iterable[Piece[V]] = ()) -> None:
        self._pieces = list(pieces)
        self._starts = [piece.start for piece in self._pieces]
        end = 0
        for piece in self._pieces:
            assert end <= piece.start
            assert piece.start < piece.end
            end = piece.end

    def __iter__(self) -> Iterator[Piece[V]]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def end(self) -> int:
        """Where the last piece ends; 0 if there is none."""
        return self._pieces[-1].end if self._pieces else 0

    def write(self, start: int, end: int, value: V) -> Splice[V]:
        if start == end:
            return Splice([], [])
        first, last = self._near(start, end)
        return self._apply(overwrite(self._pieces[first:last], start, end, value), first)

    def clear(self, start: int, end: int) -> Splice[V]:
        if start == end:
            return Splice([], [])
        first, last = self._near(start, end)
        return self._apply(clear(self._pieces[first:last], start, end), first)

    def truncate(self, size: int) -> Splice[V]:
        """Clear everything from `size` on."""
        return self.clear(size, max(size, self.end))

    def pieces(self, start: int, end: int) -> Iterator[Piece[V]]:
        """The parts of pieces that lie in [start, end)."""
        first, last = self._near(start, end)
        return clip(self._pieces[first:last], start, end)

    def _near(self, start: int, end: int) -> tuple[int, int]:
        """The slice of the pieces that overlap [start, end) or border on it."""
        first = bisect_left(self._starts, start)
        if first > 0 and self._pieces[first - 1].end >= start:
            first -= 1
        return first, bisect_right(self._starts, end)

    def _apply(self, splice: Splice[V], first: int) -> Splice[V]:
        if splice.removed:
            # What is removed lies in a row; a neighbour that only borders may come before it.
            first = bisect_left(self._starts, splice.removed[0].start)
        elif splice.added:
            first = bisect_left(self._starts, splice.added[0].start)
        last = first + len(splice.removed)
        self._pieces[first:last] = splice.added
        self._starts[first:last] = [piece.start for piece in splice.added]
        return splice
