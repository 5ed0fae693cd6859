"""Operations on the Table service of an account (Azure: 'Operations on the account (Table)')."""

from functools import partial

from etagere.base.errors import invalid_query
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common.message import Response
from etagere.frontends.table_rest.call import TableCall, xml_headers
from etagere.kernel.dates import format_http_date
from etagere.services.common import service_properties


async def get_properties(call: TableCall) -> Response:
    body = properties_xml.encode(call.properties, properties_xml.common_elements)
    return Response(200, dict(xml_headers), body)


async def set_properties(call: TableCall) -> Response:
    data = await call.request.body.read()
    wanted = properties_xml.decode(data, properties_xml.common_elements)
    part = service_properties.partition("table", call.account.name)
    await call.tables.write((part,), partial(service_properties.change, part=part, wanted=wanted))
    return Response(202)


async def get_stats(call: TableCall) -> Response:
    """Only the secondary endpoint knows how far replication is; here it is never behind."""
    if not call.secondary:
        raise invalid_query("comp", "stats", "Only the secondary endpoint has service stats.")
    now = format_http_date(call.tables.clock.now())
    return Response(200, dict(xml_headers), properties_xml.stats(now))
