"""Stored access policies, as records: containers, queues, tables and shares keep up to five."""

import msgspec

from etagere.base.clock import Timestamp


class StoredPolicy(msgspec.Struct, frozen=True, array_like=True):
    id: str
    start: Timestamp | None = None
    expiry: Timestamp | None = None
    permission: str | None = None
