"""The two HTTP interfaces of the bus behind one address, told apart by the path."""

from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.bus_admin.service import BusAdmin
from etagere.frontends.bus_rest.service import BusRest, locate
from etagere.frontends.common.message import Request, Response

health_path: Final = "/health"
_healthy: Final = b'{"status":"healthy","message":"Service is healthy."}'
"""What the official emulator says on the port of its administration, to whoever asks."""


class BusHttp:
    def __init__(self, admin: BusAdmin, runtime: BusRest) -> None:
        self._admin = admin
        self._runtime = runtime

    async def handle(self, request: Request) -> Response:
        if request.raw_path == health_path and _is_probe(request):
            return Response(200, {"Content-Type": "application/json"}, _healthy)
        if _is_about_messages(request.raw_path):
            return await self._runtime.handle(request)
        return await self._admin.handle(request)


def _is_probe(request: Request) -> bool:
    """A client of the administration shows a token; an entity may be called `health` too."""
    return request.method == "GET" and "authorization" not in request.headers


def _is_about_messages(raw_path: str) -> bool:
    if "messages" not in raw_path.casefold():
        return False
    try:
        return locate(raw_path) is not None
    except Refused:  # the administration says what is wrong with the path
        return False
