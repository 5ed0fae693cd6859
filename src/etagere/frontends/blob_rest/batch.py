"""Blob Batch (Azure: 'Blob Batch'): up to 256 deletes or tier changes in one request.

Each part is a request of its own, with its own authorization, and goes through the pipeline like
any other; they are independent of each other, and one that fails says so in its own part.
"""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from itertools import islice
from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import multipart
from etagere.frontends.common.message import EmptyBody, Request, Response
from etagere.frontends.common.multipart import Part

batch_bytes_max: Final = 4 * 1024 * 1024
batch_parts_max: Final = 256
_together: Final = 16
"""How many parts are under way at once: enough to share commits, few enough to be fair."""


async def batch(call: BlobCall) -> Response:
    boundary = multipart.boundary_of(call.header("content-type"))
    if boundary is None:
        raise _malformed("The Content-Type is not multipart/mixed with a boundary.")
    body = await call.request.body.read(batch_bytes_max)
    parts = list(islice(multipart.parts(body, boundary), batch_parts_max + 1))
    if not 1 <= len(parts) <= batch_parts_max:
        raise _malformed("A batch has 1 to 256 requests.")
    requests = [_request(call, part) for part in parts]
    if len({_kind(request) for request in requests}) != 1:
        raise _malformed("A batch has requests of one kind only.")
    answers: list[Response] = []
    for some in _groups(requests):
        answers += await asyncio.gather(*(call.inner.handle(request) for request in some))
    name = f"batchresponse_{call.request_id}"
    return Response(
        202,
        {"Content-Type": f"multipart/mixed; boundary={name}"},
        _encode(name, parts, answers),
    )


def _malformed(reason: str) -> Refused:
    return Refused("InvalidInput", message=reason)


def _groups(requests: list[Request]) -> Iterator[list[Request]]:
    for start in range(0, len(requests), _together):
        yield requests[start : start + _together]


def _request(call: BlobCall, part: Part) -> Request:
    """The request inside a part; its version is the envelope's."""
    if part.headers.get("content-type", "").lower() != "application/http":
        raise _malformed("Each part of a batch is application/http.")
    line, _, rest = part.body.partition(b"\n")
    words = line.decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise _malformed("A part of the batch does not begin with a request line.")
    headers, body = multipart.split_head(rest)
    if body.strip():
        raise _malformed("The requests of a batch have no bodies.")
    path, _, query = words[1].partition("?")
    own = dict(headers)
    own["host"] = call.request.host
    outer = call.request
    request = Request(
        method=words[0],
        raw_path=path,
        raw_query=query,
        headers=own,
        body=EmptyBody(),
        client_ip=outer.client_ip,
        secure=outer.secure,
    )
    request.implied_version = call.version
    return request


def _kind(request: Request) -> str:
    comp = request.query.get("comp", "")
    if request.method == "DELETE" and not comp:
        return "delete"
    if request.method == "PUT" and comp == "tier":
        return "tier"
    raise _malformed("A batch deletes blobs or sets their tiers, and does nothing else.")


def _encode(boundary: str, parts: list[Part], answers: list[Response]) -> bytes:
    lines: list[bytes] = []
    for index, (part, answer) in enumerate(zip(parts, answers, strict=True)):
        content_id = part.headers.get("content-id", str(index))
        lines += [
            f"--{boundary}".encode(),
            b"Content-Type: application/http",
            f"Content-ID: {content_id}".encode("latin-1"),
            b"",
            f"HTTP/1.1 {answer.status} {_phrase(answer)}".encode("latin-1", "replace"),
        ]
        assert isinstance(answer.body, bytes)
        headers = dict(answer.headers)
        headers["Content-Length"] = str(len(answer.body))
        lines += [
            f"{name}: {value}".encode("latin-1", "replace") for name, value in headers.items()
        ]
        lines += [b"", answer.body]
    lines += [f"--{boundary}--".encode(), b""]
    return b"\r\n".join(lines)


def _phrase(answer: Response) -> str:
    phrase = answer.reason or HTTPStatus(answer.status).phrase
    return phrase.replace("\r", " ").replace("\n", " ")
