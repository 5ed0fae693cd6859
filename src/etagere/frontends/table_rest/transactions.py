"""Batches over HTTP (Azure: 'Performing entity group transactions')."""

from collections.abc import Sequence
from functools import partial

from etagere.auth import needs
from etagere.auth.identity import SasIdentity
from etagere.auth.need import Grant, Need, authorize
from etagere.auth.request import ResourceName
from etagere.auth.sas_token import SasKind
from etagere.base.errors import Refused
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.operations import Resource
from etagere.frontends.table_rest import batch, entities, media, writing
from etagere.frontends.table_rest.batch import Answer, BatchOperation
from etagere.frontends.table_rest.call import (
    TableCall,
    TableTarget,
    json_body_bytes_max,
    reply_headers,
)
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.writing import Wanted
from etagere.services.table import keys
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import at_index, check_group, index_detail, transact
from etagere.services.table.names import check_table_name


async def run(call: TableCall) -> Response:
    body = await call.request.body.read(json_body_bytes_max)
    found = batch.parse(call.header("content-type"), body, call.account.name)
    token = call.tables.entropy.uuid()
    if found.is_change_set:
        answers = await _change_set(call, found.operations)
    else:
        answers = [await _query(call, found.operations[0])]
    return Response(
        202,
        {**reply_headers, "Content-Type": batch.content_type(token), "DataServiceVersion": "3.0;"},
        batch.encode(answers, token, is_change_set=found.is_change_set),
    )


async def _change_set(
    call: TableCall, operations: Sequence[BatchOperation | Refused]
) -> list[Answer]:
    """One answer for each operation, or the one of the operation that failed."""
    try:
        wanted = _read_all(call, operations)
    except Refused as refused:
        return [await _failure(call, operations, refused)]
    # Whoever may not do one of the operations gets no batch at all, and no 202.
    grants: dict[Need, Grant] = {}
    for each in wanted:  # all of one table
        grant = grants.get(each.need)
        if grant is None:
            grant = grants[each.need] = _authorize(call, each.need, each.table)
        if not grant.key_range.covers(each.write.partition_key, each.write.row_key):
            raise Refused("AuthorizationFailure")
    part = keys.table_partition(call.account.name, wanted[0].table)
    writes = [each.write for each in wanted]
    try:
        stamps = await call.tables.write((part,), partial(transact, part=part, batch=writes))
    except Refused as refused:
        return [await _failure(call, operations, refused)]
    answers = []
    for operation, each, stamp in zip(operations, wanted, stamps, strict=True):
        assert isinstance(operation, BatchOperation)
        reply = writing.reply(each, stamp, call.endpoint, call.account.name)
        answers.append(Answer(reply.status, reply.headers, reply.body, operation.content_id))
    return answers


def _read_all(call: TableCall, operations: Sequence[BatchOperation | Refused]) -> list[Wanted]:
    """Every operation, as one group; a refusal carries the index of the one it is about."""
    found: list[Wanted] = []
    for index, operation in enumerate(operations):
        try:
            wanted = _read(call, operation)
            _check_same_table(wanted, found)
        except Refused as refused:
            raise at_index(refused, index) from None
        found.append(wanted)
    check_group([each.write for each in found])
    return found


def _check_same_table(wanted: Wanted, others: Sequence[Wanted]) -> None:
    if others and wanted.table.lower() != others[0].table.lower():
        raise Refused("CommandsInBatchActOnDifferentPartitions")


def _read(call: TableCall, operation: BatchOperation | Refused) -> Wanted:
    if isinstance(operation, Refused):
        raise operation
    if operation.target.kind in (Kind.ENTITY, Kind.ENTITIES):
        check_table_name(operation.target.table)
    method = writing.effective_method(operation.method, operation.headers)
    if method == "GET":
        raise invalid_input("A change set cannot hold a query.")
    return writing.read(method, operation.target, operation.headers, operation.body, call.version)


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
        response = inner.refusal(refused)
    assert isinstance(response.body, bytes)
    return Answer(response.status, response.headers, response.body, operation.content_id)
