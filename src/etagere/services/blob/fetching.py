"""Sources that are not blobs of this server: whatever an HTTP GET brings."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, Protocol


class Fetched(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    length: int | None
    chunks: AsyncIterator[bytes]
    close: Callable[[], None]
    """To be called when no more is wanted; harmless after the end."""


class CannotFetch(Exception):  # noqa: N818 - names what happened
    """The source could not be reached, or stopped half-way."""


class Fetcher(Protocol):
    async def fetch(self, url: str, headers: Mapping[str, str]) -> Fetched:
        """GET a URL; raises CannotFetch.  The chunks may raise it too."""
        ...
