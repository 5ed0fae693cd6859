"""The context of a Blob request, and what every handler reads from it first."""

from dataclasses import replace
from typing import Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused, invalid_query
from etagere.frontends.common.call import Call
from etagere.kernel.conditions import (
    Conditions,
    HeaderNames,
    blob_headers,
    parse_conditions,
    target_headers,
)
from etagere.kernel.dates import parse_iso
from etagere.kernel.lease import LeaseAction, LeaseRequest
from etagere.kernel.lease_request import parse_lease_id
from etagere.kv.contract import Partition
from etagere.services.blob import keys
from etagere.services.blob.blobs import Where
from etagere.services.blob.containers import Place, place
from etagere.services.blob.guard import Guard
from etagere.services.blob.history import Keeping, nothing_kept
from etagere.services.blob.service import BlobService

tags_since: Final = "2019-12-12"
blob_conditions_since: Final = "2026-02-06"
tag_headers: Final = HeaderNames("-", "-", "-", "-", "x-ms-if-tags")
"""Of which only the last can be sent."""


class BlobCall(Call):
    __slots__ = ("blobs",)

    blobs: BlobService

    def guard(self) -> Guard:
        """Conditions and lease id, as the headers state them."""
        lease_id = self.request.headers.get("x-ms-lease-id")
        return Guard(
            self.conditions(),
            parse_lease_id(lease_id) if lease_id else None,
            self.version,
        )

    def lease_guard(self) -> Guard:
        """The lease id alone, for operations that take no conditions."""
        lease_id = self.request.headers.get("x-ms-lease-id")
        return Guard(lease_id=parse_lease_id(lease_id) if lease_id else None, version=self.version)

    def keeping(self) -> Keeping:
        """What the account keeps of what is overwritten or deleted."""
        retention = self.properties.delete_retention
        if not (self.account.versioning or retention.enabled):
            return nothing_kept
        return Keeping(self.account.versioning, retention.days if retention.enabled else 0)

    def guard_of_conditions(self) -> Guard:
        """The conditions alone, for lease actions, which have rules of their own for ids."""
        return Guard(self.conditions(), None, self.version)

    def conditions(self, names: HeaderNames = target_headers) -> Conditions:
        """Who may not read tags may not find them out by conditions either."""
        found = parse_conditions(self.request.headers, names)
        if found.if_tags is None:
            return found
        if self.version < tags_since:
            return replace(found, if_tags=None)
        self.may_use_tags()
        return found

    def may_use_tags(self) -> None:
        if not self.grant.allows("t"):
            raise Refused("AuthorizationPermissionMismatch")

    def if_tags_guard(self) -> Guard:
        """Of the conditions only `x-ms-if-tags`, for operations that take no others."""
        return Guard(self.conditions(tag_headers), self.lease_guard().lease_id, self.version)

    def tag_guard(self) -> Guard:
        """Operations on tags take `x-ms-if-tags`, and since 2026-02-06 `x-ms-blob-if-*`; the plain
        conditional headers are not theirs."""
        names = tag_headers if self.version < blob_conditions_since else blob_headers
        return Guard(self.conditions(names), self.lease_guard().lease_id, self.version)

    @property
    def part(self) -> Partition:
        return keys.container_partition(self.account.name, self.target.container)

    def place(self) -> Place:
        return place(self.account.name, self.target.container)

    def where(self) -> Where:
        """The blob, snapshot or version that a read names."""
        query = self.request.query
        snapshot = query.get("snapshot")
        version = query.get("versionid")
        if snapshot is None and version is None:
            return Where(self.part, self.target.item)
        if snapshot and version:
            raise invalid_query(
                "versionid", version, "snapshot and versionid are mutually exclusive."
            )
        return Where(
            self.part,
            self.target.item,
            moment("snapshot", snapshot) if snapshot else 0,
            moment("versionid", version) if version else 0,
        )

    def base(self) -> Where:
        """The blob that a write names, which is never a snapshot or an earlier version."""
        query = self.request.query
        if "snapshot" in query or "versionid" in query:
            name = "snapshot" if "snapshot" in query else "versionid"
            raise Refused(
                "InvalidQueryParameterValue",
                {
                    "QueryParameterName": name,
                    "QueryParameterValue": query[name],
                    "Reason": "This operation is only allowed on the root blob.",
                },
            )
        return Where(self.part, self.target.item)


def fresh_id(call: BlobCall, wanted: LeaseRequest) -> str:
    """A new lease's id; "" where the request makes no lease or brings an id."""
    new = wanted.action is LeaseAction.ACQUIRE and not wanted.proposed_id
    return call.blobs.entropy.uuid() if new else ""


def moment(name: str, text: str) -> Timestamp:
    """A snapshot's or version's name, which is the moment it was made."""
    found = parse_iso(text)
    if found is None or found <= 0:
        raise invalid_query(name, text, "The value must be a date and time in UTC.")
    return found
