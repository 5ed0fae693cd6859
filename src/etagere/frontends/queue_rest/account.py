"""Operations on the Queue service of an account (Azure: 'Operations on the account (Queue)')."""

from typing import Final

from etagere.frontends.common import account, user_delegation, xml
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common.message import Response
from etagere.frontends.queue_rest import decode, encode
from etagere.frontends.queue_rest.call import QueueCall
from etagere.services.queue import queues

xml_headers: Final = {"Content-Type": "application/xml", "Cache-Control": "no-cache"}


async def get_properties(call: QueueCall) -> Response:
    body = properties_xml.encode(call.properties, properties_xml.common_elements)
    return Response(200, dict(xml_headers), body)


async def set_properties(call: QueueCall) -> Response:
    return await account.set_properties(call, call.queues, "queue", properties_xml.common_elements)


async def get_stats(call: QueueCall) -> Response:
    return Response(200, dict(xml_headers), account.stats(call, call.queues.clock))


async def get_account_information(call: QueueCall) -> Response:
    return Response(200, {"Cache-Control": "no-cache", **account.information(call.account)})


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
