"""The operations of the Table service, a row each.

The rows of entities say what the documentation's table says ('Managing concurrency in Table
storage'): which operations return an ETag, which must have If-Match.  Tests hold each against what
the handlers do.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from etagere.auth import needs
from etagere.base.errors import Refused
from etagere.frontends.common.errors import common as common_errors
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.operations import Operation, OperationTable, Resource
from etagere.frontends.table_rest import account, entities, errors, tables, transactions
from etagere.frontends.table_rest.call import TableCall
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.writing import effective_method, upserts_since

Handler = Callable[[TableCall], Awaitable[Response]]

_on_entities: Final = (Kind.ENTITIES, Kind.ENTITY)


def data_operation(handler: Handler) -> Handler:
    """A handler whose refusals are answered in JSON, as data operations' are."""

    async def answered(call: TableCall) -> Response:
        try:
            return await handler(call)
        except Refused as refused:
            if await _table_is_missing(call, refused):
                return call.refusal(Refused("TableNotFound"))
            return call.refusal(refused)

    return answered


async def _table_is_missing(call: TableCall, refused: Refused) -> bool:
    """Whether a request that is wrong in itself is about a table that is not there.

    The live service looks for the table before it looks at the request; here bodies are read
    before any transaction begins, so the table is looked for when one was refused.
    """
    if call.path.kind not in _on_entities or refused.code == "InvalidResourceName":
        return False
    wire = errors.table.get(refused.code) or common_errors.get(refused.code)
    if wire is None or wire.status != 400:
        return False
    try:
        part_is_named = call.part is not None
    except Refused:
        return False
    return part_is_named and not await call.table_exists(call.path.table)


_service_rows: Final[tuple[Operation[TableCall], ...]] = (
    Operation(
        "GetTableServiceProperties",
        ("GET",),
        Resource.SERVICE,
        account.get_properties,
        needs.service_read,
        restype="service",
        comp="properties",
    ),
    Operation(
        "SetTableServiceProperties",
        ("PUT",),
        Resource.SERVICE,
        account.set_properties,
        needs.service_write,
        restype="service",
        comp="properties",
        writes=True,
    ),
    Operation(
        "GetTableServiceStats",
        ("GET",),
        Resource.SERVICE,
        account.get_stats,
        needs.service_read,
        restype="service",
        comp="stats",
        since="2013-08-15",
    ),
)

_table_rows: Final[tuple[Operation[TableCall], ...]] = (
    Operation(
        "QueryTables",
        ("GET",),
        Resource.TABLES,
        data_operation(tables.query),
        needs.tables_list,
    ),
    Operation(
        "CreateTable",
        ("POST",),
        Resource.TABLES,
        data_operation(tables.create),
        needs.container_create,
        writes=True,
    ),
    Operation(
        "GetTable",
        ("GET",),
        Resource.CONTAINER,
        data_operation(tables.get),
        needs.tables_list,
    ),
    Operation(
        "DeleteTable",
        ("DELETE",),
        Resource.CONTAINER,
        data_operation(tables.delete),
        needs.container_delete,
        writes=True,
    ),
    Operation(
        "GetTableAcl",
        ("GET", "HEAD"),
        Resource.ENTITIES,
        tables.get_policies,
        needs.policies_read,
        comp="acl",
        since="2012-02-12",
    ),
    Operation(
        "SetTableAcl",
        ("PUT",),
        Resource.ENTITIES,
        tables.set_policies,
        needs.policies,
        comp="acl",
        since="2012-02-12",
        writes=True,
    ),
)

_entity_rows: Final[tuple[Operation[TableCall], ...]] = (
    Operation(
        "QueryEntities",
        ("GET",),
        Resource.ENTITIES,
        data_operation(entities.query),
        needs.entity_read,
        returns_etag=True,
    ),
    Operation(
        "GetEntity",
        ("GET",),
        Resource.ITEM,
        data_operation(entities.get),
        needs.entity_read,
        returns_etag=True,
    ),
    Operation(
        "InsertEntity",
        ("POST",),
        Resource.ENTITIES,
        data_operation(entities.write),
        needs.entity_insert,
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "UpdateEntity",
        ("PUT",),
        Resource.ITEM,
        data_operation(entities.write),
        needs.entity_update,
        chosen_by=("if-match", None),
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "InsertOrReplaceEntity",
        ("PUT",),
        Resource.ITEM,
        data_operation(entities.write),
        needs.entity_upsert,
        since=upserts_since,
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "MergeEntity",
        ("MERGE", "PATCH"),
        Resource.ITEM,
        data_operation(entities.write),
        needs.entity_update,
        chosen_by=("if-match", None),
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "InsertOrMergeEntity",
        ("MERGE", "PATCH"),
        Resource.ITEM,
        data_operation(entities.write),
        needs.entity_upsert,
        since=upserts_since,
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "DeleteEntity",
        ("DELETE",),
        Resource.ITEM,
        data_operation(entities.write),
        needs.entity_delete,
        writes=True,
    ),
    Operation(
        "EntityGroupTransaction",
        ("POST",),
        Resource.BATCH,
        data_operation(transactions.run),
        needs.batch,
        writes=True,
    ),
)


class TableOperations(OperationTable[TableCall]):
    """The table of operations, by a method that may be tunnelled through POST."""

    # `typing.override` came with Python 3.12.
    def find(  # type: ignore[explicit-override]
        self, request: Request, resource: Resource
    ) -> Operation[TableCall]:
        if "x-http-method" in request.headers:
            # What signs a request signs the method that it was sent with; by now that is over.
            request.method = effective_method(request.method, request.headers)
        try:
            return super().find(request, resource)
        except Refused as refused:
            if refused.code == "UnsupportedHttpVerb":
                raise Refused("MethodNotAllowed") from None
            raise


operations: Final = TableOperations("table", (*_service_rows, *_table_rows, *_entity_rows))
