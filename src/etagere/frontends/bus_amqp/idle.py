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
    authorization_seconds_max: float = 20
    """Since the connection was opened, in steady time: it is a part of the handshake."""
    no_link_seconds_max: int = 60
    """Since the connection was opened."""
    last_link_seconds_max: int = 300
    """Since the last link left."""
    link_seconds_max: int = 600
    """Without a transfer, a flow or a settlement."""


class LinkTracker:
    """When a connection has been without a token or a link for too long.

    Links of `$cbs` are none here: who only shows tokens does nothing with them.
    """

    __slots__ = ("_authorized", "_limits", "_links", "_opened_at", "_token_due", "_without_since")

    def __init__(self, limits: IdleLimits, now: Timestamp, steady_now: Timestamp) -> None:
        self._limits = limits
        self._opened_at = now
        self._token_due = _after(steady_now, limits.authorization_seconds_max)
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

    def token_due(self) -> tuple[Timestamp, str] | None:
        """When to close a connection that has shown no token, and what to say; in steady time."""
        if self._authorized:
            return None
        return self._token_due, unauthorized_text.format(self._limits.authorization_seconds_max)

    def due(self) -> tuple[Timestamp, str] | None:
        """When to close a connection without links, and what to say."""
        limits = self._limits
        if self._links or not self._authorized:
            return None
        if self._without_since is None:
            since, seconds = self._opened_at, limits.no_link_seconds_max
        else:
            since, seconds = self._without_since, limits.last_link_seconds_max
        return _after(since, seconds), inactive_text.format(seconds * 1_000)


def _after(since: Timestamp, seconds: float) -> Timestamp:
    return Timestamp(since + round(seconds * ticks_per_second))
