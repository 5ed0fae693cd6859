"""A request that changes one entity: what it wants, what it needs, how it is answered.

Alone or inside a batch, a change is read and answered in the same way.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from etagere.auth import needs
from etagere.auth.need import Need
from etagere.base.errors import Refused, missing_header
from etagere.frontends.table_rest import media
from etagere.frontends.table_rest.bodies import EntityReader
from etagere.frontends.table_rest.call import reply_headers
from etagere.frontends.table_rest.encode import EntityWriter, entity_segment
from etagere.frontends.table_rest.media import Metadata
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.prefer import no_content, preference
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import (
    Change,
    Series,
    Stored,
    Write,
    series_of,
    write_of,
)
from etagere.services.table.etag import etag_of, parse_if_match

upserts_since: Final = "2011-08-18"
_tunnelled: Final = frozenset({"MERGE", "PATCH", "PUT", "DELETE", "GET"})


_insert: Final = Change.INSERT
_delete: Final = Change.DELETE


class Manner(msgspec.Struct, frozen=True, gc=False):
    """What a request's method and headers say of the change that it makes."""

    change: Change
    if_match: str | None
    need: Need
    level: Metadata
    prefer: str | None


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes = b""


def effective_method(method: str, headers: Mapping[str, str]) -> str:
    """The method, or the one that a POST says it stands for.

    Who says twice what the method is says nothing wrong: Java's azure-storage does, in batches.
    """
    tunnelled = headers.get("x-http-method")
    if tunnelled is None or tunnelled.strip().upper() == method:
        return method
    if method != "POST":
        raise Refused("XMethodNotUsingPost")
    if "," in tunnelled:
        raise Refused("XMethodIncorrectCount")
    if tunnelled.strip().upper() not in _tunnelled:
        raise Refused("XMethodIncorrectValue")
    return tunnelled.strip().upper()


def manner_of(method: str, kind: Kind, headers: Mapping[str, str], version: str) -> Manner:
    """How a request with this (effective) method changes an entity of a table."""
    match method, kind:
        case "POST", Kind.ENTITIES:
            media.check_json(headers.get("content-type"))
            level = media.choose(headers.get("accept"), version)
            return Manner(Change.INSERT, None, needs.entity_insert, level, preference(headers))
        case "PUT", Kind.ENTITY:
            change = Change.REPLACE
        case (("MERGE" | "PATCH"), Kind.ENTITY):
            change = Change.MERGE
        case "DELETE", Kind.ENTITY:
            change = Change.DELETE
        case _:
            raise Refused("NotImplemented")
    if change is not Change.DELETE:
        media.check_json(headers.get("content-type"))
    if_match = _if_match(headers)
    if if_match is None and (change is Change.DELETE or version < upserts_since):
        raise missing_header("If-Match")
    need = needs.entity_upsert if if_match is None else needs.entity_update
    if change is Change.DELETE:
        need = needs.entity_delete
    # What has no body in its answer may be accepted in any form.
    return Manner(change, if_match, need, Metadata.MINIMAL, None)


def read(
    manner: Manner, partition_key: str, row_key: str, body: bytes, reader: EntityReader
) -> Write:
    """The change to the entity that is named by the path or, to be inserted, by the body."""
    change = manner.change
    if change is _delete:
        return write_of(change, partition_key, row_key, if_match=manner.if_match)
    sent = reader.read(body)
    if change is _insert:
        if sent.partition_key is None or sent.row_key is None:
            raise Refused("PropertiesNeedValue")
        partition_key, row_key = sent.partition_key, sent.row_key
    elif (sent.row_key is not None and sent.row_key != row_key) or (
        sent.partition_key is not None and sent.partition_key != partition_key
    ):
        raise invalid_input("The keys in the body are not those of the URL.")
    return write_of(
        change, partition_key, row_key, if_match=manner.if_match, fragment=sent.fragment
    )


def read_alike(
    manner: Manner,
    partition_key: str,
    row_keys: list[str],
    bodies: list[bytes],
    reader: EntityReader,
) -> Series | None:
    """What `read` finds for changes of one manner, if it is plain that it refuses none of them."""
    change = manner.change
    if change is _delete:
        if any(bodies):
            return None
        return series_of(change, partition_key, row_keys, bodies, if_match=manner.if_match)
    sent = reader.read_alike(bodies)
    if sent is None:
        return None
    if change is not _insert and (sent.partition_key, sent.row_keys) != (partition_key, row_keys):
        return None
    return series_of(
        change, sent.partition_key, sent.row_keys, sent.fragments, if_match=manner.if_match
    )


def _if_match(headers: Mapping[str, str]) -> str | None:
    if "if-none-match" in headers:
        raise invalid_input("If-None-Match is not supported for entities.")
    text = headers.get("if-match")
    return None if text is None else parse_if_match(text)


def reply(
    manner: Manner, write: Write, stamp: int, table: str, endpoint: str, account: str
) -> Reply:
    """The answer to a change that was done; `stamp` is 0 for an entity that was deleted."""
    if write.change is not Change.INSERT:
        headers = {**reply_headers, "DataServiceVersion": "1.0;"}
        if stamp:
            headers["ETag"] = etag_of(stamp)
        return Reply(204, headers)
    location = endpoint + entity_segment(table, write.partition_key, write.row_key)
    headers = {
        **reply_headers,
        "DataServiceVersion": "3.0;",
        "ETag": etag_of(stamp),
        "Location": location,
    }
    if manner.prefer is not None:
        headers["Preference-Applied"] = manner.prefer
    if manner.prefer == no_content:
        headers["DataServiceId"] = location
        return Reply(204, headers)
    headers["Content-Type"] = media.content_types[manner.level]
    stored = Stored(write.partition_key, write.row_key, stamp, write.fragment)
    body = EntityWriter(endpoint, account, table, manner.level).single(stored)
    return Reply(201, headers, body)
