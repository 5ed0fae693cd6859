"""Entity operations over HTTP (Azure: 'Operations on entities')."""

from functools import partial

from etagere.base.errors import Refused
from etagere.frontends.common.message import Response
from etagere.frontends.table_rest import continuation, decode, writing
from etagere.frontends.table_rest.bodies import reader_of
from etagere.frontends.table_rest.call import TableCall, json_body_bytes_max, json_response
from etagere.frontends.table_rest.encode import EntityWriter
from etagere.services.table import entities
from etagere.services.table import query as queries
from etagere.services.table.etag import etag_of
from etagere.services.table.filter_plan import plan
from etagere.services.table.query import Query


async def query(call: TableCall) -> Response:
    options = call.request.query
    decode.check_options(options)
    level = call.metadata()
    select = decode.select(options)
    wanted = Query(
        plan(decode.condition(options)),
        decode.top(options),
        decode.entities_begin(options),
        call.grant.key_range,
    )
    page = await call.tables.read(partial(queries.query, part=call.part, wanted=wanted))
    writer = EntityWriter(call.endpoint, call.account.name, call.path.table, level, select)
    response = json_response(200, level, writer.feed(page.entities))
    if page.next_keys is not None:
        partition_key, row_key = page.next_keys
        response.headers[continuation.partition_header] = continuation.encode(partition_key)
        response.headers[continuation.row_header] = continuation.encode(row_key)
    return response


async def get(call: TableCall) -> Response:
    options = call.request.query
    decode.check_options(options)
    level = call.metadata()
    select = decode.select(options)
    path = call.path
    part = call.part
    check_covered(call, path.partition_key, path.row_key)
    stored = await call.tables.read(
        partial(entities.get, part=part, partition_key=path.partition_key, row_key=path.row_key)
    )
    writer = EntityWriter(call.endpoint, call.account.name, path.table, level, select)
    return json_response(200, level, writer.single(stored), ETag=etag_of(stored.stamp))


async def write(call: TableCall) -> Response:
    """Insert, update, merge, delete and both upserts."""
    body = await call.request.body.read(json_body_bytes_max)
    part, path, request = call.part, call.path, call.request
    manner = writing.manner_of(request.method, path.kind, request.headers, call.version)
    reader = reader_of(call.account.name, path.table.lower())
    wanted = writing.read(manner, path.partition_key, path.row_key, body, reader)
    check_covered(call, wanted.partition_key, wanted.row_key)
    stamp = await call.tables.write((part,), partial(entities.write, part=part, wanted=wanted))
    reply = writing.reply(manner, wanted, stamp, path.table, call.endpoint, call.account.name)
    return Response(reply.status, reply.headers, reply.body)


def check_covered(call: TableCall, partition_key: str, row_key: str) -> None:
    """Refuse an entity outside the range of keys that a shared access signature reaches."""
    if not call.grant.key_range.covers(partition_key, row_key):
        raise Refused("AuthorizationFailure")
