"""Entity group transactions: multipart bodies to operations, and answers back to multipart.

Azure: 'Performing entity group transactions'.  A batch is one change set of writes, or a single
query.  Its answer has status 202 whatever came of it: one part for each operation, or exactly one
part for the operation that made the whole fail.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from typing import Final
from urllib.parse import unquote

import msgspec

from etagere.base.errors import Refused
from etagere.frontends.common import multipart
from etagere.frontends.table_rest import path
from etagere.frontends.table_rest.path import TablePath
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import batch_operations_max

url_length_max: Final = 32 * 1024
heads_remembered: Final = 128
head_bytes_remembered: Final = 4096

_blank: Final = b"\r\n\r\n"

_request_line: Final = re.compile(r"([A-Za-z]{1,16})[ \t]+(\S+)[ \t]+HTTP/1\.[01]")
_reasons: Final = {status.value: status.phrase for status in HTTPStatus}
_origin: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


class BatchOperation(msgspec.Struct, frozen=True):
    """One request inside a batch."""

    method: str
    target: TablePath
    raw_query: str
    headers: Mapping[str, str]
    """Names are lower case."""
    body: bytes
    content_id: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    operations: list["BatchOperation | Refused"]
    """Requests in order; one that cannot be read is the refusal that it earns."""
    is_change_set: bool


def parse(content_type: str | None, body: bytes, account: str) -> Batch:
    """Take a batch apart; at most one operation more than is allowed is looked at."""
    outer = _require_boundary(content_type)
    outermost = list(islice(multipart.raw_parts(body, outer), 2))
    if len(outermost) != 1:
        raise invalid_input("A batch must hold one change set or one query.")
    envelope = multipart.part_of(outermost[0])
    inner = multipart.boundary_of(envelope.headers.get("content-type"))
    if inner is None:
        return Batch([_operation(outermost[0], account)], is_change_set=False)
    change_set = islice(multipart.raw_parts(envelope.body, inner), batch_operations_max + 1)
    operations = [_operation(raw, account) for raw in change_set]
    if not operations:
        raise invalid_input("The change set is empty.")
    return Batch(operations, is_change_set=True)


def _require_boundary(content_type: str | None) -> str:
    boundary = multipart.boundary_of(content_type)
    if boundary is None:
        raise invalid_input("A batch must have the Content-Type multipart/mixed and a boundary.")
    return boundary


def _operation(raw: bytes, account: str) -> BatchOperation | Refused:
    try:
        end = raw.find(
            _blank, raw.find(_blank, 0, head_bytes_remembered) + 1, head_bytes_remembered
        )
        if end >= 0:
            known = _known(raw[:end], account)
            if known is not None:
                return _with_body(known, raw[end + len(_blank) :])
        return _read_operation(raw, account)
    except Refused as refused:
        return refused


def _with_body(known: BatchOperation, body: bytes) -> BatchOperation:
    return BatchOperation(
        known.method, known.target, known.raw_query, known.headers, body, known.content_id
    )


# The inserts of a batch differ in nothing but their bodies.
@lru_cache(maxsize=heads_remembered)
def _known(head: bytes, account: str) -> BatchOperation | None:
    """The operation that begins with this, without its body; nothing if that is elsewhere."""
    operation = _read_operation(head + _blank, account)
    return None if operation.body else operation


def _read_operation(raw: bytes, account: str) -> BatchOperation:
    part = multipart.part_of(raw)
    media = part.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/http":
        raise invalid_input("An operation in a batch must be of type application/http.")
    head, body = multipart.split(part.body.lstrip(b"\r\n"))
    line, _, rest = head.partition(b"\n")
    if len(line) > url_length_max:
        raise invalid_input("The URL of an operation in the batch is too long.")
    found = _request_line.fullmatch(line.decode("latin-1").strip())
    if found is None:
        raise invalid_input("The request line of an operation in the batch is malformed.")
    raw_path, _, raw_query = _origin.sub("", found[2], count=1).partition("?")
    headers = multipart.headers_of(rest)
    return BatchOperation(
        method=found[1].upper(),
        target=path.parse(_decode_path(raw_path, account)),
        raw_query=raw_query,
        headers=headers,
        body=body,
        content_id=headers.get("content-id", part.headers.get("content-id")),
    )


def _decode_path(raw_path: str, account: str) -> str:
    """The path below the account, which an absolute URL in path style begins with."""
    bare = raw_path.lstrip("/")
    first, slash, rest = bare.partition("/")
    if slash and unquote(first).removesuffix("-secondary") == account:
        bare = rest
    try:
        return unquote(bare, errors="strict")
    except UnicodeDecodeError:
        raise Refused("InvalidUri") from None


class Answer(msgspec.Struct, frozen=True):
    """What one operation came to."""

    status: int
    headers: dict[str, str]
    body: bytes
    content_id: str | None = None


def content_type(token: str) -> str:
    return f"multipart/mixed; boundary=batchresponse_{token}"


def encode(answers: Sequence[Answer], token: str, *, is_change_set: bool) -> bytes:
    """The body of the answer; `token` makes boundaries that no body has in it."""
    outer = f"batchresponse_{token}".encode()
    if not is_change_set:
        return b"--%b\r\n%b--%b--\r\n" % (outer, _part(answers[0]), outer)
    inner = f"changesetresponse_{token}".encode()
    pieces = [
        b"--%b\r\nContent-Type: multipart/mixed; boundary=%b\r\n\r\n" % (outer, inner),
        *(b"--%b\r\n%b" % (inner, _part(answer)) for answer in answers),
        b"--%b--\r\n--%b--\r\n" % (inner, outer),
    ]
    return b"".join(pieces)


def _part(answer: Answer) -> bytes:
    headers = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
    if answer.content_id is not None:
        headers = f"Content-ID: {answer.content_id}\r\n{headers}"
    head = (
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
        f"HTTP/1.1 {answer.status} {_reasons[answer.status]}\r\n{headers}\r\n"
    )
    return head.encode("latin-1", "replace") + answer.body + b"\r\n"
