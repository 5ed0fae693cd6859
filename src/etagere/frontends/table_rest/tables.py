"""Table operations over HTTP (Azure: 'Operations on tables')."""

from functools import partial
from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.common import access_policy_xml
from etagere.frontends.common.message import Response
from etagere.frontends.table_rest import continuation, decode
from etagere.frontends.table_rest.call import (
    TableCall,
    json_response,
    reply_headers,
    xml_headers,
)
from etagere.frontends.table_rest.encode import TableWriter
from etagere.frontends.table_rest.prefer import applied, wants_content
from etagere.services.table import tables
from etagere.services.table.filter_match import predicate_of
from etagere.services.table.tables import ListTables

_xml_types: Final = frozenset({"application/xml", "text/xml"})


async def query(call: TableCall) -> Response:
    query = call.request.query
    decode.check_options(query)
    level = call.metadata()
    condition = decode.condition(query)
    wanted = ListTables(
        decode.top(query),
        decode.tables_begin(query),
        None if condition is None else predicate_of(condition),
    )
    page = await call.tables.read(
        partial(tables.list_tables, account=call.account.name, wanted=wanted)
    )
    response = json_response(200, level, _writer(call).feed(page.names))
    if page.next_name is not None:
        response.headers[continuation.table_header] = continuation.encode(page.next_name)
    return response


def _writer(call: TableCall) -> TableWriter:
    return TableWriter(call.endpoint, call.account.name, call.metadata())


async def get(call: TableCall) -> Response:
    level = call.metadata()
    record = await call.tables.read(partial(tables.get, where=call.place(call.path.table)))
    return json_response(200, level, _writer(call).single(record.name))


async def create(call: TableCall) -> Response:
    echo = wants_content(call.request)
    level = call.metadata()
    where = call.place(decode.table_name(await call.json_body()))
    await call.tables.write((where.part, where.account_part), partial(tables.create, where=where))
    location = f"{call.endpoint}Tables('{where.name}')"
    preference = applied(call.request)
    if echo:
        body = _writer(call).single(where.name)
        return json_response(201, level, body, Location=location, **preference)
    return Response(
        204,
        {
            **reply_headers,
            **preference,
            "Location": location,
            "DataServiceId": location,
            "DataServiceVersion": "3.0;",
        },
    )


async def delete(call: TableCall) -> Response:
    where = call.place(call.path.table)
    await call.tables.write((where.part, where.account_part), partial(tables.delete, where=where))
    return Response(204, dict(reply_headers))


async def get_policies(call: TableCall) -> Response:
    record = await call.tables.read(partial(tables.get, where=call.place(call.path.table)))
    return Response(200, dict(xml_headers), access_policy_xml.encode(record.policies))


async def set_policies(call: TableCall) -> Response:
    body = await call.request.body.read()
    media = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if body and media and media not in _xml_types:
        raise Refused("MediaTypeNotSupported")
    where = call.place(call.path.table)
    policies = access_policy_xml.decode(body, access_policy_xml.table_letters)
    await call.tables.write(
        (where.part,), partial(tables.set_policies, where=where, policies=policies)
    )
    return Response(204)
