"""Blob results as headers and XML (Azure: 'Get Blob', 'List Blobs', 'List Containers')."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp
from etagere.frontends.blob_rest.encryption import (
    default_scope_name,
    request_encrypted,
    seal_elements,
    seal_headers,
)
from etagere.frontends.blob_rest.immutability import (
    immutability_elements,
    immutability_headers,
)
from etagere.frontends.blob_rest.tiers import is_premium, tier_elements
from etagere.frontends.common import xml
from etagere.frontends.common.headers import encode_base64, metadata_headers
from etagere.frontends.common.paging import encode_marker
from etagere.kernel.dates import format_http_date, format_iso
from etagere.kernel.etag import bare, etag_of
from etagere.kernel.lease import view_of
from etagere.services.blob import last_access as last_accesses
from etagere.services.blob.block_blobs import BlockList
from etagere.services.blob.containers import ContainerEntry, ContainerPage
from etagere.services.blob.guard import validators
from etagere.services.blob.immutability import mutable
from etagere.services.blob.listing import (
    BlobEntry,
    BlobPage,
    Entry,
    PrefixEntry,
    UncommittedEntry,
)
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    ContainerRecord,
    CopyState,
    Piece,
    PublicAccess,
)
from etagere.services.blob.tag_search import FindBlobs, TaggedPage
from etagere.services.common.accounts import Account

type_names: Final = {
    BlobType.BLOCK: "BlockBlob",
    BlobType.APPEND: "AppendBlob",
    BlobType.PAGE: "PageBlob",
}
access_names: Final = {
    PublicAccess.NONE: None,
    PublicAccess.BLOB: "blob",
    PublicAccess.CONTAINER: "container",
}
versions_since: Final = "2019-12-12"


def lease_headers(record: BlobRecord | ContainerRecord, now: Timestamp) -> dict[str, str]:
    view = view_of(record.lease, now)
    headers = {"x-ms-lease-status": view.status, "x-ms-lease-state": view.state}
    if view.duration is not None:
        headers["x-ms-lease-duration"] = view.duration
    return headers


def container_headers(record: ContainerRecord, now: Timestamp) -> dict[str, str]:
    headers = {
        **validators(record),
        **metadata_headers(record.metadata),
        **lease_headers(record, now),
        "x-ms-has-immutability-policy": "false",
        "x-ms-has-legal-hold": "false",
        "x-ms-immutable-storage-with-versioning-enabled": _flag(record.versioned_immutability),
        "x-ms-default-encryption-scope": record.default_scope or default_scope_name,
        "x-ms-deny-encryption-scope-override": _flag(record.deny_scope_override),
    }
    access = access_names[record.public_access]
    if access is not None:
        headers["x-ms-blob-public-access"] = access
    return headers


def written(record: BlobRecord) -> dict[str, str]:
    """What operations that write a blob say of it."""
    headers = validators(record)
    headers.update(request_encrypted(record))
    if record.version:
        headers["x-ms-version-id"] = format_iso(Timestamp(record.version))
    return headers


def blob_headers(record: BlobRecord, now: Timestamp) -> dict[str, str]:
    """What Get Blob and Get Blob Properties say alike; length and digest depend on the range."""
    content = record.headers
    headers = validators(record)
    headers["Accept-Ranges"] = "bytes"
    if content.content_type:
        headers["Content-Type"] = content.content_type
    if content.encoding:
        headers["Content-Encoding"] = content.encoding
    if content.language:
        headers["Content-Language"] = content.language
    if content.cache_control:
        headers["Cache-Control"] = content.cache_control
    if content.disposition:
        headers["Content-Disposition"] = content.disposition
    headers["x-ms-blob-type"] = type_names[record.kind]
    headers["x-ms-creation-time"] = format_http_date(Timestamp(record.created))
    headers["x-ms-server-encrypted"] = "true"
    if record.scope or record.key_sha256:
        headers.update(seal_headers(record))
    if not record.snapshot:
        headers.update(lease_headers(record, now))
        if record.version:
            headers["x-ms-version-id"] = format_iso(Timestamp(record.version))
            if not record.earlier:
                headers["x-ms-is-current-version"] = "true"
    if record.metadata:
        headers.update(metadata_headers(record.metadata))
    if record.tags:
        headers["x-ms-tag-count"] = str(len(record.tags))
    if record.copy is not None:
        headers.update(copy_headers(record.copy))
    if record.immutability != mutable:
        headers.update(immutability_headers(record.immutability))
    if record.kind is BlobType.PAGE:
        headers["x-ms-blob-sequence-number"] = str(record.sequence)
    elif record.kind is BlobType.APPEND:
        headers["x-ms-blob-committed-block-count"] = str(record.block_count)
        if record.sealed:
            headers["x-ms-blob-sealed"] = "true"
    return headers


def last_access(record: BlobRecord) -> dict[str, str]:
    """Of accounts that keep track of it."""
    return {"x-ms-last-access-time": format_http_date(last_accesses.of(record))}


def copy_headers(state: CopyState) -> dict[str, str]:
    headers = {
        "x-ms-copy-id": state.copy_id,
        "x-ms-copy-source": state.source,
        "x-ms-copy-status": state.status,
        "x-ms-copy-progress": f"{state.done}/{state.total}",
    }
    if state.completed:
        headers["x-ms-copy-completion-time"] = format_http_date(Timestamp(state.completed))
    if state.description:
        headers["x-ms-copy-status-description"] = state.description
    if state.incremental:
        headers["x-ms-incremental-copy"] = "true"
        snapshot = format_iso(Timestamp(state.destination_snapshot))
        headers["x-ms-copy-destination-snapshot"] = snapshot
    return headers


def list_containers(
    page: ContainerPage,
    *,
    endpoint: str,
    asked: str,
    metadata: bool,
    now: Timestamp,
) -> bytes:
    parts = [
        xml.declaration,
        f'<EnumerationResults ServiceEndpoint="{xml.quote(endpoint)}">',
        asked,
        "<Containers>",
    ]
    parts += [_container(entry, now, metadata=metadata) for entry in page.entries]
    marker = "" if page.next is None else encode_marker(*page.next)
    parts += ["</Containers>", xml.element("NextMarker", marker), "</EnumerationResults>"]
    return "".join(parts).encode()


def _container(entry: ContainerEntry, now: Timestamp, *, metadata: bool) -> str:
    record = entry.record
    lease = view_of(record.lease, now)
    deleted = entry.deleted
    parts = ["<Container>", xml.element("Name", entry.name)]
    if deleted is not None:
        parts.append("<Deleted>true</Deleted>")
        parts.append(xml.element("Version", f"{record.generation:016X}"))
    parts += [
        "<Properties>",
        xml.element("Last-Modified", format_http_date(Timestamp(record.modified))),
        xml.element("Etag", etag_of(record.etag)),
        xml.element("LeaseStatus", lease.status),
        xml.element("LeaseState", lease.state),
        xml.element("LeaseDuration", lease.duration),
        xml.element("PublicAccess", access_names[record.public_access]),
        xml.element("DefaultEncryptionScope", record.default_scope or default_scope_name),
        xml.element("DenyEncryptionScopeOverride", _flag(record.deny_scope_override)),
        "<HasImmutabilityPolicy>false</HasImmutabilityPolicy>",
        "<HasLegalHold>false</HasLegalHold>",
        xml.element("ImmutableStorageWithVersioningEnabled", _flag(record.versioned_immutability)),
    ]
    if deleted is not None:
        days = max(0, (deleted.retained_until - now) // _ticks_per_day)
        parts.append(xml.element("DeletedTime", format_http_date(Timestamp(deleted.deleted))))
        parts.append(xml.element("RemainingRetentionDays", str(days)))
    parts.append("</Properties>")
    if metadata:
        parts.append(_metadata(record.metadata))
    parts.append("</Container>")
    return "".join(parts)


_ticks_per_day: Final = 86_400 * 10_000_000


def _metadata(values: dict[str, str]) -> str:
    if not values:
        return "<Metadata />"
    inner = "".join(f"<{name}>{xml.escape(value)}</{name}>" for name, value in values.items())
    return f"<Metadata>{inner}</Metadata>"


def list_blobs(
    page: BlobPage,
    included: frozenset[str],
    *,
    endpoint: str,
    container: str,
    asked: str,
    version: str,
    now: Timestamp,
    account: Account,
) -> bytes:
    parts = [
        xml.declaration,
        f'<EnumerationResults ServiceEndpoint="{xml.quote(endpoint)}" ',
        f'ContainerName="{xml.quote(container)}">',
        asked,
        "<Blobs>",
    ]
    look = _Look(included, version, now, account.last_access_tracking, is_premium(account))
    parts += [_entry(entry, look) for entry in page.entries]
    marker = "" if page.next is None else encode_marker(page.next.name, page.next.moment)
    parts += ["</Blobs>", xml.element("NextMarker", marker), "</EnumerationResults>"]
    return "".join(parts).encode()


def asked_for(values: Iterable[tuple[str, str | None]]) -> str:
    """The request's own parameters, which a listing repeats if they were sent."""
    return "".join(xml.marked_element(name, value) for name, value in values)


def _name(name: str) -> str:
    """Documented since 2021-02-12.  Earlier versions have no other way to say such a name, and a
    document that is not well-formed would hide all the others from them."""
    return xml.marked_element("Name", name)


class _Look(NamedTuple):
    """What a listing shows of its entries."""

    included: frozenset[str]
    version: str
    now: Timestamp
    tracked: bool
    """Whether the account keeps track of last accesses."""
    premium: bool


def _entry(entry: Entry, look: _Look) -> str:
    match entry:
        case PrefixEntry(name):
            return f"<BlobPrefix>{_name(name)}</BlobPrefix>"
        case UncommittedEntry(name, marker):
            created = format_http_date(Timestamp(marker.created))
            return (
                f"<Blob>{_name(name)}<Properties>"
                f"<Creation-Time>{created}</Creation-Time>"
                f"<Last-Modified>{created}</Last-Modified><Etag />"
                "<Content-Length>0</Content-Length><Content-Type />"
                "<BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus>"
                "<LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted>"
                "</Properties></Blob>"
            )
        case BlobEntry():
            return _blob(entry, look)


def _blob(entry: BlobEntry, look: _Look) -> str:
    record, included = entry.record, look.included
    parts = ["<Blob>", _name(entry.name)]
    if record.deleted and not entry.rootless:
        parts.append("<Deleted>true</Deleted>")
    if record.snapshot:
        parts.append(xml.element("Snapshot", format_iso(Timestamp(record.snapshot))))
    if entry.rootless:
        parts.append("<HasVersionsOnly>true</HasVersionsOnly>")
    elif record.version and look.version >= versions_since:
        # Whether or not versions were asked for: the live service was seen to say it of all blobs.
        parts.append(xml.element("VersionId", format_iso(Timestamp(record.version))))
        if entry.current:
            parts.append("<IsCurrentVersion>true</IsCurrentVersion>")
    parts += [
        "<Properties>",
        _blob_properties(record, look),
        "</Properties>",
    ]
    if "metadata" in included:
        # What a customer's key encrypts is listed to nobody.
        sealed = bool(record.key_sha256 and record.metadata)
        parts.append('<Metadata Encrypted="true" />' if sealed else _metadata(record.metadata))
    if "tags" in included and record.tags:
        parts.append(tag_set(record.tags))
    parts.append("</Blob>")
    return "".join(parts)


def tag_set(tags: dict[str, str]) -> str:
    inner = "".join(
        f"<Tag>{xml.element('Key', key)}<Value>{xml.escape(value)}</Value></Tag>"
        for key, value in tags.items()
    )
    return f"<Tags><TagSet>{inner}</TagSet></Tags>"


def _copy_properties(state: CopyState) -> str:
    completed = format_http_date(Timestamp(state.completed)) if state.completed else None
    return (
        xml.element("CopyId", state.copy_id)
        + xml.element("CopySource", state.source)
        + xml.element("CopyStatus", state.status)
        + xml.element("CopyStatusDescription", state.description or None)
        + xml.element("CopyProgress", f"{state.done}/{state.total}")
        + xml.element("CopyCompletionTime", completed)
        + (_incremental(state) if state.incremental else "")
    )


def _incremental(state: CopyState) -> str:
    snapshot = format_iso(Timestamp(state.destination_snapshot))
    return "<IncrementalCopy>true</IncrementalCopy>" + xml.element(
        "CopyDestinationSnapshot", snapshot
    )


def _blob_properties(record: BlobRecord, look: _Look) -> str:
    """In the order in which the live service writes them."""
    content, now, included = record.headers, look.now, look.included
    text = (
        f"<Creation-Time>{format_http_date(Timestamp(record.created))}</Creation-Time>"
        f"<Last-Modified>{format_http_date(Timestamp(record.modified))}</Last-Modified>"
        f"<Etag>{bare(etag_of(record.etag))}</Etag>"
        f"<Content-Length>{record.size}</Content-Length>"
        f"<Content-Type>{xml.escape(content.content_type)}</Content-Type>"
        f"<Content-Encoding>{xml.escape(content.encoding)}</Content-Encoding>"
        f"<Content-Language>{xml.escape(content.language)}</Content-Language>"
        f"<Content-CRC64 /><Content-MD5>{encode_base64(content.md5)}</Content-MD5>"
        f"<Cache-Control>{xml.escape(content.cache_control)}</Cache-Control>"
        f"<Content-Disposition>{xml.escape(content.disposition)}</Content-Disposition>"
    )
    if record.kind is BlobType.PAGE:
        text += f"<x-ms-blob-sequence-number>{record.sequence}</x-ms-blob-sequence-number>"
    text += f"<BlobType>{type_names[record.kind]}</BlobType>"
    text += tier_elements(record, now, premium=look.premium)
    if not record.snapshot:
        lease = view_of(record.lease, now)
        text += f"<LeaseStatus>{lease.status}</LeaseStatus><LeaseState>{lease.state}</LeaseState>"
        text += xml.element("LeaseDuration", lease.duration)
    if "copy" in included and record.copy is not None:
        text += _copy_properties(record.copy)
    text += "<ServerEncrypted>true</ServerEncrypted>"
    if record.scope or record.key_sha256:
        text += seal_elements(record)
    if record.sealed:
        text += "<Sealed>true</Sealed>"
    if look.tracked:
        text += xml.element("LastAccessTime", format_http_date(last_accesses.of(record)))
    if record.immutability != mutable:
        text += immutability_elements(record.immutability, included)
    if record.deleted:
        days = max(0, (record.retained_until - now) // _ticks_per_day)
        text += xml.element("DeletedTime", format_http_date(Timestamp(record.deleted)))
        text += xml.element("RemainingRetentionDays", str(days))
    if record.tags:
        text += f"<TagCount>{len(record.tags)}</TagCount>"
    if record.expires:
        text += xml.element("Expiry-Time", format_http_date(Timestamp(record.expires)))
    return text


def block_list(found: BlockList, *, committed: bool, uncommitted: bool) -> bytes:
    parts = [xml.declaration, "<BlockList>"]
    if committed:
        parts.append(_blocks("CommittedBlocks", found.committed))
    if uncommitted:
        parts.append(_blocks("UncommittedBlocks", found.uncommitted))
    parts.append("</BlockList>")
    return "".join(parts).encode()


def _blocks(name: str, pieces: list[Piece]) -> str:
    if not pieces:
        return f"<{name} />"
    inner = "".join(
        f"<Block><Name>{encode_base64(piece.block_id)}</Name><Size>{piece.size}</Size></Block>"
        for piece in pieces
    )
    return f"<{name}>{inner}</{name}>"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def tagged_blobs(
    page: TaggedPage, wanted: FindBlobs, *, endpoint: str, asked: tuple[str, str, str]
) -> bytes:
    """Find Blobs by Tags; `asked` is the request's Where, Marker and MaxResults."""
    where, marker, limit = asked
    parts = [
        xml.declaration,
        f'<EnumerationResults ServiceEndpoint="{xml.quote(endpoint)}">',
        xml.marked_element("Where", where),
        xml.marked_element("Marker", marker or None),
        xml.element("MaxResults", limit or None),
        "<Blobs>",
    ]
    for found in page.blobs:
        # As in listings, since nothing is documented of how deleted ones are told from others.
        state = xml.element("Deleted", "true" if found.record.deleted else None)
        if wanted.versions and found.record.version:
            state += xml.element("VersionId", format_iso(Timestamp(found.record.version)))
            state += xml.element("IsCurrentVersion", _flag(found.current))
        matched = {c.name: found.record.tags[c.name] for c in wanted.search.comparisons}
        parts.append(
            f"<Blob>{xml.marked_element('Name', found.name)}"
            f"{xml.element('ContainerName', found.container)}{state}{tag_set(matched)}</Blob>"
        )
    following = "" if page.next is None else encode_marker(*page.next)
    parts += ["</Blobs>", xml.element("NextMarker", following), "</EnumerationResults>"]
    return "".join(parts).encode()
