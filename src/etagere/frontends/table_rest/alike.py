"""Change sets whose operations are alike, taken apart all at once.

SDKs write the operations of a batch line by line in one form.  Where all are changes of one kind to
entities of one table, they differ in nothing but their bodies, the row keys in their URLs and a few
numbers.  Such a change set is a table: its rows are the operations, its columns their lines.  The
first row is read as any operation is; of a column that has one line all over nothing more has to be
known.  What is no such table is nobody's error: its operations are read one by one.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from etagere.base.errors import Refused
from etagere.frontends.common import multipart
from etagere.frontends.table_rest import batch
from etagere.frontends.table_rest.batch import BatchOperation
from etagere.frontends.table_rest.path import Kind
from etagere.services.table.entities import batch_operations_max

envelope_lines_max: Final = 16
operation_lines_max: Final = 64
number_digits_max: Final = 9
_closing_lines_max: Final = 5
"""Two delimiters, and empty lines around them."""
_lines_max: Final = (
    envelope_lines_max + batch_operations_max * operation_lines_max + _closing_lines_max
)

_line_break: Final = b"\r\n"
_dashes: Final = b"--"
_white_space: Final = b" \t\r\n"
_content_id: Final = b"content-id"
_numbered: Final = re.compile(rb"((?:Content-ID|Content-Length): *)[0-9]+", re.IGNORECASE)
# Nothing stands before the keys that could be a part of them, nor a query: they end the path.
_keyed: Final = re.compile(
    rb"([^('%]*\(PartitionKey='[A-Za-z0-9_.~%-]*',RowKey=')[A-Za-z0-9_.~%-]*('\) HTTP/1\.1)"
)
_key_escaped: Final = re.compile(rb"[A-Za-z0-9_.~%-]*")


class Alike(NamedTuple):
    """Operations that are as the first one is but for these lists, and the lengths they name."""

    first: BatchOperation
    bodies: list[bytes]
    """Without what white space all have in common.

    Of what is neither empty nor a JSON object it was not looked whether there is a delimiter in it.
    """
    row_keys: list[str]
    """Those in the URLs."""
    content_ids: list[str] | None
    """None if no operation has one."""


class _Unlike(ValueError):  # noqa: N818 - not an error but what it says
    pass


def parse(content_type: str | None, body: bytes, account: str) -> Alike | None:
    """The operations that `batch.parse` finds in a batch, if it is plain that they are alike."""
    lines = body.split(_line_break, _lines_max)
    try:
        rows = _rows(lines, content_type)
        sample = lines[rows.start + 1 : rows.start + rows.step]
        _check_lines(sample)
        first = batch.read_operation(_line_break.join(sample), account)
        return _read_columns(first, sample, lines, rows)
    except (Refused, ValueError):  # that of `index` too: a line is not where it should be
        return None


def _rows(lines: list[bytes], content_type: str | None) -> range:
    """Where the delimiters before the operations are, each at the same distance from the next."""
    outer = multipart.boundary_of(content_type)
    blank = lines.index(b"", 1, envelope_lines_max)
    head = multipart.headers_of(_line_break.join(lines[1:blank]))
    inner = multipart.boundary_of(head.get("content-type"))
    if outer is None or inner is None or outer.startswith(inner) or inner.startswith(outer):
        raise _Unlike
    opening, delimiter = _dashes + outer.encode(), _dashes + inner.encode()
    begin = lines.index(delimiter, blank, envelope_lines_max)
    _check_lines(lines[1:begin])
    step = lines.index(delimiter, begin + 1, begin + 1 + operation_lines_max) - begin
    end = lines.index(delimiter + _dashes, max(len(lines) - _closing_lines_max, 0))
    rows = range(begin, end, step)
    if (
        lines[0] != opening
        or (end - begin) % step
        or lines[begin:end:step].count(delimiter) != len(rows)
        or [line for line in lines[end + 1 :] if line] != [opening + _dashes]
        or len(rows) > batch_operations_max
    ):
        raise _Unlike
    return rows


def _check_lines(lines: list[bytes]) -> None:
    """None may be a delimiter, or have a line break inside that is not CRLF."""
    if any(line.startswith(_dashes) or b"\n" in line for line in lines):
        raise _Unlike


def _read_columns(
    first: BatchOperation, sample: list[bytes], lines: list[bytes], rows: range
) -> Alike:
    count = len(rows)
    bodies = [b""] * count
    row_keys = [first.target.row_key] * count
    content_ids = None if first.content_id is None else [first.content_id] * count
    request_at, body_at = _places(first, sample)
    for at, line in enumerate(sample):
        column = lines[rows.start + 1 + at : rows.stop : rows.step]
        if at == body_at:
            bodies = column
        elif column.count(line) == count:
            continue
        elif at == request_at:
            row_keys = _row_keys(first, line, column)
        else:
            numbers = _numbers(line, column)
            if line.lower().startswith(_content_id):
                content_ids = numbers
    return Alike(first, bodies, row_keys, content_ids)


def _places(first: BatchOperation, sample: list[bytes]) -> tuple[int, int | None]:
    """Which of an operation's lines is that of the request, and which its body, if it has one."""
    blank = sample.index(b"")
    request_at = next(at for at, line in enumerate(sample) if at > blank and line)
    last = max(at for at, line in enumerate(sample) if line)
    body = first.body.strip(_white_space)
    head = _line_break.join(sample[: last if body else None])
    if body not in (b"", sample[last]) or len(head) > batch.head_bytes_remembered:
        raise _Unlike
    if head.lower().count(_content_id) > 1:
        raise _Unlike
    return request_at, last if body else None


def _row_keys(first: BatchOperation, line: bytes, column: list[bytes]) -> list[str]:
    keyed = _keyed.fullmatch(line)
    if keyed is None or first.target.kind is not Kind.ENTITY:
        raise _Unlike
    if max(map(len, column)) > batch.head_bytes_remembered:
        raise _Unlike
    found = _cut(column, keyed[1], keyed[2])
    if not _key_escaped.fullmatch(b"".join(found)):
        raise _Unlike
    text = unquote(b"\n".join(found).decode(), errors="strict")
    row_keys = text.split("\n")
    if "'" in text or len(row_keys) != len(found):
        raise _Unlike
    return row_keys


def _numbers(line: bytes, column: list[bytes]) -> list[str]:
    numbered = _numbered.fullmatch(line)
    if numbered is None:
        raise _Unlike
    found = _cut(column, numbered[1], b"")
    if max(map(len, found)) > number_digits_max or not b"".join(found).isdigit():
        raise _Unlike
    return _texts(found)


def _cut(column: list[bytes], begin: bytes, end: bytes) -> list[bytes]:
    """What stands in the lines between a beginning and an end that all have."""
    found = [line[len(begin) : len(line) - len(end)] for line in column]
    if [begin + middle + end for middle in found] != column:
        raise _Unlike
    return found


def _texts(column: list[bytes]) -> list[str]:
    return b"\n".join(column).decode().split("\n")
