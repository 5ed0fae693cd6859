"""What a request says of the blob that it creates (Azure: 'Put Blob', request headers)."""

from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import decode, immutability, tiers
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.headers import metadata
from etagere.services.blob.creation import NewBlob


def new_blob(call: BlobCall, *, standard: bool, seal: Seal | None) -> NewBlob:
    """With `standard`, plain HTTP headers stand in for missing x-ms-blob-content-* ones; `seal` is
    what `encryption.seal_of` found."""
    request = call.request
    tags = decode.tags_header(request)
    if tags:
        call.may_use_tags()
    return NewBlob(
        headers=decode.content_headers(request, standard=standard),
        metadata=metadata(request),
        tags=tags,
        tier=tiers.tier(request, call.version),
        immutability=immutability.wanted(call),
        seal=seal,
        may_overwrite=call.grant.may_overwrite,
    )
