"""Immutability policies and legal holds over HTTP (Azure: 'Set Blob Immutability Policy', 'Delete
Blob Immutability Policy', 'Set Blob Legal Hold')."""

from functools import partial
from typing import Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused, invalid_header, missing_header
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import xml
from etagere.frontends.common.headers import boolean, required
from etagere.frontends.common.message import Request, Response
from etagere.kernel.conditions import HeaderNames, parse_conditions
from etagere.kernel.dates import format_http_date, parse_http_date
from etagere.services.blob import immutability
from etagere.services.blob.guard import Guard
from etagere.services.blob.records import Immutability

until_header: Final = "x-ms-immutability-policy-until-date"
mode_header: Final = "x-ms-immutability-policy-mode"
hold_header: Final = "x-ms-legal-hold"
policy_conditions: Final = HeaderNames("-", "-", "-", "if-unmodified-since", "-")
"""The only one that Set Blob Immutability Policy takes."""


def wanted(call: BlobCall) -> Immutability:
    """What a request that creates a blob says of it; it then needs a permission more."""
    request = call.request
    until = _until(request)
    locked = _locked(request)
    if until is None and locked is not None:
        raise missing_header(until_header)
    found = immutability.mutable
    if until is not None:
        found = immutability.with_policy(found, until, locked, call.blobs.clock.now())
    if boolean(request, hold_header):
        found = Immutability(found.until, found.locked, legal_hold=True)
    if found != immutability.mutable and not call.grant.allows("i"):
        raise Refused("AuthorizationPermissionMismatch")
    return found


def _until(request: Request) -> Timestamp | None:
    text = request.headers.get(until_header)
    if not text:
        return None
    found = parse_http_date(text)
    if found is None:
        raise invalid_header(until_header, text)
    return found


def _locked(request: Request) -> bool | None:
    text = request.headers.get(mode_header)
    match (text or "").lower():
        case "":
            return None
        case "unlocked":
            return False
        case "locked":
            return True
        case _:
            raise invalid_header(mode_header, text or "")


async def set_policy(call: BlobCall) -> Response:
    where, request = call.where(), call.request
    required(request, until_header)
    until = _until(request)
    assert until is not None
    changed = await call.blobs.write(
        (where.part,),
        partial(
            immutability.set_policy,
            where=where,
            guard=Guard(parse_conditions(request.headers, policy_conditions), None, call.version),
            until=until,
            locked=_locked(request),
        ),
    )
    return Response(200, policy_headers(changed))


async def delete_policy(call: BlobCall) -> Response:
    where = call.where()
    await call.blobs.write((where.part,), partial(immutability.delete_policy, where=where))
    return Response(200)


async def set_legal_hold(call: BlobCall) -> Response:
    where = call.where()
    required(call.request, hold_header)
    held = boolean(call.request, hold_header)
    await call.blobs.write(
        (where.part,), partial(immutability.set_legal_hold, where=where, held=held)
    )
    return Response(200, {hold_header: "true" if held else "false"})


# ---- what is said of it


def _mode(found: Immutability) -> str:
    return "locked" if found.locked else "unlocked"


def policy_headers(found: Immutability) -> dict[str, str]:
    if not found.until:
        return {}
    return {until_header: format_http_date(Timestamp(found.until)), mode_header: _mode(found)}


def immutability_headers(found: Immutability) -> dict[str, str]:
    headers = policy_headers(found)
    if found.legal_hold:
        headers[hold_header] = "true"
    return headers


def immutability_elements(found: Immutability, included: frozenset[str]) -> str:
    """In List Blobs, as far as it was asked for."""
    text = ""
    if found.until and "immutabilitypolicy" in included:
        date = format_http_date(Timestamp(found.until))
        text += xml.element("ImmutabilityPolicyUntilDate", date)
        text += xml.element("ImmutabilityPolicyMode", _mode(found))
    if "legalhold" in included:
        text += xml.element("LegalHold", "true" if found.legal_hold else None)
    return text
