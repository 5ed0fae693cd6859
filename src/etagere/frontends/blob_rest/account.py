"""Operations on the Blob service of an account (Azure: 'Operations on the account (Blob)')."""

from functools import partial

from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import account, user_delegation
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common.headers import max_results
from etagere.frontends.common.message import Response
from etagere.services.blob import tag_search

_xml = {"Content-Type": "application/xml"}


async def get_properties(call: BlobCall) -> Response:
    body = properties_xml.encode(call.properties, properties_xml.blob_elements)
    return Response(200, dict(_xml), body)


async def set_properties(call: BlobCall) -> Response:
    return await account.set_properties(call, call.blobs, "blob", properties_xml.blob_elements)


async def get_stats(call: BlobCall) -> Response:
    return Response(200, dict(_xml), account.stats(call, call.blobs.clock))


async def get_account_information(call: BlobCall) -> Response:
    return Response(200, account.information(call.account))


async def get_user_delegation_key(call: BlobCall) -> Response:
    body = await call.request.body.read()
    return Response(200, dict(_xml), user_delegation.issue(call, body, "b", call.blobs.clock.now()))


async def find_blobs(call: BlobCall) -> Response:
    """Find Blobs by Tags, in the account or in one container."""
    request = call.request
    limit = max_results(request)
    wanted = decode.find_blobs(request, call.target.container or None, limit)
    name = call.account.name
    page = await call.blobs.read(partial(tag_search.find_blobs, account=name, wanted=wanted))
    query = request.query
    asked = (query["where"], query.get("marker", ""), "" if limit is None else str(limit))
    body = encode.tagged_blobs(page, wanted, endpoint=call.endpoint, asked=asked)
    return Response(200, dict(_xml), body)
