"""An entity's own properties: read from what a client sent, measured, merged, kept as JSON.

`Properties` is the object that a query sends at minimal metadata, without keys, Timestamp and
ETag: annotations stand beside the values that need them.  It is stored as the JSON between its
braces, so that a page of a thousand entities is put together from bytes that exist already.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.services.table import edm
from etagere.services.table.names import check_property_name

Properties = dict[str, edm.Scalar]

properties_max: Final = 252
"""Besides PartitionKey, RowKey and Timestamp."""
entity_bytes_max: Final = 1024 * 1024

fragment_bytes_unmeasured: Final = 400 * 1024
"""JSON of this length cannot be an entity that is too large: UTF-16 at most doubles it."""

_odata_type: Final = "odata.type"
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(dict[str, str | int | float | bool])


class EntityBody(msgspec.Struct, frozen=True):
    """What the body of an insert, update, merge or upsert says."""

    partition_key: str | None
    row_key: str | None
    properties: Properties


def read_members(members: Iterable[tuple[str, object]]) -> EntityBody:
    """Read the members of a JSON object, in the order sent, each name with its value."""
    values: dict[str, object] = {}
    types: dict[str, object] = {}
    for name, value in members:
        if "@" in name:
            _read_annotation(name, value, types)
        elif name in values:
            raise Refused("DuplicatePropertiesSpecified")
        elif not name.startswith("odata."):  # odata.etag and its like come back from a query
            values[name] = value
    partition_key = _read_key(values, types, "PartitionKey")
    row_key = _read_key(values, types, "RowKey")
    values.pop("Timestamp", None)  # the service's own; one that is sent is not looked at
    return EntityBody(partition_key, row_key, _settle_all(values, types))


def _read_annotation(name: str, value: object, types: dict[str, object]) -> None:
    owner, _, annotation = name.partition("@")
    if annotation == _odata_type:
        if owner in types:
            raise Refused("DuplicatePropertiesSpecified")
        types[owner] = value
    elif not annotation.startswith("odata."):
        raise Refused("PropertyNameInvalid")


def _read_key(values: dict[str, object], types: dict[str, object], name: str) -> str | None:
    value = values.pop(name, None)
    if value is not None and (type(value) is not str or types.get(name, edm.string) != edm.string):
        raise edm.invalid_input("PartitionKey and RowKey must be strings.")
    return value


def _settle_all(values: dict[str, object], types: dict[str, object]) -> Properties:
    settled: Properties = {}
    count = 0
    for name, value in values.items():
        check_property_name(name)
        if value is None:
            continue
        count += 1
        if name in types:
            kept, annotation = edm.settle(value, types[name])
            if annotation is not None:
                settled[name + edm.annotation_suffix] = annotation
            settled[name] = kept
        else:
            settled[name] = edm.settle_plain(value)
    if count > properties_max:
        raise Refused("TooManyProperties")
    return settled


def merge(old: Properties, new: Properties) -> Properties:
    """The old properties with the new ones laid over them (Merge Entity removes nothing)."""
    merged = dict(old)
    for name in new:
        if "@" not in name:
            merged.pop(name, None)
            merged.pop(name + edm.annotation_suffix, None)
    merged.update(new)
    if len(merged) > properties_max and sum("@" not in name for name in merged) > properties_max:
        raise Refused("TooManyProperties")
    return merged


def encode(properties: Properties) -> bytes:
    """The properties as they are stored: JSON without its braces."""
    try:
        return _encoder.encode(properties)[1:-1]
    except UnicodeEncodeError:
        raise edm.invalid_input("Text must be Unicode without lone surrogates.") from None


def check_size(partition_key: str, row_key: str, fragment: bytes) -> None:
    """Refuse an entity that is too large."""
    if (
        len(fragment) > fragment_bytes_unmeasured
        and size_of(partition_key, row_key, decode(fragment)) > entity_bytes_max
    ):
        raise Refused("EntityTooLarge")


def decode(fragment: bytes) -> Properties:
    return _decoder.decode(b"{" + fragment + b"}")


def size_of(partition_key: str, row_key: str, properties: Properties) -> int:
    """How large the service holds an entity to be.

    Azure: 'Table storage scalability targets', by the formula that its designers published:
    4 + UTF-16 of both keys + for each property 8 + UTF-16 of its name + its value.
    """
    total = 4 + 2 * (edm.utf16_units(partition_key) + edm.utf16_units(row_key))
    for name, value in properties.items():
        if "@" in name:
            continue
        total += 8 + 2 * edm.utf16_units(name)
        total += _value_bytes(value, properties.get(name + edm.annotation_suffix))
    return total


def _value_bytes(value: edm.Scalar, annotation: edm.Scalar | None) -> int:
    match value:
        case bool():
            return 1
        case int():
            return 4
        case float():
            return 8
        case str():
            match annotation:
                case edm.binary:
                    return 4 + len(value) // 4 * 3 - value.count("=")
                case edm.guid:
                    return 16
                case edm.datetime | edm.int64 | edm.double:
                    return 8
                case _:
                    return 4 + 2 * edm.utf16_units(value)
