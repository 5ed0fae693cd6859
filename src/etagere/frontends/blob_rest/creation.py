"""What a request says of the blob that it creates (Azure: 'Put Blob', request headers)."""

from functools import lru_cache
from typing import Final

from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import decode, immutability, tiers
from etagere.frontends.blob_rest.call import BlobCall, tags_since
from etagere.frontends.common.headers import metadata
from etagere.services.blob.creation import NewBlob
from etagere.services.blob.records import ContentHeaders

_say_nothing: Final = frozenset(
    """
    accept accept-encoding authorization connection content-length content-md5 content-type date
    expect host if-match if-modified-since if-none-match if-unmodified-since user-agent
    x-ms-blob-content-length x-ms-blob-type x-ms-client-request-id x-ms-content-crc64 x-ms-date
    x-ms-lease-id x-ms-return-client-request-id x-ms-version
    """.split()
)
"""Headers that say nothing of the new blob but what its content type is.  Most requests have no
others, and then nothing else need be looked for."""


def new_blob(call: BlobCall, *, standard: bool, seal: Seal | None) -> NewBlob:
    """With `standard`, plain HTTP headers stand in for missing x-ms-blob-content-* ones; `seal` is
    what `encryption.seal_of` found."""
    request = call.request
    if standard and request.headers.keys() <= _say_nothing:
        return NewBlob(
            _of_type(request.headers.get("content-type", "")),
            seal=seal,
            may_overwrite=call.grant.may_overwrite,
        )
    return NewBlob(
        headers=decode.content_headers(request, standard=standard),
        metadata=metadata(request),
        tags=_tags(call),
        tier=tiers.tier(request, call.version),
        immutability=immutability.wanted(call),
        seal=seal,
        may_overwrite=call.grant.may_overwrite,
    )


def _tags(call: BlobCall) -> dict[str, str]:
    """To set them takes the permission to; versions that know no tags ignore them."""
    if call.version < tags_since:
        return {}
    tags = decode.tags_header(call.request)
    if tags:
        call.may_use_tags()
    return tags


@lru_cache(maxsize=256)
def _of_type(content_type: str) -> ContentHeaders:
    return ContentHeaders(content_type) if content_type else ContentHeaders()
