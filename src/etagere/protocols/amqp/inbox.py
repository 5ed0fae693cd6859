"""Bytes that have come and are not yet whole frames."""

from typing import Final

nothing: Final = b""


class Inbox:
    """Joins what came only when it is enough, so that tiny reads of a large frame cost no more."""

    __slots__ = ("_chunks", "_have", "_need")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0

    def push(self, data: bytes) -> bytes:
        """Everything that is to be parsed now; nothing while it would be of no use."""
        if not self._chunks:
            return data
        self._chunks.append(data)
        self._have += len(data)
        if self._have < self._need:
            return nothing
        whole = b"".join(self._chunks)
        self._chunks = []
        self._have = 0
        return whole

    def keep(self, rest: bytes, need: int) -> None:
        """Hold the start of something that takes `need` bytes in all (0: the caller says when)."""
        if rest:
            self._chunks = [rest]
            self._have = len(rest)
            self._need = need

    def __len__(self) -> int:
        return self._have
