"""Operations on the Table service of an account (Azure: 'Operations on the account (Table)')."""

from etagere.frontends.common import account
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common.message import Response
from etagere.frontends.table_rest.call import TableCall, xml_headers


async def get_properties(call: TableCall) -> Response:
    body = properties_xml.encode(call.properties, properties_xml.common_elements)
    return Response(200, dict(xml_headers), body)


async def set_properties(call: TableCall) -> Response:
    return await account.set_properties(call, call.tables, "table", properties_xml.common_elements)


async def get_stats(call: TableCall) -> Response:
    return Response(200, dict(xml_headers), account.stats(call, call.tables.clock))
