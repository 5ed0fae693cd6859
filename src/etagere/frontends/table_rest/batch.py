"""Entity group transactions: multipart bodies to operations, and answers back to multipart.

Azure: 'Performing entity group transactions'.  A batch is one change set of writes, or a single
query.  Its answer has status 202 whatever came of it: one part for each operation, or exactly one
part for the operation that made the whole fail.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec

from etagere.base.errors import Refused
from etagere.frontends.common import multipart
from etagere.frontends.table_rest import path
from etagere.frontends.table_rest.path import Kind, TablePath
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import batch_operations_max

url_length_max: Final = 32 * 1024
heads_remembered: Final = 512
head_bytes_remembered: Final = 2048

_blank: Final = b"\r\n\r\n"

_keys_begin: Final = b"(PartitionKey='"
_plain_keys: Final = re.compile(
    rb"\(PartitionKey='([A-Za-z0-9_.~-]*)',RowKey='([A-Za-z0-9_.~-]*)'\) HTTP/1\.1"
)
_request_line: Final = re.compile(r"([A-Za-z]{1,16})[ \t]+(\S+)[ \t]+HTTP/1\.[01]", re.ASCII)
_reasons: Final = {status.value: status.phrase for status in HTTPStatus}
_origin: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


class BatchOperation(msgspec.Struct, frozen=True, gc=False):
    """One request inside a batch."""

    method: str
    target: TablePath
    raw_query: str
    fields: bytes
    """The lines of its headers."""
    body: bytes
    content_id: str | None

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are lower case."""
        return multipart.headers_of(self.fields)


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
    operations = _operations(change_set, account)
    if not operations:
        raise invalid_input("The change set is empty.")
    return Batch(operations, is_change_set=True)


def _require_boundary(content_type: str | None) -> str:
    boundary = multipart.boundary_of(content_type)
    if boundary is None:
        raise invalid_input("A batch must have the Content-Type multipart/mixed and a boundary.")
    return boundary


def _operations(change_set: Iterable[bytes], account: str) -> list["BatchOperation | Refused"]:
    """Requests in order; where one begins like the one before, only its body is looked at."""
    found: list[BatchOperation | Refused] = []
    before: BatchOperation | None = None
    head = b""
    for raw in change_set:
        if before is not None and raw.startswith(head):
            operation: BatchOperation | Refused = BatchOperation(
                before.method,
                before.target,
                before.raw_query,
                before.fields,
                raw[len(head) :],
                before.content_id,
            )
        else:
            operation = _operation(raw, account)
            before = None
            if isinstance(operation, BatchOperation):
                before, head = operation, raw[: len(raw) - len(operation.body)]
                if not head.endswith(_blank):
                    before = None
        found.append(operation)
    return found


def _operation(raw: bytes, account: str) -> BatchOperation | Refused:
    try:
        return read_operation(raw, account)
    except Refused as refused:
        return refused


def read_operation(raw: bytes, account: str) -> BatchOperation:
    """The request that a part is."""
    return _read_usual(raw, account) or _read_any(raw, account)


def _read_any(raw: bytes, account: str) -> BatchOperation:
    part = multipart.part_of(raw)
    _check_http(part.headers)
    head, body = multipart.split(part.body.lstrip(b"\r\n"))
    line, _, fields = head.partition(b"\n")
    first = _read_line(line, account)
    content_id = multipart.headers_of(fields).get("content-id", part.headers.get("content-id"))
    return BatchOperation(first.method, first.target, first.raw_query, fields, body, content_id)


def _check_http(headers: Mapping[str, str]) -> None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/http":
        raise invalid_input("An operation in a batch must be of type application/http.")


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A request line, taken apart."""

    method: str
    target: TablePath
    raw_query: str


def _read_line(line: bytes, account: str) -> _Line:
    if len(line) > url_length_max:
        raise invalid_input("The URL of an operation in the batch is too long.")
    # What stands in a URL without having been escaped is UTF-8, as what was escaped is.
    found = _request_line.fullmatch(line.decode(errors="replace").strip())
    if found is None or "\ufffd" in found[2]:
        raise invalid_input("The request line of an operation in the batch is malformed.")
    origin = _origin.match(found[2])
    raw_path, _, raw_query = found[2][origin.end() if origin else 0 :].partition("?")
    return _Line(found[1].upper(), path.parse(_decode_path(raw_path, account)), raw_query)


# The operations of a batch differ in their bodies, keys and numbers; all else is read once.


def _read_usual(raw: bytes, account: str) -> BatchOperation | None:
    """The same as `_read_any` for what SDKs send; nothing for what wants a closer look."""
    pieces = raw.split(_blank, 2)
    if len(pieces) != 3 or max(len(pieces[0]), len(pieces[1])) > head_bytes_remembered:
        return None
    part_head, request_head, body = pieces
    line, _, fields = request_head.partition(b"\r\n")
    try:
        part, request = _known_part(part_head), _known_fields(fields)
        first = _usual_line(line, account)
    except Refused:
        return None
    if part is None or request is None or first is None:
        return None
    content_id = part.content_id if request.content_id is None else request.content_id
    return BatchOperation(first.method, first.target, first.raw_query, fields, body, content_id)


class _Known(NamedTuple):
    """Headers that are as they should be, with no blank line before their end."""

    content_id: str | None


@lru_cache(maxsize=heads_remembered)
def _known_part(head: bytes) -> _Known | None:
    part = multipart.part_of(head + _blank)
    if part.body:
        return None
    _check_http(part.headers)
    return _Known(part.headers.get("content-id"))


@lru_cache(maxsize=heads_remembered)
def _known_fields(fields: bytes) -> _Known | None:
    if multipart.split(b"-\r\n" + fields + _blank)[1]:
        return None
    return _Known(multipart.headers_of(fields).get("content-id"))


def _usual_line(line: bytes, account: str) -> _Line | None:
    at = line.find(_keys_begin)
    if at < 0:
        return _known_line(line, account)
    keys = _plain_keys.fullmatch(line, at)
    place = None if keys is None else _known_place(line[:at], account)
    if keys is None or place is None:
        return None
    partition_key, row_key = keys.groups()
    target = TablePath(Kind.ENTITY, place.target.table, partition_key.decode(), row_key.decode())
    return _Line(place.method, target, "")


@lru_cache(maxsize=heads_remembered)
def _known_line(line: bytes, account: str) -> _Line | None:
    return None if b"\n" in line else _read_line(line, account)


@lru_cache(maxsize=heads_remembered)
def _known_place(begin: bytes, account: str) -> _Line | None:
    """The line that has this before its keys, with other keys."""
    if b"\n" in begin:
        return None
    line = _read_line(begin + b"(PartitionKey='p',RowKey='r') HTTP/1.1", account)
    target = TablePath(Kind.ENTITY, line.target.table, "p", "r")
    return line if line.target == target and not line.raw_query else None


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


part_head: Final = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"


class Answer(msgspec.Struct, frozen=True):
    """What one operation came to."""

    status: int
    headers: dict[str, str]
    body: bytes
    content_id: str | None = None


def content_type(token: str) -> str:
    return f"multipart/mixed; boundary=batchresponse_{token}"


def encode(parts: Sequence[bytes], token: str, *, is_change_set: bool) -> bytes:
    """The body of the answer; `token` makes boundaries that no body has in it."""
    outer = f"batchresponse_{token}".encode()
    if not is_change_set:
        return b"--%b\r\n%b--%b--\r\n" % (outer, parts[0], outer)
    inner = f"changesetresponse_{token}".encode()
    between = delimiter(token)
    return b"--%b\r\nContent-Type: multipart/mixed; boundary=%b\r\n\r\n%b%b--%b--\r\n--%b--\r\n" % (
        outer,
        inner,
        between,
        between.join(parts),
        inner,
        outer,
    )


def delimiter(token: str) -> bytes:
    """What stands between the parts of a change set."""
    return b"--changesetresponse_%b\r\n" % token.encode()


def encode_part(answer: Answer) -> bytes:
    headers = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
    if answer.content_id is not None:
        headers = f"Content-ID: {answer.content_id}\r\n{headers}"
    head = f"{part_head}HTTP/1.1 {answer.status} {_reasons[answer.status]}\r\n{headers}\r\n"
    return head.encode("latin-1", "replace") + answer.body + b"\r\n"
