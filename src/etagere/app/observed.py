"""A frontend with a stopwatch: metrics, a log line a request at debug, and armed latency."""

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING, Final

from etagere.app.metrics import RequestMetrics
from etagere.frontends.common.call import Call
from etagere.frontends.common.message import ClientGone, Request, Response
from etagere.servers.faults import ArmedFaults
from etagere.servers.http import Handler
from etagere.services.common.service_properties import default_properties

if TYPE_CHECKING:
    from etagere.app.analytics import AnalyticsLogs

_log: Final = logging.getLogger("etagere.requests")


class Observed:
    def __init__(
        self,
        service: str,
        handler: Handler,
        metrics: RequestMetrics,
        faults: ArmedFaults,
        analytics: "AnalyticsLogs | None" = None,
    ) -> None:
        self._service = service
        self._handler = handler
        self._metrics = metrics
        self._faults = faults
        self._analytics = analytics

    async def handle(self, request: Request) -> Response:
        began = perf_counter()
        try:
            response = await self._handler.handle(request)
        except ClientGone:
            self._metrics.dropped(self._service)
            raise
        held_back = self._faults.latency_seconds(response.operation)
        if held_back:
            await asyncio.sleep(held_back)
        seconds = perf_counter() - began
        status = response.status
        code = response.headers.get("x-ms-error-code", "") if status >= 300 else ""
        self._metrics.served(self._service, response.operation, status, code, seconds)
        call = response.context
        if (
            self._analytics is not None
            and isinstance(call, Call)
            and call.properties.logging is not default_properties.logging
        ):
            self._analytics.note(self._service, call, response, seconds)
        if _log.isEnabledFor(logging.DEBUG):
            self._write_line(request, response, code, seconds)
        return response

    def _write_line(self, request: Request, response: Response, code: str, seconds: float) -> None:
        """Paths are as sent; queries are left out, because SAS tokens are in them."""
        _log.debug(
            "request",
            extra={
                "service": self._service,
                "operation": response.operation,
                "method": request.method,
                "path": request.raw_path,
                "status": response.status,
                "code": code,
                "ms": round(seconds * 1000, 3),
                "request_id": response.headers.get("x-ms-request-id", ""),
                "client": request.client_ip,
            },
        )
