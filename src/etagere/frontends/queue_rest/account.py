"""Operations on the Queue service of an account (Azure: 'Operations on the account (Queue)')."""

from functools import partial
from typing import Final

from etagere.base.errors import invalid_query
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common import user_delegation, xml
from etagere.frontends.common.message import Response
from etagere.frontends.queue_rest import decode, encode
from etagere.frontends.queue_rest.call import QueueCall
from etagere.kernel.dates import format_http_date
from etagere.services.common import service_properties
from etagere.services.queue import queues

xml_headers: Final = {"Content-Type": "application/xml", "Cache-Control": "no-cache"}


async def get_properties(call: QueueCall) -> Response:
    found = await call.queues.properties(call.account.name)
    body = properties_xml.encode(found, properties_xml.common_elements)
    return Response(200, dict(xml_headers), body)


async def set_properties(call: QueueCall) -> Response:
    """The last writer wins, element by element."""
    wanted = properties_xml.decode(await call.request.body.read(), properties_xml.common_elements)
    part = service_properties.partition("queue", call.account.name)
    await call.queues.write((part,), partial(service_properties.change, part=part, wanted=wanted))
    return Response(202)


async def get_stats(call: QueueCall) -> Response:
    """Only the secondary endpoint knows how far replication is; here it is never behind."""
    if not call.secondary:
        raise invalid_query("comp", "stats", "Only the secondary endpoint has service stats.")
    now = format_http_date(call.queues.clock.now())
    return Response(200, dict(xml_headers), properties_xml.stats(now))


async def get_account_information(call: QueueCall) -> Response:
    account = call.account
    return Response(
        200,
        {
            "Cache-Control": "no-cache",
            "x-ms-sku-name": account.sku,
            "x-ms-account-kind": account.kind,
            "x-ms-is-hns-enabled": "true" if account.hierarchical_namespace else "false",
        },
    )


async def get_user_delegation_key(call: QueueCall) -> Response:
    body = await call.request.body.read()
    key = user_delegation.issue(call, body, "q", call.queues.clock.now())
    return Response(200, dict(xml_headers), key)


async def list_queues(call: QueueCall) -> Response:
    wanted = decode.list_queues(call.request)
    page = await call.queues.read(lambda tx: queues.list_queues(tx, call.account.name, wanted))
    body = encode.list_queues(page, endpoint=call.endpoint, asked=_asked(call))
    return Response(200, dict(xml_headers), body)


def _asked(call: QueueCall) -> str:
    """The parameters of a listing are echoed if they were sent."""
    query = call.request.query
    return "".join(
        xml.marked_element(element, query[name])
        for element, name in (
            ("Prefix", "prefix"),
            ("Marker", "marker"),
            ("MaxResults", "maxresults"),
        )
        if query.get(name)
    )
