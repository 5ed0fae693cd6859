"""Services put together from their parts, each by a function that imports only what it needs."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etagere.app.foundation import Foundation
from etagere.app.observed import Observed
from etagere.app.settings import Settings
from etagere.base.clock import Timestamp
from etagere.frontends.common.authentication import Authenticator, BearerCheck
from etagere.frontends.common.pipeline import Pipeline, Service
from etagere.kv.contract import Engine
from etagere.servers.http import Handler

if TYPE_CHECKING:
    from etagere.app.analytics import AnalyticsLogs

Sweep = Callable[[str, Timestamp], Awaitable[Timestamp | None]]
"""Does what is due in one account; returns when it wants to be called again."""

Forget = Callable[[Engine, str], Awaitable[None]]
"""Makes everything of one account disappear; a sweep frees the room."""


class StorageService(NamedTuple):
    name: str
    handler: Handler
    sweep: Sweep
    forget: Forget
    operations: tuple[str, ...]
    """The names of what it can do."""


class _Composer:
    def __init__(self, foundation: Foundation) -> None:
        self.foundation = foundation
        self.analytics: AnalyticsLogs | None = None
        """Where the Blob service is among those that are served: it has what is logged."""
        self._authenticator = Authenticator(foundation.wall, _bearer(foundation))

    def service(self, frontend: Service[Any], sweep: Sweep, forget: Forget) -> StorageService:
        at = self.foundation
        pipeline = Pipeline(
            frontend,
            accounts=at.accounts,
            authenticator=self._authenticator,
            clock=at.clock,
            entropy=at.entropy,
            faults=at.faults,
            strict_versions=at.settings.strict_versions,
        )
        handler = Observed(frontend.name, pipeline, at.metrics, at.faults, self.analytics)
        names = tuple(frontend.operations.names())
        return StorageService(frontend.name, handler, sweep, forget, names)


def _bearer(foundation: Foundation) -> BearerCheck | None:
    settings = foundation.settings
    if settings.oauth == "off":
        return None
    from etagere.app.bearer import BearerTokens  # noqa: PLC0415 - only what is used
    from etagere.auth.bearer import BearerMode  # noqa: PLC0415

    return BearerTokens(BearerMode(settings.oauth), settings.oidc_issuer, settings.oidc_audience)


def _blob(composer: _Composer) -> StorageService:
    from etagere.app.analytics import AnalyticsLogs  # noqa: PLC0415 - only what is used
    from etagere.frontends.blob_rest.service import BlobFrontend  # noqa: PLC0415
    from etagere.servers.fetch import HttpFetcher  # noqa: PLC0415
    from etagere.services.blob.forget import forget  # noqa: PLC0415
    from etagere.services.blob.service import BlobService  # noqa: PLC0415
    from etagere.services.blob.sweep import sweep  # noqa: PLC0415

    at = composer.foundation
    blobs = BlobService(at.engine, at.extents, at.clock, at.entropy, HttpFetcher())
    composer.analytics = AnalyticsLogs(blobs, at.accounts, at.clock)
    at.before_close(composer.analytics.close)
    return composer.service(
        BlobFrontend(blobs), lambda account, now: sweep(blobs, account, now), forget
    )


def _queue(composer: _Composer) -> StorageService:
    from etagere.frontends.queue_rest.service import QueueFrontend  # noqa: PLC0415
    from etagere.services.queue import service as queue  # noqa: PLC0415
    from etagere.services.queue.forget import forget  # noqa: PLC0415
    from etagere.services.queue.sweep import sweep  # noqa: PLC0415

    at = composer.foundation
    mismatch = at.settings.pop_receipt_mismatch
    stale_code = queue.stale_mismatch if mismatch else queue.stale_not_found
    queues = queue.QueueService(at.engine, at.clock, at.entropy, stale_code=stale_code)
    return composer.service(
        QueueFrontend(queues), lambda account, now: sweep(at.engine, account, now), forget
    )


def _table(composer: _Composer) -> StorageService:
    from etagere.frontends.table_rest.service import TableFrontend  # noqa: PLC0415
    from etagere.services.table.forget import forget  # noqa: PLC0415
    from etagere.services.table.service import TableService  # noqa: PLC0415
    from etagere.services.table.sweep import sweep_step  # noqa: PLC0415

    at = composer.foundation
    tables = TableService(at.engine, at.clock, at.entropy)

    async def sweep(account: str, now: Timestamp) -> Timestamp | None:
        del now
        while await sweep_step(at.engine, account):
            pass
        return None

    return composer.service(TableFrontend(tables), sweep, forget)


_makers: Final[dict[str, Callable[[_Composer], StorageService]]] = {
    "blob": _blob,
    "queue": _queue,
    "table": _table,
}


storage_services: Final = tuple(_makers)


def compose(foundation: Foundation) -> Iterator[StorageService]:
    """The storage services that were asked for, in order, each loaded when it is reached."""
    composer = _Composer(foundation)
    for name in wanted(foundation.settings):
        yield _makers[name](composer)


def wanted(settings: Settings) -> list[str]:
    """The names of the storage services that were asked for."""
    return [name for name in storage_services if name in settings.services]
