"""Container operations over HTTP (Azure: 'Operations on containers')."""

import re
from functools import partial
from typing import Final

from etagere.base.errors import Refused, invalid_query
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.call import BlobCall, fresh_id
from etagere.frontends.blob_rest.encryption import named_scope
from etagere.frontends.blob_rest.names import check_container_name
from etagere.frontends.common import access_policy_xml
from etagere.frontends.common.headers import (
    boolean,
    max_results,
    metadata,
    metadata_headers,
    required,
)
from etagere.frontends.common.message import Response
from etagere.frontends.common.paging import decode_marker
from etagere.kernel.lease import LeaseChange, LeaseKind
from etagere.kernel.lease_request import parse_lease_id, parse_lease_request
from etagere.services.blob import containers, listing
from etagere.services.blob.containers import (
    ContainerPosition,
    CreateContainer,
    ListContainers,
    place,
)
from etagere.services.blob.guard import Guard, validators
from etagere.services.blob.records import BlobRecord, ContainerRecord, PublicAccess

lease_status: Final = {"acquire": 201, "renew": 200, "change": 200, "release": 200, "break": 202}
_container_version: Final = re.compile(r"[0-7]?[0-9A-Fa-f]{1,15}", re.ASCII)
"""As List Containers tells it of a deleted container: a number of 63 bits."""
_source_lease: Final = "x-ms-source-lease-id"
_list_includes: Final = frozenset({"metadata", "deleted", "system"})


async def create(call: BlobCall) -> Response:
    check_container_name(call.target.container)
    request = call.request
    access = decode.public_access(request)
    _check_public(call, access)
    wanted = CreateContainer(
        metadata=metadata(request),
        public_access=access,
        default_scope=named_scope(request, "x-ms-default-encryption-scope") or "",
        deny_scope_override=boolean(request, "x-ms-deny-encryption-scope-override"),
        versioned_immutability=boolean(
            request,
            "x-ms-immutable-storage-with-versioning-enabled",
            default=call.account.immutable_storage_with_versioning,
        ),
    )
    where = call.place()
    record = await call.blobs.write(
        (where.part, where.account_part), partial(containers.create, where=where, wanted=wanted)
    )
    return Response(201, validators(record))


def _check_public(call: BlobCall, access: PublicAccess) -> None:
    if access is not PublicAccess.NONE and not call.account.allow_public_access:
        raise Refused("PublicAccessNotPermitted")


async def _get(call: BlobCall) -> ContainerRecord:
    where, guard = call.place(), call.lease_guard()
    return await call.blobs.read(partial(containers.get, where=where, guard=guard))


async def get_properties(call: BlobCall) -> Response:
    return Response(200, encode.container_headers(await _get(call), call.blobs.clock.now()))


async def get_metadata(call: BlobCall) -> Response:
    record = await _get(call)
    return Response(200, {**validators(record), **metadata_headers(record.metadata)})


async def get_access(call: BlobCall) -> Response:
    record = await _get(call)
    headers = validators(record)
    access = encode.access_names[record.public_access]
    if access is not None:
        headers["x-ms-blob-public-access"] = access
    headers["Content-Type"] = "application/xml"
    return Response(200, headers, access_policy_xml.encode(record.policies))


async def set_metadata(call: BlobCall) -> Response:
    where = call.place()
    record = await call.blobs.write(
        (where.part,),
        partial(
            containers.set_metadata,
            where=where,
            guard=call.guard(),
            metadata=metadata(call.request),
        ),
    )
    return Response(200, validators(record))


async def set_access(call: BlobCall) -> Response:
    where = call.place()
    access = decode.public_access(call.request)
    _check_public(call, access)
    guard = call.guard()
    policies = access_policy_xml.decode(
        await call.request.body.read(), access_policy_xml.container_letters
    )
    record = await call.blobs.write(
        (where.part,),
        partial(
            containers.set_access,
            where=where,
            guard=guard,
            public_access=access,
            policies=policies,
        ),
    )
    return Response(200, validators(record))


async def delete(call: BlobCall) -> Response:
    where = call.place()
    await call.blobs.write(
        (where.part, where.account_part),
        partial(
            containers.delete,
            where=where,
            guard=call.guard(),
            retention_days=call.account.container_soft_delete_days,
        ),
    )
    return Response(202)


async def lease(call: BlobCall) -> Response:
    where = call.place()
    wanted = parse_lease_request(call.request.headers, LeaseKind.CONTAINER)
    leased = await call.blobs.write(
        (where.part,),
        partial(
            containers.lease,
            where=where,
            guard=call.guard_of_conditions(),
            request=wanted,
            fresh_id=fresh_id(call, wanted),
        ),
    )
    return leased_response(wanted.action.value, leased.record, leased.change)


def leased_response(
    action: str, record: ContainerRecord | BlobRecord, change: LeaseChange
) -> Response:
    headers = validators(record)
    if change.lease_id is not None:
        headers["x-ms-lease-id"] = change.lease_id
    if change.seconds_left is not None:
        headers["x-ms-lease-time"] = str(change.seconds_left)
    return Response(lease_status[action], headers)


async def list_blobs(call: BlobCall) -> Response:
    request = call.request
    included = decode.includes(request)
    if "tags" in included:
        call.may_use_tags()
    limit = max_results(request)
    wanted = decode.list_blobs(request, included, limit)
    part = call.part
    page = await call.blobs.read(partial(listing.list_blobs, part=part, wanted=wanted))
    query = request.query
    asked = encode.asked_for(
        (
            ("Prefix", query.get("prefix")),
            ("Marker", query.get("marker")),
            ("MaxResults", None if limit is None else str(limit)),
            ("Delimiter", query.get("delimiter")),
        )
    )
    body = encode.list_blobs(
        page,
        included,
        endpoint=call.endpoint,
        container=call.target.container,
        asked=asked,
        version=call.version,
        now=call.blobs.clock.now(),
        account=call.account,
    )
    return Response(200, {"Content-Type": "application/xml"}, body)


async def list_containers(call: BlobCall) -> Response:
    request = call.request
    query = request.query
    included = decode.includes(request, _list_includes)
    limit = max_results(request)
    marker = query.get("marker", "")
    match decode_marker(marker):
        case (str(name), int(generation)):
            start = ContainerPosition(name, generation)
        case (str(name), *_):
            start = ContainerPosition(name)
        case _:
            raise invalid_query("marker", marker)
    wanted = ListContainers(
        prefix=query.get("prefix", ""),
        start=start,
        limit=listing.results_max if limit is None else limit,
        deleted="deleted" in included,
        system="system" in included,
    )
    account = call.account.name
    page = await call.blobs.read(
        partial(containers.list_containers, account=account, wanted=wanted)
    )
    asked = encode.asked_for(
        (
            ("Prefix", query.get("prefix")),
            ("Marker", query.get("marker")),
            ("MaxResults", None if limit is None else str(limit)),
        )
    )
    body = encode.list_containers(
        page,
        endpoint=call.endpoint,
        asked=asked,
        metadata="metadata" in included,
        now=call.blobs.clock.now(),
    )
    return Response(200, {"Content-Type": "application/xml"}, body)


async def rename(call: BlobCall) -> Response:
    """The request names the new container; the old one is in a header."""
    request, where = call.request, call.place()
    check_container_name(where.name)
    source = place(call.account.name, required(request, "x-ms-source-container-name"))
    lease_id = request.headers.get(_source_lease)
    guard = Guard(
        lease_id=parse_lease_id(lease_id, _source_lease) if lease_id else None,
        version=call.version,
    )
    # A source of an impossible name is one that is not there.
    await call.blobs.write(
        tuple({source.part, where.part, where.account_part}),
        partial(containers.rename, source=source, where=where, guard=guard),
    )
    return Response(200)


async def restore(call: BlobCall) -> Response:
    where = call.place()
    check_container_name(where.name)
    name = required(call.request, "x-ms-deleted-container-name")
    version = required(call.request, "x-ms-deleted-container-version")
    if _container_version.fullmatch(version) is None:
        raise Refused("ContainerNotFound")
    generation = int(version, 16)
    rows = await call.blobs.read(
        partial(containers.deleted_rows, where=where, deleted_name=name, generation=generation)
    )
    await call.blobs.write(
        tuple({where.part, where.account_part, rows}),
        partial(containers.restore, where=where, deleted_name=name, generation=generation),
    )
    return Response(201)
