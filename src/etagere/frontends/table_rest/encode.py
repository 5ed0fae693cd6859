"""Entities and tables as JSON, at each level of metadata.

Azure: 'Payload format for Table service operations'.  An entity's own properties lie in the store
as the JSON that minimal and full metadata want, so a page of entities is a join of bytes; only
projections and `nometadata` (where there is something to leave out) take them apart.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from etagere.base.clock import ticks_per_second
from etagere.frontends.table_rest.media import Metadata
from etagere.services.table import edm
from etagere.services.table.entities import Series, Stored
from etagere.services.table.entity import Properties
from etagere.services.table.entity import decode as decode_properties
from etagere.services.table.etag import etags_of, second_of, timestamp_of, timestamps_of

_encode: Final = msgspec.json.Encoder().encode
_annotation_mark: Final = edm.annotation_suffix.encode()
_minimal: Final = (
    b'{"odata.etag":"W/\\"datetime\'%b.%07dZ\'\\"","PartitionKey":%b,"RowKey":%b,'
    b'"Timestamp":"%b.%07dZ"%b%b}'
)
"""An entity at minimal metadata; twice the same moment, and last its own properties."""


_plain_key: Final = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""Keys that `quote` would leave as they are, at a tenth of what it costs."""


def key_literal(key: str) -> str:
    """A key as it stands in a URL, between quotes that are not part of it."""
    if _plain_key(key) is not None:
        return key
    return quote(key.replace("'", "''"), safe="'")


def key_literals(keys: list[str]) -> list[str]:
    """The same for each."""
    if _plain_key("".join(keys)) is not None:
        return keys
    return [key_literal(key) for key in keys]


def entity_segment(table: str, partition_key: str, row_key: str) -> str:
    """`T(PartitionKey='..',RowKey='..')`"""
    return f"{table}(PartitionKey='{key_literal(partition_key)}',RowKey='{key_literal(row_key)}')"


class EntityWriter:
    """Writes the entities of one response."""

    def __init__(
        self,
        endpoint: str,
        account: str,
        table: str,
        metadata: Metadata,
        select: tuple[str, ...] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._table = table
        self._type = _encode(f"{account}.{table}") if metadata is Metadata.FULL else b""
        self._metadata = metadata
        self._select = select
        self._partition_key = ""
        self._partition_json = b'""'
        self._second = -1
        self._timestamp = b""
        self._etag = b""

    def feed(self, entities: Iterable[Stored]) -> bytes:
        """`{"odata.metadata": .., "value": [..]}`"""
        write = self._write
        value = b",".join([write(entity) for entity in entities])
        if self._metadata is Metadata.NONE:
            return b'{"value":[' + value + b"]}"
        return b'{"odata.metadata":' + self._context("") + b',"value":[' + value + b"]}"

    def single(self, entity: Stored) -> bytes:
        """The bare object."""
        own = self._write(entity)
        if self._metadata is Metadata.NONE:
            return own
        context = b'{"odata.metadata":' + self._context("/@Element")
        return context + (b"}" if own == b"{}" else b"," + own[1:])

    def _context(self, element: str) -> bytes:
        """Where the metadata of what is written stands, in JSON."""
        projection = "" if self._select is None else "&$select=" + ",".join(self._select)
        return _encode(f"{self._endpoint}$metadata#{self._table}{element}{projection}")

    def columns(self, series: Series, stamps: Sequence[int]) -> list[bytes | list[bytes]]:
        """What `single` makes of each entity of a series at minimal metadata, side by side.

        What all have in common is there once.  No entity is without properties.
        """
        assert self._metadata is Metadata.MINIMAL
        assert all(series.fragments)
        etags = "\n".join(etags_of(stamps)).replace('"', '\\"')
        return [
            b'{"odata.metadata":%b,"odata.etag":"' % self._context("/@Element"),
            etags.encode().split(b"\n"),
            b'","PartitionKey":%b,"RowKey":' % _encode(series.partition_key),
            [_encode(row_key) for row_key in series.row_keys],
            b',"Timestamp":"',
            [timestamp.encode() for timestamp in timestamps_of(stamps)],
            b'",',
            series.fragments,
            b"}",
        ]

    def _write(self, entity: Stored) -> bytes:
        """An entity as an object."""
        if self._select is not None:
            return self._write_selected(entity, self._select)
        fragment = entity.fragment
        if entity.partition_key != self._partition_key:
            self._partition_key = entity.partition_key
            self._partition_json = _encode(entity.partition_key)
        second, fraction = divmod(entity.stamp, ticks_per_second)
        if self._metadata is Metadata.MINIMAL and fraction % 10:
            # What nearly all are: no zeros to leave out, and of the same second as the one before.
            if second != self._second:
                self._remember(second)
            return _minimal % (
                self._etag,
                fraction,
                self._partition_json,
                _encode(entity.row_key),
                self._timestamp,
                fraction,
                b"," if fragment else b"",
                fragment,
            )
        if self._metadata is Metadata.NONE:
            fragment = _without_annotations(fragment)
        return self._write_any(entity, fragment)

    def _remember(self, second: int) -> None:
        self._second = second
        text = second_of(second).encode()
        self._timestamp, self._etag = text, text.replace(b":", b"%3A")

    def _write_any(self, entity: Stored, fragment: bytes) -> bytes:
        """An entity at any level of metadata."""
        return b'{%b"PartitionKey":%b,"RowKey":%b,%b"Timestamp":"%b"%b%b}' % (
            self._annotations(entity),
            self._partition_json,
            _encode(entity.row_key),
            self._timestamp_annotation(),
            timestamp_of(entity.stamp).encode(),
            b"," if fragment else b"",
            fragment,
        )

    def _annotations(self, entity: Stored) -> bytes:
        """What stands before the properties, with a comma behind it."""
        if self._metadata is Metadata.NONE:
            return b""
        etag = _etag_member(timestamp_of(entity.stamp).encode()) + b","
        if self._metadata is Metadata.MINIMAL:
            return etag
        segment = entity_segment(self._table, entity.partition_key, entity.row_key)
        return b'"odata.type":%b,"odata.id":%b,%b"odata.editLink":%b,' % (
            self._type,
            _encode(self._endpoint + segment),
            etag,
            _encode(segment),
        )

    def _timestamp_annotation(self) -> bytes:
        if self._metadata is Metadata.FULL:
            return b'"Timestamp@odata.type":"Edm.DateTime",'
        return b""

    def _write_selected(self, entity: Stored, names: Sequence[str]) -> bytes:
        """A property that the entity does not have is left out, not null (UNCONFIRMED)."""
        own = decode_properties(entity.fragment)
        chosen: Properties = {}
        for name in names:
            match name:
                case "PartitionKey":
                    chosen[name] = entity.partition_key
                case "RowKey":
                    chosen[name] = entity.row_key
                case "Timestamp":
                    if self._metadata is Metadata.FULL:
                        chosen[name + edm.annotation_suffix] = edm.datetime
                    chosen[name] = timestamp_of(entity.stamp)
                case _ if name in own and "@" not in name:
                    annotation = own.get(name + edm.annotation_suffix)
                    if annotation is not None and self._metadata is not Metadata.NONE:
                        chosen[name + edm.annotation_suffix] = annotation
                    chosen[name] = own[name]
        members = self._annotations(entity) + _encode(chosen)[1:-1]
        return b"{" + members.removesuffix(b",") + b"}"


def _etag_member(timestamp: bytes) -> bytes:
    """`"odata.etag": ..`, from the Timestamp as `etag_of` makes it, in JSON."""
    return b'"odata.etag":"W/\\"datetime\'%b\'\\""' % timestamp.replace(b":", b"%3A")


def _without_annotations(fragment: bytes) -> bytes:
    if _annotation_mark not in fragment:
        return fragment
    own = decode_properties(fragment)
    return _encode({name: value for name, value in own.items() if "@" not in name})[1:-1]


class TableWriter:
    """Writes tables as elements of `Tables`."""

    def __init__(self, endpoint: str, account: str, metadata: Metadata) -> None:
        self._endpoint = endpoint
        self._type = f"{account}.Tables"
        self._metadata = metadata

    def feed(self, names: Iterable[str]) -> bytes:
        value = [self._members(name) for name in names]
        if self._metadata is Metadata.NONE:
            return _encode({"value": value})
        return _encode({"odata.metadata": f"{self._endpoint}$metadata#Tables", "value": value})

    def single(self, name: str) -> bytes:
        if self._metadata is Metadata.NONE:
            return _encode(self._members(name))
        context = f"{self._endpoint}$metadata#Tables/@Element"
        return _encode({"odata.metadata": context, **self._members(name)})

    def _members(self, name: str) -> dict[str, str]:
        if self._metadata is not Metadata.FULL:
            return {"TableName": name}
        segment = f"Tables('{name}')"
        return {
            "odata.type": self._type,
            "odata.id": self._endpoint + segment,
            "odata.editLink": segment,
            "TableName": name,
        }
