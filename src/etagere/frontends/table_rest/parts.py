"""The answers to the changes of a batch, written as parts of a multipart body.

They are what `writing.reply` and `batch.encode_part` make; here nothing that several have in common
is written twice.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from etagere.frontends.table_rest import batch, writing
from etagere.frontends.table_rest.batch import Answer
from etagere.frontends.table_rest.call import reply_headers
from etagere.frontends.table_rest.encode import EntityWriter, key_literal, key_literals
from etagere.frontends.table_rest.media import Metadata, content_types
from etagere.frontends.table_rest.prefer import no_content
from etagere.frontends.table_rest.writing import Manner
from etagere.services.table.entities import Change, Series, Stored, Write
from etagere.services.table.etag import etag_of, etags_of

_insert: Final = Change.INSERT
_delete: Final = Change.DELETE

_common: Final = "".join(f"{name}: {value}\r\n" for name, value in reply_headers.items()).encode()
_head: Final = batch.part_head.encode()
_changed: Final = _common + b"DataServiceVersion: 1.0;\r\n"
_inserted: Final = _common + b"DataServiceVersion: 3.0;\r\n"
_none: Final = _head + b"HTTP/1.1 204 No Content\r\n"
_created: Final = _head + b"HTTP/1.1 201 Created\r\n"
_minimal: Final = f"Content-Type: {content_types[Metadata.MINIMAL]}\r\n\r\n".encode()


class PartWriter:
    """Writes the parts of one batch's answer."""

    def __init__(self, endpoint: str, account: str, table: str) -> None:
        self._endpoint = endpoint
        self._account = account
        self._table = table
        self._partition_key: str | None = None
        self._location = b""
        self._entities = EntityWriter(endpoint, account, table, Metadata.MINIMAL)

    def write(self, manner: Manner, write: Write, stamp: int, content_id: str | None) -> bytes:
        """The answer to a change that was done; `stamp` is 0 for an entity that was deleted."""
        name = b""
        if content_id is not None:
            name = f"Content-ID: {content_id}\r\n".encode("latin-1", "replace")
        change = manner.change
        if change is _delete:
            return b"%b%b%b\r\n\r\n" % (_none, name, _changed)
        etag = etag_of(stamp).encode()
        if change is not _insert:
            return b"%b%b%bETag: %b\r\n\r\n\r\n" % (_none, name, _changed, etag)
        if write.partition_key != self._partition_key:
            self._remember_partition(write.partition_key)
        location = b"%b%b')" % (self._location, key_literal(write.row_key).encode())
        if manner.prefer == no_content:
            return (
                b"%b%b%bETag: %b\r\nLocation: %b\r\nPreference-Applied: return-no-content\r\n"
                b"DataServiceId: %b\r\n\r\n\r\n"
            ) % (_none, name, _inserted, etag, location, location)
        if manner.prefer is None and manner.level is Metadata.MINIMAL:
            stored = Stored(write.partition_key, write.row_key, stamp, write.fragment)
            return b"%b%b%bETag: %b\r\nLocation: %b\r\n%b%b\r\n" % (
                _created,
                name,
                _inserted,
                etag,
                location,
                _minimal,
                self._entities.single(stored),
            )
        reply = writing.reply(manner, write, stamp, self._table, self._endpoint, self._account)
        return batch.encode_part(Answer(reply.status, reply.headers, reply.body, content_id))

    def write_alike(
        self,
        manner: Manner,
        series: Series,
        stamps: Sequence[int],
        content_ids: list[str] | None,
        delimiter: bytes,
    ) -> bytes:
        """The same for changes of one manner, all of which were done, with a delimiter between."""
        change = manner.change
        name: list[bytes | list[bytes]] = []
        if content_ids is not None:
            name = [b"Content-ID: ", _column(content_ids), b"\r\n"]
        if change is _delete:
            return _rows([_none, *name, _changed + b"\r\n\r\n"], len(stamps), delimiter)
        etag = _column(etags_of(stamps))
        if change is not _insert:
            changed = _changed + b"ETag: "
            return _rows([_none, *name, changed, etag, b"\r\n\r\n\r\n"], len(stamps), delimiter)
        self._remember_partition(series.partition_key)
        location = b"\r\nLocation: " + self._location
        row_key = _column(key_literals(series.row_keys))
        inserted = [*name, _inserted + b"ETag: ", etag, location, row_key]
        if manner.prefer == no_content:
            twice = b"')\r\nPreference-Applied: return-no-content\r\nDataServiceId: "
            twice += self._location
            columns = [_none, *inserted, twice, row_key, b"')\r\n\r\n\r\n"]
            return _rows(columns, len(stamps), delimiter)
        if manner.prefer is None and manner.level is Metadata.MINIMAL and all(series.fragments):
            own = self._entities.columns(series, stamps)
            columns = [_created, *inserted, b"')\r\n" + _minimal, *own, b"\r\n"]
            return _rows(columns, len(stamps), delimiter)
        names: Iterable[str | None] = content_ids or repeat(None, len(stamps))
        writes = zip(series.writes, stamps, names, strict=True)
        return delimiter.join([self.write(manner, *each) for each in writes])

    def _remember_partition(self, partition_key: str) -> None:
        self._partition_key = partition_key
        begin = (
            f"{self._endpoint}{self._table}(PartitionKey='{key_literal(partition_key)}',RowKey='"
        )
        self._location = begin.encode("latin-1", "replace")


def _column(texts: list[str]) -> list[bytes]:
    """Of texts without line feeds."""
    return "\n".join(texts).encode("latin-1", "replace").split(b"\n")


def _rows(columns: list[bytes | list[bytes]], count: int, between: bytes) -> bytes:
    """What the columns have in each of some rows; what all rows have is there once."""
    width = len(columns) + 1
    pieces = [between] * (width * count)
    pieces[0] = b""
    for at, column in enumerate(columns, 1):
        pieces[at::width] = [column] * count if isinstance(column, bytes) else column
    return b"".join(pieces)
