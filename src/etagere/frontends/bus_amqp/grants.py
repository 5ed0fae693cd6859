"""What a connection may do: the tokens that it showed, each for a path and for a time."""

from typing import Final

from etagere.auth.bus_sas import Grant, covers
from etagere.base.clock import Timestamp

grants_max: Final = 1_000
"""Paths that one connection may have tokens for."""


class Grants:
    __slots__ = ("_by_path", "_unlimited")

    def __init__(self) -> None:
        self._by_path: dict[str, Grant] = {}
        self._unlimited = False

    def allow_everything(self) -> None:
        """The server checks no tokens."""
        self._unlimited = True

    def add(self, grant: Grant) -> bool:
        """A later token for a path takes the place of the one before; False if there are too many.

        Tokens for several paths stand side by side.
        """
        if grant.path not in self._by_path and len(self._by_path) >= grants_max:
            return False
        self._by_path[grant.path] = grant
        return True

    def __bool__(self) -> bool:
        return self._unlimited or bool(self._by_path)

    def allows(self, right: str, path: str, now: Timestamp) -> bool:
        """`path` in folded case."""
        return self._unlimited or any(
            grant.expires_at > now and grant.allows(right, path) for grant in self._by_path.values()
        )

    def knows(self, path: str, now: Timestamp) -> bool:
        """Whether any token, for whatever right, covers the path."""
        return self._unlimited or any(
            grant.expires_at > now and covers(grant.path, path) for grant in self._by_path.values()
        )

    def next_expiry(self) -> Timestamp | None:
        return min((grant.expires_at for grant in self._by_path.values()), default=None)

    def drop_expired(self, now: Timestamp) -> bool:
        """Whether anything was dropped."""
        expired = [path for path, grant in self._by_path.items() if grant.expires_at <= now]
        for path in expired:
            del self._by_path[path]
        return bool(expired)
