"""Connections and links that nobody uses are ended ("AMQP errors in Azure Service Bus").

All SDKs connect anew without a word when they want to go on.
"""

from dataclasses import dataclass
from typing import Final

from etagere.base.clock import Timestamp, ticks_per_second

unauthorized_text: Final = (
    "The connection was closed because no token was presented within {} seconds."
)
inactive_text: Final = (
    "The connection was inactive for more than the allowed {} milliseconds and is closed by "
    "container 'LinkTracker'."
)
link_idle_text: Final = (
    "The link is force detached by the broker because the link has been idle. "
    "Detach origin: AmqpMessagePublisher.IdleTimerExpired: Idle timeout: {}."
)


@dataclass(frozen=True, slots=True)
class IdleLimits:
    authorization_seconds_max: int = 20
    no_link_seconds_max: int = 60
    """Since the connection was opened."""
    last_link_seconds_max: int = 300
    """Since the last link left."""
    link_seconds_max: int = 600
    """Without a transfer, a flow or a settlement."""


class LinkTracker:
    """When a connection has been without a token or a link for too long."""

    __slots__ = ("_authorized", "_limits", "_links", "_opened_at", "_without_since")

    def __init__(self, limits: IdleLimits, now: Timestamp) -> None:
        self._limits = limits
        self._opened_at = now
        self._authorized = False
        self._links = 0
        self._without_since: Timestamp | None = None
        """Since when the last link is gone; None before there was any."""

    def authorized(self) -> None:
        self._authorized = True

    def link_came(self) -> None:
        self._links += 1

    def link_went(self, now: Timestamp) -> None:
        self._links -= 1
        assert self._links >= 0
        self._without_since = now

    def due(self) -> tuple[Timestamp, str] | None:
        """When to close the connection, and what to say."""
        limits = self._limits
        if not self._authorized:
            seconds = limits.authorization_seconds_max
            return self._after(self._opened_at, seconds), unauthorized_text.format(seconds)
        if self._links:
            return None
        if self._without_since is None:
            since, seconds = self._opened_at, limits.no_link_seconds_max
        else:
            since, seconds = self._without_since, limits.last_link_seconds_max
        return self._after(since, seconds), inactive_text.format(seconds * 1_000)

    def _after(self, since: Timestamp, seconds: int) -> Timestamp:
        return Timestamp(since + seconds * ticks_per_second)
