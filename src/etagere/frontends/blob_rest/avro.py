"""The framing of query results: an Avro object container file (Avro 1.11)."""

import json
from collections.abc import Iterator
from typing import Any, Final

sync_marker_bytes: Final = 16
_prefix: Final = "com.microsoft.azure.storage.queryBlobContents."


def _record(name: str, *fields: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": _prefix + name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


_schema: Final = [
    _record("resultData", ("data", "bytes")),
    _record(
        "error",
        ("fatal", "boolean"),
        ("name", "string"),
        ("description", "string"),
        ("position", "long"),
    ),
    _record("progress", ("bytesScanned", "long"), ("totalBytes", "long")),
    _record("end", ("totalBytes", "long")),
]
_result, _error, _progress, _end = range(4)


def encode_long(value: int) -> bytes:
    """Zigzag, then seven bits a byte."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _encode_bytes(raw: bytes) -> bytes:
    return encode_long(len(raw)) + raw


class ResultStream:
    """Makes the blocks of one result; each holds one record."""

    def __init__(self, sync_marker: bytes) -> None:
        assert len(sync_marker) == sync_marker_bytes
        self._sync = sync_marker

    def header(self) -> bytes:
        metadata = {"avro.codec": b"null", "avro.schema": json.dumps(_schema).encode()}
        items = b"".join(
            _encode_bytes(key.encode()) + _encode_bytes(value) for key, value in metadata.items()
        )
        return b"Obj\x01" + encode_long(len(metadata)) + items + b"\x00" + self._sync

    def result(self, data: bytes) -> bytes:
        return self._block(encode_long(_result) + _encode_bytes(data))

    def error(self, name: str, description: str, *, fatal: bool = True) -> bytes:
        texts = _encode_bytes(name.encode()) + _encode_bytes(description.encode())
        flag = b"\x01" if fatal else b"\x00"
        return self._block(encode_long(_error) + flag + texts + encode_long(0))

    def progress(self, scanned: int, total: int) -> bytes:
        return self._block(encode_long(_progress) + encode_long(scanned) + encode_long(total))

    def end(self, scanned: int, total: int) -> Iterator[bytes]:
        yield self.progress(scanned, total)
        yield self._block(encode_long(_end) + encode_long(total))

    def _block(self, record: bytes) -> bytes:
        return encode_long(1) + encode_long(len(record)) + record + self._sync
