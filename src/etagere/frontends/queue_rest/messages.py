"""Message operations over HTTP (Azure: 'Operations on messages')."""

from functools import partial

from etagere.frontends.common.message import Response
from etagere.frontends.queue_rest import decode, encode
from etagere.frontends.queue_rest.account import xml_headers
from etagere.frontends.queue_rest.call import QueueCall
from etagere.kernel.dates import format_http_date
from etagere.services.queue import messages, queues

put_body_since = "2016-05-31"


async def put(call: QueueCall) -> Response:
    part = call.part
    wanted = await decode.put_message(call.request, call.version, call.queues.new_tail())
    seen = await call.queues.write((part,), partial(messages.put, part=part, wanted=wanted))
    if call.version < put_body_since:
        return Response(201)
    return Response(201, {"Content-Type": "application/xml"}, encode.put_message(seen))


async def get(call: QueueCall) -> Response:
    wanted = decode.get_messages(call.request, call.version)
    seen = await messages.get(call.queues.engine, call.part, wanted)
    return Response(200, dict(xml_headers), encode.got_messages(seen))


async def peek(call: QueueCall) -> Response:
    count = decode.message_count(call.request)
    seen = await messages.peek(call.queues.engine, call.part, count)
    return Response(200, dict(xml_headers), encode.peeked_messages(seen))


async def clear(call: QueueCall) -> Response:
    where = call.place()
    await call.queues.write(where.parts, partial(queues.clear, where=where))
    return Response(204)


async def update(call: QueueCall) -> Response:
    part = call.part
    wanted = await decode.update_message(call.request, call.version, call.target.item)
    seen = await call.queues.write(
        (part,),
        partial(messages.update, part=part, wanted=wanted, stale_code=call.queues.stale_code),
    )
    return Response(
        204,
        {
            "x-ms-popreceipt": seen.pop_receipt,
            "x-ms-time-next-visible": format_http_date(seen.visible),
        },
    )


async def delete(call: QueueCall) -> Response:
    part = call.part
    body = partial(
        messages.delete,
        part=part,
        message=call.target.item,
        receipt=decode.pop_receipt(call.request),
        stale_code=call.queues.stale_code,
    )
    await call.queues.write((part,), body)
    return Response(204)
