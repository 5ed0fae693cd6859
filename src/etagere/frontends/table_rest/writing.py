"""A request that changes one entity: what it wants, what it needs, how it is answered.

Alone or inside a batch, a change is read and answered in the same way.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from etagere.auth import needs
from etagere.auth.need import Need
from etagere.base.errors import Refused, missing_header
from etagere.frontends.table_rest import decode, media
from etagere.frontends.table_rest.call import reply_headers
from etagere.frontends.table_rest.encode import EntityWriter, entity_segment
from etagere.frontends.table_rest.media import Metadata
from etagere.frontends.table_rest.path import Kind, TablePath
from etagere.frontends.table_rest.prefer import preference
from etagere.services.table.edm import invalid_input
from etagere.services.table.entities import Change, Stored, Write, write_of
from etagere.services.table.etag import etag_of, parse_if_match

upserts_since: Final = "2011-08-18"
_tunnelled: Final = frozenset({"MERGE", "PATCH", "PUT", "DELETE", "GET"})


class Wanted(msgspec.Struct, frozen=True):
    """A change to an entity of a table, and how the client wants it answered."""

    table: str
    write: Write
    need: Need
    level: Metadata
    prefer: str | None


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes = b""


def effective_method(method: str, headers: Mapping[str, str]) -> str:
    """The method, or the one that a POST says it stands for."""
    tunnelled = headers.get("x-http-method")
    if tunnelled is None:
        return method
    if method != "POST":
        raise Refused("XMethodNotUsingPost")
    if "," in tunnelled:
        raise Refused("XMethodIncorrectCount")
    if tunnelled.strip().upper() not in _tunnelled:
        raise Refused("XMethodIncorrectValue")
    return tunnelled.strip().upper()


def read(
    method: str, path: TablePath, headers: Mapping[str, str], body: bytes, version: str
) -> Wanted:
    """What a request with this (effective) method on an entity or a table wants changed."""
    match method, path.kind:
        case "POST", Kind.ENTITIES:
            write, need = _insert(headers, body), needs.entity_insert
        case "PUT", Kind.ENTITY:
            write, need = _change(Change.REPLACE, path, headers, body)
        case (("MERGE" | "PATCH"), Kind.ENTITY):
            write, need = _change(Change.MERGE, path, headers, body)
        case "DELETE", Kind.ENTITY:
            write, need = _delete(path, headers), needs.entity_delete
        case _:
            raise Refused("NotImplemented")
    if need is needs.entity_upsert and version < upserts_since:
        raise missing_header("If-Match")
    # What has no body in its answer may be accepted in any form.
    level = (
        media.choose(headers.get("accept"), version)
        if write.change is Change.INSERT
        else Metadata.MINIMAL
    )
    return Wanted(path.table, write, need, level, preference(headers))


def _insert(headers: Mapping[str, str], body: bytes) -> Write:
    media.check_json(headers.get("content-type"))
    entity = decode.entity(body)
    if entity.partition_key is None or entity.row_key is None:
        raise Refused("PropertiesNeedValue")
    return write_of(
        Change.INSERT, entity.partition_key, entity.row_key, properties=entity.properties
    )


def _change(
    change: Change, path: TablePath, headers: Mapping[str, str], body: bytes
) -> tuple[Write, Need]:
    media.check_json(headers.get("content-type"))
    entity = decode.entity(body)
    if entity.partition_key not in (None, path.partition_key) or (
        entity.row_key not in (None, path.row_key)
    ):
        raise invalid_input("The keys in the body are not those of the URL.")
    if_match = _if_match(headers)
    write = write_of(
        change,
        path.partition_key,
        path.row_key,
        if_match=if_match,
        properties=entity.properties,
    )
    return write, needs.entity_upsert if if_match is None else needs.entity_update


def _delete(path: TablePath, headers: Mapping[str, str]) -> Write:
    if_match = _if_match(headers)
    if if_match is None:
        raise missing_header("If-Match")
    return write_of(Change.DELETE, path.partition_key, path.row_key, if_match=if_match)


def _if_match(headers: Mapping[str, str]) -> str | None:
    if "if-none-match" in headers:
        raise invalid_input("If-None-Match is not supported for entities.")
    text = headers.get("if-match")
    return None if text is None else parse_if_match(text)


def reply(wanted: Wanted, stamp: int, endpoint: str, account: str) -> Reply:
    """The answer to a change that was done; `stamp` is 0 for an entity that was deleted."""
    write = wanted.write
    if write.change is not Change.INSERT:
        headers = {**reply_headers, "DataServiceVersion": "1.0;"}
        if stamp:
            headers["ETag"] = etag_of(stamp)
        return Reply(204, headers)
    location = endpoint + entity_segment(wanted.table, write.partition_key, write.row_key)
    headers = {
        **reply_headers,
        "DataServiceVersion": "3.0;",
        "ETag": etag_of(stamp),
        "Location": location,
    }
    if wanted.prefer is not None:
        headers["Preference-Applied"] = wanted.prefer
    if wanted.prefer == "return-no-content":
        headers["DataServiceId"] = location
        return Reply(204, headers)
    headers["Content-Type"] = media.content_types[wanted.level]
    stored = Stored(write.partition_key, write.row_key, stamp, write.fragment)
    body = EntityWriter(endpoint, account, wanted.table, wanted.level).single(stored)
    return Reply(201, headers, body)
