"""Queue operations over HTTP (Azure: 'Operations on queues').

Queues have neither ETags nor leases: conditional headers are not looked at, and the last writer
wins.
"""

from functools import partial

from etagere.frontends.common import access_policy_xml
from etagere.frontends.common.headers import metadata, metadata_headers
from etagere.frontends.common.message import Response
from etagere.frontends.queue_rest.account import xml_headers
from etagere.frontends.queue_rest.call import QueueCall
from etagere.services.queue import queues


async def create(call: QueueCall) -> Response:
    """204 where it exists already, with the same metadata."""
    where, wanted = call.place(), metadata(call.request)
    created = await call.queues.write(
        where.parts, partial(queues.create, where=where, metadata=wanted)
    )
    return Response(201 if created else 204)


async def delete(call: QueueCall) -> Response:
    where = call.place()
    await call.queues.write(where.parts, partial(queues.delete, where=where))
    return Response(204)


async def get_metadata(call: QueueCall) -> Response:
    found = await call.queues.read(partial(queues.view, part=call.part))
    return Response(
        200,
        {
            "Cache-Control": "no-cache",
            "x-ms-approximate-messages-count": str(found.approximate_count),
            **metadata_headers(found.properties.metadata),
        },
    )


async def set_metadata(call: QueueCall) -> Response:
    part, wanted = call.part, metadata(call.request)
    await call.queues.write((part,), partial(queues.set_metadata, part=part, metadata=wanted))
    return Response(204)


async def get_access(call: QueueCall) -> Response:
    found = await call.queues.read(partial(queues.get_properties, part=call.part))
    return Response(200, dict(xml_headers), access_policy_xml.encode(found.policies))


async def set_access(call: QueueCall) -> Response:
    part = call.part
    policies = access_policy_xml.decode(
        await call.request.body.read(), access_policy_xml.queue_letters
    )
    await call.queues.write((part,), partial(queues.set_policies, part=part, policies=policies))
    return Response(204)
