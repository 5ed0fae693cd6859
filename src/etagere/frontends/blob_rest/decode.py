"""Blob requests as request values: headers, query and XML, checked before anything is looked up."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from etagere.base.clock import ticks_per_millisecond
from etagere.base.errors import Refused, invalid_header, invalid_query, missing_query
from etagere.frontends.common import xml
from etagere.frontends.common.headers import decode_base64, digest, integer, required
from etagere.frontends.common.message import Request
from etagere.frontends.common.paging import decode_marker
from etagere.kernel.dates import parse_http_date
from etagere.kernel.tag_predicate import TagSyntaxError, parse_tag_search
from etagere.services.blob import keys
from etagere.services.blob.block_blobs import Source, Wanted, committed_blocks_max
from etagere.services.blob.lifetime import ExpiryOption, WantedExpiry
from etagere.services.blob.listing import ListBlobs, Position, results_max
from etagere.services.blob.records import ContentHeaders, PublicAccess
from etagere.services.blob.tag_search import FindBlobs, Start

block_id_bytes_max: Final = 64
block_list_bytes_max: Final = 16 * 1024 * 1024
"""50,000 elements with ids of 64 bytes in base64 and the longest tags are under 7 MiB."""
_mebibyte: Final = 1024 * 1024

# The sizes that one request may carry, by the oldest version that takes them.
put_blob_bytes_max: Final = (
    ("2019-12-12", 5000 * _mebibyte),
    ("2016-05-31", 256 * _mebibyte),
    ("", 64 * _mebibyte),
)
block_bytes_max: Final = (
    ("2019-12-12", 4000 * _mebibyte),
    ("2016-05-31", 100 * _mebibyte),
    ("", 4 * _mebibyte),
)


def limit_for(version: str, limits: tuple[tuple[str, int], ...]) -> int:
    return next(size for since, size in limits if version >= since)


def too_large(limit: int) -> Refused:
    return Refused("RequestBodyTooLarge", {"MaxLimit": str(limit)})


def public_access(request: Request) -> PublicAccess:
    value = request.headers.get("x-ms-blob-public-access")
    match value and value.lower():
        case None | "":
            return PublicAccess.NONE
        case "blob":
            return PublicAccess.BLOB
        case "container" | "true":  # "true" is what 2009-07-17 and before called it
            return PublicAccess.CONTAINER
        case _:
            raise invalid_header("x-ms-blob-public-access", value or "")


def content_headers(request: Request, *, standard: bool) -> ContentHeaders:
    """The six content properties; with `standard`, plain HTTP headers stand in for missing ones."""
    headers = request.headers

    def value(name: str, plain: str) -> str:
        found = headers.get(f"x-ms-blob-{name}")
        if found is None and standard:
            found = headers.get(plain)
        return found or ""

    return ContentHeaders(
        content_type=value("content-type", "content-type") or "application/octet-stream",
        encoding=value("content-encoding", "content-encoding"),
        language=value("content-language", "content-language"),
        disposition=headers.get("x-ms-blob-content-disposition", ""),
        cache_control=value("cache-control", "cache-control"),
        md5=digest(request, "x-ms-blob-content-md5", "md5") or b"",
    )


_property_headers: Final = (
    "x-ms-blob-cache-control",
    "x-ms-blob-content-type",
    "x-ms-blob-content-md5",
    "x-ms-blob-content-encoding",
    "x-ms-blob-content-language",
    "x-ms-blob-content-disposition",
)


def names_content_headers(headers: Mapping[str, str]) -> bool:
    """Whether a Set Blob Properties speaks of any of the six, and so replaces all of them."""
    return any(name in headers for name in _property_headers)


def changed_headers(request: Request) -> ContentHeaders:
    """What Set Blob Properties sets; what it leaves out is cleared, the content type as well."""
    headers = request.headers
    return ContentHeaders(
        content_type=headers.get("x-ms-blob-content-type", ""),
        encoding=headers.get("x-ms-blob-content-encoding", ""),
        language=headers.get("x-ms-blob-content-language", ""),
        disposition=headers.get("x-ms-blob-content-disposition", ""),
        cache_control=headers.get("x-ms-blob-cache-control", ""),
        md5=_stored_md5(request),
    )


def _stored_md5(request: Request) -> bytes:
    """Of a property that nobody compares with anything, the length does not matter either (seen on
    the live service)."""
    text = request.headers.get("x-ms-blob-content-md5", "")
    found = decode_base64(text)
    if found is None:
        raise Refused("InvalidMd5", {"HeaderName": "x-ms-blob-content-md5", "HeaderValue": text})
    return found


def block_id(request: Request) -> bytes:
    text = request.query.get("blockid")
    if not text:
        raise missing_query("blockid")
    raw = decode_base64(text.replace(" ", "+"))  # base64 whose `+` was not escaped
    if raw is None or not 1 <= len(raw) <= block_id_bytes_max:
        raise invalid_query("blockid", text, "Not a valid base64 string.")
    return raw


def block_list(data: bytes) -> list[Wanted]:
    root = xml.parse(data, "BlockList")
    if len(root.children) > committed_blocks_max:
        raise Refused("BlockListTooLong")
    return [_listed(node) for node in root.children]


def _listed(node: xml.Node) -> Wanted:
    try:
        source = Source(node.name)
    except ValueError:
        raise xml.invalid_document(f"The element {node.name} is not expected here.") from None
    raw = decode_base64(node.text.strip())
    if raw is None or not 1 <= len(raw) <= block_id_bytes_max:
        raise xml.invalid_node(node.name, node.text, "Not a valid base64 string.")
    return Wanted(raw, source)


def block_list_types(request: Request) -> tuple[bool, bool]:
    """(committed, uncommitted)"""
    text = request.query.get("blocklisttype", "committed").lower()
    match text:
        case "committed":
            return True, False
        case "uncommitted":
            return False, True
        case "all":
            return True, True
        case _:
            raise invalid_query("blocklisttype", text)


_includes: Final = frozenset(
    {
        "snapshots",
        "metadata",
        "uncommittedblobs",
        "copy",
        "deleted",
        "tags",
        "versions",
        "deletedwithversions",
        "immutabilitypolicy",
        "legalhold",
        "permissions",
    }
)


def includes(request: Request, known: frozenset[str] = _includes) -> frozenset[str]:
    text = request.query.get("include", "")
    if not text:
        return frozenset()
    found = frozenset(item.strip().lower() for item in text.split(","))
    if not found <= known:
        raise invalid_query("include", text)
    return found


def list_blobs(request: Request, included: frozenset[str], limit: int | None) -> ListBlobs:
    """`startFrom` came to the SDKs with 2026-02-06, and older versions have it as well: the Rust
    crate object_store sends it with 2023-11-03 and relies on the answer
    (https://github.com/apache/arrow-rs-object-store/pull/623).
    """
    query = request.query
    delimiter = query.get("delimiter", "")
    if delimiter and "snapshots" in included:
        raise invalid_query("include", query["include"], "Snapshots take no delimiter.")
    show_only = query.get("showonly", "")
    if show_only and show_only.lower() != "deleted":
        raise invalid_query("showonly", show_only)
    return ListBlobs(
        prefix=query.get("prefix", ""),
        delimiter=delimiter,
        start=_position(query.get("marker", ""), query.get("startfrom", "")),
        limit=results_max if limit is None else limit,
        snapshots="snapshots" in included,
        versions="versions" in included,
        uncommitted="uncommittedblobs" in included,
        deleted="deleted" in included,
        deleted_only=bool(show_only),
        rootless="deletedwithversions" in included,
    )


def _position(marker: str, start_from: str) -> Position:
    if not marker:
        return Position(start_from)
    items = decode_marker(marker)
    match items:
        case (str(name), int(moment)) if moment >= 0:
            return Position(name, moment)
        case (str(name), *_):
            return Position(name)
        case _:
            raise invalid_query("marker", marker)


expiry_milliseconds_max: Final = 100 * 366 * 86_400_000


def expiry(request: Request) -> WantedExpiry:
    """Milliseconds, or a date: which of them the option says."""
    name = required(request, "x-ms-expiry-option")
    options = {option.value.lower(): option for option in ExpiryOption}
    option = options.get(name.lower())
    if option is None:
        raise invalid_header("x-ms-expiry-option", name)
    text = request.headers.get(_expiry_time)
    if option is ExpiryOption.NEVER:
        if text:
            raise invalid_header(_expiry_time, text)
        return WantedExpiry(option)
    if option is not ExpiryOption.ABSOLUTE:
        required(request, _expiry_time)
        milliseconds = integer(request, _expiry_time, 1, expiry_milliseconds_max)
        assert milliseconds is not None
        return WantedExpiry(option, milliseconds * ticks_per_millisecond)
    moment = parse_http_date(required(request, _expiry_time))
    if moment is None:
        raise invalid_header(_expiry_time, text or "")
    return WantedExpiry(option, moment)


_expiry_time: Final = "x-ms-expiry-time"


def tags_header(request: Request) -> dict[str, str]:
    """`x-ms-tags`: pairs as in a query, URL-encoded."""
    value = request.headers.get("x-ms-tags")
    if not value:
        return {}
    pairs = []
    for item in value.split("&"):
        key, equals, text = item.partition("=")
        if not equals:
            raise invalid_header("x-ms-tags", value)
        pairs.append((unquote_plus(key), unquote_plus(text)))
    return _tags(pairs)


def tags_document(data: bytes) -> dict[str, str]:
    root = xml.parse(data, "Tags")
    tag_set = root.child("TagSet")
    if tag_set is None:
        raise xml.invalid_document("The element TagSet is missing.")
    pairs = []
    for node in tag_set.children:
        key, value = node.text_of("Key"), node.text_of("Value")
        if node.name != "Tag" or key is None or value is None:
            raise xml.invalid_document("A TagSet has Tags, each with a Key and a Value.")
        pairs.append((key, value))
    return _tags(pairs)


tags_max: Final = 10
tag_key_chars_max: Final = 128
tag_value_chars_max: Final = 256
_tag_text: Final = re.compile(r"[a-zA-Z0-9 +\-./:=_]*", re.ASCII)


def _tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    if len(pairs) > tags_max:
        raise Refused("TagsTooLarge")
    found: dict[str, str] = {}
    for key, value in pairs:
        if not key:
            raise Refused("EmptyTagName")
        if key in found:
            raise Refused("DuplicateTagNames")
        if len(key) > tag_key_chars_max or len(value) > tag_value_chars_max:
            raise Refused("TagsTooLarge")
        if _tag_text.fullmatch(key) is None or _tag_text.fullmatch(value) is None:
            raise Refused("InvalidTag")
        found[key] = value
    return found


def find_blobs(request: Request, container: str | None, limit: int | None) -> FindBlobs:
    query = request.query
    text = query.get("where")
    if not text:
        raise missing_query("where")
    try:
        search = parse_tag_search(text, in_account=container is None)
    except TagSyntaxError as error:
        raise invalid_query("where", text, str(error)) from None
    if container is not None:
        search = dataclasses.replace(search, container=container)
    included = includes(request, frozenset({"versions", "deleted"}))
    return FindBlobs(
        search,
        start=_tagged_position(query.get("marker", "")),
        limit=results_max if limit is None else limit,
        versions="versions" in included,
        deleted="deleted" in included,
    )


def _tagged_position(marker: str) -> Start:
    if not marker:
        return Start()
    match decode_marker(marker):
        case (str(container), str(name), int(moment)) if 0 <= moment <= keys.current_moment:
            return Start(container, name, moment)
        case _:
            raise invalid_query("marker", marker)
