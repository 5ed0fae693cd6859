"""LIKE: `%` is any run of characters, `_` any one, an escape character takes both at their word.

The pattern is cut at its `%` into pieces of fixed length.  Taking each piece at its first place
behind the one before is enough, so nothing is ever tried twice; a piece with `_` in it is searched
with one bit per character (shift-and).  Time is proportional to the text, times the pattern over
the bits of a machine word, whatever they are.
"""

from collections.abc import Sequence
from typing import Final

wildcard: Final = None
"""Stands for `_` in a piece."""

Piece = tuple[str | None, ...]


class MalformedPattern(ValueError):  # noqa: N818 - the field's word for it
    """An escape character with nothing behind it that it could escape."""


class Pattern:
    """A LIKE pattern made ready to be matched any number of times."""

    __slots__ = ("_first", "_last", "_least", "_middle", "_whole")

    def __init__(self, text: str, escape: str | None = None) -> None:
        pieces = _pieces(text, escape)
        self._whole = len(pieces) == 1
        self._first = _Piece(pieces[0])
        self._last = _Piece(pieces[-1])
        self._middle = [_Piece(piece) for piece in pieces[1:-1] if piece]
        self._least = sum(map(len, pieces))

    def matches(self, text: str) -> bool:
        if len(text) < self._least:
            return False
        if self._whole:
            return len(text) == self._least and self._first.stands_at(text, 0)
        end = len(text) - self._last.length
        if not (self._first.stands_at(text, 0) and self._last.stands_at(text, end)):
            return False
        at = self._first.length
        for piece in self._middle:
            at = piece.find(text, at, end)
            if at < 0:
                return False
            at += piece.length
        return True


def _pieces(text: str, escape: str | None) -> list[Piece]:
    pieces: list[Piece] = []
    piece: list[str | None] = []
    characters = iter(text)
    for char in characters:
        if char == escape:
            literal = next(characters, None)
            if literal is None:
                raise MalformedPattern("nothing follows the escape character")
            piece.append(literal)
        elif char == "%":
            pieces.append(tuple(piece))
            piece = []
        elif char == "_":
            piece.append(wildcard)
        else:
            piece.append(char)
    pieces.append(tuple(piece))
    return pieces


class _Piece:
    """Characters and wildcards of fixed number, to be found in a text."""

    __slots__ = ("_anything", "_found", "_literal", "_masks", "_piece", "length")

    def __init__(self, piece: Sequence[str | None]) -> None:
        self._piece = piece
        self.length = len(piece)
        self._literal = "".join(char for char in piece if char is not None)
        self._anything = 0
        self._masks: dict[str, int] = {}
        self._found = 1 << (self.length - 1) if piece else 0
        if len(self._literal) != self.length:
            for place, char in enumerate(piece):
                if char is None:
                    self._anything |= 1 << place
            for place, char in enumerate(piece):
                if char is not None:
                    self._masks[char] = self._masks.get(char, self._anything) | 1 << place

    def stands_at(self, text: str, at: int) -> bool:
        if not self._masks and not self._anything:
            return text.startswith(self._literal, at)
        return all(
            char is None or char == text[at + place] for place, char in enumerate(self._piece)
        )

    def find(self, text: str, begin: int, end: int) -> int:
        """The first place between `begin` and `end` where the piece stands whole, or -1."""
        if not self._masks and not self._anything:
            return text.find(self._literal, begin, end)
        if not self._masks:  # nothing but wildcards
            return begin if begin + self.length <= end else -1
        state = 0
        for at in range(begin, end):
            state = (state << 1 | 1) & self._masks.get(text[at], self._anything)
            if state & self._found:
                return at - self.length + 1
        return -1
