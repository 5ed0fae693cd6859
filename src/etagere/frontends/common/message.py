"""A request and its response, as every HTTP frontend sees them: no socket, no framework."""

from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

body_bytes_max_small: Final = 4 * 1024 * 1024 + 64 * 1024
"""What `RequestBody.read` takes unless told otherwise: XML, JSON and batch envelopes."""


query_chars_remembered: Final = 1024

_no_names: Final[Mapping[str, str]] = MappingProxyType({})


class ClientGone(Exception):  # noqa: N818 - names what happened
    """The client closed the connection before its body was complete; nobody awaits an answer."""


class RequestBody(Protocol):
    """The bytes that follow the headers.  They may be taken once."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; raises `ClientGone` if it stops half-way."""
        ...

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        """All of it; raises Refused("RequestBodyTooLarge") past the limit."""
        ...


class Request:
    """What arrived.  Header names are lower case; query names keep their case in `query_pairs`."""

    __slots__ = (
        "body",
        "client_ip",
        "content_length",
        "headers",
        "host",
        "implied_version",
        "method",
        "query",
        "query_pairs",
        "raw_path",
        "raw_query",
        "repeated_headers",
        "secure",
        "spelling",
    )

    def __init__(
        self,
        *,
        method: str,
        raw_path: str,
        raw_query: str,
        headers: dict[str, str],
        body: RequestBody,
        client_ip: str = "127.0.0.1",
        secure: bool = False,
        repeated_headers: frozenset[str] = frozenset(),
        spelling: Mapping[str, str] = _no_names,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        self.client_ip = client_ip
        self.secure = secure
        self.repeated_headers = repeated_headers
        self.spelling = spelling
        """Names of metadata and of other headers that are none of HTTP's, by their lower-case form,
        as the client wrote them."""
        self.implied_version: str | None = None
        """`x-ms-version` where it is not among the headers: a batch's parts have the batch's."""
        self.host = headers.get("host", "")
        length = headers.get("content-length")
        self.content_length: int | None = int(length) if length and length.isdecimal() else None
        query = read_query(raw_query)
        self.query_pairs = query.pairs
        self.query = query.by_name


_no_chunks: Final[tuple[bytes, ...]] = ()


class EmptyBody:
    """The body of a request that has none; of those inside other requests, too."""

    __slots__ = ()

    async def chunks(self) -> AsyncIterator[bytes]:
        for nothing in _no_chunks:
            yield nothing

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        del bytes_max
        return b""


class Query(NamedTuple):
    pairs: tuple[tuple[str, str], ...]
    """Decoded, in the order sent; a `+` is left to those who verify signatures."""
    by_name: Mapping[str, str]
    """The first value of each, by its name in lower case; a `+` is a space."""


def read_query(raw: str) -> Query:
    """Clients send the same query (a SAS) with one request after another: it is read once."""
    if not raw:
        return _no_query
    return _read_query(raw) if len(raw) > query_chars_remembered else _remembered_query(raw)


def _read_query(raw: str) -> Query:
    pairs = parse_query(raw)
    # As forms write them, and so clients in Rust: Azure's own and all that build on object_store.
    spaced = pairs if "+" not in raw else parse_query(raw.replace("+", "%20"))
    return Query(pairs, MappingProxyType({name.lower(): value for name, value in reversed(spaced)}))


_remembered_query = lru_cache(maxsize=1024)(_read_query)
_no_query: Final = Query((), MappingProxyType({}))


def parse_query(raw: str) -> tuple[tuple[str, str], ...]:
    """Decoded (name, value) pairs in the order sent.

    Only %20 is a space here: some sign a `+` as itself, and base64 in signatures has it bare.
    """
    pairs = []
    for item in raw.split("&"):
        if not item:
            continue
        name, _, value = item.partition("=")
        if "%" in item:
            name, value = unquote(name), unquote(value)
        pairs.append((name, value))
    return tuple(pairs)


class Response:
    """What goes back.  `body` is bytes, or an async iterator whose length the headers state."""

    __slots__ = ("body", "context", "headers", "operation", "reason", "status")

    def __init__(
        self,
        status: int,
        headers: dict[str, str] | None = None,
        body: bytes | AsyncIterator[bytes] = b"",
    ) -> None:
        self.status = status
        self.headers: dict[str, str] = {} if headers is None else headers
        self.body = body
        self.reason = ""
        self.operation = ""
        """The operation's name, for logs and metrics."""
        self.context: object = None
        """The `Call` that it answers, for logs; None where the request was not even that."""
