"""Query Blob Contents over HTTP (Azure: 'Query Blob Contents')."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.blob_rest import encode
from etagere.frontends.blob_rest.avro import ResultStream, sync_marker_bytes
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.encryption import open_with_key
from etagere.frontends.common import xml
from etagere.frontends.common.message import Response
from etagere.frontends.common.xml import Node
from etagere.services.blob.query import (
    Arrow,
    ArrowField,
    BadData,
    Delimited,
    Input,
    JsonLines,
    Output,
    Parquet,
    Query,
    Running,
    Skipped,
    save,
)

separator_chars_max: Final = 1


async def query(call: BlobCall) -> Response:
    """What is wrong with the query is refused before the first byte of the answer; what is wrong
    with the blob, the answer says."""
    wanted = decode(await call.request.body.read())
    download = await open_with_key(call, None)
    record = download.record
    running = Running(wanted, await save(_chunks(download.body)))
    headers = encode.blob_headers(record, call.blobs.clock.now())
    headers["Content-Type"] = "avro/binary"
    stream = ResultStream(call.blobs.entropy.token(sync_marker_bytes))
    try:
        await asyncio.to_thread(running.start)
        batches = running.batches()
        first = await asyncio.to_thread(next, batches, None)
    except BadData as bad:
        await asyncio.to_thread(running.close)
        parts = (
            stream.header(),
            stream.progress(0, record.size),
            stream.result(b""),
            stream.error(bad.code, bad.message or ""),
        )
        return Response(200, headers, b"".join(parts))
    except BaseException:
        await asyncio.to_thread(running.close)
        raise
    return Response(200, headers, _body(stream, running, first, batches, record.size))


async def _chunks(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for piece in body:
        yield piece


async def _body(
    stream: ResultStream,
    running: Running,
    batch: bytes | Skipped | None,
    batches: Iterator[bytes | Skipped],
    size: int,
) -> AsyncGenerator[bytes, None]:
    try:
        yield stream.header()
        if isinstance(batch, Skipped):
            # Clients make something of the first record before they know what to do with errors.
            yield stream.progress(0, size)
        while batch is not None:
            if isinstance(batch, Skipped):
                yield stream.error("InvalidColumnOrdinal", batch.description, fatal=False)
            elif batch:
                yield stream.result(batch)
            try:
                batch = await asyncio.to_thread(next, batches, None)
            except Refused as refused:
                yield stream.error(refused.code, refused.message or refused.code)
                return
        for block in stream.end(size, size):
            yield block
    finally:
        await asyncio.to_thread(running.close)


def decode(data: bytes) -> Query:
    root = xml.parse(data, "QueryRequest")
    kind = root.text_of("QueryType")
    if kind is None or kind.strip().upper() != "SQL":
        raise xml.invalid_node("QueryType", kind or "", "Only SQL is known.")
    expression = root.text_of("Expression")
    if not expression or not expression.strip():
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": "Expression"})
    reads = _format(root, "InputSerialization")
    if isinstance(reads, Arrow):
        raise xml.invalid_node("Type", "arrow", "Arrow is written and not read.")
    writes = _format(root, "OutputSerialization")
    if isinstance(writes, Parquet):
        raise xml.invalid_node("Type", "parquet", "Parquet is read and not written.")
    return Query(expression, reads or Delimited(), writes)


def _format(root: Node, name: str) -> Input | Output | None:
    serialization = root.child(name)
    form = None if serialization is None else serialization.child("Format")
    if form is None:
        return None
    kind = (form.text_of("Type") or "").strip().lower()
    match kind:
        case "delimited":
            return _delimited(form.child("DelimitedTextConfiguration"))
        case "json":
            return JsonLines(_text(form.child("JsonTextConfiguration"), "RecordSeparator", "\n"))
        case "parquet":
            return Parquet()
        case "arrow":
            return _arrow(form.child("ArrowConfiguration"))
        case _:
            raise xml.invalid_node("Type", kind, "It is delimited, json, parquet or arrow.")


def _text(node: Node | None, name: str, default: str) -> str:
    found = None if node is None else node.text_of(name)
    return default if found is None else found


def _single(node: Node | None, name: str, default: str) -> str:
    text = _text(node, name, default)
    if len(text) > separator_chars_max:
        raise xml.invalid_node(name, text, "It is one character.")
    return text


def _delimited(node: Node | None) -> Delimited:
    return Delimited(
        column_separator=_single(node, "ColumnSeparator", ","),
        field_quote=_single(node, "FieldQuote", '"'),
        record_separator=_text(node, "RecordSeparator", "\n"),
        escape=_single(node, "EscapeChar", ""),
        headers=_text(node, "HasHeaders", "false").strip().lower() == "true",
    )


def _arrow(node: Node | None) -> Arrow:
    schema = None if node is None else node.child("Schema")
    return Arrow(tuple(_field(field) for field in (schema.children if schema else ())))


def _field(node: Node) -> ArrowField:
    return ArrowField(
        kind=(node.text_of("Type") or "").strip(),
        name=node.text_of("Name") or "",
        precision=_number(node, "Precision"),
        scale=_number(node, "Scale"),
    )


def _number(node: Node, name: str) -> int:
    text = (node.text_of(name) or "0").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise xml.invalid_node(name, text, "It is a number.")
    return int(text)
