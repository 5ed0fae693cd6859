"""Operations as rows of a table: what the router, the documentation and the tests all read."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from etagere.auth.need import Need
from etagere.base.errors import Refused, invalid_header, invalid_query, missing_header
from etagere.frontends.common.message import Request, Response

C = TypeVar("C")
"""The call context that a service's handlers take."""


class Resource(Enum):
    """What a path names."""

    SERVICE = "service"
    CONTAINER = "container"  # or queue, table, share
    ITEM = "item"  # blob, message, entity, file
    MESSAGES = "messages"
    TABLES = "tables"
    ENTITIES = "entities"
    BATCH = "batch"
    WEBSITE = "website"  # a page of a static website

    __hash__ = object.__hash__  # each is itself; Enum's own is a function in Python


class Conditions(Enum):
    """Which conditional headers an operation takes (Azure: 'Specifying conditional headers')."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    TAGS_ONLY = "x-ms-if-tags only"
    UNMODIFIED_ONLY = "If-Unmodified-Since only"
    SOURCE_ONLY = "source only"
    WRITE_AND_SOURCE = "write and source"


class LeaseUse(Enum):
    """How an active lease bears on an operation."""

    NONE = "none"  # a lease id is not looked at
    OPTIONAL = "optional"  # one that is sent must be the right one
    ENFORCED = "enforced"  # without the right one the operation is refused
    OWN_RULES = "own rules"


@dataclass(frozen=True, slots=True)
class Operation(Generic[C]):
    name: str
    methods: tuple[str, ...]
    resource: Resource
    handler: Callable[[C], Awaitable[Response]]
    need: Need
    restype: str = ""
    comp: str = ""
    chosen_by: tuple[str, str | None] | None = None
    """A header (and its value, or any) that picks this row among those of one method and query."""
    and_by: tuple[str, str | None] | None = None
    """Another header that must be there as well."""
    chosen_by_query: tuple[str, str | None] | None = None
    since: str = "2009-09-19"
    writes: bool = False
    returns_etag: bool = False
    conditions: Conditions = Conditions.NONE
    lease: LeaseUse = LeaseUse.NONE
    changes_etag: bool = False
    doc: str = ""


_no_query: Final[Mapping[str, str]] = {}
"""A website's addresses mean nothing to us behind their question mark."""


@dataclass(slots=True)
class OperationTable(Generic[C]):
    """The rows of one service, and the way from a request to its row."""

    service: str
    rows: tuple[Operation[C], ...]
    _index: dict[tuple[Resource, str, str, str], tuple[Operation[C], ...]] = field(init=False)
    _markers: frozenset[tuple[Resource, str, str]] = field(init=False)

    def __post_init__(self) -> None:
        index: dict[tuple[Resource, str, str, str], tuple[Operation[C], ...]] = {}
        for row in self.rows:
            for method in row.methods:
                key = (row.resource, method, row.restype, row.comp)
                index[key] = (*index.get(key, ()), row)
        self._index = index
        self._markers = frozenset((r.resource, r.restype, r.comp) for r in self.rows)

    def find(self, request: Request, resource: Resource) -> Operation[C]:
        query = _no_query if resource is Resource.WEBSITE else request.query
        restype = query.get("restype", "")
        comp = query.get("comp", "")
        rows = self._index.get((resource, request.method, restype, comp))
        if rows is None:
            raise self._no_row(resource, restype, comp)
        for row in rows:
            if _chosen(row, request):
                return row
        raise _nothing_chosen(rows, request)

    def _no_row(self, resource: Resource, restype: str, comp: str) -> Refused:
        if (resource, restype, comp) in self._markers:
            return Refused("UnsupportedHttpVerb")
        if comp and any(marker[:2] == (resource, restype) for marker in self._markers):
            return invalid_query("comp", comp, "The value is not supported.")
        if restype:
            return invalid_query("restype", restype, "The value is not supported.")
        if comp:
            return invalid_query("comp", comp, "The value is not supported.")
        return Refused("InvalidUri")

    def names(self) -> Iterable[str]:
        return (row.name for row in self.rows)


def _chosen(row: Operation[C], request: Request) -> bool:
    if row.chosen_by is None and row.chosen_by_query is None and row.and_by is None:
        return True
    for header in (row.chosen_by, row.and_by):
        if header is not None:
            name, value = header
            sent = request.headers.get(name)
            if sent is None or (value is not None and sent.lower() != value.lower()):
                return False
    if row.chosen_by_query is not None:
        name, value = row.chosen_by_query
        sent = request.query.get(name)
        if sent is None or (value is not None and sent.lower() != value.lower()):
            return False
    return True


def _nothing_chosen(rows: tuple[Operation[C], ...], request: Request) -> Refused:
    """The header that would have chosen among the rows is missing, or says something else."""
    for row in rows:
        if row.chosen_by is not None:
            name = row.chosen_by[0]
            sent = request.headers.get(name)
            return missing_header(name) if sent is None else invalid_header(name, sent)
    return Refused("InvalidUri")
