"""Batches over HTTP (Azure: 'Performing entity group transactions')."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

import msgspec

from etagere.auth import needs
from etagere.auth.identity import SasIdentity
from etagere.auth.key_range import whole_table
from etagere.auth.need import Grant, Need, authorize
from etagere.auth.request import ResourceName
from etagere.auth.sas_token import SasKind
from etagere.base.errors import Refused
from etagere.frontends.common import multipart
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.operations import Resource
from etagere.frontends.table_rest import alike, batch, entities, media, writing
from etagere.frontends.table_rest.batch import Answer, BatchOperation
from etagere.frontends.table_rest.bodies import reader_of
from etagere.frontends.table_rest.call import (
    TableCall,
    TableTarget,
    json_body_bytes_max,
    reply_headers,
)
from etagere.frontends.table_rest.parts import PartWriter
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.writing import Manner
from etagere.services.table import keys
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import (
    Series,
    Write,
    at_index,
    check_group,
    index_detail,
    transact,
    transact_series,
)
from etagere.services.table.names import check_table_name

manners_remembered: Final = 512

_entity: Final = Kind.ENTITY
_entities: Final = Kind.ENTITIES


class _Change(msgspec.Struct, frozen=True, gc=False):
    manner: Manner
    write: Write
    content_id: str | None


class _ChangesAlike(NamedTuple):
    """All changes of a change set, if they are alike."""

    table: str
    manner: Manner
    series: Series
    content_ids: list[str] | None


async def run(call: TableCall) -> Response:
    body = await call.request.body.read(json_body_bytes_max)
    token = call.tables.entropy.uuid()
    changes = _read_alike(call, body)
    if changes is not None:
        parts, is_change_set = [await _change_alike(call, changes, body, token)], True
    else:
        found = batch.parse(call.header("content-type"), body, call.account.name)
        is_change_set = found.is_change_set
        if is_change_set:
            parts = await _change_set(call, found.operations)
        else:
            parts = [batch.encode_part(await _query(call, found.operations[0]))]
    return Response(
        202,
        {**reply_headers, "Content-Type": batch.content_type(token), "DataServiceVersion": "3.0;"},
        batch.encode(parts, token, is_change_set=is_change_set),
    )


def _read_alike(call: TableCall, body: bytes) -> _ChangesAlike | None:
    """The changes, if they are alike and nothing is wrong with any of them.

    All others are read one by one, which finds out what is wrong and with which.
    """
    account = call.account.name
    found = alike.parse(call.header("content-type"), body, account)
    if found is None:
        return None
    target = found.first.target
    try:
        manner = _manner(found.first, call.version)
        check_table_name(target.table)
    except Refused:
        return None
    reader = reader_of(account, target.table.lower())
    series = writing.read_alike(manner, target.partition_key, found.row_keys, found.bodies, reader)
    if series is None:
        return None
    return _ChangesAlike(target.table, manner, series, found.content_ids)


async def _change_alike(call: TableCall, changes: _ChangesAlike, body: bytes, token: str) -> bytes:
    """The answer to each operation, or that to the one which failed."""
    table, manner, series, content_ids = changes
    key_range = _authorize(call, manner.need, table).key_range
    if key_range != whole_table and not all(
        key_range.covers(series.partition_key, row_key) for row_key in series.row_keys
    ):
        raise Refused("AuthorizationFailure")
    part = keys.table_partition(call.account.name, table)
    try:
        stamps = await call.tables.write(
            (part,), partial(transact_series, part=part, wanted=series)
        )
    except Refused as refused:
        found = batch.parse(call.header("content-type"), body, call.account.name)
        return batch.encode_part(await _failure(call, found.operations, refused))
    writer = PartWriter(call.endpoint, call.account.name, table)
    return writer.write_alike(manner, series, stamps, content_ids, batch.delimiter(token))


async def _change_set(
    call: TableCall, operations: Sequence[BatchOperation | Refused]
) -> list[bytes]:
    """The answer to each operation, or that to the one which failed."""
    try:
        table, changes = _read_all(call, operations)
    except Refused as refused:
        return [batch.encode_part(await _failure(call, operations, refused))]
    _authorize_all(call, table, changes)
    part = keys.table_partition(call.account.name, table)
    writes = [change.write for change in changes]
    try:
        stamps = await call.tables.write((part,), partial(transact, part=part, batch=writes))
    except Refused as refused:
        return [batch.encode_part(await _failure(call, operations, refused))]
    write_part = PartWriter(call.endpoint, call.account.name, table).write
    return [
        write_part(change.manner, change.write, stamp, change.content_id)
        for change, stamp in zip(changes, stamps, strict=True)
    ]


def _read_all(
    call: TableCall, operations: Sequence[BatchOperation | Refused]
) -> tuple[str, list[_Change]]:
    """The table, and every change, as one group; a refusal carries the index of its operation."""
    changes: list[_Change] = []
    table, version = "", call.version
    reader = None
    try:
        for operation in operations:
            if isinstance(operation, Refused):
                raise operation
            target = operation.target
            manner = _manner(operation, version)
            if reader is None:
                check_table_name(target.table)
                table = target.table
                reader = reader_of(call.account.name, table.lower())
            elif target.table != table:
                _check_same_table(target.table, table)
            write = writing.read(
                manner, target.partition_key, target.row_key, operation.body, reader
            )
            changes.append(_Change(manner, write, operation.content_id))
    except Refused as refused:
        raise at_index(refused, len(changes)) from None
    check_group([change.write for change in changes])
    return table, changes


def _manner(operation: BatchOperation, version: str) -> Manner:
    kind = operation.target.kind
    if kind is not _entity and kind is not _entities:
        raise Refused("NotImplemented")
    return _known_manner(operation.method, kind is _entity, operation.fields, version)


# The operations of a batch mostly have the same headers, and so have the batches of a client.
@lru_cache(maxsize=manners_remembered)
def _known_manner(method: str, is_entity: bool, fields: bytes, version: str) -> Manner:
    headers = multipart.headers_of(fields)
    method = writing.effective_method(method, headers)
    if method == "GET":
        raise invalid_input("A change set cannot hold a query.")
    return writing.manner_of(method, _entity if is_entity else _entities, headers, version)


def _check_same_table(name: str, table: str) -> None:
    check_table_name(name)
    if name.lower() != table.lower():
        raise Refused("CommandsInBatchActOnDifferentPartitions")


def _authorize_all(call: TableCall, table: str, changes: Sequence[_Change]) -> None:
    """Whoever may not do one of the operations gets no batch at all, and no 202."""
    grants: dict[int, Grant] = {}  # by identity: a need's hash takes longer than all else here
    for change in changes:
        need, write = change.manner.need, change.write
        grant = grants.get(id(need))
        if grant is None:
            grant = grants[id(need)] = _authorize(call, need, table)
        if not grant.key_range.covers(write.partition_key, write.row_key):
            raise Refused("AuthorizationFailure")


def _authorize(call: TableCall, need: Need, table: str) -> Grant:
    identity = call.identity
    grant = authorize(
        identity,
        need,
        ResourceName("t", table, secondary=call.secondary),
        version=call.version,
        method="POST",
    )
    of_a_table = isinstance(identity, SasIdentity) and identity.kind is not SasKind.ACCOUNT
    if of_a_table and table.lower() != call.target.container.lower():
        raise Refused("AuthorizationFailure")
    return grant


async def _failure(
    call: TableCall, operations: Sequence[BatchOperation | Refused], refused: Refused
) -> Answer:
    """The answer in place of all others: rolled back, and which operation it was."""
    index = refused.details[index_detail]
    failing = operations[int(index)]
    status, body = call.error_body(refused, index)
    if status == 400 and not await _table_exists(call, operations[0]):
        refused, index, failing = Refused("TableNotFound"), "0", operations[0]
        status, body = call.error_body(refused, index)
    accept = None if isinstance(failing, Refused) else failing.headers.get("accept")
    headers = {
        **reply_headers,
        "DataServiceVersion": "3.0;",
        "Content-Type": media.content_types[media.choose_leniently(accept)],
    }
    content_id = None if isinstance(failing, Refused) else failing.content_id
    return Answer(status, headers, body, content_id)


async def _table_exists(call: TableCall, operation: BatchOperation | Refused) -> bool:
    """Whether what the first operation is about is there; a name that can be none is not judged."""
    if isinstance(operation, Refused) or not operation.target.table:
        return True
    try:
        check_table_name(operation.target.table)
    except Refused:
        return True
    return await call.table_exists(operation.target.table)


async def _query(call: TableCall, operation: BatchOperation | Refused) -> Answer:
    """A batch of one query, which is answered as it would be on its own."""
    if isinstance(operation, Refused):
        raise operation
    handlers = {
        Kind.ENTITIES: (entities.query, Resource.ENTITIES),
        Kind.ENTITY: (entities.get, Resource.ITEM),
    }
    handler, resource = handlers.get(operation.target.kind, (None, None))
    if handler is None or resource is None or operation.method != "GET":
        raise invalid_input("A batch without a change set must hold one query.")
    request = Request(
        method="GET",
        raw_path=call.request.raw_path,
        raw_query=operation.raw_query,
        headers=dict(operation.headers),
        body=call.request.body,
    )
    path = operation.target
    inner = TableCall(
        request,
        call.request_id,
        call.account,
        TableTarget(resource, path.table, "", path),
        secondary=call.secondary,
        endpoint=call.endpoint,
    )
    inner.path, inner.tables, inner.version = path, call.tables, call.version
    inner.grant = _authorize(call, needs.entity_read, path.table)
    try:
        response = await handler(inner)
    except Refused as refused:
        if refused.code == "AuthorizationFailure":
            raise  # as a change set, a query of what one may not see gets no 202
        response = inner.refusal(refused)
    assert isinstance(response.body, bytes)
    return Answer(response.status, response.headers, response.body, operation.content_id)
