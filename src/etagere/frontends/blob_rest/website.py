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
_of_the_missing_file: Final = frozenset(
    """
    range x-ms-range x-ms-range-get-content-md5 x-ms-range-get-content-crc64
    if-match if-none-match if-modified-since if-unmodified-since x-ms-if-tags
    """.split()
)


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
        return await _error_document(call, site.error_document)
    if site.default_index_path:
        return await _instead(call, site.default_index_path)
    raise Refused("WebContentNotFound")


async def _show(call: BlobCall, path: str) -> Response:
    if not path:
        raise Refused("BlobNotFound")
    call.target = Target(call.target.resource, container, path)
    if call.request.method == "HEAD":
        return await blobs.get_properties(call)
    return await blobs.get(call)


async def _instead(call: BlobCall, path: str) -> Response:
    try:
        return await _show(call, path)
    except Refused as refused:
        if refused.code in ("BlobNotFound", "ContainerNotFound"):
            raise Refused("WebContentNotFound") from None
        raise


async def _error_document(call: BlobCall, path: str) -> Response:
    """All of it, whatever the request wanted to know or have of the file that is missing."""
    headers = call.request.headers
    call.request.headers = {
        name: headers[name] for name in headers if name not in _of_the_missing_file
    }
    response = await _instead(call, path)
    response.status = 404
    return response
