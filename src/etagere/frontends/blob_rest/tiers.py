"""Access tiers over HTTP (Azure: 'Set Blob Tier')."""

from functools import partial
from typing import Final

from etagere.base.clock import Timestamp
from etagere.base.errors import invalid_header
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import xml
from etagere.frontends.common.headers import required
from etagere.frontends.common.message import Request, Response
from etagere.kernel.dates import format_http_date, parse_http_date
from etagere.services.blob import tiers
from etagere.services.blob.records import BlobRecord
from etagere.services.blob.tiers import TierConditions
from etagere.services.common.accounts import Account

header: Final = "x-ms-access-tier"
priority_header: Final = "x-ms-rehydrate-priority"
_conditions_since: Final = "2026-04-06"
_kinds: Final = ("modified", "unmodified")
_newer: Final = {tiers.cold: "2021-12-02", tiers.smart: "2026-06-06"}
_tiers: Final = {tier.lower(): tier for tier in (*tiers.block_tiers, *tiers.page_tiers)}
_priorities: Final = {priority.lower(): priority for priority in tiers.rehydration_takes}


def tier(request: Request, version: str) -> str:
    """x-ms-access-tier as the documentation spells it, or "" where it was not sent."""
    text = request.headers.get(header)
    if not text:
        return ""
    found = _tiers.get(text.lower())
    if found is None or version < _newer.get(found, ""):
        raise invalid_header(header, text)
    return found


def priority(request: Request) -> str:
    text = request.headers.get(priority_header)
    if not text:
        return ""
    found = _priorities.get(text.lower())
    if found is None:
        raise invalid_header(priority_header, text)
    return found


def tier_conditions(request: Request, version: str) -> TierConditions:
    """Delete Blob: `x-ms-access-tier-if-modified-since` and its opposite."""
    since, until = (_date(request, f"x-ms-access-tier-if-{kind}-since") for kind in _kinds)
    if since is None and until is None:
        return tiers.no_tier_conditions
    if version < _conditions_since:
        raise invalid_header("x-ms-version", version)
    return TierConditions(since, until)


def _date(request: Request, name: str) -> Timestamp | None:
    text = request.headers.get(name)
    if not text:
        return None
    found = parse_http_date(text)
    if found is None:
        raise invalid_header(name, text)
    return found


async def set_tier(call: BlobCall) -> Response:
    """202 where the blob comes back from the archive, which takes time."""
    where = call.where()
    required(call.request, header)
    takes_time = await call.blobs.write(
        (where.part,),
        partial(
            tiers.set_tier,
            where=where,
            guard=call.if_tags_guard(),
            tier=tier(call.request, call.version),
            priority=priority(call.request),
        ),
    )
    return Response(202 if takes_time else 200)


# ---- what is said of it


def _archive_status(record: BlobRecord) -> str | None:
    return (
        f"rehydrate-pending-to-{record.rehydrating_to.lower()}" if record.rehydrating_to else None
    )


def is_premium(account: Account) -> bool:
    return account.sku.startswith("Premium")


def tier_headers(record: BlobRecord, now: Timestamp, account: Account) -> dict[str, str]:
    """What Get Blob Properties says, and new versions of Get Blob as well."""
    record = tiers.settled(record, now)
    if not record.tier:
        tier = tiers.inferred(record, premium=is_premium(account))
        return {header: tier, "x-ms-access-tier-inferred": "true"} if tier else {}
    headers = {header: record.tier}
    if record.tier == tiers.smart:
        headers["x-ms-smart-access-tier"] = tiers.smart_tier(record, now)
    if record.tier_changed:
        changed = format_http_date(Timestamp(record.tier_changed))
        headers["x-ms-access-tier-change-time"] = changed
    status = _archive_status(record)
    if status is not None:
        headers["x-ms-archive-status"] = status
        headers[priority_header] = record.rehydrate_priority
    return headers


def tier_elements(record: BlobRecord, now: Timestamp, *, premium: bool) -> str:
    """The same in List Blobs."""
    record = tiers.settled(record, now)
    if not record.tier:
        tier = tiers.inferred(record, premium=premium)
        if not tier:
            return ""
        return f"<AccessTier>{tier}</AccessTier><AccessTierInferred>true</AccessTierInferred>"
    changed = format_http_date(Timestamp(record.tier_changed)) if record.tier_changed else None
    status = _archive_status(record)
    return (
        xml.element("AccessTier", record.tier)
        + xml.element(
            "SmartAccessTier",
            tiers.smart_tier(record, now) if record.tier == tiers.smart else None,
        )
        + xml.element("AccessTierChangeTime", changed)
        + xml.element("ArchiveStatus", status)
        + xml.element("RehydratePriority", record.rehydrate_priority if status else None)
    )
