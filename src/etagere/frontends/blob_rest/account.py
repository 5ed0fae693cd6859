"""Operations on the Blob service of an account (Azure: 'Operations on the account (Blob)')."""

from functools import partial

from etagere.base.errors import invalid_query
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common import user_delegation
from etagere.frontends.common.headers import max_results
from etagere.frontends.common.message import Response
from etagere.kernel.dates import format_http_date
from etagere.services.blob import tag_search
from etagere.services.common import service_properties

_xml = {"Content-Type": "application/xml"}


async def get_properties(call: BlobCall) -> Response:
    body = properties_xml.encode(call.properties, properties_xml.blob_elements)
    return Response(200, dict(_xml), body)


async def set_properties(call: BlobCall) -> Response:
    data = await call.request.body.read()
    wanted = properties_xml.decode(data, properties_xml.blob_elements)
    part = service_properties.partition("blob", call.account.name)
    await call.blobs.write((part,), partial(service_properties.change, part=part, wanted=wanted))
    return Response(202)


async def get_stats(call: BlobCall) -> Response:
    """Only the secondary endpoint knows how far replication is; here it is never behind."""
    if not call.secondary:
        raise invalid_query("comp", "stats", "Only the secondary endpoint has service stats.")
    now = format_http_date(call.blobs.clock.now())
    return Response(200, dict(_xml), properties_xml.stats(now))


async def get_account_information(call: BlobCall) -> Response:
    account = call.account
    return Response(
        200,
        {
            "x-ms-sku-name": account.sku,
            "x-ms-account-kind": account.kind,
            "x-ms-is-hns-enabled": "true" if account.hierarchical_namespace else "false",
        },
    )


async def get_user_delegation_key(call: BlobCall) -> Response:
    body = await call.request.body.read()
    return Response(200, dict(_xml), user_delegation.issue(call, body, "b", call.blobs.clock.now()))


async def find_blobs(call: BlobCall) -> Response:
    """Find Blobs by Tags, in the account or in one container."""
    request = call.request
    limit = max_results(request)
    wanted = decode.find_blobs(request, call.target.container or None, limit)
    account = call.account.name
    page = await call.blobs.read(partial(tag_search.find_blobs, account=account, wanted=wanted))
    query = request.query
    asked = (query["where"], query.get("marker", ""), "" if limit is None else str(limit))
    body = encode.tagged_blobs(page, wanted, endpoint=call.endpoint, asked=asked)
    return Response(200, dict(_xml), body)
