"""Static websites (Azure: 'Static website hosting'): `$web` as a web server shows it.

Its host is `ACCOUNT.zNN.web.<suffix>`; only GET and HEAD, for everybody, and no cross-origin rules.
"""

from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.blob_rest import blobs
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.call import Target
from etagere.frontends.common.message import Response

container: Final = "$web"


async def get(call: BlobCall) -> Response:
    """The file, the index of a folder, or what the account shows instead of a missing one."""
    site = call.properties.static_website
    if not site.enabled:
        raise Refused("WebsiteNotEnabled")
    path = call.target.item
    if not path or path.endswith("/"):
        path += site.index_document or ""
    try:
        return await _show(call, path)
    except Refused as refused:
        if refused.code not in ("BlobNotFound", "ContainerNotFound"):
            raise
    if site.error_document:
        return await _instead(call, site.error_document, 404)
    if site.default_index_path:
        return await _instead(call, site.default_index_path, 200)
    raise Refused("WebContentNotFound")


async def _show(call: BlobCall, path: str) -> Response:
    if not path:
        raise Refused("BlobNotFound")
    call.target = Target(call.target.resource, container, path)
    if call.request.method == "HEAD":
        return await blobs.get_properties(call)
    return await blobs.get(call)


async def _instead(call: BlobCall, path: str, status: int) -> Response:
    try:
        response = await _show(call, path)
    except Refused:
        raise Refused("WebContentNotFound") from None
    response.status = status
    return response
