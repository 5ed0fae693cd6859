"""Structured bodies of uploads and downloads (`common.structured_body`)."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from etagere.base.errors import Refused, invalid_header
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.headers import body_length, required
from etagere.frontends.common.message import Response
from etagere.frontends.common.structured_body import (
    Decoder,
    Encoder,
    body_header,
    length_header,
    message_bytes,
    since,
    value,
)

content_bytes_max: Final = 2**63 - 1


def is_structured(call: BlobCall) -> bool:
    """Whether the request's body is structured or, of a download, the response's is to be."""
    sent = call.request.headers.get(body_header)
    if not sent:
        return False
    if call.version < since:
        # What an older version knows nothing of it would store as it came, frames and all.
        raise Refused("UnsupportedHeader", {"HeaderName": body_header, "HeaderValue": sent})
    if sent.replace(" ", "").lower() != value.replace(" ", "").lower():
        raise invalid_header(body_header, sent)
    return True


def content_length(call: BlobCall) -> int:
    """How much content the body has."""
    if not is_structured(call):
        return body_length(call.request)
    text = required(call.request, length_header)
    if not (text.isascii() and text.isdecimal()) or int(text) > content_bytes_max:
        raise invalid_header(length_header, text)
    return int(text)


def content_chunks(call: BlobCall) -> AsyncIterator[bytes]:
    """The content as it arrives."""
    chunks = call.request.body.chunks()
    if not is_structured(call):
        return chunks
    return _decoded(chunks, Decoder(body_length(call.request), content_length(call)))


async def _decoded(chunks: AsyncIterator[bytes], decoder: Decoder) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        for piece in decoder.feed(chunk):
            yield piece
    decoder.finish()


def echo(call: BlobCall) -> dict[str, str]:
    """What the response to an upload says of how it was read."""
    return {body_header: value} if is_structured(call) else {}


def wrap(call: BlobCall, response: Response) -> Response:
    """A download as the request wants it."""
    if not is_structured(call):
        return response
    size = int(response.headers["Content-Length"])
    response.headers["Content-Length"] = str(message_bytes(size))
    response.headers[length_header] = str(size)
    response.headers[body_header] = value
    encoder = Encoder(size)
    if isinstance(response.body, bytes):
        pieces = [encoder.begin(), *encoder.encode(response.body)]
        response.body = b"".join([*pieces, encoder.end()])
    else:
        response.body = _encoded(response.body, encoder)
    return response


async def _encoded(body: AsyncIterator[bytes], encoder: Encoder) -> AsyncGenerator[bytes, None]:
    assert isinstance(body, AsyncGenerator)
    # Only what was begun does, when it is closed, what it does at its end: the body comes first.
    before: tuple[bytes, ...] = (encoder.begin(),)
    async with aclosing(body):
        async for piece in body:
            for part in (*before, *encoder.encode(piece)):
                yield part
            before = ()
    for part in (*before, encoder.end()):
        yield part
